"""KNN, NNGuide, LOF and the isolation forest, the search behind KNN, and the edges.

The methods are compared with loops and scikit-learn.
"""

from __future__ import annotations

import math
import pickle
import sys

import array_api_strict
import numpy as np
import pytest
import torch
from helpers.data import Data
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.ensemble import IsolationForest as SklearnForest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import typica
from typica.detectors import (
    KNN,
    LOF,
    Ensemble,
    IsolationForest,
    NNGuide,
    _search,
    _search_bound,
    _search_on_device,
)
from typica.detectors._search import Search
from typica.detectors._search_on_device import kth_by_product
from typica.head import Head
from typica.threads import blas


def direction(z):
    largest = max(abs(float(x)) for x in z)
    if largest == 0:
        return None
    z = [float(x) / largest for x in z]
    length = math.sqrt(math.fsum(x * x for x in z))
    return [x / length for x in z]


def reference_knn(train, Z, k):
    """Minus the k-th smallest distance of directions; what has none is 2 away."""
    bank, scores = [direction(z) for z in train], []
    for z in map(direction, Z):
        far = [2.0 if z is None or b is None else math.dist(z, b) for b in bank]
        scores.append(-sorted(far)[k - 1])
    return np.array(scores)


def reference_energy(W, b, z):
    logits = [
        math.fsum(float(x) * float(y) for x, y in zip(w, z, strict=True)) + float(c)
        for w, c in zip(W, b, strict=True)
    ]
    return max(logits) + math.log(math.fsum(math.exp(v - max(logits)) for v in logits))


def reference_nnguide(W, b, train, Z, k):
    bank, scores = [(direction(z), reference_energy(W, b, z)) for z in train], []
    for z in Z:
        u = direction(z) or [0.0] * len(z)
        guides = [
            e * math.fsum(x * y for x, y in zip(u, d or u, strict=True)) * (d is not None)
            for d, e in bank
        ]
        scores.append(reference_energy(W, b, z) * math.fsum(sorted(guides)[-k:]) / k)
    return np.array(scores)


def hostile_rows(name, dtype):
    """Training rows and queries of a kind that breaks careless code."""
    rng = np.random.default_rng(0)
    train, Z = rng.normal(size=(30, 5)), rng.normal(size=(9, 5))
    if name == "duplicates":
        train, Z = np.repeat(train[:3], 10, axis=0), np.concatenate([train[:3], Z])
    elif name == "all equal":
        train, Z = np.repeat(train[:1], 30, axis=0), np.concatenate([train[:1], 3 * train[:1], Z])
    elif name == "constant feature":
        train[:, 2] = Z[:, 2] = 4.0
    elif name == "zero rows":
        train[::3], Z[:4] = 0, 0
    elif name == "all zero":
        train[:] = 0
    elif name == "tiny":
        train, Z = (
            train * (1e-30 if dtype is np.float32 else 1e-300),
            Z * (1e-35 if dtype is np.float32 else 1e-290),
        )
    elif name == "huge":
        train, Z = (
            train * (1e37 if dtype is np.float32 else 1e307),
            Z * (1e30 if dtype is np.float32 else 1e300),
        )
    elif name == "one feature":
        train, Z = train[:, :1], Z[:, :1]
    return train.astype(dtype), Z.astype(dtype)


KINDS = [
    "plain",
    "duplicates",
    "all equal",
    "constant feature",
    "zero rows",
    "all zero",
    "tiny",
    "huge",
    "one feature",
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 7, 30])
def test_knn_equals_the_loop(kind, dtype, k):
    train, Z = hostile_rows(kind, dtype)
    scores = KNN(k=k).fit(train).score_samples(Z)
    assert scores.dtype == dtype
    np.testing.assert_allclose(
        scores, reference_knn(train, Z, k), rtol=0, atol=2e-7 if dtype is np.float32 else 1e-15
    )


def test_knn_on_two_samples():
    train, Z = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[1.0, 1.0], [5.0, 0.0]])
    for k in (1, 2):
        with pytest.warns(typica.CalibrationWarning):
            detector = KNN(k=k).fit(train)
        np.testing.assert_allclose(
            detector.score_samples(Z), reference_knn(train, Z, k), atol=1e-15
        )


