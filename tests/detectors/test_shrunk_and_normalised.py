"""Shrunk covariances and normalised features before Mahalanobis distances, against references."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.covariance
from helpers.data import Data, make_data
from sklearn.pipeline import make_pipeline

import typica
from typica import GMM, L2Normalise, Mahalanobis, MDSpp, RelativeMahalanobis, RMDSpp

ESTIMATES = {"ledoit_wolf": sklearn.covariance.ledoit_wolf, "oas": sklearn.covariance.oas}


def centred_by_class(Z, y):
    """Return the rows less the means of their classes, and these means."""
    means = {k: sum(Z[y == k]) / np.sum(y == k) for k in sorted(set(y.tolist()))}
    return np.array([z - means[k] for z, k in zip(Z, y.tolist(), strict=True)]), means


def shrunk(Z, y, amount):
    """Return the class means and the shrunk covariance within classes, by scikit-learn."""
    rows, means = centred_by_class(Z, y)
    if amount in ESTIMATES:
        return means, ESTIMATES[amount](rows, assume_centered=True)[0]
    S = rows.T @ rows / len(rows)
    return means, (1 - amount) * S + amount * np.trace(S) / len(S) * np.eye(len(S))


def radial(Z, exponent):
    return np.array([z / (np.sqrt(sum(z * z)) or 1.0) ** exponent for z in Z])


def reference_mahalanobis(Z, y, X, amount):
    means, S = shrunk(Z, y, amount)
    P = np.linalg.inv(S)
    return [max(-(x - mu) @ P @ (x - mu) / 2 for mu in means.values()) for x in X]


def reference_relative(Z, y, X, amount):
    means, S = shrunk(Z, y, amount)
    mean = sum(Z) / len(Z)
    B = sum(np.mean(y == k) * np.outer(mu - mean, mu - mean) for k, mu in means.items())
    P, P0 = np.linalg.inv(S), np.linalg.inv(S + B)
    return [
        max((x - mean) @ P0 @ (x - mean) - (x - mu) @ P @ (x - mu) for mu in means.values())
        for x in X
    ]


REFERENCES = {Mahalanobis: reference_mahalanobis, RelativeMahalanobis: reference_relative}


@pytest.fixture
def rows(data: Data):
    return np.concatenate([data.test[:15], data.ood[:15], 3 * data.test[:5]])


@pytest.mark.parametrize("amount", ["ledoit_wolf", "oas", 0.2, 1.0])
@pytest.mark.parametrize("cls", REFERENCES)
def test_the_covariance_is_shrunk(data: Data, rows, cls, amount):
    detector = cls(shrinkage=amount).fit(data.train, data.labels)
    wanted = REFERENCES[cls](data.train, data.labels, rows, amount)
    np.testing.assert_allclose(detector.score_samples(rows), wanted, rtol=1e-9)


@pytest.mark.parametrize("amount", ["ledoit_wolf", "oas", 0.1])
def test_fewer_rows_than_features(amount):
    data = make_data(n=20, m=50)
    detector = Mahalanobis(shrinkage=amount).fit(data.train, data.labels)
    wanted = reference_mahalanobis(data.train, data.labels, data.ood, amount)
    np.testing.assert_allclose(detector.score_samples(data.ood), wanted, rtol=1e-9)


def test_a_large_offset_costs_no_digits(data: Data):
    far = data.train + 1e6
    one = Mahalanobis(shrinkage="ledoit_wolf").fit(far, data.labels)
    other = Mahalanobis(shrinkage="ledoit_wolf").fit(data.train, data.labels)
    np.testing.assert_allclose(
        one.score_samples(data.test + 1e6), other.score_samples(data.test), rtol=1e-6
    )


def test_a_mixture_takes_a_shrinkage_too(data: Data):
    plain = GMM().fit(data.train, data.labels).score_samples(data.ood)
    shrunk_scores = GMM(shrinkage=0.3).fit(data.train, data.labels).score_samples(data.ood)
    assert np.abs(plain - shrunk_scores).max() > 0.1


def test_oas_merges_and_ledoit_wolf_says_why_not(data: Data):
    parts = [data.train[:100], data.train[100:]]
    labels = [data.labels[:100], data.labels[100:]]
    a, b = (Mahalanobis(shrinkage="oas").partial_fit(*p) for p in zip(parts, labels, strict=True))
    whole = Mahalanobis(shrinkage="oas").fit(data.train, data.labels)
    np.testing.assert_allclose(a.merge(b).score_samples(data.test), whole.score_samples(data.test))
    once = Mahalanobis(shrinkage="ledoit_wolf").fit(parts[0], labels[0])
    twice = Mahalanobis(shrinkage="ledoit_wolf").fit(parts[1], labels[1])
    before = once.score_samples(data.test)
    with pytest.raises(typica.InputError, match=r"partial_fit: .* all rows at once; .*'oas'"):
        once.partial_fit(parts[1], labels[1])
    with pytest.raises(typica.InputError, match=r"merge: .* needs all rows at once"):
        once.merge(twice)
    np.testing.assert_array_equal(once.score_samples(data.test), before)
    copied = Mahalanobis(shrinkage="ledoit_wolf").merge(once)
    np.testing.assert_array_equal(copied.score_samples(data.test), before)


def test_what_was_fitted_otherwise_is_fitted_again(data: Data, tmp_path):
    detector = Mahalanobis().fit(data.train, data.labels).set_params(shrinkage="ledoit_wolf")
    with pytest.raises(typica.InputError, match=r"set after the fit; call fit again"):
        detector.score_samples(data.test)
    detector.fit(data.train, data.labels).save(tmp_path / "d.safetensors")
    loaded = typica.load(tmp_path / "d.safetensors")
    np.testing.assert_array_equal(
        loaded.score_samples(data.test), detector.score_samples(data.test)
    )


@pytest.mark.parametrize("value", [-0.1, 1.5, "auto", True, np.nan])
def test_no_other_shrinkage(data: Data, value):
    with pytest.raises(typica.InputError, match=r"is not a shrinkage; pass a number from 0 to 1"):
        Mahalanobis(shrinkage=value).fit(data.train, data.labels)


@pytest.mark.parametrize("exponent", [1.0, 0.5, 0.0, 1.5])
@pytest.mark.parametrize(("cls", "plain"), [(MDSpp, Mahalanobis), (RMDSpp, RelativeMahalanobis)])
def test_rows_are_scaled_first(data: Data, rows, cls, plain, exponent):
    train, scaled = radial(data.train, exponent), radial(rows, exponent)
    detector = cls(exponent=exponent, shrinkage=0.01).fit(data.train, data.labels)
    wanted = REFERENCES[plain](train, data.labels, scaled, 0.01)
    np.testing.assert_allclose(detector.score_samples(rows), wanted, rtol=1e-9)
    pipeline = make_pipeline(L2Normalise(exponent=exponent), plain(shrinkage=0.01))
    pipeline.fit(data.train, data.labels)
    np.testing.assert_allclose(pipeline.score_samples(rows), wanted, rtol=1e-9)
    nearest = pipeline[-1].classify(scaled)
    assert detector.classify(rows).tolist() == nearest.tolist()


def test_lengths_do_not_count(data: Data, rows):
    detector = MDSpp().fit(data.train, data.labels)
    longer = rows * np.linspace(0.1, 30, len(rows))[:, None]
    np.testing.assert_allclose(
        detector.score_samples(longer), detector.score_samples(rows), rtol=1e-9
    )
    assert np.isfinite(detector.score_samples(np.zeros((1, 12)))).all()


@pytest.mark.real
@pytest.mark.parametrize(
    ("detector", "aurocs"),
    [
        (MDSpp(), {"svhn": 98.07, "textures": 93.47, "cifar100": 82.40}),
        (RMDSpp(), {"svhn": 92.63, "textures": 91.39, "cifar100": 88.59}),
    ],
    ids=["mds_pp", "rmds_pp"],
)
def test_real_cifar10_features(real, detector, aurocs):
    detector.fit(real["train.features"], real["train.labels"])
    known = detector.score_samples(real["test.features"])
    for name, wanted in aurocs.items():
        result = typica.evaluate(known, detector.score_samples(real[f"ood.{name}.features"]))
        assert 100 * result.auroc == pytest.approx(wanted, abs=0.02)
