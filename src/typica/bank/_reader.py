"""Banks: features, logits, labels and names of a data set, in a folder, memory-mapped.

    manifest.json       what the bank was made of, its columns, its shards with their checksums
    features.npy        (n, m); and maybe logits.npy (n, C), labels.npy (n,), layer.NAME.npy (n, k)
    names.bin           the names one after the other; names.offsets.npy (n + 1,): where each begins
    head.safetensors    the network's head, if it was given

`BankWriter` writes one batch by batch and can be killed at any moment; `write_bank` writes arrays
at once.
"""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from typica import store
from typica.arrays import AnyArray, row_blocks
from typica.as_json import json_text
from typica.bank._files import HEAD, column_bytes, column_file, mapped_file, shard_digest
from typica.bank._folder import is_bank
from typica.bank._manifest import Manifest, Shard, read_manifest
from typica.bank._names import Names
from typica.bank._origin import origin_in
from typica.bank._parquet import write_parquet
from typica.cards import card
from typica.errors import FormatError, InputError, argument, counted
from typica.files import reading
from typica.head import Head
from typica.origin import Origin
from typica.progress import advance


class Bank:
    """A finished bank, opened without reading its data.

    Its arrays are memory-mapped and read-only.

    Attributes
    ----------
    features
        (n, m).
    logits, labels
        (n, C) and (n,); None where the bank has none.
    layers
        {name: (n, k)}.
    names, classes
        The names of rows and classes; None where the bank has none.
    identity, settings
        What it was made of, and how.
    skipped
        (name, reason) of each row of the source that is not in it.

    >>> import tempfile
    >>> from typica import write_bank
    >>> bank = write_bank(tempfile.mkdtemp(), np.eye(3, dtype=np.float32), labels=[0, 1, 1])
    >>> bank
    Bank(3 rows, 3 features, labels)
    >>> bank.labels[1:].tolist(), len(bank.fingerprint())
    ([1, 1], 64)
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self._manifest = manifest
        self.identity: dict[str, Any] = manifest.identity
        self.settings: dict[str, Any] = manifest.settings
        self.skipped: list[tuple[str, str]] = manifest.skipped
        self.classes: list[str] | None = manifest.classes
        columns = {name: _mapped_column(path, name, manifest) for name in manifest.columns}
        self.features: AnyArray = columns["features"]
        self.logits: AnyArray | None = columns.get("logits")
        self.labels: AnyArray | None = columns.get("labels")
        self.layers: dict[str, AnyArray] = {
            name.removeprefix("layer."): column
            for name, column in columns.items()
            if name.startswith("layer.")
        }
        self.names: Names | None = None
        if manifest.name_bytes is not None:
            self.names = Names(path, manifest.rows)
        self._columns = columns

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Bank:
        """Open a bank's folder; an unfinished, damaged or foreign one is refused."""
        path = Path(path)
        manifest = read_manifest(path)
        if not manifest.complete:
            raise FormatError(
                f"{path}: the bank is unfinished, {manifest.source_rows} rows of its source are in;"
                " run the command that writes it again; it resumes there."
            )
        for name, size in manifest.sizes().items():
            found = (path / name).stat().st_size if (path / name).is_file() else None
            if found != size:
                what = "is missing" if found is None else f"has {found} bytes instead of {size}"
                raise FormatError(
                    f"{path}: {name} {what}; delete the folder and write the bank again."
                )
        with reading(path, "the bank is damaged", "delete the folder and write the bank again"):
            return cls(path, manifest)

    @staticmethod
    def is_bank(path: str | os.PathLike[str]) -> bool:
        """Tell whether a path is the folder of a bank, finished or not."""
        return is_bank(Path(path))

    @functools.cached_property
    def head(self) -> Head | None:
        """The network's head; its classes have the bank's names where there are as many."""
        if self._manifest.head is None:
            return None
        what = "is not this bank's own"
        try:
            head = store.load(self.path / HEAD)
            if isinstance(head, Head) and store.fingerprint(head) == self._manifest.head:
                return head.named(self.classes)
        except InputError:
            what = "is damaged" if (self.path / HEAD).exists() else "is missing"
        raise FormatError(
            f"{self.path}: {HEAD} {what}; write the bank again (`typica extract --fresh`), "
            f"or pass the head in a file of its own, {argument('head', 'FILE')}."
        )

    @property
    def origin(self) -> Origin | None:
        """The network that made the features, or None if none did."""
        with reading(self.path, "its notes on the network make no sense"):
            return origin_in(self.identity, self.settings)

    @property
    def accuracy(self) -> float | None:
        """The share of rows whose largest logit is at their label.

        None without logits, or without labels that index them.
        """
        if self.logits is None or self.labels is None or self.labels.dtype.kind not in "iu":
            return None
        if self.classes is not None and len(self.classes) != self.logits.shape[1]:
            return None
        right = 0
        for rows in row_blocks(len(self), 1):
            labels = self.labels[rows]
            if labels.min() < 0 or labels.max() >= self.logits.shape[1]:
                return None
            predicted = np.argmax(self.logits[rows], axis=1)
            right += int(np.count_nonzero(predicted == labels))
        return right / len(self)

    def fingerprint(self) -> str:
        """Return the SHA-256 of identity, columns and head.

        It is equal for equal banks that were written in the same shards.
        """
        known = self._manifest
        parts = [known.identity, known.columns, known.classes, known.head, known.shards]
        return hashlib.sha256(json_text(parts).encode()).hexdigest()

    def verify(self) -> int:
        """Read all data and check it against the checksums; return how many bytes were read.

        An error names the shard that is damaged.
        """
        _ = self.head
        checked = 0
        for number, shard in enumerate(self._manifest.shards):
            parts = self._parts(shard)
            if _digest(parts) != shard.sha256:
                raise FormatError(
                    f"{self.path}: shard {number} (rows {shard.start} to {shard.stop - 1}) "
                    "is damaged, its checksum does not match; "
                    "delete the folder and write the bank again."
                )
            checked += sum(part.nbytes for part in parts.values())
            advance(shard.stop - shard.start)
        return checked

    def _parts(self, shard: Shard) -> dict[str, AnyArray]:
        """Return what a shard has in each file; nothing for one without rows."""
        if shard.stop == shard.start:
            return {}
        parts = {}
        for name, column in self._columns.items():
            parts[column_file(name)] = column[shard.start : shard.stop]
        if self.names is not None:
            parts |= self.names.part(shard.start, shard.stop)
        return parts

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the bank to one Parquet file; `typica.data.read_features` reads it like the bank.

        The columns are `features`, `logits` and `layer.NAME`, which are lists, `label` and `name`;
        head and identity are in the schema's metadata. One row group per shard, several for one
        of more than 2**31 numbers; float16 becomes float32.
        """
        write_parquet(self, Path(path))

    def __len__(self) -> int:
        return self._manifest.rows

    def _repr_html_(self) -> str:
        """Return a card for notebooks."""
        rows: list[list[object]] = [["folder", self.path]]
        if self.classes is not None:
            rows.append(["classes", ", ".join(self.classes[:8])])
        rows.append(["skipped", len(self.skipped)])
        return card(repr(self), rows)

    def __repr__(self) -> str:
        parts = [counted(len(self), "row"), counted(self.features.shape[1], "feature")]
        parts += [name for name in self._columns if name != "features"]
        if self.names is not None:
            parts.append("names")
        if self._manifest.head is not None:
            parts.append("head")
        return f"Bank({', '.join(parts)})"


def _digest(parts: dict[str, AnyArray]) -> str:
    digests = {name: hashlib.sha256(column_bytes(part)).digest() for name, part in parts.items()}
    return shard_digest(digests)


def _mapped_column(folder: Path, name: str, manifest: Manifest) -> AnyArray:
    """Return a column of a finished bank, memory-mapped."""
    file = folder / column_file(name)
    column = mapped_file(file)
    dtype, shape = manifest.dtype_of(name), manifest.shape_of(name)
    if (column.dtype, column.shape) != (dtype, shape):
        raise FormatError(
            f"{file}: {column.dtype} of shape {column.shape}, "
            f"the manifest says {dtype} of shape {shape}; write the bank again."
        )
    return column
