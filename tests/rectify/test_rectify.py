"""Rectifiers, under the contract and before every detector.

Against float64 references that import nothing from typica.
"""

from __future__ import annotations

import copy
import math
import pickle

import array_api_strict
import numpy as np
import pytest
import sklearn.decomposition
import torch
from helpers.data import SMALL, Data, make, make_data
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import typica
from typica import InputError
from typica.arrays import to_numpy
from typica.rectify import _percentiles, list_rectifiers, make_rectifier, rectifier_class
from typica.rectify.ash import ASH
from typica.rectify.bats import BATS
from typica.rectify.centre import Centre
from typica.rectify.dice import DICE
from typica.rectify.normalise import L2Normalise
from typica.rectify.optfs import OptFS
from typica.rectify.pca import PCA
from typica.rectify.random_fourier import RandomFourier
from typica.rectify.ras import RAS
from typica.rectify.react import ReAct
from typica.rectify.scale import SCALE
from typica.rectify.vra import VRA
from typica.rectify.whiten import Whiten

# Every rectifier, in every variant: how it is made, and its reference.
CASES = {
    "react": lambda head: ReAct(),
    "react-50": lambda head: ReAct(percentile=50),
    "vra": lambda head: VRA(),
    "ash-s": lambda head: ASH(),
    "ash-b": lambda head: ASH(variant="b"),
    "ash-p": lambda head: ASH(variant="p"),
    "ash-s-35": lambda head: ASH(percentile=35),
    "scale": lambda head: SCALE(),
    "scale-30": lambda head: SCALE(percentile=30),
    "centre": lambda head: Centre(),
    "whiten": lambda head: Whiten(),
    "whiten-within": lambda head: Whiten(within_classes=True),
    "normalise": lambda head: L2Normalise(),
    "normalise-half": lambda head: L2Normalise(exponent=0.5),
    "bats": lambda head: BATS(),
    "bats-1": lambda head: BATS(sigmas=1),
    "ras": lambda head: RAS(),
    "optfs": OptFS,
    "optfs-7": lambda head: OptFS(head, bins=7),
    "random_fourier": lambda head: RandomFourier(width=40),
    "pca": lambda head: PCA(),
    "pca-3": lambda head: PCA(n_components=3),
    "pca-share": lambda head: PCA(n_components=0.7),
    "dice": DICE,
    "dice-40": lambda head: DICE(head, percentile=40),
}


@pytest.fixture(params=CASES)
def case(request):
    return request.param


def biased(head):
    return typica.Head(head.weight, np.linspace(-1, 1, len(head.weight)))


def made(case, data: Data):
    return CASES[case](biased(data.head))


def fitted(case, data: Data):
    return made(case, data).fit(data.train, data.labels)


def percentile(values, p):
    values = sorted(float(v) for v in values)
    place = (len(values) - 1) * p / 100
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def react(train, labels, head, rows, p=90):
    ceiling = percentile(train.ravel(), p)
    return np.array([[min(float(v), ceiling) for v in row] for row in rows])


def vra(train, labels, head, rows, *, low=60, high=90):
    out = np.zeros(rows.shape)
    for j in range(train.shape[1]):
        a, b = percentile(train[:, j], low), percentile(train[:, j], high)
        for i, row in enumerate(rows):
            v = float(row[j])
            out[i, j] = 0 if v < a else min(v, b)
    return out


def ash(train, labels, head, rows, *, variant="s", p=90):
    out = np.zeros(rows.shape)
    for i, row in enumerate(rows):
        values = [max(float(v), 0.0) for v in row]
        k = max(1, len(values) - round(len(values) * p / 100))
        top = sorted(values)[-k:]
        kept = [j for j, v in enumerate(values) if v >= top[0] and v > 0]
        for j in kept:
            ratio = math.fsum(values) / math.fsum(top)
            changed = {
                "p": values[j],
                "b": math.fsum(values) / len(kept),
                "s": values[j] * math.exp(min(ratio, 44)),
            }
            out[i, j] = changed[variant]
    return out


def scale(train, labels, head, rows, p=85):
    out = np.array(rows, dtype=np.float64)
    for i, row in enumerate(rows):
        values = [max(float(v), 0.0) for v in row]
        k = max(1, len(values) - round(len(values) * p / 100))
        top = math.fsum(sorted(values)[-k:])
        out[i] *= math.exp(min(math.fsum(values) / top, 44)) if top > 0 else 1
    return out


def centre(train, labels, head, rows):
    return rows - np.array([math.fsum(column) / len(train) for column in train.T])


def covariance(train, labels, within):
    total = np.zeros((train.shape[1], train.shape[1]))
    for k in set(labels.tolist()) if within else [None]:
        members = train if k is None else train[labels == k]
        for row in members - members.mean(axis=0):
            total += np.outer(row, row)
    return total / len(train)


