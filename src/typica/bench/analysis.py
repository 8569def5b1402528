"""The paper's section on influence, measured: why the cosine to a class mean tells known inputs from strange ones.

(a) `kernel`: the influence kernel between inputs and the mean of their predicted class, in three
forms: correlation
    with the cosine, and AUROC as a score.
(b) `one_hot`: how nearly one-hot the prediction at each class mean is, which the paper's derivation
takes for granted. (c) `steps`, `curves`: the toy experiment that the paper leaves undone. W is
moved along minus the gradient of the mean
    KL(u || p) at the class means, so that they become less certain; how far do predictions move on
    ID and OOD?
(d) `motivation`, `histograms`: feature norm, cosine and largest logit of ID and OOD inputs, the
AUROC of each alone,
    and by which of them an OOD set is caught best.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from typica.bench._influence import FORMS, Floats, divergence, kernel, moved, uncertainty_gradient
from typica.bench.suite import FeatureSuite
from typica.detectors.ctm import CTM
from typica.errors import InputError
from typica.head import Head
from typica.linalg import softmax
from typica.metrics import evaluate

STEPS = (
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
)  # lengths of the step, in lengths of W
MOVES = {"variation": "total variation", "uncertainty": "fall of KL(u || p)"}
BINS = 60
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def analyse(sets: FeatureSuite) -> dict[str, Any]:
    """Return the four parts of the analysis as plain JSON types; the head must be known."""
    head = sets.head
    if head is None:
        raise InputError("analysis: needs a head; give head.weight.npy and head.bias.npy.")
    ctm = CTM(head).fit(sets.train, sets.train_labels)
    order = np.searchsorted(ctm.classes_, head.classes)
    means = np.asarray(ctm.means_[order], dtype=np.float64)
    steps, curves = toy_experiment(sets, means, head)
    return {
        "kernel": kernel_analysis(sets, means, head),
        "one_hot": one_hotness(means, head),
        "steps": steps,
        "curves": curves,
        **motivation(sets, ctm, head),
    }


def kernel_analysis(sets: FeatureSuite, means: Floats, head: Head) -> dict[str, Any]:
    """(a) K between each input and the mean of its predicted class; see the module."""
    found = {name: kernel(Z, means, head) for name, Z in _inputs(sets).items()}
    everything = {
        form: np.concatenate([getattr(k, form) for k in found.values()])
        for form in (*FORMS, "cosine")
    }
    report: dict[str, Any] = {}
    for form in (*FORMS, "cosine"):
        values = {name: getattr(k, form) for name, k in found.items()}
        report[form] = {
            "auroc": _aurocs(values),
            "mean": {name: float(np.mean(v)) for name, v in values.items()},
            "min": float(everything[form].min()),
            "max": float(everything[form].max()),
        }
        if form != "cosine":
            report[form]["correlation"] = {
                name: _correlation(values[name], found[name].cosine) for name in values
            } | {"all": _correlation(everything[form], everything["cosine"])}
    return report


def one_hotness(means: Floats, head: Head) -> dict[str, Any]:
    """(b) The prediction at each class mean: the probability of that class, of the runner-up, and the entropy."""
    P = softmax(means @ head.weight.astype(np.float64).T + head.bias)
    own = np.diag(P)
    rest = np.where(np.eye(len(P), dtype=bool), 0, P)
    entropy = -np.sum(np.where(P > 0, P * np.log(np.where(P > 0, P, 1)), 0), axis=1)
    classes = [
        {
            "class": head.classes[k].item(),
            "probability": float(own[k]),
            "runner_up": head.classes[int(np.argmax(rest[k]))].item(),
            "runner_up_probability": float(rest[k].max()),
            "entropy": float(entropy[k]),
        }
        for k in range(len(P))
    ]
    summary = {"mean": float(own.mean()), "min": float(own.min()), "max": float(own.max())}
    return {
        "probability": summary,
        "predicted": float(np.mean(P.argmax(1) == np.arange(len(P)))),
        "classes": classes,
    }


def toy_experiment(
    sets: FeatureSuite, means: Floats, head: Head
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(c) How far predictions move when W makes a step along minus the gradient of KL(u || p) at the class means.

    Returns {"sizes": lengths of the step in lengths of W, "at_means": the mean of KL(u || p) at the
    class means, which falls, "auroc": of how far an input moves, as a score} and two curves over
    the sizes, by set: the mean total variation between the predictions before and after, and by how
    much KL(u || p) falls on average.
    """
    W = head.weight.astype(np.float64)
    gradient = uncertainty_gradient(means, head)
    length = np.linalg.norm(gradient)
    if length == 0:
        raise InputError(
            "analysis: the predictions at the class means are uniform already; check the head."
        )
    unit = -gradient / length * np.linalg.norm(W)
    logits = means @ W.T + head.bias
    by_step = [{name: moved(Z, head, t * unit) for name, Z in _inputs(sets).items()} for t in STEPS]
    report = {
        "sizes": list(STEPS),
        "at_means": {
            "before": float(divergence(logits).mean()),
            "after": [float(divergence(logits + t * means @ unit.T).mean()) for t in STEPS],
        },
        "auroc": {
            quantity: {
                name: [
                    evaluate(getattr(at["test"], quantity), getattr(at[name], quantity)).auroc
                    for at in by_step
                ]
                for name in sets.ood
            }
            for quantity in MOVES
        },
    }
    curves = {
        quantity: {
            "x": list(STEPS),
            "y": {
                name: [float(getattr(at[name], quantity).mean()) for at in by_step]
                for name in _inputs(sets)
            },
            "x_label": "step on the weights, in lengths of W",
            "y_label": label,
        }
        for quantity, label in MOVES.items()
    }
    return report, curves


