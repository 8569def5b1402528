"""Very many classes, and very many rows: tiles, approximate search, codes in place of rows."""

from __future__ import annotations

import copy
import pickle
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import typica
from typica import CTM, CW, KNN, Head, InputError

faiss = pytest.importorskip("faiss")


def cosines(directions, Z):
    """All cosines, written out in float64; -1 for a zero row."""
    D = directions / np.sqrt((directions**2).sum(axis=1, keepdims=True))
    lengths = np.sqrt((Z.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    with np.errstate(invalid="ignore"):
        S = Z.astype(np.float64) @ D.T / lengths
    return np.where(lengths == 0, -1.0, S)


@given(
    st.integers(1, 30),
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["numpy", "torch"]),
)
def test_tiles_change_nothing(classes, tile, seed, backend):
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(classes, 4)).round(1) + 0.05
    Z = rng.normal(size=(7, 4)).round(1)
    Z[3] = 0
    S = cosines(weight, Z)
    detector = CW(Head(weight))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typica.cosines.TILE", tile)
        given_rows = torch.tensor(Z, requires_grad=True) if backend == "torch" else Z
        scores = detector.score_samples(given_rows)
        if backend == "torch":
            scores.sum().backward()
            assert torch.isfinite(given_rows.grad).all()
            scores = scores.detach().numpy()
        matches = detector.match(Z)
        assert (detector.classify(Z) == matches.nearest).all()
    np.testing.assert_allclose(scores, S.max(axis=1), atol=1e-12)
    every = np.arange(len(Z))
    np.testing.assert_allclose(S[every, matches.nearest], S.max(axis=1), atol=1e-12)
    if classes == 1:
        assert (matches.runner_up == -1).all()
        return
    assert (matches.nearest != matches.runner_up).all()
    np.testing.assert_allclose(S[every, matches.runner_up], np.sort(S, axis=1)[:, -2], atol=1e-12)


