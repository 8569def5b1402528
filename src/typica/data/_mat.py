"""MATLAB's files of version 5, as far as SVHN needs them: arrays of real numbers by name.

A file is a header of 128 bytes and elements: a tag (kind, size) and as many bytes, padded to 8. An
array is an element of elements (flags, dimensions, name, numbers), and may be compressed.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from typica.arrays import AnyArray
from typica.bombs import allowance, check_growth
from typica.files import reading

_HEADER = 128
_ORDERS = {b"IM": "<", b"MI": ">"}
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
_COMPLEX = 0x0800  # a flag
_REAL_CLASSES = range(6, 16)  # double, single, and whole numbers of 8 to 64 bits


class _Element(NamedTuple):
    kind: int
    data: memoryview


def read_mat(path: Path, names: Collection[str]) -> dict[str, AnyArray]:
    """Return the arrays of these names; others are skipped."""
    with reading(path, "not a whole .mat file of version 5", "fetch it again"):
        content = memoryview(path.read_bytes())
        order = _ORDERS.get(bytes(content[126:128]))
        if order is None or len(content) < _HEADER:
            raise ValueError("another header")
        found: dict[str, AnyArray] = {}
        for element in _elements(content[_HEADER:], order):
            matrix = element
            if element.kind == _COMPRESSED:
                matrix = next(_elements(_inflated(element.data, path), order))
            if matrix.kind == _MATRIX:
                found |= _array(matrix.data, order, names)
        return found


def _elements(data: memoryview, order: str) -> Iterator[_Element]:
    """Yield the elements that lie one after another in some bytes."""
    place = 0
    while place < len(data):
        kind, size = np.frombuffer(data[place : place + 8], f"{order}u4").tolist()
        start = place + 8
        if kind >> 16:  # a small one, whose bytes lie in the tag
            kind, size, start = kind & 0xFFFF, kind >> 16, place + 4
        if start + size > len(data):
            raise EOFError("cut short")
        yield _Element(kind, data[start : start + size])
        padding = 0 if kind == _COMPRESSED else -size % 8
        place = place + 8 if start == place + 4 else start + size + padding


def _inflated(data: memoryview, path: Path) -> memoryview:
    """Decompress an element; refuse a bomb."""
    stream = zlib.decompressobj()
    content = stream.decompress(data, allowance(len(data)) + 1)
    check_growth(path, len(content), stored=len(data))
    return memoryview(content)


def _array(data: memoryview, order: str, names: Collection[str]) -> dict[str, AnyArray]:
    """Return a matrix by its name, if it is one of these and of real numbers."""
    parts = _elements(data, order)
    flags = int(np.frombuffer(next(parts).data, f"{order}u4")[0])
    shape = np.frombuffer(next(parts).data, f"{order}i4").tolist()
    name = bytes(next(parts).data).decode("latin1")
    if name not in names or (flags & 0xFF) not in _REAL_CLASSES or flags & _COMPLEX:
        return {}
    numbers = next(parts)
    values = np.frombuffer(numbers.data, f"{order}{_NUMBERS[numbers.kind]}")
    if min(shape) < 0 or math.prod(shape) != len(values):
        raise ValueError(f"{name} has {len(values)} numbers for the shape {tuple(shape)}")
    return {name: values.reshape(shape, order="F")}