def whiten(train, labels, head, rows, within=False):
    U, values, _ = np.linalg.svd(covariance(train.astype(np.float64), labels, within))
    roots = np.array([1 / math.sqrt(v) if v > 1e-10 * values[0] else 0 for v in values])
    return (rows - train.mean(axis=0)) @ (U * roots @ U.T)


def normalise(train, labels, head, rows, exponent=1.0):
    lengths = [math.sqrt(math.fsum(float(v) ** 2 for v in row)) ** exponent for row in rows]
    return np.array(
        [[float(v) / (length or 1) for v in row] for row, length in zip(rows, lengths, strict=True)]
    )


def bats(train, labels, head, rows, sigmas=3.25):
    out = np.zeros(rows.shape)
    for j, column in enumerate(train.T):
        mean = column[0] + math.fsum(column - column[0]) / len(column)
        sigma = math.sqrt(math.fsum((float(v) - mean) ** 2 for v in column) / len(column))
        for i, row in enumerate(rows):
            out[i, j] = min(max(float(row[j]), mean - sigmas * sigma), mean + sigmas * sigma)
    return out


def ras(train, labels, head, rows):
    profile = [math.fsum(column) / len(train) for column in np.array([sorted(z) for z in train]).T]
    out = np.zeros(rows.shape)
    for i, row in enumerate(rows):
        order = sorted(range(len(row)), key=lambda j: (row[j], j))
        for rank, j in enumerate(order):
            out[i, j] = profile[rank]
    return out


def optfs(train, labels, head, rows, bins=100):
    low, high = percentile(train.ravel(), 0.1), percentile(train.ravel(), 99.9)
    W, b = head.weight.astype(np.float64), head.bias.astype(np.float64)

    def place(v):
        number = math.floor((v - low) * (bins / (high - low)))
        return number if 0 <= number < bins else None

    theta = [0.0] * bins
    for z in train:
        k = int(np.argmax(W @ z + b))
        for j, v in enumerate(z):
            if place(v) is not None:
                theta[place(v)] += W[k, j] * v / len(train)
    size = math.sqrt(math.fsum(t * t for t in theta) / bins)
    weights = {number: t / size for number, t in enumerate(theta)} | {None: 0.0}
    return np.array([[weights[place(v)] * v for v in row] for row in rows])


def random_fourier(train, labels, head, rows, *, width=40, gamma=2.0):
    rng = np.random.default_rng(0)
    w = rng.normal(size=(width, train.shape[1])) * math.sqrt(2 * gamma)
    u = rng.uniform(size=width) * 2 * math.pi
    unit = normalise(train, labels, head, rows)
    return np.array(
        [[math.sqrt(2 / width) * math.cos(w[i] @ z + u[i]) for i in range(width)] for z in unit]
    )


def pca(train, labels, head, rows, wanted=None):
    _, s, V = np.linalg.svd(train - train.mean(axis=0), full_matrices=False)
    shares = np.cumsum(s**2) / (s**2).sum()
    rank = int((s > 1e-10 * s[0]).sum())
    d = (
        rank
        if wanted is None
        else wanted
        if wanted >= 1
        else next(i + 1 for i, t in enumerate(shares) if t >= wanted)
    )
    V = np.array([v * np.sign(v[np.argmax(np.abs(v))]) for v in V[: min(d, rank)]])
    return (rows - train.mean(axis=0)) @ V.T


def dice(train, labels, head, rows, p=90):
    W, mean = head.weight.astype(np.float64), train.mean(axis=0)
    cut = percentile([w * mean[j] for row in W for j, w in enumerate(row)], p)
    out = np.zeros((len(rows), len(W)))
    for i, row in enumerate(rows):
        for k in range(len(W)):
            out[i, k] = float(head.bias[k]) + sum(
                W[k, j] * float(row[j]) for j in range(len(row)) if W[k, j] * mean[j] > cut
            )
    return out


REFERENCES = {
    "react": react,
    "react-50": lambda *args: react(*args, p=50),
    "vra": vra,
    "ash-s": ash,
    "ash-b": lambda *args: ash(*args, variant="b", p=65),
    "ash-p": lambda *args: ash(*args, variant="p", p=60),
    "ash-s-35": lambda *args: ash(*args, p=35),
    "scale": scale,
    "scale-30": lambda *args: scale(*args, p=30),
    "centre": centre,
    "whiten": whiten,
    "whiten-within": lambda *args: whiten(*args, within=True),
    "normalise": normalise,
    "normalise-half": lambda *args: normalise(*args, exponent=0.5),
    "bats": bats,
    "bats-1": lambda *args: bats(*args, sigmas=1),
    "ras": ras,
    "optfs": optfs,
    "optfs-7": lambda *args: optfs(*args, bins=7),
    "random_fourier": random_fourier,
    "pca": pca,
    "pca-3": lambda *args: pca(*args, wanted=3),
    "pca-share": lambda *args: pca(*args, wanted=0.7),
    "dice": dice,
    "dice-40": lambda *args: dice(*args, p=40),
}


