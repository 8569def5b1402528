"""What the Array API lacks: checked features, row blocks, conversions between backends.

The same code serves NumPy arrays, torch tensors and anything else that conforms to the Array API.
Backends are recognised by `array_api_compat`, which looks into `sys.modules` and so never imports
torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from typica.errors import InputError, a_kind, counted
from typica.progress import advance

Array = Any  # an array of any backend
AnyArray = NDArray[Any]  # NumPy's, of any dtype and shape
Rows = AnyArray  # NumPy's, (n, m), of any real dtype
Labels = AnyArray  # NumPy's, (n,), integers or strings

# Of the widest array that a block makes: large enough for BLAS to be at its best, and below the 32
# MiB from which malloc asks the system for fresh pages every time.
BLOCK_BYTES = 24 * 2**20


def frame_index(X: Any) -> Any:
    """Return the index of a pandas DataFrame, and None for any other input."""
    return getattr(X, "index", None) if hasattr(X, "columns") else None


def namespace(x: Array) -> Any:
    """Return the Array API namespace of `x`.

    >>> namespace(np.zeros(3)).__name__
    'array_api_compat.numpy'
    """
    return array_api_compat.array_namespace(x)


def is_numpy(x: object) -> bool:
    """Tell whether `x` is a NumPy array."""
    return isinstance(x, np.ndarray)


def is_traced(x: Array) -> bool:
    """Tell whether `x` stands for a future array, whose number of rows is not known yet.

    The form of such an array can be checked, but not its values: exported code checks them when it
    runs. Every tensor counts as one while `torch.export` traces.
    """
    if array_api_compat.is_torch_array(x):
        # Since torch 2.7; with older ones the values are looked at, which torch refuses.
        exporting = getattr(sys.modules["torch"].compiler, "is_exporting", bool)
        return bool(exporting())
    return x.shape[0] is None


def is_at_hand(x: Array) -> bool:
    """Tell whether the values of `x` are in this machine's memory and already known.

    They are not while PyTorch compiles or traces.

    >>> is_at_hand(np.zeros((1, 2)))
    True
    """
    if is_numpy(x):
        return True
    if not array_api_compat.is_torch_array(x):
        return not is_traced(x) and "cpu" in str(array_api_compat.device(x)).lower()
    torch = sys.modules["torch"]
    awaited = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return not awaited and bool(x.device.type == "cpu")


def surely_between(x: Array, low: float, high: float) -> bool:
    """Tell whether all values lie strictly between two numbers; False where looking is expensive.

    >>> surely_between(np.array([1.0, 2.0]), 0, 2), surely_between(np.array([1.0, 2.0]), 0, 3)
    (False, True)
    """
    known = is_numpy(x) or array_api_compat.is_torch_array(x)
    if not known or not is_at_hand(x):
        return False
    try:
        return bool(low < x.min().item() and x.max().item() < high)
    except (RuntimeError, ValueError):  # in vmap, which traces too; or if there are no values
        return False


def to_numpy(x: Any) -> AnyArray:
    """Return `x` as a NumPy array, without a copy where possible; gradients are left behind.

    >>> to_numpy([1.0, 2.0])
    array([1., 2.])
    """
    if array_api_compat.is_torch_array(x):
        x = x.detach().cpu()
        return np.asarray(x.float() if str(x.dtype) == "torch.bfloat16" else x)
    if array_api_compat.is_array_api_obj(x) and not hasattr(x, "__array__"):
        return np.from_dlpack(x)
    return np.asarray(x)


def like(a: AnyArray, Z: Array) -> Array:
    """Return the NumPy array `a` in the backend, dtype and device of `Z`.

    >>> like(np.ones(2), np.zeros(3, dtype=np.float32)).dtype
    dtype('float32')
    """
    if is_numpy(Z):
        return a.astype(Z.dtype, copy=False)
    xp = namespace(Z)
    # A copy, because torch warns about sharing memory that is read-only.
    return xp.asarray(np.array(a), dtype=Z.dtype, device=array_api_compat.device(Z))


def beside(a: AnyArray, Z: Array) -> Array:
    """Return the NumPy array `a` in the backend and on the device of `Z`, in its own dtype.

    >>> beside(np.arange(2), np.zeros(3, dtype=np.float32)).dtype
    dtype('int64')
    """
    return namespace(Z).asarray(a, device=array_api_compat.device(Z))


def by_sklearn(model: Any, method: str, Z: Array, dtype: Any = None) -> Array:
    """Apply a scikit-learn model to an array of any backend, and return an array of that backend.

    dtype: what the model is given, if not that of Z.
    """
    if is_traced(Z):
        if not hasattr(Z, "by_sklearn"):
            raise InputError(f"{type(model).__name__} of scikit-learn has no tensor code to trace.")
        return Z.by_sklearn(model, method)
    rows = to_numpy(Z)
    made = getattr(model, method)(rows.astype(dtype or rows.dtype, copy=False))
    return like(np.asarray(made), Z)


def as_features(
    X: Any, n_features: int | None = None, owner: str = "it", *, empty: bool = False
) -> Array:
    """Return `X` as a 2-D array of real numbers in its own backend, or say what is wrong with it.

    Values are not looked at (see `check_finite`) and not converted (see `as_floating`): that is
    done block by block. `n_features` is the width that `owner`, the caller, expects. `empty`:
    whether there may be no rows.
    """
    if isinstance(X, np.ma.MaskedArray):
        X = _unmasked(X)
    if not array_api_compat.is_array_api_obj(X) or array_api_compat.is_pydata_sparse_array(X):
        X = _from_foreign(X)
    if array_api_compat.is_torch_array(X):
        _check_tensor(X)
    if X.ndim != 2:
        raise InputError(
            f"features of shape {tuple(X.shape)} have {counted(X.ndim, 'dimension')} instead of 2. "
            "Reshape your data to (rows, features); a single input is x[None, :]."
        )
    if X.shape[1] == 0:
        raise _nothing("feature", X)
    if not empty:
        check_some(X)
    X = _real(X)
    if n_features is not None and X.shape[1] != n_features:
        raise InputError(
            f"X has {X.shape[1]} features, but {owner} is expecting {n_features} "
            "features as input; pass features of the layer that it was made for."
        )
    return X


def check_some(Z: Array) -> None:
    """Raise if there are no rows where some are needed, to learn or to calibrate."""
    if Z.shape[0] == 0:
        raise _nothing("sample", Z)


def _nothing(what: str, Z: Array) -> InputError:
    return InputError(
        f"0 {what}(s) (shape=({Z.shape[0]}, {Z.shape[1]})) while a minimum of 1 is required; "
        "pass data."
    )


def _from_foreign(X: Any) -> AnyArray:
    if hasattr(X, "tocsr"):
        raise InputError("sparse features are not supported; pass X.toarray().")
    if X is None or isinstance(X, str | bytes):
        raise InputError(f"expected an array of features, got {X!r}; pass an (n, m) array.")
    try:
        return np.asarray(X)
    except ValueError as error:
        raise InputError(
            f"the rows do not form a matrix ({error}); pass rows of one length."
        ) from None


def _check_tensor(X: Any) -> None:
    """Refuse a tensor that is not a plain array of values."""
    if X.is_meta:
        raise InputError("a tensor on the device 'meta' has no values; pass one that has.")
    if X.layout != sys.modules["torch"].strided or X.is_quantized:
        raise InputError(
            "sparse and quantised tensors are not supported; pass a dense one, e.g. X.to_dense()."
        )


def _unmasked(X: Any) -> AnyArray:
    """Return a masked array as a plain one; refuse it if anything is masked."""
    if np.ma.is_masked(X):
        raise InputError("some features are masked; fill them, X.filled(0), or drop the rows.")
    return np.asarray(X.data)


def _real(X: Array) -> Array:
    """Return real numbers as they are, and objects that stand for numbers as float64."""
    kind = X.dtype.kind if is_numpy(X) else None
    if kind == "c" or (kind is None and namespace(X).isdtype(X.dtype, "complex floating")):
        raise InputError("Complex data not supported; pass real features.")
    if kind is None or kind in "fiub":
        return X
    if kind in "mM":
        raise InputError(f"features of type {X.dtype} are times; pass numbers, e.g. seconds.")
    try:
        return X.astype(np.float64)
    except ValueError as error:
        raise InputError(f"features must be numbers ({error}); encode them first.") from None
    except TypeError:  # not a number at all: scikit-learn's checks expect this error
        if _holds_na(X):
            advice = "fill them, X.fillna(0), or drop the rows"
            raise InputError(f"some features are missing (NA of pandas); {advice}.") from None
        raise


def _holds_na(X: AnyArray) -> bool:
    """Tell whether some features are pandas' NA, which no float can represent."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and any(value is pandas.NA for value in X.flat)


