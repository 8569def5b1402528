"""Arrays that write down what is done to them: the Array API, as operators of ONNX.

A detector's own code runs on them once, and what it did is the graph. They know their dtype and
all of their shape but the number of rows; nobody can look at their values. Their functions are in
`_namespace`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import spox.opset.ai.onnx.v18 as op
from spox import Var

from typica.arrays import AnyArray
from typica.errors import InputError
from typica.export._sklearn import converted

if TYPE_CHECKING:
    from typica.export._namespace import Namespace

ENDLESS = np.iinfo(np.int64).max


class ExportError(InputError, AttributeError):
    """Something in a detector's code that no exported ONNX graph can do."""


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

    def __array_namespace__(self, api_version: str | None = None) -> Namespace:
        from typica.export._namespace import xp  # noqa: PLC0415 (which is made of these arrays)

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
    left, right = promoted(a, b)
    return Traced(operator(left.var, right.var))


def promoted(*parts: Any) -> list[Traced]:
    """Return traced arrays and numbers as traced arrays of the dtype that the former share."""
    dtype = np.result_type(*(part.dtype for part in parts if hasattr(part, "dtype")))
    return [cast(_as_traced(part, dtype), dtype) for part in parts]


def _as_traced(part: Any, dtype: np.dtype[Any]) -> Traced:
    if isinstance(part, Traced):
        return part
    return Traced.constant(part, dtype)


def cast(x: Traced, dtype: Any) -> Traced:
    """Return a traced array in another dtype; as it is where that is its own."""
    wanted = np.dtype(dtype)
    if x.dtype == wanted:
        return x
    if x.value is not None:
        return Traced.constant(x.value.astype(wanted))
    return Traced(op.cast(x.var, to=wanted))


def numbers(values: Sequence[int]) -> Var:
    """Return whole numbers as operators of ONNX take them: axes, sizes, starts."""
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
        start, end = _span(part)
        if not isinstance(part, slice):
            dropped.append(axis)
        if (start, end) != (0, ENDLESS):
            starts.append(start)
            ends.append(end)
            axes.append(axis)
        axis += 1
    var = x.var
    if axes:
        var = op.slice(var, numbers(starts), numbers(ends), numbers(axes))
    if dropped:
        var = op.squeeze(var, numbers(dropped))
    if added:
        var = op.unsqueeze(var, numbers(added))
    return Traced(var)


def _span(part: Any) -> tuple[int, int]:
    """Return where a slice or one whole number begins and ends."""
    if isinstance(part, slice) and part.step in (None, 1):
        return part.start or 0, ENDLESS if part.stop is None else part.stop
    if isinstance(part, int | np.integer) and not isinstance(part, bool):
        return int(part), int(part) + 1 or ENDLESS
    raise ExportError(
        "an exported graph is indexed by slices without steps and by whole numbers; "
        "write it with take, take_along_axis or where."
    )


def _without_ellipsis(index: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    at = [place for place, part in enumerate(index) if part is Ellipsis]
    if not at:
        return index
    named = sum(part is not None and part is not Ellipsis for part in index)
    return (*index[: at[0]], *[slice(None)] * (ndim - named), *index[at[0] + 1 :])
