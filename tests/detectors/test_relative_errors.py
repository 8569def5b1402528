"""CARef and CADRef against loops in float64, at the edges, and on real features."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.data import Data

import typica
from typica import CADRef, CARef, Head


def predicted(W, b, z):
    return int(np.argmax([w @ z + c for w, c in zip(W, b, strict=True)]))


def energy(W, b, z):
    logits = [float(w @ z + c) for w, c in zip(W, b, strict=True)]
    return max(logits) + np.log(sum(np.exp(value - max(logits)) for value in logits))


def class_means(W, b, train):
    classes = [predicted(W, b, z) for z in train]
    return [
        np.mean([z for z, k in zip(train, classes, strict=True) if k == wanted], axis=0)
        for wanted in range(len(W))
    ]


def reference_caref(W, b, train, Z):
    means = class_means(W, b, train)
    scores = []
    for z in Z:
        mu = means[predicted(W, b, z)]
        error = sum(abs(x - y) for x, y in zip(z, mu, strict=True))
        scores.append(-error / sum(abs(x) for x in z))
    return scores


def reference_cadref(W, b, train, Z):
    means = class_means(W, b, train)
    mean_energy = sum(energy(W, b, z) for z in train) / len(train)
    scores = []
    for z in Z:
        k = predicted(W, b, z)
        parts = {True: 0.0, False: 0.0}
        for x, mu, w in zip(z, means[k], W[k], strict=True):
            parts[bool(w * (x - mu) > 0)] += abs(x - mu) / sum(abs(z))
        own = max(energy(W, b, z), mean_energy / 1000)
        scores.append(-(parts[True] / own + parts[False] / mean_energy))
    return scores


@pytest.mark.parametrize(
    ("cls", "reference"), [(CARef, reference_caref), (CADRef, reference_cadref)]
)
def test_scores_are_those_of_the_reference(data: Data, cls, reference):
    W = data.head.weight.astype(np.float64) - 1.5  # of both signs
    b = np.array([0.5, -1.0, 0.0, 2.0])
    detector = cls(Head(W, b)).fit(data.train)
    rows = np.concatenate([data.test[:20], data.ood[:20], -data.test[:5]])
    energies = np.array([energy(W, b, z) for z in rows])
    assert (energies > 1).sum() > 20 and (energies < 0).sum() > 3
    wanted = reference(W, b, data.train, rows)
    np.testing.assert_allclose(detector.score_samples(rows), wanted, rtol=1e-12)


@pytest.mark.parametrize("cls", [CARef, CADRef])
def test_zero_rows_and_classes_that_are_never_predicted(data: Data, cls):
    detector = cls(data.head).fit(data.train[data.labels != 2])
    assert detector.score_samples(np.zeros((1, 12)))[0] == -np.inf
    scores = detector.score_samples(data.test[2::4])
    assert (data.head.predict(data.test[2::4]) == 2).all()
    if cls is CARef:
        np.testing.assert_allclose(scores, -1)
    assert np.isfinite(scores).all()


def test_labels_are_not_looked_at(data: Data):
    for cls in (CARef, CADRef):
        one = cls(data.head).fit(data.train, data.labels)
        other = cls(data.head).fit(data.train, data.labels[::-1])
        np.testing.assert_array_equal(one.score_samples(data.ood), other.score_samples(data.ood))


def test_energies_that_are_negative_on_average_are_refused(data: Data):
    with pytest.raises(
        typica.InputError, match=r"CADRef.fit: the energies .* average -.*; check that the head"
    ):
        CADRef(Head(data.head.weight, np.full(4, -1e3))).fit(data.train)


@pytest.mark.real
@pytest.mark.parametrize(
    ("cls", "reference", "aurocs"),
    [
        (CARef, reference_caref, {"svhn": 99.10, "textures": 96.36, "cifar100": 86.33}),
        (CADRef, reference_cadref, {"svhn": 99.16, "textures": 96.48, "cifar100": 89.18}),
    ],
)
def test_real_cifar10_features(real, cls, reference, aurocs):
    W, b = real["head.weight"], real["head.bias"]
    train, test = real["train.features"], real["test.features"]
    detector = cls(Head(W, b)).fit(train)
    scores = detector.score_samples(test)
    for name, wanted in aurocs.items():
        result = typica.evaluate(scores, detector.score_samples(real[f"ood.{name}.features"]))
        assert 100 * result.auroc == pytest.approx(wanted, abs=0.02)
    rows = test[:20].astype(np.float64)
    by_loop = reference(W.astype(np.float64), b, train[:3000].astype(np.float64), rows)
    few = cls(Head(W, b)).fit(train[:3000]).score_samples(rows)
    np.testing.assert_allclose(few, by_loop, rtol=1e-6)
