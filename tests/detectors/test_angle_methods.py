"""SHE, fDBD, NCI, GradNorm and the influence kernel.

Against loops in float64 and torch's own gradients, and at the edges.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from helpers.data import Data, make_data
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import typica
from typica.detectors.fdbd import FDBD
from typica.detectors.gradnorm import GradNorm
from typica.detectors.influence_kernel import InfluenceKernel
from typica.detectors.nci import NCI
from typica.detectors.she import SHE
from typica.head import Head

METHODS = [SHE, FDBD, NCI, GradNorm, InfluenceKernel]


def dot(a, b):
    return math.fsum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def norm(a):
    largest = max(abs(float(x)) for x in a)
    return largest * math.sqrt(math.fsum((float(x) / largest) ** 2 for x in a)) if largest else 0.0


def cosine(a, b):
    return dot(a, b) / norm(a) / norm(b)


def logits(W, b, z):
    return [dot(w, z) + float(c) for w, c in zip(W, b, strict=True)]


def softmax(values):
    largest = max(values)
    weights = [math.exp(v - largest) for v in values]
    return [w / math.fsum(weights) for w in weights]


def predicted(W, b, z):
    return int(np.argmax(W.astype(np.float64) @ z.astype(np.float64) + b))


def mean(rows):
    return [math.fsum(float(x) for x in column) / len(rows) for column in zip(*rows, strict=True)]


def reference_she(W, b, train, labels, Z):
    right = [z for z, y in zip(train, labels, strict=True) if y == predicted(W, b, z)]
    places = [predicted(W, b, z) for z in right]
    patterns = [
        mean([z for z, place in zip(right, places, strict=True) if place == k])
        for k in range(len(W))
    ]
    return [(z, patterns[predicted(W, b, z)]) for z in Z]


def reference_fdbd(W, b, train, Z):
    mu, scores = mean(train), []
    for z in Z:
        values = logits(W, b, z)
        k = values.index(max(values))
        others = [c for c in range(len(W)) if c != k]
        distances = [abs(values[k] - values[c]) / norm(W[k] - W[c]) for c in others]
        scores.append(
            math.fsum(distances) / len(others) / norm([x - m for x, m in zip(z, mu, strict=True)])
        )
    return scores


def reference_nci(W, b, train, Z, alpha):
    mu, scores = mean(train), []
    for z in Z:
        d = [float(x) - m for x, m in zip(z, mu, strict=True)]
        scores.append(
            dot(d, W[predicted(W, b, z)]) / norm(d) + alpha * math.fsum(abs(float(x)) for x in z)
        )
    return scores


def torch_gradient(W, b, z, T=1.0):
    """The gradient, with respect to W, of KL(uniform || softmax((W z + b) / T)), by autograd."""
    W = torch.tensor(np.asarray(W, dtype=np.float64), requires_grad=True)
    log_p = torch.log_softmax(
        (W @ torch.tensor(np.asarray(z, dtype=np.float64)) + torch.tensor(b)) / T, dim=0
    )
    u = torch.full_like(log_p, 1 / len(log_p))
    torch.sum(u * (torch.log(u) - log_p)).backward()
    return W.grad.numpy()


def reference_influence(W, b, means, Z):
    scores = []
    for z in Z:
        here, there = (
            torch_gradient(W, b, z).ravel(),
            torch_gradient(W, b, means[predicted(W, b, z)]).ravel(),
        )
        scores.append(cosine(here, there))
    return scores


def reference_one_hot(W, b, means, Z):
    C, scores = len(W), []
    for z in Z:
        p = softmax(logits(W, b, z))
        k = p.index(max(p))
        spread = math.fsum((x - 1 / C) ** 2 for x in p)
        scores.append((p[k] - 1 / C) / math.sqrt((1 - 1 / C) * spread) * cosine(means[k], z))
    return scores


def setting(C=4, m=12, n=80, seed=0):
    """Data whose head has a bias and small weights, and makes a few mistakes.

    The weights are small so that no softmax is one-hot.
    """
    rng = np.random.default_rng(seed)
    data = make_data(n=n, m=m, C=C, seed=seed)
    W, b = data.head.weight / 8 + rng.normal(scale=0.02, size=(C, m)), rng.normal(scale=0.3, size=C)
    return data, W, b, Head(W, b)


def cases(W, b, train, labels, Z):
    """Each method with what the loops say."""
    head = Head(W, b)
    means = [mean(train[labels == k]) for k in range(len(W))]
    pairs = reference_she(W, b, train, labels, Z)
    yield SHE(head), [dot(*pair) for pair in pairs]
    yield SHE(head, metric="cosine"), [cosine(*pair) for pair in pairs]
    yield FDBD(head), reference_fdbd(W, b, train, Z)
    yield NCI(head, alpha=0.05), reference_nci(W, b, train, Z, 0.05)
    yield GradNorm(head), [np.abs(torch_gradient(W, b, z)).sum() for z in Z]
    yield GradNorm(head, temperature=3.0), [np.abs(torch_gradient(W, b, z, 3.0)).sum() for z in Z]
    yield InfluenceKernel(head), reference_influence(W, b, means, Z)
    yield InfluenceKernel(head, exact=False), reference_one_hot(W, b, means, Z)


def assert_equal_to_the_loops(C, m, dtype, scale=1.0):
    data, W, b, _ = setting(C, m, n=40)
    train = (data.train * scale).astype(dtype)
    Z = (np.concatenate([data.test[:8], data.ood[:8]]) * scale).astype(dtype)
    for detector, wanted in cases(W / scale, b, train, data.labels, Z):
        got = detector.fit(train, data.labels).score_samples(Z)
        assert got.dtype == dtype
        tolerance = detector.tags.tolerance[0 if dtype is np.float32 else 1]
        np.testing.assert_allclose(
            got, wanted, rtol=0, atol=tolerance * np.abs(wanted).max(), err_msg=str(detector)
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("C", "m"), [(4, 12), (2, 3)])
def test_scores_equal_the_loops(C, m, dtype):
    assert_equal_to_the_loops(C, m, dtype)


def test_scores_equal_the_loops_with_a_thousand_classes():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(1000, 6))
    W /= np.linalg.norm(W, axis=1, keepdims=True)  # so that every row is of its own class
    b, train, labels = np.zeros(1000), 2 * W, np.arange(1000)
    Z = rng.normal(size=(3, 6))
    for detector, wanted in cases(W, b, train, labels, Z):
        got = detector.fit(train, labels).score_samples(Z)
        np.testing.assert_allclose(
            got, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max(), err_msg=str(detector)
        )


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.float32, 1e-15), (np.float32, 1e15), (np.float64, 1e-150), (np.float64, 1e150)],
)
def test_scores_equal_the_loops_at_tiny_and_huge_scale(dtype, scale):
    assert_equal_to_the_loops(3, 5, dtype, scale)


@pytest.mark.parametrize("rows", ["duplicates", "a constant feature", "two samples"])
def test_scores_equal_the_loops_on_degenerate_data(rows):
    data, W, b, _ = setting(C=2, m=3, n=40)
    train, labels = data.train.copy(), data.labels
    if rows == "duplicates":
        train[:] = train[labels]
    elif rows == "a constant feature":
        train[:, 2] = 7.0
    else:
        train, labels = train[:2], labels[:2]
    Z = np.concatenate([data.test[:3], data.ood[:3]])
    assert np.array_equal(np.argmax(train @ W.T + b, axis=1)[:2], [0, 1])
    for detector, wanted in cases(W, b, train, labels, Z):
        with pytest.warns(typica.CalibrationWarning) if rows == "two samples" else np.errstate():
            detector.fit(train, labels)
        np.testing.assert_allclose(
            detector.score_samples(Z), wanted, rtol=1e-11, err_msg=str(detector)
        )


@pytest.mark.parametrize("cls", METHODS)
def test_gradients_of_zero_rows_and_of_rows_at_the_mean_are_finite(cls, data: Data):
    train = np.concatenate([data.train, -data.train])  # whose mean is zero
    labels = np.concatenate([data.labels, np.argmax(-data.train @ data.head.weight.T, axis=1)])
    keep = (
        np.ones(len(train), bool)
        if cls is not InfluenceKernel
        else np.arange(len(train)) < len(data.train)
    )
    detector = cls(data.head).fit(train[keep], labels[keep])
    for dtype in (torch.float32, torch.float64):
        Z = torch.zeros((2, 12), dtype=dtype, requires_grad=True)
        scores = detector.score_samples(Z)
        scores.sum().backward()
        assert torch.isfinite(scores).all() and torch.isfinite(Z.grad).all()


def test_zero_rows_score_as_documented(data: Data):
    zero = np.zeros((1, 12))
    for detector, wanted in [
        (SHE(data.head), 0.0),
        (SHE(data.head, metric="cosine"), -1.0),
        (GradNorm(data.head), 0.0),
        (InfluenceKernel(data.head), 0.0),
        (InfluenceKernel(data.head, exact=False), 0.0),
    ]:
        assert detector.fit(data.train, data.labels).score_samples(zero) == [wanted]


def test_a_row_at_the_training_mean_scores_as_documented():
    train = np.array([[2.0, 0.0], [0.0, 2.0]] * 10)
    at_mean = np.array([[1.0, 1.0]])
    head = Head([[3.0, 4.0], [0.0, 1.0]])
    assert FDBD(head).fit(train).score_samples(at_mean) == [0.0]
    assert NCI(head, alpha=0.5).fit(train).score_samples(at_mean) == [-5.0 + 0.5 * 2]


def test_classes_of_equal_weight_have_no_boundary_between_them(data: Data):
    W = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    b = np.array([0.0, 0.0, -5.0])
    train, Z = data.train[:, :2], np.array([[3.0, 1.0], [1.0, 3.0]])
    mu = train.mean(axis=0)
    gap = 2 / math.sqrt(2)
    further = (3 - (1 - 5)) / math.sqrt(2)  # of class 0 to class 2, which lies lower by its bias
    wanted = [(gap + further) / 2 / norm(Z[0] - mu), gap / norm(Z[1] - mu)]
    np.testing.assert_allclose(FDBD(Head(W, b)).fit(train).score_samples(Z), wanted, rtol=1e-14)
    for weight in (W[:1], W[1:]):
        with pytest.raises(
            typica.InputError,
            match=r"FDBD.fit: class 0 of the head has no decision boundary; pass a",
        ):
            FDBD(Head(weight)).fit(train)


def test_a_head_of_one_class_is_defined(data: Data):
    head, labels = Head(data.head.weight[:1]), np.zeros(240, int)
    for detector in (GradNorm(head), InfluenceKernel(head), InfluenceKernel(head, exact=False)):
        np.testing.assert_array_equal(detector.fit(data.train, labels).score_samples(data.test), 0)
    wanted = reference_nci(head.weight, head.bias, data.train, data.test[:5], 1e-4)
    np.testing.assert_allclose(
        NCI(head).fit(data.train).score_samples(data.test[:5]), wanted, rtol=1e-12
    )
    wanted = [
        dot(*pair)
        for pair in reference_she(head.weight, head.bias, data.train, labels, data.test[:5])
    ]
    np.testing.assert_allclose(
        SHE(head).fit(data.train, labels).score_samples(data.test[:5]), wanted, rtol=1e-12
    )


@pytest.mark.parametrize("exact", [True, False])
def test_influence_of_a_uniform_prediction_is_zero(data: Data, exact):
    head = Head(np.zeros((4, 12)))
    detector = InfluenceKernel(head, exact=exact).fit(data.train, data.labels)
    np.testing.assert_array_equal(detector.score_samples(data.test), 0)
    uniform = InfluenceKernel(data.head, exact=exact).fit(data.train, data.labels)
    assert uniform.set_params(head=head).score_samples(data.test).any() == 0


@pytest.mark.parametrize(("dtype", "atol"), [(np.float32, 1e-5), (np.float64, 1e-12)])
def test_influence_of_a_nearly_uniform_prediction_keeps_its_digits(data: Data, dtype, atol):
    W = data.head.weight * 1e-9
    detector = InfluenceKernel(Head(W), exact=False).fit(data.train, data.labels)
    Z = data.test[:10].astype(dtype)
    means = [data.train[data.labels == k].mean(axis=0) for k in range(4)]
    wanted = []
    for z in Z.astype(np.float64):
        rise = W @ z - (W @ z).mean()  # p - 1/C is a quarter of this, to first order
        k = int(np.argmax(rise))
        wanted.append(rise[k] / np.linalg.norm(rise) / math.sqrt(1 - 1 / 4) * cosine(means[k], z))
    np.testing.assert_allclose(detector.score_samples(Z), wanted, atol=max(atol, 1e-7))


@settings(max_examples=40)
@given(
    arrays(np.float64, (6, 3), elements=st.floats(-50, 50, width=32)),
    st.sampled_from([np.float32, np.float64]),
)
def test_influence_is_a_cosine(Z, dtype):
    data, _, _, head = setting(C=3, m=3, n=30)
    for exact in (True, False):
        scores = (
            InfluenceKernel(head, exact=exact)
            .fit(data.train, data.labels)
            .score_samples(Z.astype(dtype))
        )
        assert (np.abs(scores) <= 1 + 1e-6).all()


def test_class_means_follow_the_names_of_the_head():
    """The order of the head's classes is not that of the sorted labels."""
    data, W, b, _ = setting()
    names = np.array(["dog", "ape", "cat", "bee"])
    for cls in (SHE, InfluenceKernel):
        wanted = cls(Head(W, b)).fit(data.train, data.labels)
        named = cls(Head(W, b, names)).fit(data.train, names[data.labels])
        np.testing.assert_array_equal(
            named.score_samples(data.test), wanted.score_samples(data.test)
        )
        assert named.classify(data.test).tolist() == names[wanted.classify(data.test)].tolist()
        assert named.explain(data.test[:1])[0].nearest == names[wanted.classify(data.test[:1])[0]]


