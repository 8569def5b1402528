"""Very many classes: directions are compared one tile after another."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from typica import CW, Head


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