def assert_close(rectifier, got, wanted, dtype=np.float64):
    tolerance = rectifier.tags.tolerance[0 if dtype is np.float32 else 1]
    np.testing.assert_allclose(
        got, wanted, rtol=0, atol=tolerance * (np.abs(wanted).max() + 1e-300)
    )


def test_every_rectifier_has_a_case():
    assert {CASES[case](make_data().head).kind for case in CASES} == set(list_rectifiers())
    assert list(CASES) == list(REFERENCES)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_the_reference(case, data: Data, dtype):
    train, rows = data.train.astype(dtype), np.concatenate([data.test, data.ood]).astype(dtype)
    rectifier = made(case, data).fit(train, data.labels)
    wanted = REFERENCES[case](
        train.astype(np.float64), data.labels, biased(data.head), rows.astype(np.float64)
    )
    got = rectifier.transform(rows)
    assert got.dtype == dtype and got.shape == wanted.shape
    assert_close(rectifier, got, wanted, dtype)
    np.testing.assert_array_equal(
        made(case, data).fit_transform(train, data.labels), rectifier.transform(train)
    )


def degenerate():
    data, rng = make_data(n=40, m=6, C=2), np.random.default_rng(3)
    rows = data.train.copy()
    constant, low_rank = rows.copy(), rows.copy()
    constant[:, 2] = 3.0
    low_rank[:, 4] = low_rank[:, 0] + low_rank[:, 1]
    return data, {
        "two rows": rows[:2],
        "one class": rows[::2],
        "duplicates": np.repeat(rows[:5], 4, axis=0),
        "constant feature": constant,
        "rank deficient": low_rank,
        "zero rows": rows * (np.arange(40) % 3 > 0)[:, None],
        "negative": -rows - 1,
        "mixed signs": rng.normal(size=(40, 6)),
        "whole numbers with ties": np.rint(rng.random((40, 6)) * 3),
        "tiny": rows * 1e-30,
        "huge": rows * 1e30,
        "offset": rows + 1e4,
        "wider than long": rng.normal(size=(4, 6)),
    }


@pytest.mark.parametrize("what", degenerate()[1])
def test_equals_the_reference_on_degenerate_data(case, what):
    data, sets = degenerate()
    rows = sets[what]
    labels = np.arange(len(rows)) % 2 if what != "one class" else np.zeros(len(rows), int)
    if what == "two rows":
        labels = np.zeros(2, int)
    rectifier = made(case, data).fit(rows, labels)
    wanted = REFERENCES[case](rows, labels, biased(data.head), rows)
    got = rectifier.transform(rows)
    if case.startswith("pca") and what in (
        "duplicates",
        "wider than long",
        "whole numbers with ties",
    ):
        got, wanted = np.abs(got), np.abs(wanted)  # two entries of a direction may be equally large
    tolerance = 1e-7 if what in ("offset", "rank deficient") else 1e-9
    np.testing.assert_allclose(
        got, wanted, rtol=0, atol=tolerance * (np.abs(wanted).max() + 1e-300)
    )


@pytest.mark.parametrize("scale_by", [1e-30, 1e30])
def test_float32_neither_overflows_nor_vanishes(case, scale_by):
    data, sets = degenerate()
    rows = (sets["constant feature"] * scale_by).astype(np.float32)
    labels = np.arange(len(rows)) % 2
    got = made(case, data).fit(rows, labels).transform(rows)
    wanted = REFERENCES[case](
        rows.astype(np.float64), labels, biased(data.head), rows.astype(np.float64)
    )
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())


def test_the_exponent_is_capped():
    row = np.ones((1, 1000), dtype=np.float32)
    np.testing.assert_allclose(SCALE(percentile=99.5).transform(row), math.exp(44), rtol=1e-5)
    np.testing.assert_allclose(ASH(percentile=99.5).transform(row), math.exp(44), rtol=1e-5)


def test_sums_near_the_largest_float32_do_not_overflow():
    row = np.full((1, 12), 5e37, dtype=np.float32)
    np.testing.assert_allclose(ASH(variant="b").transform(row), row, rtol=1e-6)
    np.testing.assert_allclose(ASH(percentile=35).transform(row), math.exp(12 / 8) * row, rtol=1e-6)
    np.testing.assert_allclose(
        SCALE(percentile=35).transform(row), math.exp(12 / 8) * row, rtol=1e-6
    )


