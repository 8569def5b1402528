"""Methods that read logits against references in many digits, at the edges, on real features."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
import scipy.spatial.distance
import scipy.stats
import torch
from helpers.data import Data
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import typica
from typica import MSP, Head
from typica.detectors.energy import Energy
from typica.detectors.entropy import Entropy
from typica.detectors.gen import GEN
from typica.detectors.kl_matching import KLMatching
from typica.detectors.margin import Margin
from typica.detectors.max_logit import MaxLogit
from typica.detectors.openmax import OpenMax, fit_weibull

OVERFLOWING = [
    "msp",
    "energy",
    "max_logit",
    "entropy",
    "gen",
    "doctor",
    "margin",
    "kl_matching",
    "nac",
]


@pytest.mark.parametrize("name", OVERFLOWING)
def test_logits_that_overflow_have_no_score(name, data: Data):
    head = Head(100 * data.head.weight)
    detector = typica.make_detector(name).set_params(head=head).fit(data.train)
    far = np.full((3, 12), 3e37, dtype=np.float32)
    with pytest.raises(
        typica.InputError, match=r"(row|score) 0 .* float32; pass float64, or rescale"
    ):
        detector.score_samples(far)
    assert not np.isnan(detector.score_samples(far.astype(np.float64))).any()


def test_a_calibration_on_bare_logits_tells_how_many_there_are(tmp_path):
    rng = np.random.default_rng(0)
    detector = MSP().calibrate(rng.normal(size=(200, 3)))
    detector.save(tmp_path / "msp.safetensors")
    for known in (detector, typica.load(tmp_path / "msp.safetensors")):
        assert known.n_features == 3 and known.fingerprint() == MSP().fingerprint()
        with pytest.raises(typica.InputError, match=r"MSP.judge: X has 5 features, .* expecting 3"):
            known.judge(rng.normal(size=(4, 5)))
        assert known.calibrate(rng.normal(size=(200, 5))).n_features == 5  # a calibration of others
        with pytest.raises(typica.InputError, match="row 0 of the features holds NaN"):
            known.calibrate(np.full((9, 7), np.nan))
        assert known.n_features == 5
    by_parts = MSP().partial_calibrate(rng.normal(size=(99, 3)))
    with pytest.raises(typica.InputError, match=r"MSP.partial_calibrate: X has 4 features"):
        by_parts.partial_calibrate(rng.normal(size=(99, 4)))


def weights(row, temperature=1):
    """exp((l - max l) / T) and its sum, in Decimals."""
    largest = max(row)
    parts = [((x - largest) / Decimal(temperature)).exp() for x in row]
    return parts, sum(parts)


def reference_max_logit(row):
    return max(row)


def reference_energy(row, temperature=1.0):
    _, total = weights(row, temperature)
    return max(row) + Decimal(temperature) * total.ln()


def reference_entropy(row):
    with localcontext(
        prec=120 if len(row) < 100 else 40
    ):  # so many that ln(p) is right where p is nearly 1
        parts, total = weights(row)
        return sum(w / total * (w / total).ln() for w in parts if w > 0)


def reference_gen(row, gamma=0.1, top_m=100):
    parts, total = weights(row)
    terms = []
    for k, w in sorted(enumerate(parts), key=lambda item: -item[1])[:top_m]:
        others = sum(parts[:k] + parts[k + 1 :])
        if w * others > 0:
            terms.append((w / total * others / total) ** Decimal(gamma))
    return -sum(terms)


def reference_margin(row):
    parts, total = weights(row)
    first, second = sorted([*parts, Decimal(0)], reverse=True)[:2]
    return (first - second) / total


def reference_logit_margin(row):
    first, second = sorted(row, reverse=True)[:2]
    return first - second


def in_decimals(reference, L):
    with localcontext(prec=40):
        return np.array([float(reference([Decimal(x) for x in row])) for row in L.tolist()])


METHODS = [
    (MaxLogit(), reference_max_logit),
    (Energy(), reference_energy),
    (Energy(temperature=0.1), lambda row: reference_energy(row, 0.1)),
    (Energy(temperature=1000), lambda row: reference_energy(row, 1000)),
    (Entropy(), reference_entropy),
    (GEN(), reference_gen),
    (GEN(gamma=0.7, top_m=2), lambda row: reference_gen(row, 0.7, 2)),
    (GEN(gamma=1, top_m=1), lambda row: reference_gen(row, 1, 1)),
    (Margin(), reference_margin),
    (Margin(of="logits"), reference_logit_margin),
]
SHIFT_INVARIANT = [MSP(), Entropy(), GEN(), GEN(gamma=0.5, top_m=2), Margin(), Margin(of="logits")]


def cases(dtype):
    """Logits at all scales and of all shapes."""
    rng = np.random.default_rng(0)
    some = rng.normal(size=(12, 7))
    logits = {
        "random": 3 * some,
        "one class": some[:, :1],
        "two classes": 5 * some[:, :2],
        "many classes": 4 * rng.normal(size=(2, 1000)),
        "one row": some[:1],
        "constant": np.full((2, 5), -3.5),
        "zero": np.zeros((2, 3)),
        "ties": np.array([[2.0, 2.0, 0.0, 0.0], [1.0, 1.0, 1.0, -50.0], [9.0, 0.0, 0.0, 9.0]]),
        "large": 1e4 * some,
        "extreme": np.array([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4], [1e4, 1e4, -1e4]]),
        "far from zero": 1e4 + np.round(some * 64) / 64,
        "far below zero": -1e4 + np.round(some * 64) / 64,
        "astronomical": 1e30 * some,
        "tiny": 1e-20 * some,
        "sure": np.array(
            [[20.0, 0.0, -1.0], [60.0, 0.0, 0.0], [100.0, 0.0, -1.0], [800.0, 1.0, 2.0]]
        ),
    }
    return {name: L.astype(dtype) for name, L in logits.items()}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", cases(np.float64))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("detector", "reference"), METHODS, ids=lambda x: str(x) if isinstance(x, MSP.__base__) else ""
)
def test_scores_equal_the_reference(detector, reference, dtype, case):
    L = cases(dtype)[case]
    if L.shape[1] == 1 and reference is reference_logit_margin:
        pytest.skip("one class has no margin of logits: an error, tested below")
    wanted = in_decimals(reference, L)
    for backend in (np.asarray, torch.asarray):
        scores = detector.score_samples(backend(L))
        assert np.asarray(scores).dtype == dtype
        atol = (
            detector.tags.tolerance[dtype is np.float64] * np.abs(wanted).max()
            + np.finfo(dtype).tiny
        )
        np.testing.assert_allclose(np.asarray(scores), wanted, rtol=0, atol=atol)


@pytest.mark.parametrize(
    "detector", [*SHIFT_INVARIANT, MaxLogit(), Energy(), Energy(temperature=7)], ids=str
)
def test_gradients_equal_finite_differences(detector):
    L = torch.asarray(
        np.random.default_rng(3).normal(size=(4, 5)) * 3, dtype=torch.float64
    ).requires_grad_()
    assert torch.autograd.gradcheck(detector.score_samples, (L,))


@pytest.mark.parametrize("detector", [detector for detector, _ in METHODS], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_are_finite_at_the_edges(detector, dtype):
    for case, logits in cases(dtype).items():
        L = torch.asarray(logits).requires_grad_()
        if logits.shape[1] == 1 and getattr(detector, "of", "") == "logits":
            continue
        detector.score_samples(L).sum().backward()
        assert torch.isfinite(L.grad).all(), case


def test_gradients_at_ties_treat_tied_classes_alike():
    L = torch.asarray([[2.0, 2.0, 0.0]], dtype=torch.float64)
    for detector in (MSP(), Energy(), Entropy(), GEN()):
        at = L.clone().requires_grad_()
        detector.score_samples(at).sum().backward()
        # Moving both tied classes at once is smooth, so that the sum of their slopes is a number to
        # check.
        both = torch.asarray([[1.0, 1.0, 0.0]]) * 1e-6
        slope = (detector.score_samples(L + both) - detector.score_samples(L - both)) / 2e-6
        np.testing.assert_allclose(at.grad[0, :2].sum(), slope[0], rtol=1e-6)
        if not isinstance(detector, MSP):
            assert at.grad[0, 0] == pytest.approx(at.grad[0, 1].item(), abs=1e-12)


ON_A_GRID = st.integers(-1000, 1000).map(
    lambda i: i / 64
)  # so that sums with whole numbers are exact
GRIDS = st.tuples(st.integers(1, 4), st.integers(2, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=ON_A_GRID)
)
DTYPES = st.sampled_from([np.float32, np.float64])


@settings(max_examples=50)
@given(GRIDS, st.integers(-9000, 9000), DTYPES)
def test_shifts(L, shift, dtype):
    L, moved = L.astype(dtype), (L + shift).astype(dtype)
    for detector in SHIFT_INVARIANT[1:]:
        np.testing.assert_array_equal(detector.score_samples(moved), detector.score_samples(L))
    templates = KLMatching().partial_fit(np.eye(L.shape[1]) * 3)
    np.testing.assert_array_equal(templates.score_samples(moved), templates.score_samples(L))
    eps = 4 * np.finfo(dtype).eps * (abs(shift) + 20)
    for detector in (MaxLogit(), Energy(), Energy(temperature=3)):
        np.testing.assert_allclose(
            detector.score_samples(moved), detector.score_samples(L) + shift, rtol=0, atol=eps
        )


@settings(max_examples=50)
@given(GRIDS, st.floats(0.01, 100), st.floats(0.1, 10), st.randoms(use_true_random=False))
def test_scaling_order_and_bounds(L, factor, temperature, random):
    C = L.shape[1]
    hot, cold = Energy(temperature=temperature * factor), Energy(temperature=temperature)
    scale = factor * (np.abs(L).max() + temperature * math.log(C))
    np.testing.assert_allclose(
        hot.score_samples(L * factor), cold.score_samples(L) * factor, rtol=0, atol=1e-13 * scale
    )
    np.testing.assert_allclose(
        MSP(temperature=temperature * factor).score_samples(L * factor),
        MSP(temperature=temperature).score_samples(L),
        rtol=1e-9,
    )
    order = random.sample(range(C), C)
    for detector, _ in METHODS:
        np.testing.assert_allclose(
            detector.score_samples(L[:, order]), detector.score_samples(L), rtol=1e-13
        )
    top, energy = L.max(axis=1), cold.score_samples(L)
    slack = 1e-12 * (np.abs(L).max() + temperature)
    assert (energy >= top - slack).all() and (
        energy <= top + temperature * math.log(C) + slack
    ).all()
    assert (Entropy().score_samples(L) <= 0).all() and (
        Entropy().score_samples(L) >= -math.log(C) - 1e-12
    ).all()
    assert (GEN().score_samples(L) <= 0).all() and (
        GEN().score_samples(L) >= -C * 0.25**0.1 - 1e-12
    ).all()
    assert (Margin().score_samples(L) >= 0).all() and (Margin().score_samples(L) <= 1).all()


@pytest.mark.parametrize(
    ("detector", "message"),
    [
        (
            Energy(temperature=0),
            r"Energy.fit: temperature=0 is not a positive number; pass temperature>0.",
        ),
        (Energy(temperature=-1.5), r"temperature=-1.5 is not a positive number"),
        (Energy(temperature=math.nan), r"temperature=nan is not a positive number"),
        (GEN(gamma=0), r"GEN.fit: gamma=0 is out of range; pass a number above 0 and at most 1."),
        (GEN(gamma=1.5), r"gamma=1.5 is out of range"),
        (GEN(gamma="0.1"), r"gamma='0.1' is out of range"),
        (GEN(gamma=True), r"gamma=True is out of range"),
        (GEN(top_m=0), r"GEN.fit: top_m=0 is not an integer of at least 1; pass top_m>=1."),
        (GEN(top_m=2.0), r"top_m=2.0 is not an integer"),
        (GEN(top_m=True), r"top_m=True is not an integer"),
        (
            Margin(of="odds"),
            r"Margin.fit: of='odds' is unknown; choose one of probabilities, logits.",
        ),
        (OpenMax(tail=1), r"OpenMax.fit: tail=1 is not an integer of at least 2; pass tail>=2."),
        (OpenMax(tail=2.5), r"tail=2.5 is not an integer"),
        (OpenMax(alpha=0), r"OpenMax.fit: alpha=0 is not an integer of at least 1; pass alpha>=1."),
        (MaxLogit(head=np.eye(2)), r"MaxLogit.fit: head is an ndarray; pass typica.Head"),
        (
            OpenMax(distance="cityblock"),
            r"distance='cityblock' is unknown; choose one of eucos, euclidean, cosine.",
        ),
    ],
    ids=lambda x: str(x)[:40],
)
def test_bad_parameters_are_refused(detector, message):
    with pytest.raises(typica.InputError, match=message):
        detector.fit(np.eye(3), [0, 1, 2])


def test_one_class_has_no_margin_of_logits():
    with pytest.raises(
        typica.InputError,
        match=r"a margin needs two classes, and there is one; pass of='probabilities'",
    ):
        Margin(of="logits").score_samples(np.ones((3, 1)))


def test_numpy_scalars_as_parameters_keep_the_dtype():
    L = np.eye(3, dtype=np.float32)
    number = np.float64(0.5)
    for detector in (Energy(temperature=number), GEN(gamma=number, top_m=np.int64(2))):
        assert detector.score_samples(L).dtype == np.float32


@pytest.mark.parametrize(
    "name", ["max_logit", "energy", "gen", "entropy", "margin", "kl_matching", "openmax"]
)
def test_a_head_with_features_equals_bare_logits(name, data: Data):
    names = np.array(["ape", "bee", "cat", "dog"])
    head = Head(data.head.weight, [0.5, -1.0, 0.0, 2.0], names)
    bare, headed = typica.make_detector(name), typica.make_detector(name, head=head)
    bare.fit(head.logits(data.train), data.labels).calibrate(head.logits(data.held_out))
    headed.fit(data.train, names[data.labels]).calibrate(data.held_out)
    np.testing.assert_array_equal(
        bare.score_samples(head.logits(data.test)), headed.score_samples(data.test)
    )
    np.testing.assert_array_equal(bare.predict(head.logits(data.ood)), headed.predict(data.ood))
    assert (
        names[bare.classify(head.logits(data.ood))].tolist() == headed.classify(data.ood).tolist()
    )


@pytest.mark.parametrize("name", ["msp", "max_logit", "energy", "gen", "entropy", "margin"])
def test_ready_without_fit_on_bare_logits(name):
    detector = typica.make_detector(name)
    assert not hasattr(detector, "classes_")
    answer = detector.explain(np.array([[0.0, 3.0, 1.0]]))[0]
    assert (answer.nearest, answer.runner_up, answer.margin) == (1, 2, 2.0)
    assert detector.classify(np.array([[0.0, 3.0], [1.0, 0.0]])).tolist() == [1, 0]


# KLMatching


def reference_templates(L):
    """Mean softmax by predicted class, summed exactly."""
    softmaxes: dict[int, list[list[float]]] = {}
    for row in L.astype(np.float64).tolist():
        largest = max(row)
        exps = [math.exp(x - largest) for x in row]
        total = math.fsum(exps)
        softmaxes.setdefault(row.index(largest), []).append([e / total for e in exps])
    return {
        k: [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
        for k, rows in sorted(softmaxes.items())
    }


def reference_kl(templates, row):
    """The least divergence.

    A probability of 0 in a template counts as the smallest normal float64.
    """
    largest = max(row)
    logs = [x - largest for x in row]
    total = math.log(math.fsum(map(math.exp, logs)))
    divergences = []
    for template in templates.values():
        terms = [
            math.exp(x - total) * (x - total - math.log(max(d, 2.0**-1022)))
            for x, d in zip(logs, template, strict=True)
        ]
        divergences.append(math.fsum(terms))
    return -min(divergences)


@pytest.mark.parametrize("case", cases(np.float64))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kl_matching_equals_the_reference(dtype, case):
    test = cases(dtype)[case]
    rng = np.random.default_rng(1)
    for train in (test, (4 * rng.normal(size=(40, test.shape[1]))).astype(dtype)):
        detector = KLMatching().partial_fit(train)
        templates = reference_templates(train)
        assert detector.classes_.tolist() == list(templates)
        np.testing.assert_allclose(
            detector.templates_, list(templates.values()), rtol=1e-12, atol=1e-15
        )
        wanted = np.array([reference_kl(templates, row) for row in test.tolist()])
        # A divergence of nearly 0 is what is left of terms as large as p log p.
        atol = detector.tags.tolerance[dtype is np.float64] * max(np.abs(wanted).max(), 0.02)
        np.testing.assert_allclose(detector.score_samples(test), wanted, rtol=0, atol=atol)


def test_kl_matching_leaves_out_classes_that_are_never_predicted():
    train = np.log([[0.7, 0.2, 0.1], [0.6, 0.1, 0.3], [0.1, 0.1, 0.8]] * 10)
    detector = KLMatching(Head(np.eye(3), classes=["ape", "bee", "cat"])).fit(train)
    assert detector.counts_.tolist() == [20, 0, 10] and detector.classes_.tolist() == ["ape", "cat"]
    row = np.log([[0.1, 0.8, 0.1]])
    assert detector.classify(row).tolist() == ["ape"]
    answer = detector.explain(row)[0]
    assert answer.runner_up == "cat" and answer.similarity == pytest.approx(answer.score)
    detector.counts_[:] = 0
    detector._drop_derived()
    with pytest.raises(
        typica.InputError, match=r"KLMatching.score_samples: no class has a template; fit on rows"
    ):
        detector.score_samples(row)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kl_matching_stays_finite_where_a_template_is_zero(dtype):
    detector = KLMatching().fit(np.array([[1e4, -1e4], [9e3, 0.0]] * 10, dtype=dtype))
    assert detector.templates_.tolist() == [[1.0, 0.0]]
    L = torch.asarray(np.array([[1e4, 0.0], [-1e4, 1e4], [0.0, 0.0]], dtype=dtype)).requires_grad_()
    scores = detector.score_samples(L)
    bound = 1022 * math.log(2)
    np.testing.assert_allclose(scores.detach(), [0, -bound, math.log(2) - bound / 2], rtol=1e-6)
    scores.sum().backward()
    assert torch.isfinite(L.grad).all()


def test_kl_matching_takes_all_of_a_batch_or_nothing(data: Data, monkeypatch):
    detector = KLMatching(data.head).partial_fit(data.train)
    before = detector.counts_.copy(), detector.sums_.copy()
    bad = data.train.copy()
    bad[200, 0] = np.nan
    monkeypatch.setattr("typica.arrays.BLOCK_BYTES", 2000)
    with pytest.raises(
        typica.InputError, match=r"KLMatching.partial_fit: row 200 of the features holds NaN"
    ):
        detector.partial_fit(bad)
    np.testing.assert_array_equal(detector.counts_, before[0])
    np.testing.assert_array_equal(detector.sums_, before[1])
    detector.partial_fit(data.test)  # in blocks now
    np.testing.assert_allclose(
        detector.sums_,
        KLMatching(data.head).partial_fit(np.concatenate([data.train, data.test])).sums_,
        rtol=1e-13,
    )


def test_scores_follow_what_was_learnt_last(data: Data):
    whole = KLMatching(data.head).fit(data.train).score_samples(data.test)
    detector = KLMatching(data.head).partial_fit(data.train[:100])
    assert np.abs(detector.score_samples(data.test) - whole).max() > 1e-4
    np.testing.assert_allclose(
        detector.partial_fit(data.train[100:]).score_samples(data.test), whole, atol=1e-12
    )
    other = OpenMax(data.head).fit(data.train[:80], data.labels[:80])
    other.score_samples(data.test)
    wanted = OpenMax(data.head).fit(data.train, data.labels).score_samples(data.test)
    np.testing.assert_array_equal(
        other.fit(data.train, data.labels).score_samples(data.test), wanted
    )


def test_kl_matching_gradient_equals_finite_differences(data: Data):
    detector = KLMatching(data.head).fit(data.train)
    Z = torch.asarray(data.ood[:4] / 4).requires_grad_()
    assert torch.autograd.gradcheck(detector.score_samples, (Z,))


# OpenMax


def reference_weibull(tail):
    """Shape and scale where the slope of the likelihood changes its sign, by bisection."""
    logs = [math.log(x / max(tail)) for x in tail]
    low, high = 1e-6, 1e4
    for _ in range(200):
        shape = (low + high) / 2
        powers = [math.exp(shape * y) for y in logs]
        slope = math.fsum(p * y for p, y in zip(powers, logs, strict=True)) / math.fsum(powers)
        slope -= 1 / shape + math.fsum(logs) / len(logs)
        low, high = (low, shape) if slope > 0 else (shape, high)
    return low, max(tail) * (math.fsum(math.exp(low * y) for y in logs) / len(logs)) ** (1 / low)


def reference_distance(x, mean, kind):
    euclidean, cosine = math.dist(x, mean), scipy.spatial.distance.cosine(x, mean)
    return {"eucos": euclidean / 200 + cosine, "euclidean": euclidean, "cosine": cosine}[kind]


def reference_openmax(train, labels, test, *, tail=20, alpha=10, kind="eucos"):
    train, test = train.astype(np.float64).tolist(), test.astype(np.float64).tolist()
    C = len(train[0])
    alpha = min(alpha, C)
    models = {}
    for k in range(C):
        rows = [
            row
            for row, label in zip(train, labels, strict=True)
            if label == k == row.index(max(row))
        ]
        if rows:
            mean = [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
            models[k] = (
                mean,
                reference_weibull(
                    sorted(reference_distance(row, mean, kind) for row in rows)[-tail:]
                ),
            )
    scores = []
    for row in test:
        revised, unknown = list(row), 0.0
        for i, k in enumerate(sorted(range(C), key=lambda k: -row[k])[:alpha], start=1):
            w = 1.0
            if k in models:
                mean, (shape, scale) = models[k]
                with np.errstate(over="ignore"):
                    w = scipy.stats.weibull_min.cdf(
                        reference_distance(row, mean, kind), shape, scale=scale
                    )
            revised[k] = row[k] * (1 - w * (alpha + 1 - i) / alpha)
            unknown += row[k] - revised[k]
        largest = max(revised)
        known = largest + math.log(math.fsum(math.exp(r - largest) for r in revised))
        scores.append(known - unknown)
    return np.array(scores)


def class_logits(C, n=60, spread=2.0, seed=0):
    """Logits of rows of C classes, some of them misclassified, and strange ones."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % C
    train = 6 * np.eye(C)[labels] + spread * rng.normal(size=(n, C))
    return train, labels, np.concatenate([train[:8], spread * rng.normal(size=(12, C))])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["eucos", "euclidean", "cosine"])