def refuse_lazy(X: object) -> None:
    """Say what to do with a lazy frame of polars."""
    if hasattr(X, "lazy") and hasattr(X, "collect"):
        what = f"got {a_kind(X)}, which holds no rows yet"
        raise InputError(f"{what}; pass what its .collect() gives.")


def as_floating(Z: Array) -> Array:
    """Return `Z` in the dtype that is used for computation.

    float32 and float64 stay as they are, halves become float32, everything else float64.

    >>> as_floating(np.ones((1, 1), dtype=np.float16)).dtype
    dtype('float32')
    """
    if is_numpy(Z):
        if Z.dtype in (np.float32, np.float64):
            return Z
        return Z.astype(np.float32 if Z.dtype == np.float16 else np.float64)
    xp = namespace(Z)
    if Z.dtype in (xp.float32, xp.float64):
        return Z
    return xp.astype(Z, xp.float32 if is_floating(Z) else xp.float64)


def is_floating(Z: Array) -> bool:
    """Tell whether an array holds floats, of any precision.

    >>> is_floating(np.zeros(1, dtype=np.float16)), is_floating(np.zeros(1, dtype=np.int64))
    (True, False)
    """
    if is_numpy(Z):
        return bool(Z.dtype.kind == "f")
    return bool(namespace(Z).isdtype(Z.dtype, "real floating"))