def test_defaults_are_the_papers():
    row = np.arange(1.0, 1001.0)[None]
    kept = [int((ASH(variant).transform(row) > 0).sum()) for variant in "sbp"]
    assert kept == [100, 350, 400]
    np.testing.assert_allclose(
        SCALE().transform(row)[0, 0], math.exp(row.sum() / row[0, 850:].sum())
    )
    assert (ReAct().percentile, VRA().low, VRA().high, DICE().percentile) == (90, 60, 90, 90)


def test_weights_that_contribute_alike_are_dropped_alike():
    head = typica.Head(np.ones((2, 3)), [5.0, 6.0])
    np.testing.assert_array_equal(
        DICE(head).fit(np.ones((4, 3))).transform(np.ones((1, 3))), [[5.0, 6.0]]
    )


rows_of_numbers = arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.integers(1, 9)),
    elements=st.floats(-1e3, 1e3, width=32),
)


@settings(max_examples=60)
@given(rows_of_numbers, st.floats(0, 100), st.sampled_from("sbp"))
def test_ash_keeps_what_it_should(Z, p, variant):
    got = ASH(variant=variant, percentile=p).transform(Z)
    P = np.maximum(Z, 0)
    k = max(1, Z.shape[1] - round(Z.shape[1] * p / 100))
    kept = got > 0
    assert (got >= 0).all() and (P[kept] > 0).all()
    assert (kept.sum(axis=1) >= np.minimum(k, (P > 0).sum(axis=1))).all()
    for row, keep in zip(P, kept, strict=True):
        assert keep.all() or not keep.any() or row[keep].min() > row[~keep].max()
    if variant == "p":
        np.testing.assert_array_equal(got[kept], P[kept])
    if variant == "b":
        np.testing.assert_allclose(got.sum(axis=1), P.sum(axis=1), rtol=1e-9)
    order = np.random.default_rng(0).permutation(Z.shape[1])
    np.testing.assert_allclose(ASH(variant, p).transform(Z[:, order]), got[:, order], rtol=1e-12)


@settings(max_examples=60)
@given(rows_of_numbers, st.floats(0, 100))
def test_scale_keeps_directions_and_ignores_units(Z, p):
    got = SCALE(percentile=p).transform(Z)
    factors = [row[row != 0] / z[row != 0] for row, z in zip(got, Z, strict=True)]
    for factor, z in zip(factors, Z, strict=True):
        assert len(factor) == 0 or (math.isclose(factor.min(), factor.max(), rel_tol=1e-12))
        assert len(factor) == 0 or factor[0] >= (math.e if (z > 0).any() else 1) * (1 - 1e-12)
    np.testing.assert_allclose(SCALE(percentile=p).transform(4 * Z), 4 * got, rtol=1e-12)


@settings(max_examples=60)
@given(arrays(np.float64, (12, 3), elements=st.floats(-1e3, 1e3, width=32)), st.floats(0, 100))
def test_react_never_exceeds_its_threshold(Z, p):
    rectifier = ReAct(percentile=p).fit(Z)
    got = rectifier.transform(Z)
    assert (got <= rectifier.threshold_).all() and (got <= Z).all()
    np.testing.assert_array_equal(rectifier.transform(got), got)
    below = rectifier.threshold_ >= Z
    np.testing.assert_array_equal(got[below], Z[below])


def test_whitened_features_are_white(data: Data):
    white = Whiten().fit_transform(data.train)
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(12), atol=1e-9)
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-12)
    within = Whiten(within_classes=True).fit_transform(data.train, data.labels)
    np.testing.assert_allclose(covariance(within, data.labels, within=True), np.eye(12), atol=1e-9)


def test_distances_after_whitening_are_mahalanobis(data: Data):
    whitener = Whiten(within_classes=True).fit(data.train, data.labels)
    means = np.array([data.train[data.labels == k].mean(axis=0) for k in range(4)])
    distances = np.linalg.norm(
        whitener.transform(data.test)[:, None] - whitener.transform(means), axis=2
    )
    precision = np.linalg.inv(covariance(data.train, data.labels, within=True))
    for row, got in zip(data.test, distances, strict=True):
        np.testing.assert_allclose(
            got**2, [(row - mu) @ precision @ (row - mu) for mu in means], rtol=1e-9
        )


def test_pca_equals_scikit_learns(data: Data):
    ours = PCA(n_components=4).fit(data.train)
    theirs = sklearn.decomposition.PCA(4, svd_solver="full").fit(data.train)
    np.testing.assert_allclose(np.abs(ours.components_), np.abs(theirs.components_), atol=1e-9)
    np.testing.assert_allclose(
        np.abs(ours.transform(data.test)), np.abs(theirs.transform(data.test)), atol=1e-9
    )
    shared = [
        cls(n_components=0.8).fit(data.train).components_
        for cls in (PCA, sklearn.decomposition.PCA)
    ]
    assert shared[0].shape == shared[1].shape