def many(classes, rows=300, m=24, seed=0):
    """Class means in families, rows near them, and rows of no class."""
    rng = np.random.default_rng(seed)
    families = np.abs(rng.normal(size=(classes // 40, m)))
    means = np.abs(
        families[np.arange(classes) % len(families)] + 0.5 * rng.normal(size=(classes, m))
    )
    own = rng.integers(classes, size=rows)
    return means, means[own] + 0.2 * rng.normal(size=(rows, m)), np.abs(rng.normal(size=(rows, m)))


@pytest.mark.parametrize("index", ["hnsw", "ivf"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_index_finds_nearly_all_and_its_cosines_are_exact(index, dtype, tmp_path):
    means, Z, strange = many(2000)
    Z[5] = 0
    exact = CTM().fit(means, np.arange(2000))
    detector = CTM(index=index).fit(means, np.arange(2000))
    S = cosines(means, Z)
    verdicts = detector.judge(Z.astype(dtype))
    atol = 1e-6 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(verdicts.score, S[np.arange(len(Z)), verdicts.nearest], atol=atol)
    np.testing.assert_allclose(
        verdicts.runner_up_similarity, S[np.arange(len(Z)), list(verdicts.runner_up)], atol=atol
    )
    assert np.mean(verdicts.nearest == S.argmax(axis=1)) > 0.98
    assert (verdicts.score[5], verdicts.nearest[5], verdicts.runner_up[5]) == (-1.0, 0, 1)
    lost = exact.score_samples(strange) - detector.score_samples(strange)
    assert (lost >= -1e-12).all() and lost.mean() < 0.01
    detector.save(tmp_path / "ctm.safetensors")
    again = typica.load(tmp_path / "ctm.safetensors")
    assert again.index == index and (again.classes_ == detector.classes_).all()
    np.testing.assert_allclose(again.score_samples(Z), detector.score_samples(Z), atol=0.05)
    assert (tmp_path / "ctm.safetensors").stat().st_size < 2.2 * means.nbytes


@pytest.mark.parametrize("index", ["hnsw", "ivf"])
def test_an_index_of_few_classes_and_of_tensors(index):
    means, Z, _ = many(80)
    for classes in (1, 2, 3, 80):
        detector = CTM(index=index).partial_fit(means[:classes], np.arange(classes))
        S = cosines(means[:classes], Z)
        np.testing.assert_allclose(detector.score_samples(Z), S.max(axis=1), atol=1e-9)
        rows = torch.tensor(Z, requires_grad=True)
        scores = detector.score_samples(rows)
        scores.sum().backward()
        assert torch.isfinite(rows.grad).all() and rows.grad.abs().sum() > 0
        assert (detector.classify(Z) == S.argmax(axis=1)).all()


def test_what_an_index_does_not_find_is_compared_with_all(monkeypatch):
    from typica.detectors import _index

    means, Z, _ = many(200)
    detector = CTM(index="ivf").fit(means, np.arange(200))
    monkeypatch.setattr(
        _index.DirectionIndex, "nearest_two", lambda self, U: np.full((len(U), 2), -1)
    )
    S = cosines(means, Z)
    matches = detector.match(Z)
    assert (matches.nearest == S.argmax(axis=1)).all()
    assert (matches.runner_up == np.argsort(-S, axis=1)[:, 1]).all()


def test_an_index_follows_what_is_learnt():
    means, Z, _ = many(200)
    detector = CTM(index="hnsw").fit(means[:100], np.arange(100))
    detector.score_samples(Z)
    detector.merge(CTM(index="hnsw").fit(means[100:], np.arange(100, 200)))
    np.testing.assert_allclose(detector.score_samples(Z), cosines(means, Z).max(axis=1), atol=1e-9)
    detector.set_params(index=None)
    np.testing.assert_allclose(detector.score_samples(Z), cosines(means, Z).max(axis=1), atol=1e-12)
    with pytest.raises(InputError, match="made with different parameters"):
        detector.merge(CTM(index="ivf").fit(means, np.arange(200)))


def test_an_unknown_index_and_a_missing_faiss_are_named(monkeypatch):
    with pytest.raises(
        InputError, match=r'CTM.fit: index=.annoy. is unknown; pass None \(exact\), "hnsw" or "ivf"'
    ):
        CTM(index="annoy").fit(np.eye(3), [0, 1, 2])
    monkeypatch.setitem(sys.modules, "faiss", None)
    for detector in (CTM(index="hnsw"), KNN(index="ivfpq")):
        with pytest.raises(
            InputError, match=r"faiss is not installed; .* pip install 'typica\[faiss\]'"
        ):
            detector.fit(np.eye(3), [0, 1, 2])


# Codes in place of rows


def rows(n, m=20, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 5)) @ np.random.default_rng(9).normal(
        size=(5, m)
    ) + 0.1 * rng.normal(size=(n, m))


@pytest.fixture(scope="module")
def coded():
    return KNN(k=5, index="ivfpq").fit(rows(3000))


def test_codes_are_nearly_the_rows(coded, tmp_path):
    Z = rows(200, seed=1)
    exact = KNN(k=5).fit(rows(3000)).score_samples(Z)
    scores = coded.score_samples(Z)
    assert np.corrcoef(scores, exact)[0, 1] > 0.98
    assert coded.rows_.dtype == np.uint8 and coded.rows_.shape == (3000, 21)
    coded.save(tmp_path / "knn.safetensors")
    np.testing.assert_array_equal(
        typica.load(tmp_path / "knn.safetensors").score_samples(Z), scores
    )
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(coded)).score_samples(Z), scores)
    single = coded.score_samples(Z.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, scores, atol=1e-4)
    tensor = coded.score_samples(torch.tensor(Z))
    np.testing.assert_array_equal(tensor.numpy(), scores)


def test_zero_rows_have_no_direction(coded):
    assert coded.score_samples(np.zeros((1, 20))).tolist() == [-2.0]
    X = rows(1000)
    X[::2] = 0
    assert len(KNN(k=5, index="ivfpq").fit(X).rows_) == 500


def test_parts_that_code_alike_merge_to_the_whole():
    X, Z = rows(3000), rows(50, seed=1)
    begun = KNN(k=5, index="ivfpq").train_index(X[:1000], n=3000)
    whole = copy.deepcopy(begun).partial_fit(X)
    parts = [copy.deepcopy(begun).partial_fit(X[i::3]) for i in range(3)]
    merged = copy.deepcopy(begun)
    for part in parts:
        merged.merge(part)
    assert len(merged.rows_) == 3000 and merged.quantiser_.cells == 25
    np.testing.assert_array_equal(merged.score_samples(Z), whole.score_samples(Z))
    stream = copy.deepcopy(begun).partial_fit(X[:500]).partial_fit(X[500:])
    np.testing.assert_array_equal(stream.score_samples(Z), whole.score_samples(Z))
    other = KNN(k=5, index="ivfpq").fit(rows(3000, seed=5))
    with pytest.raises(InputError, match=r"KNN.merge: the two code their rows differently"):
        merged.merge(other)


def test_k_beyond_the_cells_searched():
    X, Z = rows(3000), rows(20, seed=1)
    exact = KNN(k=2990).fit(X).score_samples(Z)
    np.testing.assert_allclose(KNN(k=2990, index="ivfpq").fit(X).score_samples(Z), exact, atol=0.05)


def test_bad_codes_are_refused(coded, tmp_path):
    from typica.detectors._ivfpq import Quantiser

    quantiser = coded.quantiser_
    bad = coded.rows_.copy()
    bad[7, 0] = 255  # of 55 cells
    for codes in (bad, bad[:, 1:], bad.astype(np.int64)):
        broken = copy.deepcopy(coded)
        broken.batches_ = [codes]
        broken._drop_derived()
        with pytest.raises(InputError, match="fit again"):
            broken.score_samples(np.ones((1, 20)))
    for state in (
        {**quantiser.state(), "centres": np.full((3, 20), np.nan)},
        {**quantiser.state(), "centres": np.ones((3, 7))},
        {**quantiser.state(), "codebooks": np.ones((20, 200, 1))},
        {**quantiser.state(), "n_features": 21},
    ):
        with pytest.raises(InputError, match="fit again"):
            Quantiser.from_state(state)


def test_what_codes_cannot_do_is_said(coded):
    X = rows(300)
    with pytest.raises(
        InputError, match=r"KNN.fit: index='ivfpq' needs 256 rows or more .* got 100"
    ):
        KNN(k=5, index="ivfpq").fit(X[:100])
    with pytest.raises(InputError, match=r"KNN.fit: k=301 exceeds the 300 training rows"):
        KNN(k=301, index="ivfpq").fit(X)
    with pytest.raises(InputError, match="index=None has nothing to learn; pass index='ivfpq'"):
        KNN().train_index(X)
    with pytest.raises(InputError, match=r"KNN.train_index: n=-5 is not an integer of at least 1"):
        KNN(index="ivfpq").train_index(X, n=-5)
    with pytest.raises(InputError, match="there are rows already"):
        copy.deepcopy(coded).train_index(X)
    with pytest.raises(InputError, match="row 3 of the features holds NaN"):
        KNN(index="ivfpq").train_index(np.where(np.arange(300)[:, None] == 3, np.nan, X))
    with pytest.raises(InputError, match="7 features, and the index was trained on 20"):
        KNN(k=5, index="ivfpq").train_index(X).partial_fit(X[:, :7])
    with pytest.raises(InputError, match="index='ivfpq' was set after the fit; call fit again"):
        KNN(k=5).fit(X).set_params(index="ivfpq").score_samples(X)
    with pytest.raises(InputError, match="index=None was set after the fit; call fit again"):
        copy.deepcopy(coded).set_params(index=None).score_samples(X)
    pytest.importorskip("spox")
    with pytest.raises(InputError, match="codes that only faiss can search; fit with index=None"):
        typica.export.to_onnx(coded)