@pytest.mark.parametrize(("C", "tail", "alpha"), [(5, 6, 3), (2, 20, 10), (12, 4, 1), (3, 1000, 2)])
def test_openmax_equals_the_reference(C, tail, alpha, kind, dtype):
    train, labels, test = (
        a.astype(dtype) if a.dtype == float else a for a in class_logits(C, 20 * C)
    )
    detector = OpenMax(tail=tail, alpha=alpha, distance=kind).fit(train, labels)
    wanted = reference_openmax(train, labels.tolist(), test, tail=tail, alpha=alpha, kind=kind)
    assert np.ptp(wanted) > 0.2
    atol = detector.tags.tolerance[dtype is np.float64] * np.abs(wanted).max()
    np.testing.assert_allclose(detector.score_samples(test), wanted, rtol=0, atol=atol)


def test_openmax_tells_inputs_apart_whose_probabilities_round_to_one():
    train, labels, _ = class_logits(4, spread=0.5)
    far = (30 * np.eye(4)[:2] + np.array([[29.0], [40.0]])).astype(np.float32)
    scores = OpenMax(alpha=4).fit(train, labels).score_samples(far)
    assert 1 / (1 + np.exp(scores[0])) == 1 == 1 / (1 + np.exp(scores[1])) and scores.dtype == "f4"
    assert scores[1] < scores[0] < -17
    wanted = reference_openmax(train, labels.tolist(), far, alpha=4)
    np.testing.assert_allclose(scores, wanted, rtol=1e-5)


