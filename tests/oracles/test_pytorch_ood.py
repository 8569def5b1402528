"""Typica against pytorch-ood 0.4.0, which was written by others from the same papers.

Its outlier scores are higher for strangers, so that a score here is minus the one there: to ten
digits of the largest where the definitions coincide, times a constant where they differ by one.
Where they differ by more than that, only the rows in which they coincide are compared, and the
comment says what the difference is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import pytorch_ood.detector as theirs
import torch
from helpers.cases import Case
from numpy.typing import NDArray
from pytorch_ood.detector.openmax.libnotmr import LibNotMR
from pytorch_ood.metrics import OODMetrics, functional
from sklearn.pipeline import make_pipeline

import typica
from typica.nets import Gram, LayerNAC
from typica.rectify import make_rectifier

K = 7  # neighbours
WEIGHTS = np.linspace(0.5, 2.0, 16)  # of classes, at most so many
RIDGE_IS_NOTHING = (
    2.0**20
)  # features in this unit: their covariances are not divided by N, and 1e-6 is added to them


def everywhere(case: Case) -> NDArray[np.bool_]:
    return np.ones(len(case.queries), dtype=bool)


class Pair(NamedTuple):
    """A method here and there.

    How a case is scored by both, and in which rows the two agree, up to the sign.
    """

    here: Callable[[Case], Any]
    there: Callable[[Case], torch.Tensor]
    where: Callable[[Case], NDArray[np.bool_]] = everywhere
    tolerance: float = 1e-10


# How a case is scored here


def detector(name: str, head: bool = True, **params: Any) -> Callable[[Case], Any]:
    def score(case: Case) -> Any:
        headed = {"head": case.head} if head else {}
        return (
            typica.make_detector(name, **headed, **params)
            .fit(case.train, case.labels)
            .score_samples(case.queries)
        )

    return score


def rectified(name: str, **params: Any) -> Callable[[Case], Any]:
    def score(case: Case) -> Any:
        if name == "dice":
            steps = make_rectifier(name, head=case.head, **params), typica.make_detector("energy")
        else:
            steps = make_rectifier(name, **params), typica.make_detector("energy", head=case.head)
        return make_pipeline(*steps).fit(case.train, case.labels).score_samples(case.queries)

    return score


# How a case is scored there


def by_logits(make: Callable[[Case], Any]) -> Callable[[Case], torch.Tensor]:
    def score(case: Case) -> torch.Tensor:
        model = make(case)
        if model.requires_fit:
            model.fit_logits(torch.tensor(case.head.logits(case.train)), torch.tensor(case.labels))
        return model.predict_logits(torch.tensor(case.logits))

    return score


def by_features(make: Callable[[Case], Any], unit: float = 1.0) -> Callable[[Case], torch.Tensor]:
    def score(case: Case) -> torch.Tensor:
        model = make(case).fit_features(torch.tensor(unit * case.train), torch.tensor(case.labels))
        return model.predict_features(torch.tensor(unit * case.queries))

    return score


def by_maps(make: Callable[[Callable[..., Any]], Any]) -> Callable[[Case], torch.Tensor]:
    """Features are maps of one pixel."""

    def score(case: Case) -> torch.Tensor:
        model = make(torch.nn.Sequential(torch.nn.Flatten(), case.linear))
        if model.requires_fit:
            model.fit_feature_maps(
                torch.tensor(case.train)[:, :, None, None], torch.tensor(case.labels)
            )
        return model.predict_feature_maps(torch.tensor(case.queries)[:, :, None, None])

    return score


def times(
    factor: Callable[[Case], float], score: Callable[[Case], torch.Tensor]
) -> Callable[[Case], torch.Tensor]:
    return lambda case: factor(case) * score(case)


def by_weighted_energy(case: Case) -> torch.Tensor:
    weights = torch.tensor(WEIGHTS[: len(case.head.classes)])
    return theirs.WeightedEBO(None, weights).predict_logits(torch.tensor(case.logits))


def weighted_energy(case: Case) -> Any:
    """Weights of classes are part of the head here: their logarithms are added to its bias."""
    logs = np.log(WEIGHTS[: len(case.head.classes)])
    head = typica.Head(case.head.weight, case.head.bias + logs)
    return typica.Energy(head).score_samples(case.queries)


def ready(make: Callable[[Case], Any]) -> Callable[[Case], torch.Tensor]:
    """Features, of a method that learns nothing."""
    return lambda case: make(case).predict_features(torch.tensor(case.queries))


def prototypes(case: Case) -> Any:
    return typica.Prototypes(case.head.weight, temperature=0.07).score_samples(case.queries)


def head_of(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(case.head.weight), torch.tensor(case.head.bias)


def residual(case: Case) -> torch.Tensor:
    """Return the residual inside their ViM, whose score is alpha * residual - energy."""
    made = []
    scores = by_features(lambda case: made.append(vim(case)) or made[0])(case)
    return (scores + torch.logsumexp(torch.tensor(case.logits), dim=1)) / made[0].alpha


def vim(case: Case) -> Any:
    return theirs.ViM(None, case.head.n_features // 3, *head_of(case))


def gradnorm(case: Case) -> torch.Tensor:
    model = theirs.GradNorm(
        case.linear, param_filter=lambda name: name == "weight", temperature=2.0
    ).to("cpu")
    return model.predict(torch.tensor(case.queries))


# Where the definitions coincide


def unclipped(case: Case) -> NDArray[np.bool_]:
    """They clip probabilities at 1e-7 and 1 - 1e-7; neither the papers nor the authors' code do."""
    p = torch.softmax(torch.tensor(case.logits), dim=1).numpy()
    return ((p > 1e-7) & (p < 1 - 1e-7)).all(axis=1)


