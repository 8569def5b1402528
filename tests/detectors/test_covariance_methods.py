"""The methods on covariances and subspaces.

Against float64 loops and other libraries, at the edges, on real features.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from helpers.data import Data, make_data
from helpers.rounding import products_row_by_row, sum_error
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import mahalanobis as scipy_mahalanobis
from scipy.special import logsumexp
from sklearn.covariance import EmpiricalCovariance
from sklearn.decomposition import PCA

import typica
from typica import Head, Mahalanobis, PCAReconstruction, RelativeMahalanobis, Residual, ViM, sums
from typica.detectors._bases.scatter import principal_dim

pytestmark = pytest.mark.filterwarnings(
    "ignore::typica.CalibrationWarning"
)  # two rows set no threshold

CUT = (
    1e-11  # of the largest variance: well between rounding and the least variance of the data below
)


def variance_span(S):
    """Return orthonormal columns along which the covariance S has variance."""
    values, vectors = np.linalg.eigh(S)
    return vectors[:, values > CUT * values[-1]]


def covariance(rows, center):
    S = np.zeros((rows.shape[1], rows.shape[1]))
    for row in rows - center:
        S += np.outer(row, row)
    return S / len(rows)


def classwise(Z, y):
    """Return the class means and the tied covariance, class by class."""
    Z = Z.astype(np.float64)
    means, S = [], 0.0
    for k in np.unique(y):
        rows = Z[y == k]
        center = rows[0] + (rows - rows[0]).mean(axis=0)
        means.append(center)
        S = S + covariance(rows, center) * len(rows) / len(Z)
    return np.array(means), S


def reference_mahalanobis(Z, y, X):
    means, S = classwise(Z, y)
    B = variance_span(S)
    P = B @ np.linalg.inv(B.T @ S @ B) @ B.T
    return np.array(
        [max(-(x - mu) @ P @ (x - mu) / 2 for mu in means) for x in X.astype(np.float64)]
    )


def reference_relative(Z, y, X):
    """Both distances in the span of the variance within classes, each with its own covariance."""
    B = variance_span(classwise(Z, y)[1])
    origin = Z[0].astype(np.float64)
    Z, X = (Z.astype(np.float64) - origin) @ B, (X.astype(np.float64) - origin) @ B
    means, S = classwise(Z, y)
    mu, P, P0 = Z.mean(axis=0), np.linalg.inv(S), np.linalg.inv(covariance(Z, Z.mean(axis=0)))
    return np.array(
        [max((x - mu) @ P0 @ (x - mu) - (x - m) @ P @ (x - m) for m in means) for x in X]
    )


def reference_residual(Z, X, origin, dim):
    """Lengths of what is left of x - origin without its `dim` leading components.

    The components are taken away one by one.
    """
    Z = Z.astype(np.float64)
    _, roots, axes = np.linalg.svd(Z - origin, full_matrices=False)
    rank = np.count_nonzero(roots**2 > CUT * roots[0] ** 2)
    lengths = []
    for x in X.astype(np.float64):
        rest = x - origin
        for axis in axes[: min(dim, rank)]:
            rest = rest - (rest @ axis) * axis
        lengths.append(np.sqrt(rest @ rest))
    return np.array(lengths)


def origin_of(head):
    return -np.linalg.pinv(head.weight.astype(np.float64)) @ head.bias


def reference_vim(Z, X, head, dim):
    Z, X = Z.astype(np.float64), X.astype(np.float64)
    W, b = head.weight.astype(np.float64), head.bias.astype(np.float64)
    largest = [max(W @ z + b) for z in Z]
    alpha = sum(largest) / sum(reference_residual(Z, Z, origin_of(head), dim))
    energy = np.array([logsumexp(W @ x + b) for x in X])
    return energy - alpha * reference_residual(Z, X, origin_of(head), dim), alpha


def reference_pca(Z, X, share):
    Z, X = Z.astype(np.float64), X.astype(np.float64)
    count = PCA(share, svd_solver="full").fit(Z).n_components_
    pca = PCA(min(count, Z.shape[1] - 1), svd_solver="full").fit(Z)
    return np.linalg.norm(X - pca.inverse_transform(pca.transform(X)), axis=1)


def blobs(n, m, C, seed=0, spread=3.0):
    """Correlated Gaussian classes, and rows from everywhere to score."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(m, m)) / np.sqrt(m) + np.diag(np.linspace(0.3, 2.0, m))
    y = np.concatenate([np.arange(C), rng.integers(0, C, n - C)])
    Z = rng.normal(size=(n, m)) @ A + spread * rng.normal(size=(C, m))[y]
    X = np.concatenate(
        [rng.normal(size=(20, m)) @ A + spread * rng.normal(size=m), 10 * rng.normal(size=(20, m))]
    )
    return Z, y, X