def test_openmax_with_a_thousand_classes_revises_ten():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(1000), 3)
    train = 12 * np.eye(1000)[labels] + rng.normal(size=(3000, 1000))
    test = 5 * np.eye(1000)[:4] + 2 * rng.normal(size=(4, 1000))
    detector = OpenMax(tail=2).fit(train, labels)
    used = np.unique(
        np.argsort(-test, axis=1)[:, :10]
    )  # the reference is slow: classes that matter alone
    rows = np.isin(labels, used)
    wanted = reference_openmax(train[rows], labels[rows].tolist(), test, tail=2)
    np.testing.assert_allclose(detector.score_samples(test), wanted, rtol=0, atol=1e-9)


def test_weibull_fit_is_at_least_as_likely_as_scipys():
    rng = np.random.default_rng(0)
    for shape, scale in [(0.5, 3.0), (2.0, 1e-3), (30.0, 1e4)]:
        tail = scale * rng.weibull(shape, size=20)
        ours = fit_weibull(tail)
        theirs = scipy.stats.weibull_min.fit(tail, floc=0)
        np.testing.assert_allclose(ours, (theirs[0], theirs[2]), rtol=1e-3)
        likelihood = scipy.stats.weibull_min.logpdf(tail, ours[0], scale=ours[1]).sum()
        assert (
            likelihood
            >= scipy.stats.weibull_min.logpdf(tail, theirs[0], scale=theirs[2]).sum() - 1e-9
        )
    assert fit_weibull(np.full(5, 3.0)) == (1e4, pytest.approx(3.0))