def test_large_data_is_sampled_alike_every_time(data: Data, monkeypatch):
    exact = ReAct().fit(data.train).threshold_
    monkeypatch.setattr(_percentiles, "SAMPLE", 12 * 120)
    first, second = ReAct().fit(data.train), ReAct().fit(data.train)
    assert first.threshold_ == second.threshold_ != exact
    assert first.threshold_ == pytest.approx(exact, rel=0.1)
    rows = np.sort(np.random.default_rng(0).choice(240, 120, replace=False))
    assert first.threshold_ == pytest.approx(percentile(data.train[rows].ravel(), 90), rel=1e-12)
    bad = data.train.copy()
    bad[next(i for i in range(240) if i not in rows), 0] = np.nan
    with pytest.raises(typica.InputError, match=r"ReAct.fit: row \d+ of the features holds NaN"):
        ReAct().fit(bad)


def test_dtypes(case, data: Data):
    rectifier = fitted(case, data)
    half = data.test.astype(np.float16)
    np.testing.assert_array_equal(
        rectifier.transform(half), rectifier.transform(half.astype(np.float32))
    )
    assert rectifier.transform(half).dtype == np.float32
    whole = np.rint(data.test).astype(np.int32)
    np.testing.assert_array_equal(
        rectifier.transform(whole), rectifier.transform(whole.astype(np.float64))
    )


def test_fit_on_half_precision_equals_fit_on_its_values(case, data: Data):
    half = data.train.astype(np.float16)
    got = made(case, data).fit(half, data.labels).transform(data.test)
    wanted = made(case, data).fit(half.astype(np.float64), data.labels).transform(data.test)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_blocks_and_batches_do_not_matter(case, data: Data, monkeypatch):
    rectifier = fitted(case, data)
    whole = rectifier.transform(data.test)
    one_by_one = np.concatenate([rectifier.transform(row[None]) for row in data.test])
    assert_close(rectifier, one_by_one, whole)
    monkeypatch.setattr("typica.arrays.BLOCK_BYTES", 700)
    assert_close(rectifier, rectifier.transform(data.test), whole)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("xp", [torch, array_api_strict], ids=lambda xp: xp.__name__)
def test_backends_agree(case, data: Data, xp, dtype):
    rectifier = fitted(case, data)
    rows = np.concatenate([data.test, np.zeros((1, 12)), -data.ood]).astype(dtype)
    got = rectifier.transform(xp.asarray(rows))
    assert type(got) is type(xp.asarray(rows)) and to_numpy(got).dtype == dtype
    assert_close(rectifier, to_numpy(got), rectifier.transform(rows), dtype)


def test_fit_on_tensors_equals_fit_on_arrays(case, data: Data):
    rectifier = made(case, data).fit(torch.asarray(data.train), torch.asarray(data.labels))
    np.testing.assert_array_equal(
        rectifier.transform(data.test), fitted(case, data).transform(data.test)
    )


def test_gradient_flows_and_is_right(case, data: Data):
    rectifier = fitted(case, data)
    rng = np.random.default_rng(1)
    rows = (
        data.test[:5] + 0.01 + 0.1 * rng.random((5, 12))
    )  # no zeros: there activations have a kink
    Z = torch.asarray(rows).requires_grad_()
    out = rectifier.transform(Z)
    weights, direction, step = rng.normal(size=tuple(out.shape)), rng.normal(size=Z.shape), 1e-6
    (out * torch.asarray(weights)).sum().backward()
    ahead, behind = (rectifier.transform(rows + sign * step * direction) for sign in (1, -1))
    slope = ((ahead - behind) / (2 * step) * weights).sum(axis=1)
    np.testing.assert_allclose(
        (Z.grad.numpy() * direction).sum(axis=1), slope, rtol=1e-5, atol=1e-5
    )


def test_gradient_is_finite_where_activations_are_zero(case, data: Data):
    Z = torch.zeros((3, 12), dtype=torch.float64)
    Z[1], Z[2] = -1.0, torch.asarray(data.test[0])
    Z.requires_grad_()
    fitted(case, data).transform(Z).sum().backward()
    assert torch.isfinite(Z.grad).all()


def test_layouts_do_not_matter_and_input_is_not_written_to(case, data: Data, tmp_path):
    rectifier = fitted(case, data)
    wanted = rectifier.transform(data.test)
    np.save(tmp_path / "x.npy", data.test)
    read_only = data.test.copy()
    read_only.flags.writeable = False
    layouts = [
        read_only,
        np.asfortranarray(data.test),
        np.repeat(data.test, 2, axis=1)[:, ::2],
        data.test[::-1][::-1],
        np.load(tmp_path / "x.npy", mmap_mode="r"),
        data.test.astype(">f8"),
        data.test.tolist(),
    ]
    for X in layouts:
        before = copy.deepcopy(X)
        got = rectifier.transform(X)
        assert_close(rectifier, got, wanted)
        np.testing.assert_array_equal(np.asarray(X), np.asarray(before))
        assert not np.shares_memory(got, np.asarray(X))
    train = data.train.copy()
    made(case, data).fit(train, data.labels)
    np.testing.assert_array_equal(train, data.train)