@pytest.mark.parametrize("fit_dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_rows_are_at_distance_zero(fit_dtype, dtype):
    """Whatever precision, backend, layout and block a row comes in.

    Of half precision, so that all dtypes hold it.
    """
    rng = np.random.default_rng(0)
    train = rng.random((200, 33)).astype(np.float16)
    detector = KNN(k=3).fit(np.repeat(train.astype(fit_dtype), 3, axis=0))
    Z = train.astype(dtype)
    for rows in (Z, np.asfortranarray(Z), np.repeat(Z, 2, axis=1)[:, ::2], Z[:1]):
        np.testing.assert_array_equal(detector.score_samples(rows), 0)
    if dtype is np.float32:
        np.testing.assert_array_equal(detector.score_samples(torch.asarray(Z)).numpy(), 0)
    else:
        np.testing.assert_allclose(detector.score_samples(torch.asarray(Z)).numpy(), 0, atol=1e-15)


def test_near_duplicates_do_not_drown_in_cancellation():
    """1 - cos of these is below the precision of float32.

    So a product of the rows cannot tell them apart.
    """
    rng = np.random.default_rng(0)
    train = (1 + 2e-4 * rng.normal(size=(400, 24))).astype(np.float32)
    Z = (1 + 2e-4 * rng.normal(size=(80, 24))).astype(np.float32)
    scores = KNN(k=5).fit(train).score_samples(Z)
    wanted = reference_knn(train, Z, 5)
    assert np.abs(wanted).max() < 3e-4
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=2e-7)


@settings(max_examples=60)
@given(
    arrays(np.float64, (12, 3), elements=st.integers(-2, 2)),
    arrays(np.float64, (4, 3), elements=st.integers(-3, 3)),
    st.integers(1, 12),
    st.floats(1e-3, 1e3),
)
def test_knn_properties(train, Z, k, scale):
    detector = KNN(k=k).partial_fit(train)
    scores = detector.score_samples(Z)
    np.testing.assert_allclose(scores, reference_knn(train, Z, k), atol=1e-15)
    assert ((scores >= -2) & (scores <= 0)).all()
    np.testing.assert_allclose(detector.score_samples(Z * scale), scores, atol=1e-7)
    more = KNN(k=k).partial_fit(train).partial_fit(Z).score_samples(Z)
    assert (more >= scores - 1e-15).all()


# The search


@pytest.fixture
def small_steps(monkeypatch):
    """Make small data cross many blocks, tiles, samples and threads."""
    monkeypatch.setattr(_search, "QUERIES", 16)
    monkeypatch.setattr(_search, "FEW", 8)
    monkeypatch.setattr(_search_bound, "TILE", 64)
    monkeypatch.setattr(_search_bound, "SAMPLE", 100)
    monkeypatch.setattr(_search, "blas_threads", lambda: 2)


@pytest.fixture
def trace(monkeypatch):
    """Record how wide the products of a search are and how many queries each leaves open."""
    calls = []
    attempt = Search._attempt

    def spy(self, Q, k, bound, wanted):
        index = attempt(self, Q, k, bound, wanted)
        calls.append((bound.rows.shape[1], len(Q), int(np.sum(index < 0))))
        return index

    monkeypatch.setattr(Search, "_attempt", spy)
    return calls


def assert_exact(bank, Q, k):
    index = Search(bank).kth(Q, k)
    wanted = [
        np.sort(np.linalg.norm(bank.astype(np.float64) - q, axis=1))[k - 1]
        for q in Q.astype(np.float64)
    ]
    got = np.linalg.norm(bank[index].astype(np.float64) - Q, axis=1)
    np.testing.assert_allclose(
        got, wanted, rtol=1e-4 if bank.dtype == np.float32 else 1e-12, atol=1e-12
    )


def few_axes(n, m=48, seed=0, dtype=np.float32):
    """Rows that vary along 6 axes, and a little along all."""
    rng = np.random.default_rng(seed)
    axes = np.random.default_rng(99).normal(size=(6, m))
    return (5 + rng.normal(size=(n, 6)) @ axes + 0.02 * rng.normal(size=(n, m))).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 5, 60, 1000])
