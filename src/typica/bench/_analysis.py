"""The paper's section on influence, measured: why a cosine tells what is strange.

(a) `kernel`: the influence kernel between inputs and the mean of their predicted class, in three
    forms: correlation with the cosine, and AUROC as a score.
(b) `one_hot`: how nearly one-hot the prediction at each class mean is, which the paper's derivation
    takes for granted.
(c) `steps`, `curves`: the toy experiment that the paper leaves undone. W is moved along minus the
    gradient of the mean KL(u || p) at the class means, so that they become less certain; how far do
    predictions move on ID and OOD?
(d) `motivation`, `histograms`: feature norm, cosine and largest logit of ID and OOD inputs, the
    AUROC of each alone, and by which of them an OOD set is caught best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from typica.bench._analysis_record import (
    Analysis,
    AtMean,
    CaughtBy,
    Histogram,
    KernelForm,
    Motivation,
    OneHot,
)
from typica.bench._feature_suite import FeatureSuite
from typica.bench._influence import FORMS, Floats, kernel
from typica.bench._toy_experiment import toy_experiment
from typica.bench._workbench import Workbench
from typica.errors import InputError
from typica.head import Head
from typica.linalg import softmax
from typica.metrics import evaluate

BINS = 60
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def analyse(workbench: Workbench) -> Analysis:
    """Return the four parts of the analysis; the head must be known."""
    sets = workbench.sets
    head = sets.head
    if head is None:
        raise InputError("analysis: needs a head; give head.weight.npy and head.bias.npy.")
    ctm = workbench.detector("ctm")
    means = class_means(ctm, head)
    quantities = _quantities(sets, _cosines(workbench), head)
    steps, curves = toy_experiment(sets, means, head)
    return Analysis(
        kernel=kernel_analysis(sets, means, head),
        one_hot=one_hotness(means, head),
        steps=steps,
        curves=curves,
        motivation=motivation(quantities, list(sets.ood)),
        histograms={name: _distribution(values) for name, values in quantities.items()},
    )


def class_means(ctm: Any, head: Head) -> Floats:
    """Return the means of the head's classes, in its order."""
    unknown = head.classes[~np.isin(head.classes, ctm.classes_)]
    if len(unknown):
        raise InputError(
            f"analysis: the head has a class {unknown[0]} without training rows; "
            "name its classes as the labels are."
        )
    order = np.searchsorted(ctm.classes_, head.classes)
    return np.asarray(ctm.means_[order], dtype=np.float64)


def kernel_analysis(sets: FeatureSuite, means: Floats, head: Head) -> dict[str, KernelForm]:
    """Return part (a) of the analysis: K of each input and the mean of its predicted class."""
    found = {name: kernel(Z, means, head) for name, Z in sets.tests.items()}
    cosines = {name: values.cosine for name, values in found.items()}
    report = {}
    for form in (*FORMS, "cosine"):
        values = {name: getattr(of_set, form) for name, of_set in found.items()}
        everything = _joined(values)
        report[form] = KernelForm(
            auroc=_aurocs(values),
            mean={name: float(np.mean(of_set)) for name, of_set in values.items()},
            min=float(everything.min()),
            max=float(everything.max()),
            correlation=None if form == "cosine" else _correlations(values, cosines),
        )
    return report


def _correlations(
    values: Mapping[str, Floats], cosines: Mapping[str, Floats]
) -> dict[str, dict[str, float | None]]:
    """Return the correlation of a form with the cosine, by set and over all inputs."""
    found = {name: _correlation(values[name], cosines[name]) for name in values}
    return found | {"all": _correlation(_joined(values), _joined(cosines))}


def one_hotness(means: Floats, head: Head) -> OneHot:
    """(b) The prediction at each class mean: its own probability, the runner-up, the entropy."""
    P = softmax(means @ head.weight.astype(np.float64).T + head.bias)
    own = np.diag(P)
    rest = np.where(np.eye(len(P), dtype=bool), 0, P)
    entropy = -np.sum(np.where(P > 0, P * np.log(np.where(P > 0, P, 1)), 0), axis=1)
    classes = [
        AtMean(
            label=head.classes[k].item(),
            probability=float(own[k]),
            runner_up=head.classes[int(np.argmax(rest[k]))].item(),
            runner_up_probability=float(rest[k].max()),
            entropy=float(entropy[k]),
        )
        for k in range(len(P))
    ]
    summary = {"mean": float(own.mean()), "min": float(own.min()), "max": float(own.max())}
    predicted = float(np.mean(P.argmax(1) == np.arange(len(P))))
    return OneHot(summary, predicted, classes)


def _cosines(workbench: Workbench) -> dict[str, Floats]:
    """Return the cosine of every input to the nearest class mean, by set: the scores of CTM."""
    found = workbench.scored({"ctm": {}})["ctm"]
    if found.scores is None:
        raise InputError(f"analysis: {found.skipped}")
    by_set = {"test": found.scores.test, **found.scores.ood}
    return {name: np.asarray(scores, dtype=np.float64) for name, scores in by_set.items()}


def _quantities(
    sets: FeatureSuite, cosines: dict[str, Floats], head: Head
) -> dict[str, dict[str, Floats]]:
    """Return norm, cosine and largest logit of every input, by set."""
    quantities: dict[str, dict[str, Floats]] = {"norm": {}, "cosine": cosines, "logit": {}}
    for name, Z in sets.tests.items():
        quantities["norm"][name] = np.linalg.norm(Z.astype(np.float64), axis=1)
        quantities["logit"][name] = head.logits(Z).max(axis=1).astype(np.float64)
    return quantities


def motivation(quantities: Mapping[str, Mapping[str, Floats]], names: Sequence[str]) -> Motivation:
    """(d) The AUROC of norm, cosine and largest logit alone, and what catches each OOD set."""
    aurocs = {quantity: _aurocs(values) for quantity, values in quantities.items()}
    caught = {}
    for name in names:
        of_set = {quantity: by_set[name] for quantity, by_set in aurocs.items()}
        by = max(of_set, key=of_set.__getitem__)
        caught[name] = CaughtBy(by, of_set[by])
    return Motivation(aurocs, caught)


def _aurocs(values: Mapping[str, Floats]) -> dict[str, float]:
    known = values["test"]
    strange = {name: of_set for name, of_set in values.items() if name != "test"}
    return {name: evaluate(known, of_set).auroc for name, of_set in strange.items()}


def _correlation(a: Floats, b: Floats) -> dict[str, float | None]:
    """Return Pearson's and Spearman's coefficients; None where one of the two is constant."""
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return {"pearson": None, "spearman": None}
    return {"pearson": float(np.corrcoef(a, b)[0, 1]), "spearman": float(spearmanr(a, b).statistic)}


def _joined(values: Mapping[str, Floats]) -> Floats:
    return np.concatenate(list(values.values()))


def _distribution(values: Mapping[str, Floats]) -> Histogram:
    """Return counts over common bins, and mean, deviation and quantiles, by set."""
    edges = np.histogram_bin_edges(_joined(values), bins=BINS)
    sets = values.items()
    quantiles = {name: np.quantile(of_set, QUANTILES).tolist() for name, of_set in sets}
    return Histogram(
        edges.tolist(),
        counts={name: np.histogram(of_set, bins=edges)[0].tolist() for name, of_set in sets},
        mean={name: float(of_set.mean()) for name, of_set in sets},
        std={name: float(of_set.std()) for name, of_set in sets},
        quantiles={"at": list(QUANTILES), **quantiles},
    )