def test_save_load_pickle_clone(case, data: Data, tmp_path):
    rectifier = fitted(case, data)
    wanted = rectifier.transform(data.test)
    rectifier.save(tmp_path / "rectifier.safetensors")
    for again in (
        typica.load(tmp_path / "rectifier.safetensors"),
        pickle.loads(pickle.dumps(rectifier)),
    ):
        assert type(again) is type(rectifier) and str(again.get_params()) == str(
            rectifier.get_params()
        )
        names = again.get_feature_names_out()
        np.testing.assert_array_equal(names, rectifier.get_feature_names_out())
        np.testing.assert_array_equal(again.transform(data.test), wanted)
    fresh = clone(rectifier)
    assert not hasattr(fresh, "n_features_in_") and str(fresh.get_params()) == str(
        rectifier.get_params()
    )


def test_merge_equals_single_fit(case, data: Data):
    whole = fitted(case, data)
    if not whole.tags.mergeable:
        assert not hasattr(whole, "merge") and not hasattr(whole, "partial_fit")
        return
    wanted = whole.transform(data.test)
    parts = [made(case, data).partial_fit(data.train[i::3], data.labels[i::3]) for i in range(3)]
    alone = parts[1].transform(data.test)
    merged = made(case, data).merge(parts[0]).merge(parts[1]).merge(parts[2])
    np.testing.assert_allclose(merged.transform(data.test), wanted, atol=1e-9)
    np.testing.assert_array_equal(parts[1].transform(data.test), alone)
    used = copy.deepcopy(parts[0])
    used.transform(data.test)
    np.testing.assert_allclose(
        used.merge(parts[1]).merge(parts[2]).transform(data.test), wanted, atol=1e-9
    )
    streamed = made(case, data)
    for start in range(0, 240, 50):
        streamed.partial_fit(
            data.train[start : start + 50], data.labels[start : start + 50]
        ).transform(data.test)
    np.testing.assert_allclose(streamed.transform(data.test), wanted, atol=1e-9)
    with pytest.raises(typica.InputError, match=r"merge: got ReAct; pass another"):
        whole.merge(ReAct())
    with pytest.raises(NotFittedError, match="not fitted yet"):
        whole.merge(made(case, data))


def test_fit_forgets_an_earlier_fit(case, data: Data):
    rectifier = fitted(case, data)
    once = rectifier.transform(data.test)
    rectifier.fit(data.ood, np.arange(120) % 4).fit(data.train, data.labels)
    np.testing.assert_array_equal(rectifier.transform(data.test), once)


def test_feature_names(case, data: Data):
    import pandas as pd

    frame = pd.DataFrame(data.train, columns=[f"f{j}" for j in range(12)])
    rectifier = made(case, data).set_output(transform="pandas").fit(frame, data.labels)
    out = rectifier.transform(frame)
    same = not case.startswith(("pca", "dice", "random"))
    assert list(out.columns) == (
        list(frame.columns)
        if same
        else [f"{type(rectifier).__name__.lower()}{j}" for j in range(out.shape[1])]
    )
    assert_close(rectifier, out.to_numpy(), fitted(case, data).transform(data.train))
    with pytest.raises(ValueError, match="feature names"):
        rectifier.transform(frame.rename(columns={"f0": "g0"}))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list_rectifiers())
def test_sklearn_estimator_checks(name):
    if rectifier_class(name).tags.needs_head:
        pytest.skip("a head fixes the width of the features; our own checks stand in")
    check_estimator(make_rectifier(name))


@pytest.mark.parametrize("name", list_rectifiers())
def test_names_tags_and_exports(name):
    cls = rectifier_class(name)
    assert cls.kind == name
    assert cls.tags.reference and cls.tags.fit_cost and cls.tags.score_cost and cls.tags.memory
    assert getattr(typica, cls.__name__) is cls and cls.__name__ in typica.__all__
    assert getattr(typica.rectify, cls.__name__) is cls and cls.__name__ in typica.rectify.__all__


def test_unknown_names_and_parameters_are_refused():
    with pytest.raises(
        typica.InputError,
        match=r"rectifier 'aash' is unknown; the closest: ash, .*; typica\.list_",
    ):
        make_rectifier("aash")
    with pytest.raises(
        typica.InputError, match=r"rectifier 'react' has no parameter 'p'; it takes percentile\."
    ):
        make_rectifier("react", p=3)
    assert make_rectifier("ReAct", percentile=80).percentile == 80