def test_search_is_exact_where_rows_lie_near_few_axes(dtype, k, small_steps, trace):
    assert_exact(few_axes(1000, dtype=dtype), few_axes(40, seed=1, dtype=dtype), k)
    assert {width for width, _, _ in trace} >= {16}
    if k == 5:
        assert sum(left for width, _, left in trace if width == 16) < 10


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_search_is_exact_for_queries_off_the_axes(dtype, small_steps, trace):
    rng = np.random.default_rng(2)
    bank = few_axes(1000, dtype=dtype)
    away = np.linalg.svd(bank - bank.mean(axis=0))[2][6:]
    assert_exact(bank, (5 + 100 * rng.normal(size=(40, 42)) @ away).astype(dtype), 5)
    assert {width for width, _, _ in trace} == {16, 48}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 5, 200])
def test_search_is_exact_where_rows_vary_along_all_axes(dtype, k, small_steps, trace):
    rng = np.random.default_rng(0)
    assert_exact(rng.random((900, 40)).astype(dtype), rng.random((30, 40)).astype(dtype), k)
    assert {width for width, _, _ in trace} == {40}


def test_search_is_exact_where_the_product_cannot_tell_rows_apart(small_steps, trace):
    rng = np.random.default_rng(0)
    centre = rng.random(40).astype(np.float32)
    bank = centre + 3e-7 * rng.integers(-3, 4, size=(3000, 40)).astype(np.float32)
    strangers = rng.random((10, 40)).astype(np.float32)
    assert_exact(bank, np.concatenate([bank[:10], strangers]), 7)
    assert trace[-1][2] > 0


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(1, 400),
    dtype=st.sampled_from([np.float32, np.float64]),
    spread=st.floats(-5, 1),
    length=st.sampled_from([1.0, 1e-3, 300.0]),
)
def test_search_is_exact_among_rows_of_one_length(seed, k, dtype, spread, length):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(1, 33)) + 10.0**spread * rng.normal(size=(460, 33))
    rows *= length / np.linalg.norm(rows, axis=1, keepdims=True)
    rows[rng.integers(0, 400, 40)] = rows[0]
    bank = rows[:400].astype(dtype)
    assert_exact(bank, rows[360:].astype(dtype), k)


@pytest.mark.parametrize(("spread", "lengths_count"), [(1.0, False), (0.01, True)])
def test_the_product_tells_rows_of_one_length_apart_however_close(spread, lengths_count, trace):
    rng = np.random.default_rng(0)
    rows = np.eye(1, 64) + spread * rng.normal(size=(1100, 64)) / 8
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    search = Search(np.ascontiguousarray(rows[:1000]))
    search.kth(rows[1000:], 5)
    assert (search._full.half is not None) == lengths_count
    assert trace[-1][2] == 0  # no query is left to be measured against all rows
    assert sum(width == 64 for width, _, _ in trace) == 1  # nor had any to be tried again


def test_queries_whose_sample_misleads_are_tried_again(small_steps, trace, monkeypatch):
    """Of few rows that set the limit, some are near by chance, and then too few reach it."""
    monkeypatch.setattr(_search, "_squares", None)  # which would measure all rows
    rng = np.random.default_rng(0)
    bank, Q = rng.random((9000, 20)).astype(np.float32), rng.random((1000, 20)).astype(np.float32)
    assert_exact(bank, Q, 42)
    assert 0 < sum(left for _, _, left in trace) < 40


@pytest.mark.parametrize("k", [1, 299, 300, 301, 900])
def test_search_counts_equal_rows(k, small_steps):
    rng = np.random.default_rng(0)
    bank = np.repeat(rng.random((3, 40)).astype(np.float32), 300, axis=0)
    assert_exact(
        np.ascontiguousarray(bank[rng.permutation(900)]),
        np.concatenate([bank[:1], rng.random((20, 40))]).astype(np.float32),
        k,
    )