def test_openmax_classifies_by_the_revised_logits():
    train, labels, _ = class_logits(4)
    detector = OpenMax(alpha=2, tail=5).fit(train, labels)
    L = np.array(
        [[-9.0, 30.0, 29.0, -9.0]]
    )  # far from both leaders: the first loses all of its logit, the second half
    assert detector.classify(L).tolist() == [2]
    np.testing.assert_allclose(detector.match(L).similarity, [14.5])
    assert detector.classify(train[labels == 3][:1]).tolist() == [3]


def test_openmax_gives_the_logit_of_a_class_without_model_to_the_unknown():
    train, labels, test = class_logits(4)
    labels = np.where(
        labels == 3, 2, labels
    )  # no row of class 3, and rows of class 2 that are taken for it
    with pytest.warns(typica.InputWarning, match="labels of 3 classes; X is taken as logits of 4"):
        detector = OpenMax().fit(train, labels)
    assert detector.shapes_[3] == 0 and (detector.shapes_[:3] > 0).all()
    np.testing.assert_allclose(
        detector.score_samples(test),
        reference_openmax(train, labels.tolist(), test),
        rtol=0,
        atol=1e-10,
    )


@pytest.mark.parametrize("backend", [np.asarray, torch.asarray])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["eucos", "euclidean", "cosine"])
def test_openmax_is_defined_at_the_edges(kind, dtype, backend):
    for case, L in cases(dtype).items():
        detector = OpenMax(distance=kind)
        detector._check(L, reset=True)
        detector._learn(L, np.argmax(L, axis=1))  # fit would warn that the rows are few
        scores = np.asarray(detector.score_samples(backend(L)))
        assert np.isfinite(scores).all(), case
        at = torch.asarray(L).requires_grad_()
        detector.score_samples(at).sum().backward()
        assert torch.isfinite(at.grad).all(), case