@pytest.mark.parametrize("method", ["fit", "transform", "fit_transform", "partial_fit"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_named(case, data: Data, method, bad):
    rectifier = made(case, data) if "fit" in method else fitted(case, data)
    if not hasattr(rectifier, method):
        return
    rows = data.train.copy()
    rows[17, 3] = bad
    where = f"{type(rectifier).__name__}.{method.replace('fit_transform', 'fit')}"
    with pytest.raises(typica.InputError, match=rf"{where}: row 17 .* NaN or infinity"):
        getattr(rectifier, method)(*((rows,) if method == "transform" else (rows, data.labels)))


def test_wrong_shapes_are_refused(case, data: Data):
    rectifier = fitted(case, data)
    where = f"{type(rectifier).__name__}.transform"
    with pytest.raises(
        typica.InputError, match=rf"{where}: X has 3 features, .* expecting 12 features"
    ):
        rectifier.transform(data.test[:, :3])
    with pytest.raises(
        typica.InputError, match=rf"{where}: .* shape \(12,\) .* a single input is x\[None, :\]"
    ):
        rectifier.transform(data.test[0])
    assert rectifier.transform(data.test[:0]).shape == rectifier.transform(data.test)[:0].shape
    with pytest.raises(
        typica.InputError, match=rf"{where}: expected an array of features, got None"
    ):
        rectifier.transform(None)


def test_unfitted_use(case, data: Data):
    rectifier = made(case, data)
    if rectifier.tags.needs_fit:
        with pytest.raises(
            NotFittedError,
            match=f"{type(rectifier).__name__}.transform: .* not fitted yet; call fit",
        ):
            rectifier.transform(data.test)
    else:
        np.testing.assert_array_equal(
            rectifier.transform(data.test), fitted(case, data).transform(data.test)
        )


HEAD = typica.Head(np.eye(2, 12))


@pytest.mark.parametrize(
    ("rectifier", "message"),
    [
        (
            ReAct(percentile=101),
            r"ReAct.fit: percentile=101 is not a percentile; pass a number from 0 to 100",
        ),
        (ReAct(percentile=True), r"ReAct.fit: percentile=True is not a percentile"),
        (ReAct(percentile="90"), r"ReAct.fit: percentile='90' is not a percentile"),
        (ReAct(percentile=np.nan), r"ReAct.fit: percentile=nan is not a percentile"),
        (SCALE(percentile=-1), r"SCALE.fit: percentile=-1 is not a percentile"),
        (
            ASH(percentile=None, variant="x"),
            r"ASH.fit: variant='x' is unknown; choose 's', 'b' or 'p'",
        ),
        (ASH(percentile=200), r"ASH.fit: percentile=200 is not a percentile"),
        (VRA(low=-1), r"VRA.fit: low=-1 is not a percentile"),
        (VRA(high=200), r"VRA.fit: high=200 is not a percentile"),
        (VRA(low=80, high=20), r"VRA.fit: low=80 is above high=20; pass low<=high"),
        (BATS(sigmas=0), r"BATS.fit: sigmas=0 is not a positive number; pass sigmas>0"),
        (L2Normalise(exponent=np.inf), r"L2Normalise.fit: exponent=inf is not a finite number"),
        (OptFS(), r"OptFS.fit: no head; pass head=typica.Head"),
        (OptFS(HEAD, bins=0), r"OptFS.fit: bins=0 is not an integer of at least 1"),
        (RandomFourier(gamma=-1), r"RandomFourier.fit: gamma=-1 is not a positive number"),
        (RandomFourier(width=2.5), r"RandomFourier.fit: width=2.5 is not an integer"),
        (DICE(), r"DICE.fit: no head; pass head=typica.Head"),
        (DICE([1]), r"DICE.fit: head is a list; pass typica.Head"),
        (
            DICE(typica.Head(np.eye(2))),
            r"DICE.fit: X has 12 features, but DICE is expecting 2 features",
        ),
        (DICE(HEAD, percentile=None), r"DICE.fit: percentile=None is not a percentile"),
        (
            PCA(n_components=0),
            r"PCA.fit: n_components=0 is not a number of directions; pass a whole number >= 1",
        ),
        (PCA(n_components=1.5), r"PCA.fit: n_components=1.5 is not a number"),
        (PCA(n_components=True), r"PCA.fit: n_components=True is not a number"),
        (
            PCA(n_components=13),
            r"PCA.fit: n_components=13 exceeds the 12 features; pass n_components<=12",
        ),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(data: Data, rectifier, message):
    with pytest.raises(typica.InputError, match=message):
        rectifier.fit(data.train, data.labels)
    if not rectifier.tags.needs_fit:
        with pytest.raises(typica.InputError, match=message.replace("fit", "transform")):
            rectifier.transform(data.test)


def test_what_cannot_be_whitened_is_refused(data: Data):
    for rectifier in (Whiten(), PCA()):
        with pytest.raises(
            typica.InputError,
            match=r"the features do not vary over 5 sample\(s\); pass more, or other",
        ):
            rectifier.fit(np.ones((5, 3)))
    with pytest.raises(
        typica.InputError, match=r"Whiten.fit: within_classes needs labels .*; pass y"
    ):
        Whiten(within_classes=True).fit(data.train)


def belongs_together(name, detector):
    """Tell whether a pair makes sense.

    Logits go to detectors of logits, a new width to those without a head.
    """
    tags = typica.detector_class(detector).tags
    if name == "dice":
        return tags.reads == "logits" and not tags.needs_head
    return name not in ("pca", "random_fourier") or (
        tags.reads == "features" and not tags.needs_head
    )


@pytest.mark.filterwarnings("ignore::typica.CalibrationWarning")
@pytest.mark.parametrize("detector", typica.list_detectors())
@pytest.mark.parametrize("name", list_rectifiers())
def test_every_pair_in_a_pipeline(name, detector, data: Data, tmp_path):
    if not belongs_together(name, detector):
        return
    rectifier = made(name if name != "ash" else "ash-p", data)
    last = (
        typica.make_detector(detector, **SMALL.get(detector, {}))
        if name == "dice"
        else make(detector, data)
    )
    pipeline = make_pipeline(rectifier, last).fit(data.train, data.labels)
    assert typica.calibrate(pipeline, data.held_out, tpr=0.9) is pipeline
    verdicts, scores = pipeline.predict(data.test), pipeline.score_samples(data.test)
    np.testing.assert_array_equal(scores, last.score_samples(rectifier.transform(data.test)))
    assert verdicts.mean() > 0.5
    tensor = pipeline.score_samples(torch.asarray(data.test))
    assert_same = np.testing.assert_allclose
    assert_same(
        tensor.numpy(), scores, rtol=0, atol=10 * last.tags.tolerance[1] * np.abs(scores).max()
    )
    answers = typica.explain(pipeline, data.test[:2])
    assert [answer.typical for answer in answers] == [verdict == 1 for verdict in verdicts[:2]]
    if last.tags.saveable:
        typica.save(pipeline, tmp_path / "pipeline.safetensors")
        loaded = typica.load(tmp_path / "pipeline.safetensors")
        np.testing.assert_array_equal(loaded.score_samples(data.test), scores)
        np.testing.assert_array_equal(loaded.predict(data.test), verdicts)
        assert typica.explain(loaded, data.test[:2]) == answers


@pytest.mark.real
def test_dice_improves_energy_on_real_features(real):
    """Energy alone gives 94.18 and 87.46 here.

    DICE at p = 90 raises both, as its authors report.
    """
    head = typica.Head(real["head.weight"], real["head.bias"])
    rectifier = DICE(head).fit(real["train.features"])

    def energy(name):
        L = rectifier.transform(real[f"{name}.features"]).astype(np.float64)
        return np.log(np.exp(L - L.max(axis=1, keepdims=True)).sum(axis=1)) + L.max(axis=1)

    known = energy("test")
    assert 94.5 < 100 * typica.evaluate(known, energy("ood.svhn")).auroc < 95.5
    assert 87.7 < 100 * typica.evaluate(known, energy("ood.textures")).auroc < 88.7


@pytest.mark.parametrize(
    "rectifier", [ASH(), SCALE(), BATS(), OptFS(typica.Head(np.ones((2, 24)))), RAS()]
)
@pytest.mark.parametrize("kind", [np.asarray, torch.asarray])
def test_rows_that_overflow_are_refused(rectifier, kind) -> None:
    rows = np.linspace(0.1, 1, 24, dtype=np.float32)[None] * np.array([[1], [1e37], [3e38]], "f4")
    rectifier = clone(rectifier).fit(np.random.default_rng(0).random((50, 24)))
    changed = to_numpy(rectifier.transform(kind(rows.astype(np.float64))))
    assert np.isfinite(changed).all()
    if np.abs(changed).max() > np.finfo(np.float32).max:
        with pytest.raises(InputError, match=r"transform: row [12] overflows .*float32 once it is"):
            rectifier.transform(kind(rows))
    else:
        assert np.isfinite(to_numpy(rectifier.transform(kind(rows)))).all()


def test_a_table_is_made_of_tensors_with_gradients() -> None:
    rows = torch.ones(2, 3, requires_grad=True)
    rectifier = ASH().fit(np.ones((2, 3)))
    changed = rectifier.transform(rows)
    assert changed.requires_grad
    with sklearn.config_context(transform_output="pandas"):
        table = rectifier.transform(rows)
    np.testing.assert_array_equal(table.to_numpy(), to_numpy(changed))
    table = rectifier.set_output(transform="pandas").transform(rows)
    np.testing.assert_array_equal(table.to_numpy(), to_numpy(changed))