def test_she_learns_from_what_the_head_gets_right(data: Data):
    labels = data.labels.copy()
    labels[:40] = (labels[:40] + 1) % 4
    kept = np.argmax(data.train @ data.head.weight.T, axis=1) == labels
    assert 100 < kept.sum() < 210
    whole = SHE(data.head).fit(data.train, labels)
    np.testing.assert_allclose(
        whole.score_samples(data.test),
        SHE(data.head).fit(data.train[kept], labels[kept]).score_samples(data.test),
    )
    parts = [SHE(data.head).partial_fit(data.train[i::2], labels[i::2]) for i in range(2)]
    np.testing.assert_allclose(
        parts[0].merge(parts[1]).score_samples(data.test), whole.score_samples(data.test)
    )


def test_a_change_of_head_is_followed(data: Data):
    other = Head(data.head.weight[:, ::-1] + 0.1)
    for cls in (FDBD, NCI, InfluenceKernel):
        moved = cls(data.head).fit(data.train, data.labels).set_params(head=other)
        wanted = cls(other).fit(data.train, data.labels)
        np.testing.assert_array_equal(
            moved.score_samples(data.test), wanted.score_samples(data.test)
        )


def test_bad_parameters_are_named(data: Data):
    for detector, message in [
        (
            SHE(data.head, metric="euclid"),
            r"SHE.fit: metric='euclid' is unknown; pass \"inner\" or \"cosine\"\.",
        ),
        (NCI(data.head, alpha=-1.0), r"NCI.fit: alpha=-1.0 is not a weight; pass alpha>=0\."),
        (NCI(data.head, alpha=math.nan), r"NCI.fit: alpha=nan is not a weight"),
        (NCI(data.head, alpha="much"), r"NCI.fit: alpha='much' is not a weight"),
        (
            GradNorm(data.head, temperature=0),
            r"GradNorm.fit: temperature=0 is not a positive number",
        ),
        (
            InfluenceKernel(data.head, exact="yes"),
            r"InfluenceKernel.fit: exact='yes' is not a truth value",
        ),
    ]:
        with pytest.raises(typica.InputError, match=message):
            detector.fit(data.train, data.labels)