def fits_float32(Z: AnyArray) -> bool:
    """Tell whether float32 holds an array as it is."""
    return Z.dtype.kind == "f" and Z.dtype.itemsize <= 4


def check_finite(Z: Array, first_row: int = 0) -> None:
    """Raise if a row of the floating array `Z` holds NaN or infinity, naming the first such number.

    One sum covers everything for the cost of one read; the rows are only looked at if it is not
    finite.
    """
    xp = namespace(Z)
    with np.errstate(over="ignore", invalid="ignore"):
        total = xp.sum(Z)
    if bool(xp.isfinite(total)):
        return
    bad = ~xp.isfinite(Z)
    if bool(xp.any(bad)):
        place = int(xp.argmax(xp.astype(xp.reshape(bad, (-1,)), xp.int8)))
        row, column = divmod(place, Z.shape[1])
        raise InputError(
            f"row {first_row + row} of the features holds NaN or infinity "
            f"({float(Z[row, column])} in column {column}); remove or fix it (sklearn's "
            "SimpleImputer can fill in NaN)."
        )


def relative_difference(a: AnyArray, b: AnyArray) -> float:
    """Return the largest difference of two NumPy arrays, as a part of the largest value of `b`.

    It is infinite where their shapes differ, or one holds NaN or infinity and the other does not.

    >>> relative_difference(np.array([2.0, -3.0]), np.array([2.0, -4.0]))
    0.25
    """
    if a.shape != b.shape:
        return np.inf
    usual = np.isfinite(b)
    if not np.array_equal(a[~usual], b[~usual], equal_nan=True) or not np.isfinite(a[usual]).all():
        return np.inf
    scale = np.abs(b[usual]).max(initial=0.0)
    gap = np.abs(a[usual] - b[usual]).max(initial=0.0)
    return float(gap / scale) if scale else float(gap > 0)


def row_blocks(n: int, width: int, itemsize: int = 4) -> Iterator[slice]:
    """Yield slices that cut `n` rows into blocks of about `BLOCK_BYTES`, `width` numbers per row.

    >>> [(s.start, s.stop) for s in row_blocks(5, width=3 * 2**20)]
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, BLOCK_BYTES // max(1, width * itemsize))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


def map_rows(
    kernel: Callable[[Array], Array],
    Z: Array,
    width: int = 1,
    *,
    nan_passes: bool = False,
) -> Array:
    """Apply `kernel`, which returns a value for each row of a block, to the rows of `Z` by blocks.

    Each block is converted to its working dtype and checked to be finite while it is in the cache,
    so that input of any size needs memory for only one block. `width`: the most numbers that the
    kernel makes per row. `nan_passes`: a row that is not finite gives a value that is not finite,
    so that it is enough to look at the values.
    """
    if is_traced(Z):
        return kernel(as_floating(Z))
    blocks = []
    xp = namespace(Z)
    if Z.shape[0] == 0:  # one row tells the dtype and the shape of what none gives
        return kernel(like(np.ones((1, Z.shape[1])), as_floating(Z)))[:0, ...]
    itemsize = 4 if as_floating(Z[:1, ...]).dtype == xp.float32 else 8
    for block in row_blocks(Z.shape[0], max(width, Z.shape[1]), itemsize):
        rows = as_floating(Z[block, ...])
        if not nan_passes:
            check_finite(rows, block.start)
        # A score that overflows is refused, or -inf and atypical.
        with np.errstate(over="ignore", invalid="ignore" if nan_passes else None):
            values = kernel(rows)
        if nan_passes and not bool(xp.all(xp.isfinite(values))):
            check_finite(rows, block.start)
        blocks.append(values)
        advance(block.stop - block.start)
    if len(blocks) == 1:
        return blocks[0]
    return xp.concat(blocks)


def check_rows(Z: Array) -> None:
    """Raise if a row of the features Z (n, m) holds NaN or infinity, naming the first such row.

    >>> check_rows(np.array([[0.0], [np.nan]]))
    Traceback (most recent call last):
    typica.errors.InputError: row 1 of the features holds NaN or infinity (nan in column 0); ...
    """
    map_rows(lambda rows: rows[:, 0], Z)
