"""Traced arrays against NumPy: a graph does in ONNX Runtime what the same code does to arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import spox
from helpers.export import session
from hypothesis import given, settings
from hypothesis import strategies as st

from typica.export._counting import count_among, count_in_segments
from typica.export._namespace import xp
from typica.export._traced import ExportError, Traced

WIDTH = 5
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(7, WIDTH)).astype(np.float32)
OTHERS = RNG.normal(size=(7, WIDTH)).astype(np.float32)
KNOWN = np.linspace(-1, 1, WIDTH, dtype=np.float32)


def traced(function: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """Run a function of arrays as a graph; the number of rows is open."""
    inputs = {}
    for number, array in enumerate(arrays):
        shape = ("N", *array.shape[1:])
        inputs[f"x{number}"] = spox.argument(spox.Tensor(array.dtype, shape))
    found = function(*[Traced(var) for var in inputs.values()])
    model = spox.build(inputs, {"y": found.var})
    given = {f"x{number}": array for number, array in enumerate(arrays)}
    return session(model).run(["y"], given)[0]


ONE = {
    "abs": lambda np, x: np.abs(x),
    "operators": lambda np, x: -(+x) * 2 + 1 - x / 3 + 2 * abs(x) - (1 - x) + 1 / (x * x + 1),
    "power": lambda np, x: (x * x) ** 0.5,
    "comparisons": lambda np, x: ((x < 0.5) & (x > -0.5)) | (x <= -1) | (x >= 1) | (x == 0),
    "not equal": lambda np, x: (x != 0) & ~(x > 0),
    "exp": lambda np, x: np.exp(x),
    "log": lambda np, x: np.log(abs(x) + 1),
    "sqrt": lambda np, x: np.sqrt(abs(x)),
    "floor": lambda np, x: np.floor(x),
    "cos": lambda np, x: np.cos(x),
    "tanh": lambda np, x: np.tanh(x),
    "sign": lambda np, x: np.sign(x),
    "square": lambda np, x: np.square(x),
    "expm1": lambda np, x: np.expm1(x * 1e-3),
    "log1p": lambda np, x: np.log1p(abs(x) * 1e-4),
    "isfinite": lambda np, x: np.isfinite(x),
    "isnan": lambda np, x: np.isnan(np.log(x)),
    "sum": lambda np, x: np.sum(x, axis=1),
    "sum kept": lambda np, x: np.sum(x, axis=-1, keepdims=True),
    "mean": lambda np, x: np.mean(x, axis=1),
    "max": lambda np, x: np.max(x, axis=1),
    "min": lambda np, x: np.min(x, axis=1, keepdims=True),
    "all": lambda np, x: np.all(x > -1, axis=1),
    "any": lambda np, x: np.any(x > 1, axis=1),
    "argmax": lambda np, x: np.argmax(x, axis=1),
    "argmin": lambda np, x: np.argmin(x, axis=1),
    "clip": lambda np, x: np.clip(x, -0.5, 0.5),
    "reshape": lambda np, x: np.reshape(x, (-1, 1)),
    "transpose": lambda np, x: x.T,
    "astype": lambda np, x: (
        x.astype("float64") if isinstance(x, _ndarray) else np.astype(x, "float64")
    ),
    "where": lambda np, x: np.where(x > 0, x, np.zeros_like(x)),
    "where full": lambda np, x: np.where(x > 0, np.ones_like(x), x),
    "where a number": lambda np, x: np.where(x > 0, x, -1.0),
    "first": lambda np, x: x[:, 0],
    "last": lambda np, x: x[:, -1],
    "part": lambda np, x: x[:, 1:-1],
    "rows": lambda np, x: x[2:],
    "new axes": lambda np, x: x[:, None, :, None],
    "ellipsis": lambda np, x: x[..., 1],
    "ellipsis and new": lambda np, x: x[..., None],
    "number and new": lambda np, x: x[:, 2, None],
}
_ndarray = np.ndarray


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_array(name):
    function = ONE[name]
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = function(np, ROWS)
    found = traced(lambda x: function(xp, x), ROWS)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)


TWO = {
    "matmul": lambda np, x, y: x @ y.T,
    "concat": lambda np, x, y: np.concat([x, y], axis=1),
    "stack": lambda np, x, y: np.stack([x, y], axis=1),
    "minimum": lambda np, x, y: np.minimum(x, y),
    "maximum": lambda np, x, y: np.maximum(x, y),
    "vecdot": lambda np, x, y: np.vecdot(x, y),
    "take along": lambda np, x, y: np.take_along_axis(x, np.argmax(y, axis=1)[:, None], axis=1),
}


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_arrays(name):
    function = TWO[name]
    found = traced(lambda x, y: function(xp, x, y), ROWS, OTHERS)
    np.testing.assert_allclose(found, function(np, ROWS, OTHERS), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("descending", [False, True])
def test_sorting(descending):
    found = traced(lambda x: xp.sort(x, axis=1, descending=descending), ROWS)
    places = traced(lambda x: xp.argsort(x, axis=1, descending=descending), ROWS)
    expected = np.sort(ROWS, axis=1)
    np.testing.assert_array_equal(found, expected[:, ::-1] if descending else expected)
    np.testing.assert_array_equal(np.take_along_axis(ROWS, places, axis=1), found)


def test_constants_are_known_before_the_graph_runs():
    known = xp.asarray(KNOWN)
    assert known.shape == (WIDTH,) and known[1].value == KNOWN[1] and known.T.value is not None
    found = traced(lambda x: x * known + xp.arange(WIDTH, dtype=np.float32), ROWS)
    np.testing.assert_allclose(found, ROWS * KNOWN + np.arange(WIDTH), rtol=1e-6)
    gathered = traced(lambda x: xp.take(known, xp.argmax(x, axis=1)), ROWS)
    np.testing.assert_array_equal(gathered, KNOWN[np.argmax(ROWS, axis=1)])


def test_the_shape_of_what_is_full_of_one_number():
    with_rows = spox.argument(spox.Tensor(np.dtype(np.float32), ("N", WIDTH)))
    full = xp.full_like(Traced(with_rows), 3)
    assert full.shape == (None, WIDTH) and full.ndim == 2
    np.testing.assert_array_equal(traced(lambda x: xp.full_like(x, 3), ROWS), np.full_like(ROWS, 3))


NUMBERS = st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=40)


@settings(max_examples=40)
@given(NUMBERS, NUMBERS, st.booleans())
def test_counts_are_those_of_a_loop(known, asked, strictly):
    sorted_known = np.sort(np.array(known, dtype=np.float32))
    x = np.array(asked, dtype=np.float32)
    found = traced(lambda x: count_among(sorted_known, x, strictly), x)
    expected = [sum(k < one if strictly else k <= one for k in sorted_known) for one in x]
    assert found.tolist() == expected
    side = "left" if strictly else "right"
    again = traced(lambda x: xp.searchsorted(xp.asarray(sorted_known), x, side=side), x)
    assert again.tolist() == expected


@settings(max_examples=40)
@given(st.lists(NUMBERS, min_size=1, max_size=4), NUMBERS, st.randoms(use_true_random=False))
def test_counts_in_segments_are_those_of_a_loop(segments, asked, random):
    parts = [np.sort(np.array(part, dtype=np.float32)) for part in segments]
    sizes = np.array([len(part) for part in parts])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    x = np.array(asked, dtype=np.float32)
    which = np.array([random.randrange(len(parts)) for _ in asked], dtype=np.int64)
    found = traced(
        lambda which, x: count_in_segments(np.concatenate(parts), starts, sizes, which, x), which, x
    )
    assert found.tolist() == [
        sum(k <= one for k in parts[place]) for place, one in zip(which, x, strict=True)
    ]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: x[:, ::2], "slices without steps"),
        (lambda x: x[::-1], "slices without steps"),
        (lambda x: x[x > 0], "take_along_axis or where"),
        (lambda x: x[:, np.array([0, 1])], "take_along_axis or where"),
        (lambda x: x[:, True], "take_along_axis or where"),
        (lambda x: x if x > 0 else -x, "looks at values"),
        (lambda x: float(x[0, 0]), "looks at values"),
        (np.asarray, "looks at values"),
        (len, "looks at values"),
        (lambda x: xp.fft(x, 1), "fft has no counterpart"),
        (lambda x: xp.sort(x, axis=0), "unknown width"),
        (lambda x: xp.searchsorted(x, x), "known when it is exported"),
    ],
)
def test_what_no_graph_can_do(function, says):
    x = Traced(spox.argument(spox.Tensor(np.dtype(np.float32), ("N", WIDTH))))
    with pytest.raises(ExportError, match=says):
        function(x)
