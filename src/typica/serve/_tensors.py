"""Tensors of the Open Inference Protocol: as numbers in JSON, or as bytes behind it."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from typica.arrays import AnyArray
from typica.errors import InputError

DTYPES = {
    "BOOL": "?",
    "UINT8": "<u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "<i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}
TEXTS = "BYTES"
_LENGTH = struct.Struct("<I")  # before each of several texts
_DIMENSIONS = 8


def check_shape(shape: Sequence[Any], name: str) -> tuple[int, ...]:
    """Return the shape of a tensor in a request; refuse what is not a shape."""
    whole = all(isinstance(size, int) and not isinstance(size, bool) for size in shape)
    if not whole or len(shape) > _DIMENSIONS or any(size < 1 for size in shape):
        shown = str(list(shape)[:_DIMENSIONS])[:80]
        raise InputError(f"{name}: a shape of {shown}; pass sizes of 1 or more.")
    return tuple(shape)


def from_bytes(raw: bytes | memoryview, name: str, datatype: str, shape: Sequence[Any]) -> AnyArray:
    """Return the tensor in raw bytes: numbers in a row, or texts with their lengths before them."""
    sizes = check_shape(shape, name)
    if datatype == TEXTS:
        return _shaped(_bytes_tensor(list(_texts(raw, name))), sizes, name)
    if datatype not in DTYPES:
        raise InputError(f"{name}: datatype {datatype!r} is unknown; pass {', '.join(DTYPES)}.")
    dtype = np.dtype(DTYPES[datatype])
    if len(raw) != math.prod(sizes) * dtype.itemsize:
        raise InputError(f"{name}: {len(raw)} bytes for {datatype} of {list(sizes)}; send all.")
    return np.frombuffer(raw, dtype=dtype).reshape(sizes)


def from_values(values: Any, name: str, datatype: str, shape: Sequence[Any]) -> AnyArray:
    """Return the tensor in JSON values, flat or nested."""
    sizes = check_shape(shape, name)
    if isinstance(values, np.ndarray):
        return _shaped(values, sizes, name)
    if datatype == TEXTS:
        return _shaped(_bytes_tensor(values), sizes, name)
    if datatype not in DTYPES:
        raise InputError(f"{name}: datatype {datatype!r} is unknown; pass {', '.join(DTYPES)}.")
    found = numbers_of(values, name)
    if np.dtype(DTYPES[datatype]).kind in "iu":
        return _shaped(_whole(values, found, datatype, name), sizes, name)
    with np.errstate(over="ignore"):  # infinity is refused later
        return _shaped(found.astype(DTYPES[datatype]), sizes, name)


def _whole(values: Any, found: AnyArray, datatype: str, name: str) -> AnyArray:
    """Return whole numbers; as floats, the largest would lose their last digits."""
    exact = found if found.dtype.kind in "iu" else np.array(values, dtype=object)
    try:
        numbers = exact.astype(DTYPES[datatype])
    except (OverflowError, ValueError):  # ValueError: of what is not a number
        numbers = np.zeros_like(exact, dtype=DTYPES[datatype])
    if not np.array_equal(numbers, exact):
        raise InputError(f"{name}: numbers beyond {datatype}; pass what it can hold.")
    return numbers


def numbers_of(values: Any, name: str) -> AnyArray:
    """Return the values of a tensor in JSON as an array of numbers, as they are nested."""
    try:
        found = np.array(values)
    except (ValueError, TypeError, OverflowError, RecursionError):
        found = np.array(None)
    if found.dtype.kind not in "biuf":
        raise InputError(
            f"{name}: not rows of numbers, all of one length; send rows of equal length."
        )
    return found


def to_bytes(values: Sequence[Any], datatype: str) -> bytes:
    """Return a tensor's values as the bytes behind the JSON of an answer."""
    if datatype != TEXTS:
        return np.asarray(values, dtype=DTYPES[datatype]).tobytes()
    packed = []
    for value in values:
        text = value if isinstance(value, bytes) else str(value).encode()
        packed.append(_LENGTH.pack(len(text)) + text)
    return b"".join(packed)


def _texts(raw: bytes | memoryview, name: str) -> Iterator[bytes]:
    place = 0
    while place < len(raw):
        end = place + _LENGTH.size
        length = _LENGTH.unpack(raw[place:end])[0] if end <= len(raw) else len(raw)
        place = end + length
        if place > len(raw):
            raise InputError(f"{name}: its bytes end within a text; send all of it.")
        yield bytes(raw[end:place])


def _bytes_tensor(values: Any) -> AnyArray:
    """Return the values of a BYTES tensor as a flat array of objects, whatever they are."""
    if not isinstance(values, list):
        values = [values]
    made = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        made[place] = value
    return made


def _shaped(values: AnyArray, shape: tuple[int, ...], name: str) -> AnyArray:
    if values.size != math.prod(shape):
        raise InputError(
            f"{name}: {values.size} values for a shape of {list(shape)}; send as many."
        )
    return values.reshape(shape)
