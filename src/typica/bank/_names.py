"""The names of a bank's rows: UTF-8 in one file, the place where each begins in another."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.bank._files import NAMES, OFFSETS, mapped_file
from typica.errors import FormatError, InputError


def encode_names(names: Sequence[str]) -> list[bytes]:
    """Return names as UTF-8; those of other file systems stay as they are."""
    try:
        return [name.encode("utf-8", "surrogateescape") for name in names]
    except (AttributeError, UnicodeEncodeError) as error:
        raise InputError(
            f"a name cannot be stored ({error}); pass one string of Unicode per row."
        ) from None


class Names(Sequence[str]):
    """The names of a bank's rows, read from the disk one at a time."""

    def __init__(self, folder: Path, rows: int) -> None:
        self._offsets: NDArray[np.int64] = mapped_file(folder / OFFSETS)
        if self._offsets.shape != (rows + 1,) or self._offsets.dtype != np.int64:
            raise FormatError(f"{folder}: {OFFSETS} is not for {rows} rows; write the bank again.")
        self._bytes: NDArray[np.uint8] = np.empty(0, np.uint8)
        if (folder / NAMES).stat().st_size:  # an empty file cannot be mapped
            self._bytes = np.memmap(folder / NAMES, dtype=np.uint8, mode="r")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        name = self._bytes[self._offsets[i] : self._offsets[i + 1]]
        return name.tobytes().decode("utf-8", "surrogateescape")

    def part(self, start: int, stop: int) -> dict[str, AnyArray]:
        """Return what rows [start, stop) have in each of the two files."""
        offsets = self._offsets[start : stop + 1]
        return {NAMES: self._bytes[offsets[0] : offsets[-1]], OFFSETS: offsets[1:]}

    def are_unicode(self) -> bool:
        """Tell whether all names are proper Unicode, as Parquet's strings have to be."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            for start in range(0, len(self._bytes), 1 << 20):
                decoder.decode(self._bytes[start : start + (1 << 20)].tobytes())
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
        return True