def cases():
    Z, y, X = blobs(120, 6, 3)
    constant, repeated, flat = Z.copy(), Z.copy(), Z.copy()
    constant[:, 2] = 0.1
    repeated[:, 4] = repeated[:, 1] - 2 * repeated[:, 3]
    flat[:, 5] = y
    units = np.array([1.0, 1.0, 1.0, 1e-3, 1.0, 1.0])
    two = np.array([[1.0, 2.0, 3.0], [2.0, 0.0, 3.0]])
    return {
        "random": (Z, y, X),
        "two classes": blobs(60, 4, 2),
        "a thousand classes": blobs(2500, 5, 1000),
        "one class": (Z, np.zeros(len(Z), int), X),
        "two rows": (
            two,
            np.zeros(2, int),
            np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 9.0], [3.0, -2.0, 3.0]]),
        ),
        "fewer rows than features": blobs(9, 15, 2),
        "a constant feature": (constant, y, X),
        "a feature that follows from others": (repeated, y, X),
        "a feature that is constant in each class": (flat, y, X),
        "a feature that hardly varies": (Z * units, y, X * units),
        "duplicate rows": (np.repeat(Z[:7], 9, axis=0), np.repeat(y[:7] % 2, 9), X),
        "a large common offset": (Z + 1000, y, X + 1000),
        "tiny": (Z * 1e-18, y, X * 1e-18),
        "huge": (Z * 1e18, y, X * 1e18),
    }


CASES = cases()
each_case = pytest.mark.parametrize("case", CASES)
each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def data_of(case, dtype):
    Z, y, X = CASES[case]
    return Z.astype(dtype), y, X.astype(dtype)


def assert_scores(detector, X, wanted, scale=None):
    """Scores agree with the reference within the tolerance that the detector's tags promise."""
    got = detector.score_samples(X)
    assert got.dtype == X.dtype
    atol = detector.tags.tolerance[0 if X.dtype == np.float32 else 1] * (
        np.abs(wanted).max() if scale is None else scale
    )
    np.testing.assert_allclose(got, wanted, rtol=0, atol=atol)


@each_case
@each_dtype
def test_mahalanobis_equals_the_loop(case, dtype):
    Z, y, X = data_of(case, dtype)
    assert_scores(Mahalanobis().fit(Z, y), X, reference_mahalanobis(Z, y, X))


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("one class", "two rows")])
@each_dtype
def test_relative_mahalanobis_equals_the_loop(case, dtype):
    Z, y, X = data_of(case, dtype)
    assert_scores(RelativeMahalanobis().fit(Z, y), X, reference_relative(Z, y, X))


