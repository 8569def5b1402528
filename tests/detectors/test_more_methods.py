"""LTS, DOCTOR and GMM against loops in float64, at the edges, and on real features."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.data import Data, make_data

import typica
from typica import DOCTOR, GMM, LTS, Head


def log_sum_exp(values):
    return max(values) + np.log(sum(np.exp(v - max(values)) for v in values))


def reference_lts(W, b, z, k):
    positive = sorted((x for x in z if x > 0), reverse=True)
    r = sum(positive) / sum(positive[:k])
    return log_sum_exp([r**2 * (w @ z + c) for w, c in zip(W, b, strict=True)])


def reference_doctor(logits, temperature):
    weights = [np.exp(v / temperature) for v in logits]
    return sum((weight / sum(weights)) ** 2 for weight in weights)


def reference_gmm(train, labels, Z):
    names = sorted(set(labels))
    means = [train[labels == k].mean(axis=0) for k in names]
    centred = np.array([z - means[names.index(k)] for z, k in zip(train, labels, strict=True)])
    P = np.linalg.inv(centred.T @ centred / len(train))
    scores = []
    for z in Z:
        parts = [
            np.log(np.mean(labels == k)) - (z - mu) @ P @ (z - mu) / 2
            for k, mu in zip(names, means, strict=True)
        ]
        scores.append(log_sum_exp(parts))
    return scores


@pytest.mark.parametrize(("percentile", "k"), [(95, 2), (50, 20), (100, 1)])
def test_lts_is_the_energy_of_scaled_logits(percentile, k):
    data = make_data(m=40)
    W, b = data.head.weight.astype(np.float64), np.array([0.5, -1.0, 0.0, 2.0])
    rows = np.concatenate([data.test[:20], data.ood[:20], data.test[:5] - 1.0])
    wanted = [reference_lts(W, b, z, k) for z in rows]
    got = LTS(Head(W, b), percentile=percentile).score_samples(rows)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_lts_of_a_row_without_positive_activations_is_its_energy(data: Data):
    rows = np.stack([np.zeros(12), np.full(12, -1.0)])
    wanted = [log_sum_exp(list(data.head.weight.astype(float) @ z)) for z in rows]
    np.testing.assert_allclose(LTS(data.head).score_samples(rows), wanted, rtol=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_doctor_is_the_sum_of_squared_probabilities(temperature):
    logits = np.random.default_rng(0).normal(size=(30, 5)) * 4
    wanted = [reference_doctor(row, temperature) for row in logits]
    got = DOCTOR(temperature=temperature).score_samples(logits)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)
    assert DOCTOR().score_samples(np.array([[1e4, -1e4]]))[0] == 1


def test_gmm_is_the_log_density_of_the_mixture(data: Data):
    some = (data.labels != 1) | (np.arange(240) % 3 == 0)  # classes of unequal size
    detector = GMM().fit(data.train[some], data.labels[some])
    rows = np.concatenate([data.test[:20], data.ood[:20]])
    wanted = reference_gmm(data.train[some], data.labels[some], rows)
    np.testing.assert_allclose(detector.score_samples(rows), wanted, rtol=1e-10)


def test_gmm_with_one_class_is_mahalanobis(data: Data):
    one = GMM().fit(data.train).score_samples(data.test)
    np.testing.assert_allclose(one, typica.Mahalanobis().fit(data.train).score_samples(data.test))


def test_gmm_of_rows_too_far_for_float32_is_minus_infinity(data: Data):
    far = np.full((1, 12), 1e30, dtype=np.float32)
    assert GMM().fit(data.train, data.labels).score_samples(far)[0] == -np.inf


def test_gmm_classifies_by_the_share_of_a_class_too():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(900, 2)), rng.normal(size=(100, 2)) + 2 * np.eye(2)[0]])
    labels = np.repeat([0, 1], [900, 100])
    between = rows[labels == 0].mean(axis=0) / 2 + rows[labels == 1].mean(axis=0) / 2
    towards = between + np.array([0.2, 0.0])
    assert GMM().fit(rows, labels).classify(towards[None]).tolist() == [0]
    assert typica.Mahalanobis().fit(rows, labels).classify(towards[None]).tolist() == [1]


@pytest.mark.real
def test_real_cifar10_features(real):
    head = Head(real["head.weight"], real["head.bias"])
    measured = {
        LTS(head): {"svhn": 98.86, "textures": 95.79, "cifar100": 89.19},
        DOCTOR(head): {"svhn": 93.74, "textures": 88.78, "cifar100": 88.52},
        GMM(): {"svhn": 96.38, "textures": 87.63, "cifar100": 60.56},
    }
    for detector, aurocs in measured.items():
        detector.fit(real["train.features"], real["train.labels"])
        scores = detector.score_samples(real["test.features"])
        for name, auroc in aurocs.items():
            strange = detector.score_samples(real[f"ood.{name}.features"])
            assert 100 * typica.evaluate(scores, strange).auroc == pytest.approx(auroc, abs=0.02)
