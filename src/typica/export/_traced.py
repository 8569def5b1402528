"""Arrays that write down what is done to them: the Array API, as operators of ONNX.

A detector's own code runs on them once, and what it did is the graph. They know their dtype and
all of their shape but the number of rows; nobody can look at their values. What the detectors and
rectifiers use is here, and what is easily had beside it. Unlike `ndonnx`, which serves the whole
standard, nothing is guarded against arrays without elements: a maximum is one operator and no
branch, so that the graph stays small and runs in every runtime.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import spox.opset.ai.onnx.v18 as op
from spox import Var

from typica.arrays import AnyArray
from typica.errors import InputError
from typica.export._sklearn import converted

ENDLESS = np.iinfo(np.int64).max


class ExportError(InputError, AttributeError):
    """Something that no exported graph can do."""


class Traced:
    """An array (n, ...) to come.

    value: what is in it, where it is a constant. like: the array of which `full_like` took the
    shape, and fill: the number that it is full of.
    """

    __array_ufunc__ = None  # NumPy's scalars leave the operators to us
    device = "onnx"

    def __init__(
        self, var: Var, value: AnyArray | None = None, like: Traced | None = None, fill: Any = None
    ) -> None:
        self.var = var
        self.value = value
        self.like = like
        self.fill = fill

    @classmethod
    def constant(cls, value: Any, dtype: Any = None) -> Traced:
        """Return an array whose values are known."""
        array = np.ascontiguousarray(value, dtype=dtype)
        return cls(
            op.constant(value=array.reshape(np.shape(value))), array.reshape(np.shape(value))
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = np.dtype(self.var.unwrap_tensor().dtype)
        return dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        if self.like is not None:
            return self.like.shape  # which ONNX does not infer
        shape = self.var.unwrap_tensor().shape
        if shape is None:
            raise ExportError("an array of unknown rank cannot be exported; reshape it.")
        return tuple(size if isinstance(size, int) else None for size in shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def T(self) -> Traced:  # noqa: N802 (the standard's name)
        if self.value is not None:
            return Traced.constant(self.value.T)
        return Traced(op.transpose(self.var))

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return xp

    def __array__(self, *args: Any, **options: Any) -> AnyArray:
        raise _unseen()

    def __bool__(self) -> bool:
        raise _unseen()

    def __float__(self) -> float:
        raise _unseen()

    def __len__(self) -> int:
        raise _unseen()

    def by_sklearn(self, model: Any, method: str) -> Traced:
        """Return what a method of a fitted scikit-learn model makes of these rows."""
        return Traced(converted(model, method, self.var))

    def __getitem__(self, index: Any) -> Traced:
        if self.value is not None:
            return Traced.constant(self.value[index])
        return _indexed(self, index if isinstance(index, tuple) else (index,))

    def __matmul__(self, other: Traced) -> Traced:
        return Traced(op.matmul(self.var, other.var))

    def __neg__(self) -> Traced:
        return Traced(op.neg(self.var))

    def __pos__(self) -> Traced:
        return self

    def __abs__(self) -> Traced:
        return Traced(op.abs(self.var))

    def __invert__(self) -> Traced:
        return Traced(op.not_(self.var))

    def __ne__(self, other: Any) -> Any:
        return ~(self == other)

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Any) -> Traced:
        return _joined(op.add, self, other)

    def __radd__(self, other: Any) -> Traced:
        return _joined(op.add, other, self)

    def __sub__(self, other: Any) -> Traced:
        return _joined(op.sub, self, other)

    def __rsub__(self, other: Any) -> Traced:
        return _joined(op.sub, other, self)

    def __mul__(self, other: Any) -> Traced:
        return _joined(op.mul, self, other)

    def __rmul__(self, other: Any) -> Traced:
        return _joined(op.mul, other, self)

    def __truediv__(self, other: Any) -> Traced:
        return _joined(op.div, self, other)

    def __rtruediv__(self, other: Any) -> Traced:
        return _joined(op.div, other, self)

    def __pow__(self, other: Any) -> Traced:
        return _joined(op.pow, self, other)

    def __eq__(self, other: object) -> Any:
        return _joined(op.equal, self, other)

    def __lt__(self, other: Any) -> Traced:
        return _joined(op.less, self, other)

    def __le__(self, other: Any) -> Traced:
        return _joined(op.less_or_equal, self, other)

    def __gt__(self, other: Any) -> Traced:
        return _joined(op.greater, self, other)

    def __ge__(self, other: Any) -> Traced:
        return _joined(op.greater_or_equal, self, other)

    def __and__(self, other: Any) -> Traced:
        return _joined(op.and_, self, other)

    def __or__(self, other: Any) -> Traced:
        return _joined(op.or_, self, other)


def _unseen() -> InputError:
    return ExportError(
        "its code looks at values, which an exported graph does not have yet; write it in array "
        "functions (where in place of if)."
    )


def _joined(operator: Callable[[Var, Var], Var], a: Any, b: Any) -> Traced:
    """Apply an operator of two arrays, or of an array and a number, in their common dtype."""
    left, right = _promoted(a, b)
    return Traced(operator(left.var, right.var))


def _promoted(*parts: Any) -> list[Traced]:
    """Return arrays and numbers as arrays of the dtype that the arrays have in common."""
    dtype = np.result_type(*(part.dtype for part in parts if hasattr(part, "dtype")))
    return [_cast(_as_traced(part, dtype), dtype) for part in parts]


def _as_traced(part: Any, dtype: np.dtype[Any]) -> Traced:
    if isinstance(part, Traced):
        return part
    return Traced.constant(part, dtype)


def _cast(x: Traced, dtype: Any) -> Traced:
    wanted = np.dtype(dtype)
    if x.dtype == wanted:
        return x
    if x.value is not None:
        return Traced.constant(x.value.astype(wanted))
    return Traced(op.cast(x.var, to=wanted))


def _numbers(values: Sequence[int]) -> Var:
    return op.constant(value=np.array(values, dtype=np.int64))


def _indexed(x: Traced, index: tuple[Any, ...]) -> Traced:
    """Return x[index] for slices, whole numbers, None and an ellipsis."""
    index = _without_ellipsis(index, x.ndim)
    starts: list[int] = []
    ends: list[int] = []
    axes: list[int] = []
    dropped: list[int] = []
    added: list[int] = []
    axis = 0
    for place, part in enumerate(index):
        if part is None:
            added.append(place - len(dropped))
            continue
        if isinstance(part, slice):
            start, end = part.start or 0, ENDLESS if part.stop is None else part.stop
        else:
            start, end = int(part), int(part) + 1 or ENDLESS
            dropped.append(axis)
        if (start, end) != (0, ENDLESS):
            starts.append(start)
            ends.append(end)
            axes.append(axis)
        axis += 1
    var = x.var
    if axes:
        var = op.slice(var, _numbers(starts), _numbers(ends), _numbers(axes))
    if dropped:
        var = op.squeeze(var, _numbers(dropped))
    if added:
        var = op.unsqueeze(var, _numbers(added))
    return Traced(var)


def _without_ellipsis(index: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    at = [place for place, part in enumerate(index) if part is Ellipsis]
    if not at:
        return index
    named = sum(part is not None and part is not Ellipsis for part in index)
    return (*index[: at[0]], *[slice(None)] * (ndim - named), *index[at[0] + 1 :])


class _Namespace:
    """The functions of the Array API that an exported graph can have."""

    int8 = np.dtype(np.int8)
    int32 = np.dtype(np.int32)
    int64 = np.dtype(np.int64)
    float32 = np.dtype(np.float32)
    float64 = np.dtype(np.float64)
    __name__ = "typica.export"
    inf, nan, pi, e = math.inf, math.nan, math.pi, math.e
    finfo = staticmethod(np.finfo)
    isdtype = staticmethod(np.isdtype)
    result_type = staticmethod(np.result_type)

    def __getattr__(self, name: str) -> Any:
        raise ExportError(f"{name} has no counterpart in an exported graph; write it otherwise.")

    # Making arrays

    def asarray(self, value: Any, *, dtype: Any = None, device: Any = None) -> Traced:
        if isinstance(value, Traced):
            return value
        return Traced.constant(value, dtype)

    def arange(self, *span: int, dtype: Any = np.int64, device: Any = None) -> Traced:
        return Traced.constant(np.arange(*span), dtype)

    def full_like(self, x: Traced, number: Any) -> Traced:
        value = np.array([number], dtype=x.dtype)
        full = op.constant_of_shape(op.shape(x.var), value=value)
        return Traced(full, like=x, fill=value[0])

    def zeros_like(self, x: Traced) -> Traced:
        return self.full_like(x, 0)

    def ones_like(self, x: Traced) -> Traced:
        return self.full_like(x, 1)

    def astype(self, x: Traced, dtype: Any) -> Traced:
        return _cast(x, dtype)

    def reshape(self, x: Traced, shape: tuple[int, ...]) -> Traced:
        return Traced(op.reshape(x.var, _numbers(shape)))

    def flattened(self, x: Traced) -> Traced:
        """Return all but the first axis as one; not of the standard."""
        return Traced(op.flatten(x.var, axis=1))

    def concat(self, arrays: Sequence[Traced], axis: int = 0) -> Traced:
        return Traced(op.concat([part.var for part in _promoted(*arrays)], axis=axis))

    def stack(self, arrays: Sequence[Traced], axis: int = 0) -> Traced:
        wider = [op.unsqueeze(part.var, _numbers([axis])) for part in _promoted(*arrays)]
        return Traced(op.concat(wider, axis=axis))

    # Choosing

    def where(self, condition: Traced, a: Any, b: Any) -> Traced:
        # What is full of one number is that number, where the other has all of the shape.
        if isinstance(a, Traced) and isinstance(b, Traced) and a.shape == b.shape:
            a = a if a.fill is None else Traced.constant(a.fill)
            b = b if b.fill is None or a.value is not None else Traced.constant(b.fill)
        a, b = _promoted(a, b)
        return Traced(op.where(condition.var, a.var, b.var))

    def take(self, x: Traced, places: Traced, axis: int = 0) -> Traced:
        return Traced(op.gather(x.var, places.var, axis=axis))

    def take_along_axis(self, x: Traced, places: Traced, axis: int = -1) -> Traced:
        return Traced(op.gather_elements(x.var, places.var, axis=axis))

    def minimum(self, a: Any, b: Any) -> Traced:
        return Traced(op.min([part.var for part in _promoted(a, b)]))

    def maximum(self, a: Any, b: Any) -> Traced:
        return Traced(op.max([part.var for part in _promoted(a, b)]))

    def clip(self, x: Traced, min: Any = None, max: Any = None) -> Traced:
        x = x if min is None else self.maximum(x, min)
        return x if max is None else self.minimum(x, max)

    # Element by element

    def abs(self, x: Traced) -> Traced:
        return Traced(op.abs(x.var))

    def exp(self, x: Traced) -> Traced:
        return Traced(op.exp(x.var))

    def log(self, x: Traced) -> Traced:
        return Traced(op.log(x.var))

    def sqrt(self, x: Traced) -> Traced:
        return Traced(op.sqrt(x.var))

    def floor(self, x: Traced) -> Traced:
        return Traced(op.floor(x.var))

    def cos(self, x: Traced) -> Traced:
        return Traced(op.cos(x.var))

    def tanh(self, x: Traced) -> Traced:
        return Traced(op.tanh(x.var))

    def sign(self, x: Traced) -> Traced:
        return Traced(op.sign(x.var))

    def square(self, x: Traced) -> Traced:
        return x * x

    def expm1(self, x: Traced) -> Traced:
        """Return exp(x) - 1 = tanh(x / 2) (exp(x) + 1), to the last digits near 0."""
        return self.tanh(x / 2) * (self.exp(x) + 1)

    def log1p(self, x: Traced) -> Traced:
        """Return log(1 + x) as log(u) x / (u - 1), u = 1 + x as rounded: Kahan's way."""
        u = x + 1
        near = u == 1
        one = self.ones_like(u)
        exact = self.log(u) * (x / self.where(near, one, u - 1))
        endless = u == math.inf
        return self.where(near, x, self.where(endless, u, exact))

    def isnan(self, x: Traced) -> Traced:
        return Traced(op.isnan(x.var))

    def isfinite(self, x: Traced) -> Traced:
        return abs(x) <= float(np.finfo(x.dtype).max)  # which no NaN is

    # Along an axis

    def sum(self, x: Traced, *, axis: int, keepdims: bool = False) -> Traced:
        return Traced(op.reduce_sum(x.var, _numbers([axis]), keepdims=int(keepdims)))

    def mean(self, x: Traced, *, axis: int, keepdims: bool = False) -> Traced:
        return Traced(op.reduce_mean(x.var, _numbers([axis]), keepdims=int(keepdims)))

    def max(self, x: Traced, *, axis: int, keepdims: bool = False) -> Traced:
        return Traced(op.reduce_max(x.var, _numbers([axis]), keepdims=int(keepdims)))

    def min(self, x: Traced, *, axis: int, keepdims: bool = False) -> Traced:
        return Traced(op.reduce_min(x.var, _numbers([axis]), keepdims=int(keepdims)))

    def all(self, x: Traced, *, axis: int, keepdims: bool = False) -> Traced:
        return self.min(_cast(x, np.int32), axis=axis, keepdims=keepdims) > 0

    def any(self, x: Traced, *, axis: int, keepdims: bool = False) -> Traced:
        return self.max(_cast(x, np.int32), axis=axis, keepdims=keepdims) > 0

    def argmax(self, x: Traced, *, axis: int) -> Traced:
        return Traced(op.arg_max(x.var, axis=axis, keepdims=0))

    def argmin(self, x: Traced, *, axis: int) -> Traced:
        return Traced(op.arg_min(x.var, axis=axis, keepdims=0))

    def vecdot(self, a: Traced, b: Traced, axis: int = -1) -> Traced:
        return self.sum(a * b, axis=axis)

    def sort(
        self, x: Traced, *, axis: int = -1, descending: bool = False, stable: bool = True
    ) -> Traced:
        return Traced(_ranked(x, axis, descending)[0])

    def argsort(
        self, x: Traced, *, axis: int = -1, descending: bool = False, stable: bool = True
    ) -> Traced:
        return Traced(_ranked(x, axis, descending)[1])

    def searchsorted(self, known: Traced, x: Traced, *, side: str = "left") -> Traced:
        """Return how many of the constants `known`, ascending, are below x, or at most x."""
        if known.value is None:
            raise ExportError(
                "searchsorted needs sorted numbers that are known when it is exported; pass those "
                "that were fitted."
            )
        return count_among(known.value, x, strictly=side == "left")