@each_case
@each_dtype
@pytest.mark.parametrize("with_head", [False, True])
def test_residual_equals_the_loop(case, dtype, with_head):
    Z, _, X = data_of(case, dtype)
    m, size = Z.shape[1], float(np.abs(Z).max())
    rng = np.random.default_rng(1)
    head = Head(rng.normal(size=(3, m)) / size, rng.normal(size=3)) if with_head else None
    origin = origin_of(head) if head else np.zeros(m)
    longest = np.linalg.norm(X.astype(np.float64) - origin, axis=1).max()
    for dim in (None, 1, m - 1):
        wanted = -reference_residual(Z, X, origin, m // 2 if dim is None else dim)
        assert_scores(Residual(head, dim).fit(Z), X, wanted, scale=longest)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case not in ("two rows", "fewer rows than features")]
)
@each_dtype
def test_vim_equals_the_loop(case, dtype):
    Z, _, X = data_of(case, dtype)
    m, size = Z.shape[1], float(np.abs(Z).max())
    rng = np.random.default_rng(1)
    head = Head(rng.normal(size=(4, m)) / size, rng.normal(size=4) + 1)
    for dim in (None, 1):
        wanted, alpha = reference_vim(Z, X, head, m // 2 if dim is None else dim)
        detector = ViM(head, dim).fit(Z)
        assert detector.alpha_ == pytest.approx(alpha, rel=1e-5)
        # The subspace passes through the origin: an offset makes the residual a small part of a
        # long row.
        longest = np.linalg.norm(X.astype(np.float64) - origin_of(head), axis=1).max()
        assert_scores(
            detector, X, wanted, scale=alpha * longest if case == "a large common offset" else None
        )


@pytest.mark.parametrize("case", CASES)
@each_dtype
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_pca_reconstruction_equals_scikit_learns_pca(case, dtype, share):
    Z, _, X = data_of(case, dtype)
    longest = np.linalg.norm(X.astype(np.float64) - Z.astype(np.float64).mean(axis=0), axis=1).max()
    assert_scores(PCAReconstruction(share).fit(Z), X, -reference_pca(Z, X, share), scale=longest)


def test_mahalanobis_equals_scipy_and_scikit_learn():
    Z, y, X = blobs(300, 8, 5)
    got = Mahalanobis().fit(Z, y).score_samples(X)
    means, S = classwise(Z, y)
    P = np.linalg.inv(S)
    by_scipy = [-min(scipy_mahalanobis(x, mu, P) ** 2 for mu in means) / 2 for x in X]
    np.testing.assert_allclose(got, by_scipy, rtol=1e-10)
    tied = EmpiricalCovariance(assume_centered=True).fit(Z - means[y])
    by_sklearn = -np.min([tied.mahalanobis(X - mu) for mu in means], axis=0) / 2
    np.testing.assert_allclose(got, by_sklearn, rtol=1e-10)
    one = EmpiricalCovariance().fit(Z)
    np.testing.assert_allclose(
        Mahalanobis().fit(Z).score_samples(X), -one.mahalanobis(X) / 2, rtol=1e-10
    )
    whole = EmpiricalCovariance().fit(Z)
    relative = whole.mahalanobis(X) - np.min([tied.mahalanobis(X - mu) for mu in means], axis=0)
    np.testing.assert_allclose(
        RelativeMahalanobis().fit(Z, y).score_samples(X), relative, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(
    "case", ["fewer rows than features", "a constant feature", "a feature that follows from others"]
)
def test_directions_without_variance_are_left_out_as_by_scikit_learn(case):
    Z, y, X = CASES[case]
    means, _ = classwise(Z, y)
    tied = EmpiricalCovariance(assume_centered=True).fit(Z - means[y])
    wanted = -np.min([tied.mahalanobis(X - mu) for mu in means], axis=0) / 2
    np.testing.assert_allclose(Mahalanobis().fit(Z, y).score_samples(X), wanted, rtol=1e-8)


@pytest.mark.parametrize("products", [sums.products, products_row_by_row])
@pytest.mark.parametrize("unit", [1e-4, 1e-5, 1e-6])
def test_little_variance_is_variance(unit, products, monkeypatch):
    monkeypatch.setattr(sums, "products", products)
    Z, y, X = CASES["random"]
    # A covariance errs by its sums' rounding; beside it the least variance is unit**2.
    error = sum_error(len(Z), np.float64) / unit**2
    units = np.array([1.0, 1.0, 1.0, unit, 1.0, 1.0])
    for cls in (Mahalanobis, RelativeMahalanobis):
        wanted = cls().fit(Z, y).score_samples(X)
        got = cls().fit(Z * units, y).score_samples(X * units)
        np.testing.assert_allclose(got, wanted, rtol=error, atol=error)


@each_dtype
def test_rounding_is_no_variance_however_many_rows(dtype):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(100_000, 3)).astype(dtype)
    Z[:, 2] = Z[:, 0] / 3 + Z[:, 1] / 7 if dtype == np.float64 else 0.1
    X = Z[:5] + np.array([0, 0, 1000], dtype)
    assert np.abs(Mahalanobis().fit(Z).score_samples(X)).max() < 1e7
    off = np.array([-1 / 3, -1 / 7, 1]) if dtype == np.float64 else np.array([0.0, 0, 1])
    off /= np.linalg.norm(off)
    X = (Z[:5] + 1000 * off).astype(dtype)
    np.testing.assert_allclose(
        Mahalanobis().fit(Z).score_samples(X),
        Mahalanobis().fit(Z).score_samples(Z[:5]),
        rtol=1e-4,
        atol=1e-6,
    )
    np.testing.assert_allclose(
        Residual(dim=2).fit(Z - Z.mean(axis=0)).score_samples(X)[:2], -1000, rtol=1e-3
    )


def test_scores_of_distances_are_never_positive_and_zero_at_a_mean():
    Z, y, _ = blobs(
        200, 5, 4, spread=1e4
    )  # classes so far apart that an expanded square would cancel
    detector = Mahalanobis().fit(Z.astype(np.float32), y)
    at_means = detector.score_samples(detector.means_.astype(np.float32))
    assert (at_means <= 0).all() and at_means.min() > -1e-4
    assert (detector.score_samples(Z) <= 0).all()
    wanted = reference_mahalanobis(Z.astype(np.float32), y, Z.astype(np.float32))
    np.testing.assert_allclose(
        detector.score_samples(Z.astype(np.float32)), wanted, rtol=2e-2, atol=1e-3
    )


@pytest.mark.parametrize("detector", [Mahalanobis(), RelativeMahalanobis(), PCAReconstruction()])
def test_a_large_offset_costs_float32_no_digits(detector):
    Z, y, _ = blobs(300, 5, 3)
    Z = (Z + 1e5).astype(
        np.float32
    )  # what is left of the features is the data: the offset takes nothing more away
    exact = detector.fit(Z, y).score_samples(Z.astype(np.float64))
    moved = detector.fit(Z.astype(np.float64) - 1e5, y).score_samples(Z.astype(np.float64) - 1e5)
    np.testing.assert_allclose(exact, moved, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(detector.fit(Z, y).score_samples(Z), moved, rtol=1e-5, atol=1e-5)


def test_float64_features_beyond_float32():
    Z, y, X = blobs(60, 4, 3)
    for cls in (Mahalanobis, RelativeMahalanobis):
        wanted = cls().fit(Z, y).score_samples(X)
        np.testing.assert_allclose(
            cls().fit(Z * 1e60, y).score_samples(X * 1e60), wanted, rtol=1e-9
        )
    wanted = PCAReconstruction().fit(Z).score_samples(X)
    np.testing.assert_allclose(
        PCAReconstruction().fit(Z * 1e60).score_samples(X * 1e60) / 1e60, wanted, rtol=1e-9
    )


@settings(max_examples=25)
@given(st.floats(-18, 18), st.sampled_from([np.float32, np.float64]))
def test_the_unit_of_the_features_does_not_matter(exponent, dtype):
    Z, y, X = (part.astype(dtype) if part.dtype.kind == "f" else part for part in blobs(60, 4, 3))
    scale = dtype(10.0**exponent)
    rtol = 1e-3 if dtype == np.float32 else 1e-10
    for cls in (Mahalanobis, RelativeMahalanobis):
        wanted = cls().fit(Z, y).score_samples(X)
        np.testing.assert_allclose(
            cls().fit(Z * scale, y).score_samples(X * scale), wanted, rtol=rtol
        )
    for detector in (Residual(), PCAReconstruction()):
        wanted = detector.fit(Z).score_samples(X)
        np.testing.assert_allclose(
            detector.fit(Z * scale).score_samples(X * scale) / scale, wanted, rtol=rtol
        )


@settings(max_examples=25)
@given(st.integers(0, 1000))
def test_mahalanobis_does_not_depend_on_the_coordinates(seed):
    Z, y, X = blobs(60, 4, 3, seed)
    rng = np.random.default_rng(seed)
    A = np.linalg.qr(rng.normal(size=(4, 4)))[0] * rng.uniform(0.5, 2, size=4)
    b = rng.normal(size=4) * 100
    for cls in (Mahalanobis, RelativeMahalanobis):
        wanted = cls().fit(Z, y).score_samples(X)
        np.testing.assert_allclose(
            cls().fit(Z @ A + b, y).score_samples(X @ A + b), wanted, rtol=1e-7, atol=1e-9
        )


def detectors(data: Data):
    return [
        Mahalanobis(),
        RelativeMahalanobis(),
        Residual(),
        Residual(data.head),
        PCAReconstruction(),
    ]


@pytest.mark.parametrize("which", range(5))
def test_parts_with_different_classes_merge_in_any_order(data: Data, which):
    order = np.argsort(data.labels, kind="stable")  # so that the parts know different classes
    parts = np.array_split(order, 5)
    whole = detectors(data)[which].fit(data.train, data.labels)
    wanted = whole.score_samples(data.test)
    for arrangement in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1]):
        learnt = [
            detectors(data)[which].partial_fit(data.train[parts[i]], data.labels[parts[i]])
            for i in arrangement
        ]
        left = detectors(data)[which].merge(learnt[0]).merge(learnt[1])
        merged = learnt[4].merge(learnt[3]).merge(learnt[2]).merge(left)
        assert_scores(merged, data.test, wanted)