def test_openmax_of_a_class_with_one_row_knows_that_row_alone():
    detector = OpenMax(distance="euclidean").fit(
        np.array([[5.0, 0.0], [0.0, 5.0]] * 12), [0, 1] * 12
    )
    known, near = detector.score_samples(np.array([[5.0, 0.0], [5.001, 0.0]]))
    assert known == pytest.approx(math.log(1 + math.exp(5)), rel=1e-6)
    assert near == pytest.approx(math.log(2) - 5, abs=1e-2)


def test_openmax_scores_do_not_depend_on_the_scale_of_distances():
    train, labels, _ = class_logits(4)
    one = OpenMax(distance="euclidean").fit(train, labels)
    other = OpenMax(distance="euclidean").fit(1024 * train, labels)
    np.testing.assert_allclose(one.shapes_, other.shapes_, rtol=1e-10)
    np.testing.assert_allclose(1024 * one.scales_, other.scales_, rtol=1e-12)


def test_openmax_gradient_equals_finite_differences():
    train, labels, test = class_logits(5)
    for kind in ("eucos", "euclidean", "cosine"):
        detector = OpenMax(alpha=3, distance=kind).fit(train, labels)
        assert torch.autograd.gradcheck(
            detector.score_samples, (torch.asarray(test[8:12]).requires_grad_(),)
        )