def clear_cut(percentile: float) -> Callable[[Case], NDArray[np.bool_]]:
    """They keep exactly k activations, zeros or any of several equal ones if need be.

    Here it is all or none of a kind.
    """

    def rows(case: Case) -> NDArray[np.bool_]:
        m = case.head.n_features
        k = m - round(m * percentile / 100)
        falling = -np.sort(-case.queries, axis=1)
        return (falling[:, k - 1] > 0) & (falling[:, k - 1] > falling[:, k])

    return rows


def in_range(case: Case) -> NDArray[np.bool_]:
    """They raise what lies below the lower bound to it.

    In the paper (VRA-P), and here, it becomes 0.
    """
    return (case.queries >= case.train.min(axis=0)).all(axis=1)


def some_activation(case: Case) -> NDArray[np.bool_]:
    """A row without a positive activation has no direction, and no ratio of activations."""
    return (case.queries > 0).any(axis=1)


def sized(case: Case) -> float:
    return len(case.train)


PAIRS = {
    "msp": Pair(detector("msp"), by_logits(lambda _: theirs.MaxSoftmax(None))),
    "msp, T=1000": Pair(
        detector("msp", temperature=1000), by_logits(lambda _: theirs.MaxSoftmax(None, t=1000))
    ),
    "max_logit": Pair(detector("max_logit"), by_logits(lambda _: theirs.MaxLogit(None))),
    "energy": Pair(detector("energy"), by_logits(lambda _: theirs.EnergyBased(None))),
    "energy, T=3": Pair(
        detector("energy", temperature=3.0), by_logits(lambda _: theirs.EnergyBased(None, t=3.0))
    ),
    "entropy": Pair(detector("entropy"), by_logits(lambda _: theirs.Entropy(None)), unclipped),
    # The mean of the terms there; their sum in the paper, and here.
    "gen": Pair(
        detector("gen"),
        times(lambda case: len(case.head.classes), by_logits(lambda _: theirs.GEN(None))),
        unclipped,
    ),
    "gen, top 2": Pair(
        detector("gen", gamma=0.5, top_m=2),
        times(lambda _: 2, by_logits(lambda _: theirs.GEN(None, gamma=0.5, M=2))),
        unclipped,
    ),
    "kl_matching": Pair(detector("kl_matching"), by_logits(lambda _: theirs.KLMatching(None))),
    "knn": Pair(detector("knn", head=False, k=K), by_features(lambda _: theirs.KNN(None, k=K))),
    # On the real features variances span nine decades, which costs both sides as many digits.
    "mahalanobis": Pair(
        detector("mahalanobis", head=False),
        times(sized, by_features(lambda _: theirs.Mahalanobis(None), RIDGE_IS_NOTHING)),
        tolerance=1e-7,
    ),
    "relative_mahalanobis": Pair(
        detector("relative_mahalanobis", head=False),
        times(sized, by_features(lambda _: theirs.RMD(None), RIDGE_IS_NOTHING)),
        tolerance=1e-7,
    ),
    "vim": Pair(
        lambda case: detector("vim", dim=case.head.n_features // 3)(case), by_features(vim)
    ),
    "residual": Pair(
        lambda case: detector("residual", dim=case.head.n_features // 3)(case), residual
    ),
    "she": Pair(detector("she"), by_features(lambda case: theirs.SHE(None, case.linear))),
    "fdbd": Pair(detector("fdbd"), by_features(lambda case: theirs.fDBD(None, case.linear))),
    "nci": Pair(
        detector("nci", alpha=0.01),
        by_features(lambda case: theirs.NCI(None, case.linear, alpha=0.01)),
    ),
    "nnguide": Pair(
        detector("nnguide", k=K, subsample=None),
        by_features(lambda case: theirs.NNGuide(None, case.linear, k=K)),
    ),
    "gradnorm": Pair(detector("gradnorm", temperature=2.0), gradnorm),
    "energy, weighted": Pair(weighted_energy, by_weighted_energy),
    # No activation is positive in some random rows; theirs has no ratio there.
    "lts": Pair(
        detector("lts"), ready(lambda case: theirs.LTS(None, case.linear)), some_activation
    ),
    "lts, 20 %": Pair(
        detector("lts", percentile=80),
        ready(lambda case: theirs.LTS(None, case.linear, p=0.2)),
        some_activation,
    ),
    "prototypes": Pair(
        prototypes,
        ready(lambda case: theirs.MCM(None, torch.tensor(case.head.weight), temperature=0.07)),
        some_activation,
    ),
    # They divide the regret by the logarithm of the number of classes, and clip probabilities.
    "pnml": Pair(
        detector("pnml"),
        times(
            lambda case: float(np.log(len(case.head.classes))),
            by_features(lambda case: theirs.PNML(None, case.linear)),
        ),
        some_activation,
        1e-6,
    ),
    "react": Pair(
        rectified("react", percentile=85),
        by_maps(lambda head: theirs.ReAct(None, head, percentile=0.85)),
    ),
    "scale": Pair(
        rectified("scale", percentile=85),
        by_maps(lambda head: theirs.SCALE(None, head, percentile=0.85)),
    ),
    # Their bounds are rounded to float32.
    "vra": Pair(
        rectified("vra", low=0, high=90),
        by_maps(lambda head: theirs.VRA(None, head, 0.0, 0.9)),
        in_range,
        1e-6,
    ),
    "dice": Pair(
        rectified("dice", percentile=70),
        by_features(lambda case: theirs.DICE(None, *head_of(case), p=0.7)),
    ),
}
PAIRS |= {
    f"ash-{variant}, {percentile} %": Pair(
        rectified("ash", variant=variant, percentile=percentile),
        by_maps(
            lambda head, v=variant, p=percentile: theirs.ASH(
                None, head, variant=f"ash-{v}", percentile=p / 100
            )
        ),
        clear_cut(percentile),
    )
    for variant in "pbs"
    for percentile in (60, 90)
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_score_is_minus_theirs(name: str, case: Case) -> None:
    pair = PAIRS[name]
    rows = pair.where(case)
    assert rows.mean() > 0.1
    expected = -pair.there(case).numpy()
    largest = np.abs(expected).max()
    np.testing.assert_allclose(
        pair.here(case)[rows], expected[rows], rtol=0, atol=pair.tolerance * largest
    )


@pytest.mark.parametrize(
    ("distance", "weight"), [("euclidean", 1.0), ("cosine", 0.0), ("eucos", 1 / 201)]
)
def test_openmax(distance: str, weight: float, case: Case) -> None:
    """Equal but for three things, which are taken out of theirs.

    They average all rows of a class; the paper, and Typica, the correctly classified ones. They,
    like the authors, move the tail to 10,000 before the Weibull fit. And they know the distance to
    a class only if some row of the batch is predicted to be of that class. Their weighted distance
    is eucos but for the unit, which the Weibull follows.
    """
    unit = 200 * weight if distance == "eucos" else 1.0
    logits = np.asarray(case.head.logits(case.train))
    right = logits.argmax(axis=1) == case.labels
    assert len(np.unique(case.logits.argmax(axis=1))) == len(case.head.classes)

    model = typica.make_detector("openmax", head=case.head, alpha=3, distance=distance).fit(
        case.train, case.labels
    )
    other = theirs.OpenMax(None, tailsize=20, alpha=3, euclid_weight=weight)
    other.fit_logits(torch.tensor(logits[right]), torch.tensor(case.labels[right]))
    inner = other._openmax
    np.testing.assert_allclose(model.means_, [inner.centers[k] for k in range(len(model.classes_))])

    for k, weibull in inner.distributions.items():
        distances = inner._get_dists_to_center(k, logits[right & (case.labels == k)])
        unmoved = LibNotMR(tailsize=20)
        unmoved.translation = np.sort(distances)[-20:].min()
        unmoved.fit_high(distances)
        np.testing.assert_allclose(
            [unmoved.c, unmoved.scale / unit], [model.shapes_[k], model.scales_[k]], rtol=1e-3
        )
        weibull.translation = weibull.min_val = 0.0
        weibull.c, weibull.scale = model.shapes_[k], model.scales_[k] * unit
    expected = -other.predict_logits(torch.tensor(case.logits)).numpy()
    np.testing.assert_allclose(model.score_samples(case.queries), expected, rtol=0, atol=1e-10)


def test_temperature_scaling(case: Case) -> None:
    """They fit the temperature; here it is given."""
    other = theirs.TemperatureScaling(None)
    other.fit_logits(torch.tensor(case.head.logits(case.train)), torch.tensor(case.labels))
    expected = -other.predict_logits(torch.tensor(case.logits)).detach().numpy()
    model = typica.MSP(case.head, temperature=other.t.item())
    np.testing.assert_allclose(model.score_samples(case.queries), expected, rtol=1e-9)


def test_gmm(case: Case) -> None:
    """Theirs has a covariance per class, ours one for all: equal where the classes vary alike."""
    rng = np.random.default_rng(0)
    C, m = len(case.head.classes), 6
    noise = rng.normal(size=(40, m)) @ rng.normal(size=(m, m))
    noise -= noise.mean(axis=0)
    means = 5 * rng.normal(size=(C, m))
    train = np.concatenate([mean + noise for mean in means])
    labels = np.repeat(np.arange(C), len(noise))
    queries = 6 * rng.normal(size=(100, m))
    other = theirs.GMM(None, reg=0.0).fit_features(torch.tensor(train), torch.tensor(labels))
    expected = -other.predict_features(torch.tensor(queries)).numpy()
    model = typica.GMM().fit(train, labels)
    # Divided by the rows here and there, and by n - C where `shrinkage` says so; the constant of
    # the Gaussian is left out here.
    constant = expected - model.score_samples(queries)
    np.testing.assert_allclose(constant, constant.mean(), rtol=1e-8, atol=1e-8)


def test_mahalanobis_over_layers(case: Case) -> None:
    """A weighted sum over layers, but for a constant: each layer is measured from its mean here."""
    m = case.head.n_features // 2
    layers = {"early": slice(0, m), "late": slice(m, None)}
    alpha = [0.25, 2.0]
    other = theirs.MultiMahalanobis([torch.nn.Identity()] * 2, alpha=alpha)
    zs = [torch.tensor(RIDGE_IS_NOTHING * case.train[:, part]) for part in layers.values()]
    other.fit_structured(zs, torch.tensor(case.labels))
    new = [torch.tensor(RIDGE_IS_NOTHING * case.queries[:, part]) for part in layers.values()]
    expected = -len(case.train) * other.predict_structured(new).numpy()
    model = typica.LayerEnsemble(combine="linear")
    model.fit({name: case.train[:, part] for name, part in layers.items()}, case.labels)
    model.set_weights(np.array(alpha))
    ours = model.score_samples({name: case.queries[:, part] for name, part in layers.items()})
    constant = ours - expected
    largest = np.abs(expected).max()
    np.testing.assert_allclose(constant, constant.mean(), rtol=0, atol=1e-7 * largest)


def small_network(case: Case) -> torch.nn.Sequential:
    torch.manual_seed(0)
    m, C = case.head.n_features, len(case.head.classes)
    first = [torch.nn.Linear(m, 10), torch.nn.Tanh(), torch.nn.Linear(10, 7), torch.nn.ReLU()]
    return torch.nn.Sequential(*first, torch.nn.Linear(7, C)).double().eval()


def batches(rows: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    labels = torch.zeros(len(rows), dtype=torch.long)
    return list(zip(rows.split(50), labels.split(50), strict=True))


def test_nac_over_layers(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their bins are narrower at the ends, the authors' and ours are not: ours are put into theirs.

    They add up layers where the authors, and Typica, average them.
    """
    module = sys.modules["pytorch_ood.detector.nac"]
    monkeypatch.setattr(module, "_bin_indices_geometric", module._bin_indices)
    network, layers = small_network(case), ["1", "3"]
    train, queries = torch.tensor(case.train[:500]), torch.tensor(case.queries)
    alpha = [300.0, 900.0]
    other = theirs.NACUE(network, [network[1], network[3]], m_bins=20, alpha=alpha, o_star=8)
    other.fit(batches(train))
    expected = -other.predict(queries).numpy() / 2
    model = LayerNAC(network, layers, alpha, bins=20, enough=8).fit(train)
    # A state at the edge of two bins may fall in either by rounding.
    assert np.isclose(model.score_samples(queries).numpy(), expected, atol=1e-9).mean() > 0.99


def test_gram() -> None:
    """Where labels are what is predicted, and with our held-out deviations in place of theirs."""
    torch.manual_seed(0)
    parts = [torch.nn.Conv2d(2, 5, 2), torch.nn.Conv2d(5, 4, 2)]
    head = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(36, 3))
    network = torch.nn.Sequential(*parts, *head).double().eval()
    known, queries = torch.rand(400, 2, 5, 5), 2 * torch.rand(60, 2, 5, 5) - 0.5
    powers = (1, 2, 3, 5)
    model = Gram(network, ["0", "1"], powers).fit(known)
    seen = known[torch.arange(400) % 10 != 9]
    with torch.no_grad():
        predicted = network(seen).argmax(dim=1)
        assert set(network(queries).argmax(dim=1).tolist()) <= set(predicted.tolist())
    other = theirs.Gram(head, parts, num_classes=3, num_poles_list=list(powers))
    other.validation_fraction = 0.0
    absent = sorted({0, 1, 2} - set(predicted.tolist()))
    # A class that is never predicted has no rows, which they refuse; nothing is compared with it.
    extra = (seen[:1].repeat(len(absent), 1, 1, 1), torch.tensor(absent, dtype=torch.long))
    other.fit([(seen, predicted), *([extra] if absent else [])])
    other.layer_norm = model.usual_
    expected = -other.predict(queries)
    torch.testing.assert_close(model.score_samples(queries), expected, rtol=1e-4, atol=1e-4)


# What they have and is not compared, by the reason.
NOT_COMPARED = {
    "GradUncertainty": "needs the gradients of all weights, which is not here",
    "MCD": "draws its scores",
    "RankFeat": "is not here",
    "odin_preprocessing": "is a part of ODIN",
}
COMPARED_APART = {
    "Gram", "GMM", "MahalanobisODIN", "MultiMahalanobis", "NACUE", "ODIN", "OpenMax",
    "TemperatureScaling",
}  # fmt: skip


def test_every_detector_of_theirs_is_compared_or_has_a_reason() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    for name in theirs.__all__:
        told = name in NOT_COMPARED or name in COMPARED_APART
        assert f"theirs.{name}(" in source or told, name
    known = Path(__file__).parents[2] / "docs" / "elsewhere.csv"
    listed = known.read_text(encoding="utf-8")
    for name in set(theirs.__all__) - {"odin_preprocessing"}:
        assert re.search(rf"\b{name}\b", listed), f"{known} says nothing of {name}"


def moved_along_gradient(model: Any, case: Case, step: float) -> torch.Tensor:
    """Return the queries moved by the sign of the gradient of their score."""
    inputs = torch.tensor(case.queries, requires_grad=True)
    (gradient,) = torch.autograd.grad(model.score_samples(inputs).sum(), inputs)
    return inputs.detach() + step * torch.sign(gradient)


def test_odin(case: Case) -> None:
    model = typica.make_detector("msp", head=case.head, temperature=1000)
    moved = moved_along_gradient(model, case, 0.0014)
    expected = theirs.odin_preprocessing(
        case.linear, torch.tensor(case.queries), eps=0.0014, temperature=1000
    )
    torch.testing.assert_close(moved, expected)
    scores = theirs.ODIN(case.linear, eps=0.0014, temperature=1000).predict(
        torch.tensor(case.queries)
    )
    torch.testing.assert_close(model.score_samples(moved), -scores)


def test_mahalanobis_with_a_step_on_the_input(case: Case) -> None:
    model = typica.make_detector("mahalanobis").fit(case.train, case.labels)
    moved = moved_along_gradient(model, case, 0.005)
    other = theirs.MahalanobisODIN(lambda x: RIDGE_IS_NOTHING * x, eps=0.005)
    other.fit_features(torch.tensor(RIDGE_IS_NOTHING * case.train), torch.tensor(case.labels))
    expected = -len(case.train) * other.predict(torch.tensor(case.queries))
    torch.testing.assert_close(
        model.score_samples(moved), expected, rtol=1e-6, atol=1e-8 * float(expected.abs().max())
    )


@pytest.mark.parametrize("decimals", [16, 1, 0], ids="{} decimals".format)
@pytest.mark.parametrize("sizes", [(1000, 300), (37, 400), (20, 20)], ids=str)
def test_metrics(sizes: tuple[int, int], decimals: int) -> None:
    rng = np.random.default_rng(0)
    typical = rng.normal(loc=1.0, size=sizes[0]).round(decimals)
    strange = rng.normal(size=sizes[1]).round(decimals)
    outlier = -torch.tensor(np.concatenate([typical, strange]))
    labels = torch.tensor([0] * sizes[0] + [-1] * sizes[1])
    metrics = OODMetrics().update(outlier, labels).compute()
    result = typica.evaluate(typical, strange)

    assert result.auroc == pytest.approx(metrics["AUROC"], rel=1e-12)
    fpr, tpr, _ = functional.roc_curve(outlier, labels)
    assert result.detection_error == pytest.approx(float((fpr + 1 - tpr).min() / 2), rel=1e-12)
    # Strangers are the positive class of their FPR, ID rows that of ours.
    assert typica.evaluate(-strange, -typical).fpr == metrics["FPR95TPR"]
    for level in (0.5, 0.9, 0.95, 1.0):
        expected = functional.fpr_at_tpr(-outlier, -1 - labels, tpr=level)
        assert typica.evaluate(typical, strange, tpr=level).fpr == float(expected)
    # Average precision here, trapezes under the same points there.
    for positive, ours in (("id", result.aupr_in), ("ood", result.aupr_out)):
        precision, recall, _ = functional.pr_curve(outlier, labels, positive)
        assert ours == pytest.approx(float(-(precision[:-1] * recall.diff()).sum()), rel=1e-12)