@pytest.mark.parametrize("which", range(5))
def test_what_was_merged_is_not_shared(data: Data, which):
    other = detectors(data)[which].fit(data.train, data.labels)
    before = copy.deepcopy(other).score_samples(data.test)
    detectors(data)[which].merge(other).partial_fit(data.ood, np.arange(len(data.ood)) % 4)
    other._drop_derived()  # so that it looks at its moments again
    np.testing.assert_array_equal(other.score_samples(data.test), before)


@pytest.mark.parametrize("which", range(5))
def test_learning_more_changes_the_scores_at_once(data: Data, which):
    half = len(data.train) // 2
    wanted = detectors(data)[which].fit(data.train, data.labels).score_samples(data.test)
    merged = detectors(data)[which].fit(data.train[:half], data.labels[:half])
    rest = detectors(data)[which].fit(data.train[half:], data.labels[half:])
    assert_scores(merged.merge(rest), data.test, wanted)
    more = detectors(data)[which].fit(data.train[:half], data.labels[:half])
    assert_scores(more.partial_fit(data.train[half:], data.labels[half:]), data.test, wanted)


def test_vim_does_not_pretend_to_merge(data: Data):
    assert not hasattr(ViM(data.head), "merge") and not hasattr(ViM(data.head), "partial_fit")