def motivation(sets: FeatureSuite, ctm: CTM, head: Head) -> dict[str, Any]:
    """(d) Norm, cosine and largest logit of ID and OOD inputs: histograms, AUROCs, and what catches each OOD set."""
    quantities = {
        "norm": {
            name: np.linalg.norm(Z.astype(np.float64), axis=1) for name, Z in _inputs(sets).items()
        },
        "cosine": {
            name: np.asarray(ctm.score_samples(Z), dtype=np.float64)
            for name, Z in _inputs(sets).items()
        },
        "logit": {
            name: head.logits(Z).max(axis=1).astype(np.float64) for name, Z in _inputs(sets).items()
        },
    }
    aurocs = {quantity: _aurocs(values) for quantity, values in quantities.items()}
    caught = {}
    for name in sets.ood:
        by = max(aurocs, key=lambda quantity: aurocs[quantity][name])
        caught[name] = {"by": by, "auroc": aurocs[by][name]}
    return {
        "motivation": {"auroc": aurocs, "caught_by": caught},
        "histograms": {quantity: _distribution(values) for quantity, values in quantities.items()},
    }


def _inputs(sets: FeatureSuite) -> dict[str, NDArray[Any]]:
    return {"test": sets.test, **sets.ood}


def _aurocs(values: Mapping[str, Floats]) -> dict[str, float]:
    return {name: evaluate(values["test"], v).auroc for name, v in values.items() if name != "test"}


def _correlation(a: Floats, b: Floats) -> dict[str, float | None]:
    """Return Pearson's and Spearman's coefficients; None where one of the two is constant."""
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return {"pearson": None, "spearman": None}
    return {"pearson": float(np.corrcoef(a, b)[0, 1]), "spearman": float(spearmanr(a, b).statistic)}


def _distribution(values: Mapping[str, Floats]) -> dict[str, Any]:
    """Return counts over common bins, and mean, deviation and quantiles, by set."""
    everything = np.concatenate(list(values.values()))
    edges = np.histogram_bin_edges(everything, bins=BINS)
    return {
        "edges": edges.tolist(),
        "counts": {name: np.histogram(v, bins=edges)[0].tolist() for name, v in values.items()},
        "mean": {name: float(v.mean()) for name, v in values.items()},
        "std": {name: float(v.std()) for name, v in values.items()},
        "quantiles": {
            "at": list(QUANTILES),
            **{name: np.quantile(v, QUANTILES).tolist() for name, v in values.items()},
        },
    }