def _ranked(x: Traced, axis: int, descending: bool) -> tuple[Var, Var]:
    width = x.shape[axis]
    if width is None:
        raise ExportError(
            "rows of unknown width cannot be sorted in an exported graph; give them a width, as "
            "fitted arrays have."
        )
    values, places = op.top_k(x.var, _numbers([width]), axis=axis, largest=int(descending))
    return values, places


def count_among(known: AnyArray, x: Traced, strictly: bool = False) -> Traced:
    """Return how many of the ascending numbers `known` are at most (below) each x (n,).

    A binary search, written out: log2 of their number steps, each of four operators.
    """
    bits = max(1, len(known).bit_length())
    # From place 1 on, and followed by NaN, at most which nothing is.
    table = np.full(2**bits, np.nan, dtype=x.dtype)
    table[1 : len(known) + 1] = known
    values = Traced.constant(table)
    places = xp.astype(xp.zeros_like(x), np.int64)
    for bit in reversed(range(bits)):
        further = places + 2**bit
        there = xp.take(values, further)
        passed = there < x if strictly else there <= x
        places = xp.where(passed, further, places)
    return places


def count_in_segments(
    known: AnyArray, starts: AnyArray, sizes: AnyArray, which: Traced, x: Traced
) -> Traced:
    """Return how many numbers of segment `which` (n,) of `known` are at most each x (n,).

    Each segment is ascending: `sizes` numbers from `starts` on.
    """
    # From place 1 on, so that place 0 of a segment is the end of what comes before it.
    values = Traced.constant(np.concatenate([[np.nan], known]), x.dtype)
    base = xp.take(Traced.constant(starts, np.int64), which)
    size = xp.take(Traced.constant(sizes, np.int64), which)
    places = xp.zeros_like(which)
    for bit in reversed(range(max(1, int(sizes.max()).bit_length()))):
        further = places + 2**bit
        there = xp.take(values, xp.minimum(further, size) + base)
        passed = (further <= size) & (there <= x)
        places = xp.where(passed, further, places)
    return places


xp = _Namespace()