@pytest.mark.parametrize("which", range(6))
@pytest.mark.parametrize("classes", [2, 30])
def test_gradients_equal_finite_differences(which, classes):
    data = make_data(n=240, m=10, C=4)
    labels = np.arange(len(data.train)) % classes
    detector = [*detectors(data), ViM(data.head)][which].fit(data.train, labels)
    Z = torch.asarray(data.ood[:6].copy()).requires_grad_()
    detector.score_samples(Z).sum().backward()
    step, wanted = 1e-6, np.zeros(Z.shape)
    for j in range(Z.shape[1]):
        e = step * np.eye(Z.shape[1])[j]
        wanted[:, j] = (
            detector.score_samples(data.ood[:6] + e) - detector.score_samples(data.ood[:6] - e)
        ) / (2 * step)
    np.testing.assert_allclose(Z.grad.numpy(), wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


def test_gradient_is_finite_where_there_is_no_residual():
    train = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [2.0, 1.0, 0.0]] * 7)
    detector = Residual(dim=2).fit(train)
    Z = torch.tensor([[3.0, 5.0, 0.0], [0.0, 0.0, 2.0]], dtype=torch.float64, requires_grad=True)
    scores = detector.score_samples(Z)
    np.testing.assert_allclose(scores.detach(), [0, -2], atol=1e-12)
    scores.sum().backward()
    assert torch.isfinite(Z.grad).all()
    constant = PCAReconstruction().fit(np.ones((20, 2)))
    Z = torch.ones((1, 2), requires_grad=True)
    constant.score_samples(Z).sum().backward()
    assert not Z.grad.any() and constant.score_samples(np.ones((1, 2))) == 0


def test_features_that_never_vary_still_have_a_unit():
    constant = np.full((20, 2), 1e25, np.float32)
    scores = (
        PCAReconstruction()
        .fit(constant)
        .score_samples(np.array([[1e25, 1e25], [4e25, 5e25]], np.float32))
    )
    np.testing.assert_allclose(scores, [0, -5e25], rtol=1e-6)
    scores = Residual().fit(np.zeros((20, 2))).score_samples(np.array([[3.0, 4.0]]))
    np.testing.assert_allclose(scores, [-5])