def test_search_finds_its_way_in_sorted_banks(small_steps):
    """Where all of a class stands together, the first rows do not stand for all."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(9, 40))
    bank = np.repeat(means, 100, axis=0) + rng.normal(size=(900, 40))
    Q = means + rng.normal(size=(9, 40))
    assert_exact(bank, Q, 5)
    bound = Search(bank)._full
    X, _ = bound.queries(Q)
    _, values, _ = bound.candidates(X, 90)
    found = np.sum(values > -np.inf, axis=1)
    assert found.min() > 30 and found.max() < 250


@settings(max_examples=40)
@given(
    st.integers(0, 10**6),
    st.integers(1, 40),
    st.sampled_from([np.float32, np.float64]),
    st.floats(-6, 2),
)
def test_search_is_exact_on_mixtures(seed, k, dtype, spread):
    rng = np.random.default_rng(seed)
    bank = (
        rng.normal(size=(1, 33)) + 10.0**spread * rng.normal(size=(700, 33)) * rng.random(33) ** 8
    )
    bank[rng.integers(0, 700, 100)] = bank[0]
    assert_exact(
        bank.astype(dtype), np.concatenate([bank[:40], rng.normal(size=(40, 33))]).astype(dtype), k
    )


def test_blas_has_its_threads_back_after_a_search(small_steps):
    before = [library["num_threads"] for library in blas().info()]
    Search(few_axes(1000)).kth(few_axes(40), 5)
    assert [library["num_threads"] for library in blas().info()] == before


@pytest.mark.parametrize("rows", [64, 2**14])
@pytest.mark.parametrize("xp", [np, torch, array_api_strict])
def test_search_on_other_devices(xp, rows, monkeypatch):
    monkeypatch.setattr(_search_on_device, "ROWS", rows)
    rng = np.random.default_rng(0)
    bank, Q = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in rng.normal(size=(2, 300, 5))
    )
    for k in (1, 7, 300):
        wanted = Search(np.ascontiguousarray(bank)).kth(Q, k)
        got = kth_by_product(xp.asarray(Q), xp.asarray(bank), k)
        np.testing.assert_array_equal(np.asarray(got), wanted)


def test_knn_on_another_device(data: Data):
    detector = KNN(k=3).fit(data.train)
    device = array_api_strict.Device("device1")
    for dtype in (array_api_strict.float32, array_api_strict.float64):
        Z = array_api_strict.asarray(
            np.concatenate([data.test, np.zeros((1, 12))]), dtype=dtype, device=device
        )
        scores = detector.score_samples(Z)
        assert scores.device == device and scores.dtype == dtype
        wanted = np.append(detector.score_samples(data.test), -2)
        host = array_api_strict.Device("CPU_DEVICE")
        np.testing.assert_allclose(np.asarray(scores.to_device(host)), wanted, atol=1e-6)


# Gradients, streams and storage


def test_knn_gradient_equals_that_of_the_direct_formula(data: Data):
    detector = KNN(k=4).fit(data.train)
    Z = torch.asarray(data.test.copy()).requires_grad_()
    detector.score_samples(Z).sum().backward()
    other = torch.asarray(data.test.copy()).requires_grad_()
    bank = torch.nn.functional.normalize(torch.asarray(data.train))
    gaps = torch.nn.functional.normalize(other)[:, None, :] - bank
    (-torch.sort((gaps**2).sum(dim=2).sqrt(), dim=1).values[:, 3]).sum().backward()
    np.testing.assert_allclose(Z.grad.numpy(), other.grad.numpy(), atol=1e-12)


def test_knn_gradient_is_zero_where_the_distance_is_and_at_zero_rows(data: Data):
    rows = np.concatenate([data.train[:3], np.zeros((2, 12))]).astype(np.float32)
    detector = KNN(k=1).partial_fit(rows)
    Z = torch.asarray(rows).requires_grad_()
    detector.score_samples(Z).sum().backward()
    np.testing.assert_array_equal(Z.grad.numpy(), 0)


def test_knn_check_of_k_waits_for_the_end_of_a_stream():
    rows = np.random.default_rng(0).random((12, 3))
    with pytest.raises(
        typica.InputError, match=r"^KNN.fit: k=50 exceeds the 12 training rows; pass k<=12\.$"
    ):
        KNN().fit(rows)
    stream = KNN(k=15).partial_fit(rows)
    with pytest.raises(
        typica.InputError,
        match=r"^KNN.score_samples: k=15 exceeds the 12 training rows; pass k<=12\.$",
    ):
        stream.score_samples(rows)
    np.testing.assert_array_equal(
        stream.partial_fit(rows).score_samples(rows),
        KNN(k=15).fit(np.concatenate([rows, rows])).score_samples(rows),
    )
    with pytest.raises(
        typica.InputError,
        match=r"k=3 exceeds the 2 training rows that were kept; pass k<=2, or a larger",
    ):
        KNN(k=3, subsample=2).fit(rows)
    with pytest.raises(
        typica.InputError,
        match=r"KNN.fit: k=2 exceeds the 1 training row \(1 sample\); pass k<=1\.",
    ):
        KNN(k=2).fit(rows[:1])
    assert stream.set_params(k=2).score_samples(rows).max() == 0


def test_subsample_keeps_a_share_or_a_number_of_rows(data: Data):
    train = data.train.astype(np.float32)
    for subsample, size in (
        (None, 240),
        (0.1, 24),
        (0.101, 25),
        (1.0, 240),
        (30, 30),
        (1000, 240),
        (np.int64(9), 9),
    ):
        bank = KNN(k=3, subsample=subsample).fit(train).rows_
        assert bank.shape == (size, 12) and bank.dtype == np.float32
        assert len(np.unique(bank, axis=0)) == size
    first, again, other = (KNN(k=3, subsample=30, seed=seed).fit(train).rows_ for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    stream = KNN(k=3, subsample=0.1).partial_fit(train).partial_fit(train)
    assert len(np.unique(stream.rows_, axis=0)) > 24  # each batch has a sample of its own
    merged = KNN(k=3, subsample=0.1).merge(stream).merge(stream)
    assert len(merged.rows_) == 96
    few = KNN(k=5, subsample=0.01).partial_fit(train[:100])  # no fewer than k in all
    assert len(few.rows_) == 5 and len(few.partial_fit(train[100:200]).rows_) == 6


def test_a_sample_of_a_fixed_number_does_not_grow(data: Data):
    detector = KNN(k=3, subsample=30).fit(data.train)
    message = (
        "a sample of a fixed number of rows cannot take in more; pass subsample as a share, or None"
    )
    with pytest.raises(typica.InputError, match=f"KNN.partial_fit: {message}"):
        detector.partial_fit(data.train)
    with pytest.raises(typica.InputError, match=f"KNN.merge: {message}"):
        detector.merge(KNN(k=3, subsample=30).fit(data.train))


def test_bad_parameters_are_named(data: Data):
    for detector, message in [
        (KNN(k=0), r"KNN.fit: k=0 is not an integer of at least 1; pass k>=1\."),
        (KNN(k=2.5), r"KNN.fit: k=2.5 is not an integer"),
        (KNN(k=True), r"KNN.fit: k=True is not an integer"),
        (
            KNN(subsample=0.0),
            (
                r"KNN.fit: subsample=0.0 is neither a share nor a number of rows; "
                r"pass e.g. 0.01, 1000 or None"
            ),
        ),
        (KNN(subsample=1.5), r"KNN.fit: subsample=1.5 is neither"),
        (KNN(subsample=0), r"KNN.fit: subsample=0 is neither"),
        (KNN(subsample=True), r"KNN.fit: subsample=True is neither"),
        (KNN(subsample="all"), r"KNN.fit: subsample='all' is neither"),
        (KNN(seed=-1), r"KNN.fit: seed=-1 is not an integer of at least 0"),
        (
            KNN(index="annoy"),
            r"KNN.fit: index='annoy' is unknown; pass None \(exact\) or \"faiss\"\.",
        ),
        (NNGuide(data.head, k=0), r"NNGuide.fit: k=0 is not an integer"),
        (
            NNGuide(data.head, subsample=3),
            (
                r"NNGuide.fit: k=10 exceeds the 3 training rows that were kept; "
                r"pass k<=3, or a larger subsample\."
            ),
        ),
        (LOF(k=-3), r"LOF.fit: k=-3 is not an integer"),
        (IsolationForest(trees=0), r"IsolationForest.fit: trees=0 is not an integer"),
        (IsolationForest(seed=0.5), r"IsolationForest.fit: seed=0.5 is not a seed"),
        (IsolationForest(seed=2**40), r"seed=1099511627776 is not a seed; pass an integer from 0"),
    ]:
        with pytest.raises(typica.InputError, match=message):
            detector.fit(data.train, data.labels)


def test_knn_is_stored_in_the_precision_it_was_given(data: Data, tmp_path):
    for dtype, kept in (
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
    ):
        KNN(k=3).fit(data.train.astype(dtype)).save(tmp_path / "knn.safetensors")
        assert typica.load(tmp_path / "knn.safetensors").rows_.dtype == kept
    stream = KNN(k=3).partial_fit(data.train[:100]).partial_fit(data.train[100:])
    stream.save(tmp_path / "stream.safetensors")
    wanted = KNN(k=3).fit(data.train).score_samples(data.test)
    np.testing.assert_array_equal(
        typica.load(tmp_path / "stream.safetensors").score_samples(data.test), wanted
    )


def test_pickles_hold_the_bank_once(data: Data):
    train = np.random.default_rng(0).random((2000, 40))
    detector = KNN(k=3).fit(train)
    detector.score_samples(train)
    assert len(pickle.dumps(detector)) < 1.2 * train.nbytes


def test_the_note_on_a_zero_row(data: Data):
    answers = KNN(k=3).fit(data.train).explain(np.concatenate([data.test[:1], np.zeros((1, 12))]))
    assert [answer.note for answer in answers] == [
        "", "the feature vector is zero and has no direction, so it scores -2"
    ]  # fmt: skip


# faiss


def test_knn_by_faiss_is_nearly_exact(tmp_path):
    pytest.importorskip("faiss")
    train, Z = few_axes(3000), few_axes(100, seed=1)
    exact = KNN(k=5).fit(train).score_samples(Z)
    detector = KNN(k=5, index="faiss").fit(train)
    scores = detector.score_samples(Z)
    assert (scores <= exact + 1e-6).all()  # what is searched less finds nothing nearer
    assert np.mean(np.isclose(scores, exact, rtol=1e-4)) > 0.9
    detector.save(tmp_path / "faiss.safetensors")
    np.testing.assert_array_equal(
        typica.load(tmp_path / "faiss.safetensors").score_samples(Z), scores
    )
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(detector)).score_samples(Z), scores)


def test_knn_by_faiss_where_the_cells_searched_hold_too_few():
    pytest.importorskip("faiss")
    rng = np.random.default_rng(0)
    train, Z = few_axes(800), few_axes(5, seed=1)
    for k in (600, 800):
        np.testing.assert_allclose(
            KNN(k=k, index="faiss").fit(train).score_samples(Z),
            KNN(k=k).fit(train).score_samples(Z),
            atol=0.01,
        )
    few = rng.random((12, 3))
    with pytest.warns(typica.CalibrationWarning):
        wanted = KNN(k=3).fit(few).score_samples(few)
    with pytest.warns(typica.CalibrationWarning):
        np.testing.assert_allclose(
            KNN(k=3, index="faiss").fit(few).score_samples(few), wanted, atol=1e-6
        )


def test_a_missing_faiss_is_named(data: Data, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(
        typica.InputError,
        match=r"KNN.fit: faiss is not installed; .* pip install 'typica\[faiss\]'",
    ):
        KNN(k=3, index="faiss").fit(data.train)


# NNGuide, LOF, isolation forest


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 5, 40])
def test_nnguide_equals_the_loop(data: Data, dtype, k):
    W, b = data.head.weight / 4, np.array([0.5, -0.5, 0.0, 0.25])
    train = np.concatenate([data.train[:38], np.zeros((2, 12))]).astype(dtype)
    Z = np.concatenate([data.test[:6], data.ood[:6], np.zeros((1, 12))]).astype(dtype)
    detector = NNGuide(Head(W, b), k=k, subsample=None).fit(train)
    wanted = reference_nnguide(W, b, train, Z, k)
    assert wanted[-1] == 0
    atol = detector.tags.tolerance[0 if dtype is np.float32 else 1] * np.abs(wanted).max()
    np.testing.assert_allclose(detector.score_samples(Z), wanted, rtol=0, atol=atol)
    for xp in (torch, array_api_strict):
        np.testing.assert_allclose(
            np.asarray(detector.score_samples(xp.asarray(Z))), wanted, rtol=0, atol=atol
        )


def test_nnguide_follows_its_head_and_samples_its_bank(data: Data):
    detector = NNGuide(data.head, k=3, subsample=0.1, seed=5).fit(data.train)
    bank = detector.rows_
    assert bank.shape == (24, 12)
    other = Head(data.head.weight / 9)
    wanted = reference_nnguide(other.weight, other.bias, bank, data.test[:5], 3)
    np.testing.assert_allclose(
        detector.set_params(head=other).score_samples(data.test[:5]), wanted, rtol=1e-12
    )
    Z = torch.zeros((2, 12), requires_grad=True)
    detector.score_samples(Z).sum().backward()
    assert torch.isfinite(Z.grad).all()


@pytest.mark.parametrize("width", [3, 12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lof_equals_scikit_learn(data: Data, width, dtype):
    train, Z = (
        data.train[:, :width].astype(dtype),
        np.concatenate([data.test, data.ood])[:, :width].astype(dtype),
    )
    wanted = LocalOutlierFactor(n_neighbors=7, novelty=True).fit(train).score_samples(Z)
    np.testing.assert_array_equal(LOF(k=7).fit(train).score_samples(Z), wanted.astype(dtype))
    parts = LOF(k=7).partial_fit(train[:99]).merge(LOF(k=7).partial_fit(train[99:]))
    np.testing.assert_allclose(
        parts.score_samples(Z), wanted, rtol=1e-5 if dtype is np.float32 else 1e-12
    )


def test_lof_of_one_precision_scores_the_other(data: Data):
    detector = LOF(k=7).fit(data.train.astype(np.float32))
    wanted = detector.score_samples(data.test.astype(np.float32))
    scores = detector.score_samples(data.test)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, wanted, rtol=1e-6)


def test_lof_keeps_a_sample_and_scikit_learns_warnings(data: Data):
    detector = LOF(k=5, subsample=0.5).fit(data.train)
    wanted = (
        LocalOutlierFactor(n_neighbors=5, novelty=True).fit(detector.rows_).score_samples(data.test)
    )
    np.testing.assert_array_equal(detector.score_samples(data.test), wanted)
    assert len(detector.rows_) == 120
    with pytest.warns(
        UserWarning, match=r"n_neighbors \(20\) is greater than the total number of samples \(19\)"
    ):
        LOF().fit(data.train[:19])


def test_lof_refuses_distances_that_overflow(data: Data):
    with pytest.raises(typica.InputError, match="so large that distances between them overflow"):
        LOF(k=3).fit(1e200 * data.train)


def test_knn_takes_no_labels_for_no_labels(data: Data):
    assert KNN(k=1).fit(data.train, []).score_samples(data.test).shape == (120,)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_isolation_forest_equals_scikit_learn(data: Data, dtype, tmp_path):
    train, Z = data.train.astype(dtype), np.concatenate([data.test, data.ood]).astype(dtype)
    detector = IsolationForest(trees=30, seed=4).fit(train)
    wanted = SklearnForest(n_estimators=30, random_state=4).fit(train).score_samples(Z)
    np.testing.assert_array_equal(detector.score_samples(Z), wanted.astype(dtype))
    with pytest.raises(
        typica.InputError, match=r"IsolationForest.save: .* only pickle can store; fit it again"
    ):
        detector.save(tmp_path / "forest.safetensors")
    inside = Ensemble([IsolationForest(trees=30)]).fit(train)
    for whole in (make_pipeline(StandardScaler(), detector), inside):
        with pytest.raises(typica.InputError, match="only pickle can store; fit it again"):
            typica.save(whole, tmp_path / "forest.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.real
def test_real_cifar10_features_give_the_papers_numbers(real):
    train, test = real["train.features"], real["test.features"]
    detector = KNN(k=50).fit(train)
    known = detector.score_samples(test)
    for name, auroc, within in [("svhn", 0.9922, 0.005), ("textures", 0.9613, 0.015)]:
        strange = detector.score_samples(real[f"ood.{name}.features"])
        assert typica.evaluate(known, strange).auroc == pytest.approx(auroc, abs=within)
    bank = train.astype(np.float64) / np.linalg.norm(
        train.astype(np.float64), axis=1, keepdims=True
    )
    for i in (0, 4321, 9999):
        u = test[i].astype(np.float64) / np.linalg.norm(test[i].astype(np.float64))
        assert known[i] == pytest.approx(-np.sort(np.linalg.norm(bank - u, axis=1))[49], abs=1e-6)


def test_lof_needs_two_rows() -> None:
    with pytest.raises(typica.InputError, match="n_samples=1 has no neighbours; pass at least 2"):
        typica.LOF(k=1).fit(np.ones((1, 4)))


def test_knn_warns_where_k_exceeds_a_class(data: Data):
    labels = np.where(np.arange(240) < 12, "eel", "cat")
    with pytest.warns(
        typica.InputWarning,
        match=r"KNN.fit: k=13 exceeds the 12 rows that are kept of class eel: "
        r"the k-th neighbour .* pass k<=12, or more of its rows",
    ):
        KNN(k=13).fit(data.train, labels)
    with pytest.warns(
        typica.InputWarning, match="k=7 exceeds the 6 rows that are kept of class eel"
    ):
        KNN(k=7, subsample=0.5).fit(data.train, labels)
    # Warnings are errors here.
    KNN(k=12).fit(data.train, labels)
    KNN(k=13).fit(data.train)


def many_rows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(2100, 5))


@pytest.mark.parametrize("make", [lambda: KNN(k=3), typica.CTM, typica.Mahalanobis])
def test_the_threshold_of_many_rows_waits_until_it_is_asked_for(make, monkeypatch):
    labels = np.arange(2100) % 3
    detector = make().fit(many_rows(), labels)
    assert "training_offset_" not in vars(detector)
    chosen = np.sort(np.random.default_rng(0).choice(2100, 2048, replace=False))
    scores = np.sort(detector.score_samples(many_rows()[chosen]))
    assert detector.offset_ == pytest.approx(scores[int(0.05 * 2049) - 1], rel=1e-6)
    assert vars(detector)["training_offset_"] == detector.offset_
    assert not hasattr(detector, "_training_sample")


def test_a_calibration_comes_in_place_of_a_threshold_that_waits(monkeypatch):
    detector = typica.CTM().fit(many_rows(), np.arange(2100) % 3)
    held_out = many_rows()[:500] + 0.01
    monkeypatch.setattr(detector, "_provisional_threshold", None)  # which nobody may call
    detector.calibrate(held_out, alpha=0.1)
    assert (detector.predict(held_out) == -1).mean() <= 0.1


def test_a_threshold_that_waits_is_stored_and_pickled(tmp_path):
    detector = KNN(k=3).fit(many_rows())
    copied = pickle.loads(pickle.dumps(detector))
    again = KNN(k=3).fit(many_rows())
    again.save(tmp_path / "knn.safetensors")
    loaded = typica.load(tmp_path / "knn.safetensors")
    assert detector.offset_ == copied.offset_ == loaded.offset_


def test_a_threshold_that_waits_is_forgotten_with_what_it_stood_for():
    detector = KNN(k=3).fit(many_rows())
    detector.k = 4
    with pytest.raises(typica.InputError, match="no threshold"):
        _ = detector.offset_
    detector = KNN(k=3).fit(many_rows()).partial_fit(many_rows())
    with pytest.raises(typica.InputError, match="no threshold"):
        _ = detector.offset_
    with pytest.raises(typica.InputError):
        detector.fit(np.full((2100, 5), np.nan))
    assert not hasattr(detector, "training_offset_")