def test_openmax_says_what_is_wrong_with_labels(data: Data):
    names = np.array(["ape", "bee", "cat", "dog"])[data.labels]
    for head, labels, message in [
        (data.head, None, r"OpenMax.fit: requires y to be passed"),
        (
            data.head,
            [1, 2, 3],
            r"OpenMax.fit: labels of shape \(3,\) for 240 rows; pass one label per row.",
        ),
        (
            data.head,
            data.labels + 1,
            r"OpenMax.fit: label 4 is not a class: 4 class\(es\), n_features=12; pass the names",
        ),
        (data.head, names, r"label 'ape' is not a class"),
        (
            Head(data.head.weight, classes=["ape", "bee", "cat", "eel"]),
            names,
            r"label 'dog' is not a class",
        ),
        (
            data.head,
            (data.labels + 1) % 4,
            r"OpenMax.fit: of 240 sample\(s\) none is classified correctly",
        ),
    ]:
        with pytest.raises(typica.InputError, match=message):
            OpenMax(head).fit(data.train, labels)


@pytest.mark.real
def test_real_cifar10_features_give_the_papers_numbers(real):
    head = Head(real["head.weight"], real["head.bias"])
    logits = {
        name: head.logits(real[f"{name}.features"])
        for name in ("train", "test", "ood.svhn", "ood.textures")
    }

    def auroc(detector, ood):
        return typica.evaluate(
            detector.score_samples(logits["test"]), detector.score_samples(logits[ood])
        ).auroc

    assert auroc(Energy(), "ood.svhn") == pytest.approx(0.9399, abs=0.005)
    assert auroc(Energy(), "ood.textures") == pytest.approx(0.8643, abs=0.015)
    # The paper has no rows for these: they must not be far below MSP, whose rows are 93.48 and
    # 88.15.
    fitted = [
        KLMatching().fit(logits["train"]),
        OpenMax().fit(logits["train"], real["train.labels"]),
    ]
    for detector in [MaxLogit(), GEN(), Entropy(), Margin(), *fitted]:
        assert auroc(detector, "ood.svhn") > 0.91