@pytest.mark.parametrize("which", range(6))
@pytest.mark.parametrize("backend", [np.asarray, torch.asarray])
def test_rows_too_far_for_their_dtype_score_minus_infinity(data: Data, which, backend):
    detector = [*detectors(data), ViM(data.head)][which].fit(data.train, data.labels)
    far = np.array([3e38] * 12, np.float32) * np.where(np.arange(12) % 2, -1, 1).astype(np.float32)
    rows = np.stack([data.test[0].astype(np.float32), far, np.full(12, 1e30, np.float32)])
    scores = np.asarray(detector.score_samples(backend(rows)))
    assert np.isfinite(scores[0]) and (scores[1:] < -1e29).all()
    assert detector.calibrate(data.held_out).predict(rows).tolist()[1:] == [-1, -1]
    assert detector.match(rows) is None or not np.isnan(detector.match(rows).similarity).any()


@pytest.mark.parametrize("cls", [Mahalanobis, RelativeMahalanobis])
def test_classify_is_the_nearest_class(cls):
    Z, y, X = blobs(120, 6, 4, spread=1.0)
    names = np.array(["ape", "bee", "cat", "dog"])
    detector = cls().fit(Z, names[y])
    means, S = classwise(Z, y)
    P = np.linalg.inv(S)
    nearest = [int(np.argmin([(x - mu) @ P @ (x - mu) for mu in means])) for x in X]
    assert detector.classify(X).tolist() == names[nearest].tolist()
    np.testing.assert_allclose(detector.means_, means, atol=1e-12)
    matches, scores = detector.match(X), detector.score_samples(X)
    np.testing.assert_allclose(matches.similarity, scores, rtol=1e-9, atol=1e-9)
    assert (matches.runner_up_similarity <= matches.similarity).all()


def test_vim_matches_the_heads_classes(data: Data):
    detector = ViM(data.head).fit(data.train)
    assert detector.classify(data.test).tolist() == data.head.predict(data.test).tolist()
    assert detector.alpha_ > 0


def test_principal_dimension_follows_the_paper():
    rng = np.random.default_rng(0)
    assert [principal_dim(None, m) for m in (1, 7, 767, 768, 2047, 2048)] == [
        0,
        3,
        383,
        512,
        512,
        1000,
    ]
    for m, dim, outside in [(1, None, 1), (7, None, 4), (7, 2, 5)]:
        assert Residual(dim=dim).fit(rng.normal(size=(30, m)))._score_width() == outside


def test_pca_keeps_at_least_one_direction_to_look_at():
    rng = np.random.default_rng(0)
    for m in (1, 2):
        Z = rng.normal(size=(200, m))
        scores = PCAReconstruction(0.999).fit(Z).score_samples(np.array([[0.0] * m, [50.0] * m]))
        assert scores[1] < -10 < scores[0]


@pytest.mark.parametrize("cls", [Residual, ViM])
def test_bad_dim_is_refused(data: Data, cls):
    for dim in (0, -3, 2.5, "many", True):
        with pytest.raises(
            typica.InputError,
            match=rf"{cls.__name__}.fit: dim={dim!r} is not a positive whole number",
        ):
            cls(data.head, dim).fit(data.train)
    with pytest.raises(
        typica.InputError, match=r"fit: dim=12 leaves nothing outside of 12 features; pass dim<12\."
    ):
        cls(data.head, 12).fit(data.train)
    with pytest.raises(typica.InputError, match=r"dim=1 leaves nothing outside of 1 feature\(s\)"):
        cls(Head(np.ones((2, 1))), 1).fit(data.train[:, :1])
    assert cls(data.head, np.int64(11)).fit(data.train)._score_width() >= 1


@pytest.mark.parametrize("share", [0, 1, 1.5, -0.1, np.nan, "most", True, None])
def test_bad_share_is_refused(data: Data, share):
    with pytest.raises(
        typica.InputError, match=r"PCAReconstruction.fit: share=.* pass a number between 0 and 1"
    ):
        PCAReconstruction(share).fit(data.train)