@pytest.mark.parametrize("cls", [SHE, InfluenceKernel])
def test_labels_must_fit_the_head_and_the_rows(cls, data: Data):
    name = cls.__name__
    with pytest.raises(typica.InputError, match=rf"{name}.fit: requires y to be passed"):
        cls(data.head).fit(data.train)
    with pytest.raises(
        typica.InputError, match=rf"{name}.fit: .* for 240 rows; pass one label per row\."
    ):
        cls(data.head).fit(data.train, data.labels[:-1])
    with pytest.raises(
        typica.InputError, match=rf"{name}.fit: label 9 is not a class of the head; remove its rows"
    ):
        cls(data.head).fit(data.train, np.where(data.labels == 3, 9, data.labels))
    with pytest.raises(
        typica.InputError, match=rf"{name}.fit: class 3 of the head has no .*samples; add some, or"
    ):
        cls(data.head).fit(data.train[data.labels < 3], data.labels[data.labels < 3])
    stream = cls(data.head).partial_fit(data.train[data.labels < 3], data.labels[data.labels < 3])
    with pytest.raises(
        typica.InputError, match=rf"{name}.score_samples: class 3 of the head has no"
    ):
        stream.score_samples(data.test)
    stream.partial_fit(data.train[data.labels == 3], data.labels[data.labels == 3]).score_samples(
        data.test
    )


