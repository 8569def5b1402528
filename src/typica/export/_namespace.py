"""The functions of the Array API on arrays that write down what is done to them.

It has what the detectors and rectifiers use, and a little more. Unlike `ndonnx`, which serves the
whole standard, it does not guard against arrays without elements: a maximum is one operator without
a branch, so that the graph stays small and runs in every runtime.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import spox.opset.ai.onnx.v18 as op
from spox import Var

from typica.export._counting import count_among
from typica.export._traced import ExportError, Traced, cast, numbers, promoted


class Namespace:
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
        raise ExportError(
            f"{name} has no counterpart in an exported graph; use a function that has one."
        )

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
        return cast(x, dtype)

    def reshape(self, x: Traced, shape: tuple[int, ...]) -> Traced:
        """Return the numbers in another shape; an unknown size stays what it is at its place."""
        return Traced(op.reshape(x.var, numbers([0 if n is None else n for n in shape])))

    def matrix_transpose(self, x: Traced) -> Traced:
        last = x.ndim - 1
        return Traced(op.transpose(x.var, perm=[*range(last - 1), last, last - 1]))

    def concat(self, arrays: Sequence[Traced], axis: int = 0) -> Traced:
        return Traced(op.concat([part.var for part in promoted(*arrays)], axis=axis))

    def stack(self, arrays: Sequence[Traced], axis: int = 0) -> Traced:
        wider = [op.unsqueeze(part.var, numbers([axis])) for part in promoted(*arrays)]
        return Traced(op.concat(wider, axis=axis))

    # Choosing

    def where(self, condition: Traced, a: Any, b: Any) -> Traced:
        a, b = promoted(*_filled_as_number(a, b))
        return Traced(op.where(condition.var, a.var, b.var))

    def take(self, x: Traced, places: Traced, axis: int = 0) -> Traced:
        return Traced(op.gather(x.var, places.var, axis=axis))

    def take_along_axis(self, x: Traced, places: Traced, axis: int = -1) -> Traced:
        return Traced(op.gather_elements(x.var, places.var, axis=axis))

    def minimum(self, a: Any, b: Any) -> Traced:
        return Traced(op.min([part.var for part in promoted(a, b)]))

    def maximum(self, a: Any, b: Any) -> Traced:
        return Traced(op.max([part.var for part in promoted(a, b)]))

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
        return abs(x) <= float(np.finfo(x.dtype).max)  # False for NaN

    # Along an axis

    def sum(self, x: Traced, *, axis: int, keepdims: bool = False) -> Traced:
        return Traced(op.reduce_sum(x.var, numbers([axis]), keepdims=int(keepdims)))

    def mean(self, x: Traced, *, axis: int | tuple[int, ...], keepdims: bool = False) -> Traced:
        return Traced(op.reduce_mean(x.var, _axes(axis), keepdims=int(keepdims)))

    def max(self, x: Traced, *, axis: int | tuple[int, ...], keepdims: bool = False) -> Traced:
        return Traced(op.reduce_max(x.var, _axes(axis), keepdims=int(keepdims)))

    def min(self, x: Traced, *, axis: int, keepdims: bool = False) -> Traced:
        return Traced(op.reduce_min(x.var, numbers([axis]), keepdims=int(keepdims)))

    def all(self, x: Traced, *, axis: int, keepdims: bool = False) -> Traced:
        return self.min(cast(x, np.int32), axis=axis, keepdims=keepdims) > 0

    def any(self, x: Traced, *, axis: int, keepdims: bool = False) -> Traced:
        return self.max(cast(x, np.int32), axis=axis, keepdims=keepdims) > 0

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


def _axes(axis: int | tuple[int, ...]) -> Var:
    return numbers(axis if isinstance(axis, tuple) else [axis])


def _filled_as_number(a: Any, b: Any) -> tuple[Any, Any]:
    """Return two arrays, an array that is full of one number as that number.

    Only where both have the same shape, and only one of them: the other carries the shape.
    """
    if not (isinstance(a, Traced) and isinstance(b, Traced) and a.shape == b.shape):
        return a, b
    if a.fill is not None:
        return Traced.constant(a.fill), b
    if b.fill is not None and a.value is None:
        return a, Traced.constant(b.fill)
    return a, b


def _ranked(x: Traced, axis: int, descending: bool) -> tuple[Var, Var]:
    width = x.shape[axis]
    if width is None:
        raise ExportError(
            "rows of unknown width cannot be sorted in an exported graph; give them a width, as "
            "fitted arrays have."
        )
    values, places = op.top_k(x.var, numbers([width]), axis=axis, largest=int(descending))
    return values, places


xp = Namespace()