def test_dim_is_compared_with_the_features_of_this_fit(data: Data):
    with pytest.raises(typica.InputError, match=r"Residual.fit: dim=9 leaves nothing outside of 6"):
        Residual(dim=9).fit(data.train[:, :6])
    detector = Residual(dim=3).fit(data.train[:, :6]).set_params(dim=9)
    with pytest.raises(typica.InputError, match=r"Residual.score_samples: dim=9 leaves nothing"):
        detector.score_samples(data.test[:, :6])
    assert detector.fit(data.train).score_samples(data.test).shape == (120,)


def test_fits_that_cannot_score_say_why(data: Data):
    with pytest.raises(
        typica.InputError, match=r"Mahalanobis.fit: .*240.* do not vary within a class"
    ):
        Mahalanobis().fit(np.ones((240, 3)), data.labels)
    with pytest.raises(typica.InputError, match=r"Mahalanobis.fit: .* do not vary within a class"):
        Mahalanobis().fit(data.train[:4], [0, 1, 2, 3])
    with pytest.raises(
        typica.InputError, match=r"RelativeMahalanobis.fit: 1 class is as near as all of them"
    ):
        RelativeMahalanobis().fit(data.train, np.zeros(240, int))
    with pytest.raises(typica.InputError, match=r"RelativeMahalanobis.fit: requires y"):
        RelativeMahalanobis().fit(data.train)
    with pytest.raises(
        typica.InputError, match=r"ViM.fit: the features vary in 4 directions only.*pass .*dim<4"
    ):
        ViM(data.head).fit(data.train[:4])
    with pytest.raises(
        typica.InputError, match=r"ViM.fit: the features vary in 4 directions only.*outside 4; pass"
    ):
        ViM(data.head, dim=4).fit(data.train[:4])
    with pytest.raises(typica.InputError, match=r"vary in 1 directions only.*pass more rows that"):
        ViM(data.head, dim=1).fit(np.outer(np.arange(1.0, 9.0), data.train[0]))
    with pytest.raises(
        typica.InputError, match=r"ViM.fit: the largest logits .* average -.*check that the head"
    ):
        ViM(Head(data.head.weight, np.full(4, -1e6))).fit(data.train)
    # In the midst of a stream one class is no error: another may yet come.
    stream = RelativeMahalanobis().partial_fit(data.train[:60], np.zeros(60, int))
    with pytest.raises(typica.InputError, match=r"RelativeMahalanobis.score_samples: 1 class"):
        stream.score_samples(data.test)
    assert stream.partial_fit(data.train, data.labels).score_samples(data.test).shape == (120,)


@pytest.mark.real
def test_real_cifar10_features(real):
    head = Head(real["head.weight"], real["head.bias"])
    train, labels, test = real["train.features"], real["train.labels"], real["test.features"]
    sample = np.random.default_rng(0).choice(len(test), 40)
    wanted = {
        Mahalanobis(): (0.964, 0.877),
        RelativeMahalanobis(): (0.920, 0.915),
        Residual(head): (0.923, 0.831),
        ViM(head): (0.984, 0.956),
        PCAReconstruction(): (0.956, 0.841),
    }
    for detector, aurocs in wanted.items():
        scores = detector.fit(train, labels).score_samples(test)
        for name, auroc in zip(("svhn", "textures"), aurocs, strict=True):
            result = typica.evaluate(scores, detector.score_samples(real[f"ood.{name}.features"]))
            assert result.auroc == pytest.approx(auroc, abs=0.002)
        in_double = detector.score_samples(test[sample].astype(np.float64))
        np.testing.assert_allclose(scores[sample], in_double, atol=1e-5 * np.abs(scores).max())
    train, rows = train.astype(np.float64), test[sample].astype(np.float64)
    means = np.array([train[labels == k].mean(axis=0) for k in range(10)])
    P = np.linalg.inv(np.cov((train - means[labels]).T, bias=True))
    by_loop = [max(-(x - mu) @ P @ (x - mu) / 2 for mu in means) for x in rows]
    in_double = Mahalanobis().fit(train, labels)
    np.testing.assert_allclose(in_double.score_samples(rows), by_loop, rtol=1e-8)
    # Narrower rows are multiplied in float32.
    np.testing.assert_allclose(next(iter(wanted)).score_samples(rows), by_loop, rtol=3e-6)