def test_a_class_whose_mean_is_zero_has_no_direction(data: Data):
    train = np.concatenate([data.train, data.train[data.labels == 3] * -1])
    labels = np.concatenate([data.labels, np.full(60, 3)])
    with pytest.raises(
        typica.InputError, match=r"InfluenceKernel.fit: the mean of class 3 is zero relative to its"
    ):
        InfluenceKernel(data.head).fit(train, labels)


@pytest.mark.real
def test_real_cifar10_features_give_the_known_numbers(real):
    """The paper has no rows for these methods.

    The figures are those of the code that equals the loops above.
    """
    head = Head(real["head.weight"], real["head.bias"])
    train, labels, test = real["train.features"], real["train.labels"], real["test.features"]
    for detector, svhn, textures in [
        (SHE(head), 0.947, 0.844),
        (SHE(head, metric="cosine"), 0.990, 0.962),
        (FDBD(head), 0.987, 0.957),
        (NCI(head), 0.988, 0.958),
        (GradNorm(head), 0.939, 0.847),
        (InfluenceKernel(head), 0.978, 0.950),
    ]:
        known = detector.fit(train, labels).score_samples(test)
        for name, wanted in (("svhn", svhn), ("textures", textures)):
            strange = detector.score_samples(real[f"ood.{name}.features"])
            assert typica.evaluate(known, strange).auroc == pytest.approx(wanted, abs=0.002), (
                detector,
                name,
            )
