"""Strangers made of known images.

They are deterministic, as strong as they say, and of two classes where they are mixed.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import typica
from typica.data.corrupt import CORRUPTIONS, mixed


def images(n: int = 6, h: int = 32, w: int = 40, seed: int = 0) -> np.ndarray:
    """Slow waves with a little noise, as photos have them."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:h, :w]
    waves = [
        np.sin(x * rng.uniform(0.05, 0.4) + y * rng.uniform(0.05, 0.4) + k) for k in range(3 * n)
    ]
    values = 128 + 90 * np.stack(waves).reshape(n, 3, h, w).transpose(0, 2, 3, 1)
    return np.clip(values + rng.normal(scale=4, size=values.shape), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_contract(name):
    corrupt, given_ = CORRUPTIONS[name], images()
    before = given_.copy()
    got = corrupt(given_, 0)
    assert got.shape == given_.shape and got.dtype == np.uint8 and got.flags.c_contiguous
    assert np.array_equal(given_, before) and not np.shares_memory(got, given_)
    assert np.array_equal(got, corrupt(given_, 0))
    # Image i depends on image i, the seed and i alone.
    assert np.array_equal(corrupt(given_[:3], 0), got[:3])
    changed = np.mean(got != given_, axis=(1, 2, 3))
    assert changed.min() > 0.3, changed
    random = name in ("gaussian_noise", "patch_shuffle")
    assert np.array_equal(corrupt(given_, 1), got) != random
    same = np.repeat(given_[:1], 3, axis=0)
    assert (len(np.unique(corrupt(same, 0), axis=0)) == 3) == random
    assert np.array_equal(corrupt(np.asfortranarray(given_), 0), got)
    assert corrupt(given_[:0], 0).shape == (0, 32, 40, 3)


@settings(max_examples=40)
@given(
    name=st.sampled_from(sorted(CORRUPTIONS)),
    h=st.integers(1, 40),
    w=st.integers(1, 40),
    seed=st.integers(0, 9),
)
def test_any_size(name, h, w, seed):
    got = CORRUPTIONS[name](images(2, h, w), seed)
    assert got.shape == (2, h, w, 3) and got.dtype == np.uint8


def test_each_does_what_it_says():
    p = images(4, 64, 64)
    grey = np.full((1, 128, 128, 3), 128, dtype=np.uint8)
    noise = CORRUPTIONS["gaussian_noise"](grey, 3).astype(float) - 128
    assert abs(noise.mean()) < 1 and abs(noise.std() / (0.15 * 255) - 1) < 0.02
    for name, softer in (("blur", 0.5), ("contrast", 0.3), ("pixelate", 0.9)):
        got = CORRUPTIONS[name](p, 0).astype(float)
        steps = [np.abs(np.diff(values, axis=2)).mean() for values in (got, p.astype(float))]
        assert steps[0] < softer * steps[1], (name, steps)
        assert np.allclose(got.mean((1, 2)), p.mean((1, 2)), atol=3)
    low = CORRUPTIONS["contrast"](p, 0).astype(float)
    mean = p.mean((1, 2), keepdims=True)
    assert np.abs(low - (mean + (p - mean) / 4)).max() <= 0.5
    squares = CORRUPTIONS["pixelate"](p, 0).reshape(4, 8, 8, 8, 8, 3)
    assert np.all(squares == squares[:, :, :1, :, :1])
    exact = p.reshape(4, 8, 8, 8, 8, 3).mean((2, 4))
    assert np.abs(squares[:, :, 0, :, 0] - exact).max() <= 1
    difference = np.abs(CORRUPTIONS["jpeg"](p, 0).astype(float) - p).mean()
    assert 3 < difference < 30


@pytest.mark.parametrize("size", [(32, 32), (33, 35), (64, 20)])
def test_patches_are_all_moved_and_none_lost(size):
    h, w = (length // 4 for length in size)
    p = np.random.default_rng(0).integers(256, size=(3, *size, 3), dtype=np.uint8)
    got = CORRUPTIONS["patch_shuffle"](p, 0)

    def patches(image: np.ndarray) -> list[bytes]:
        return [
            image[r * h : (r + 1) * h, c * w : (c + 1) * w].tobytes()
            for r in range(4)
            for c in range(4)
        ]

    for before, after in zip(p, got, strict=True):
        assert sorted(patches(before)) == sorted(patches(after))
        assert all(a != b for a, b in zip(patches(before), patches(after), strict=True))
        assert np.array_equal(before[4 * h :], after[4 * h :]) and np.array_equal(
            before[:, 4 * w :], after[:, 4 * w :]
        )


@settings(max_examples=60)
@given(
    labels=st.lists(st.integers(0, 3), min_size=2, max_size=30).filter(lambda y: len(set(y)) > 1),
    seed=st.integers(0, 99),
)
def test_mixed_takes_another_class(labels, seed):
    # Image i is the colour i: what it was mixed with can be read off.
    p = np.repeat(np.arange(len(labels), dtype=np.uint8) * 8, 4 * 6 * 3).reshape(-1, 4, 6, 3)
    halves = mixed(p, labels, seed, how="halves")
    partners = halves[:, 0, 5, 0] // 8
    assert np.array_equal(halves[:, :, :3], p[:, :, :3])
    assert all(labels[i] != labels[j] for i, j in enumerate(partners))
    assert np.array_equal(halves[:, :, 3:], p[partners][:, :, 3:])
    assert np.array_equal(mixed(p, labels, seed), (p.astype(int) + p[partners] + 1) // 2)


def test_partners_are_drawn_evenly():
    labels = np.array(["b"] * 3000 + ["a"] * 1000 + ["c"] * 2000)
    p = np.zeros((6000, 1, 2, 3), dtype=np.uint8)
    p[:, :, :, 0] = np.repeat([1, 2, 3], [3000, 1000, 2000])[:, None, None]
    before = p.copy()
    partner = mixed(p, labels, 0, how="halves")[:, 0, 1, 0]
    assert np.array_equal(p, before)
    for own, shares in ((1, {2: 1 / 3, 3: 2 / 3}), (2, {1: 0.6, 3: 0.4}), (3, {1: 0.75, 2: 0.25})):
        found = partner[p[:, 0, 0, 0] == own]
        for other, share in shares.items():
            assert abs(np.mean(found == other) - share) < 0.06
    assert not np.array_equal(mixed(p, labels, 1, how="halves"), mixed(p, labels, 0, how="halves"))


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_greys(name):
    grey = images()[..., :1]
    got = CORRUPTIONS[name](grey, 0)
    assert got.shape == grey.shape and got.dtype == np.uint8
    coloured = CORRUPTIONS[name](np.repeat(grey, 3, axis=3), 0)
    assert np.array_equal(got, coloured[..., :1])
    assert np.array_equal(
        mixed(grey, range(6)), mixed(np.repeat(grey, 3, axis=3), range(6))[..., :1]
    )


def test_bad_input():
    p = images(4, 8, 8)
    for name, corrupt in CORRUPTIONS.items():
        for bad in (p[0], p.astype(float), p[..., :2], p[:, :0]):
            with pytest.raises(typica.InputError, match=r"pass uint8 \(n, height, width, 3\)"):
                corrupt(bad, 0)
        assert corrupt.__name__ == name
    for labels, how, message in (
        ([0, 1], "mean", r"labels of shape \(2,\) for 4 images"),
        ([1, 1, 1, 1], "mean", "the images are of one class; pass"),
        ([0, 1, 0, 1], "both", "how='both'; choose mean or halves"),
    ):
        with pytest.raises(typica.InputError, match=f"mixed: {message}"):
            mixed(p, labels, how=how)
    with pytest.raises(typica.InputError, match="mixed: images of shape"):
        mixed(p[0], [0, 1])
