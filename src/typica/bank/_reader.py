"""Banks: features, logits, labels and names of a data set, in a folder, memory-mapped.

    manifest.json       what the bank was made of, its columns, its shards with their checksums
    features.npy        (n, m); logits.npy (n, C), labels.npy (n,) and layer.NAME.npy (n, k) where there are any
    names.bin           the names one after the other; names.offsets.npy (n + 1,): where each begins
    head.safetensors    the network's head, if it was given

`BankWriter` writes one batch by batch and can be killed at any moment; `write_bank` writes arrays
at once.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica import store
from typica.arrays import row_blocks
from typica.bank._columns import DTYPES
from typica.bank._files import (
    HEAD,
    MANIFEST,
    Manifest,
    Names,
    canonical,
    column_file,
    encode_names,
    mapped_column,
    read_manifest,
    shard_digest,
)
from typica.bank._writer import BankWriter
from typica.errors import FormatError, InputError
from typica.files import lock_folder
from typica.head import Head
from typica.origin import Origin, feature_layer
from typica.progress import advance

SOURCE = (
    "model",
    "weights",
    "layer",
    "reduce",
    "transform",
)  # of an identity: what runs an image again
_MORE = ("head", "code")  # the same, where it has them

__all__ = ["Bank", "BankWriter", "bank_from_parquet", "check_source", "remove_bank", "write_bank"]


class Bank:
    """A finished bank, opened without reading its data.

    features (n, m), logits (n, C), labels (n,) and layers {name: (n, k)} are memory-mapped and
    read-only; logits, labels, names, classes and head are None where the bank has none. identity:
    what it was made of. settings: how. skipped: (name, reason) of each row of the source that is
    not in it.

    >>> import tempfile
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
        columns = {name: mapped_column(path, name, manifest) for name in manifest.columns}
        self.features: NDArray[Any] = columns["features"]
        self.logits: NDArray[Any] | None = columns.get("logits")
        self.labels: NDArray[Any] | None = columns.get("labels")
        self.layers: dict[str, NDArray[Any]] = {
            name.removeprefix("layer."): column
            for name, column in columns.items()
            if name.startswith("layer.")
        }
        self.names: Names | None = None if manifest.name_bytes is None else Names(path)
        self._columns = columns

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Bank:
        """Open a bank's folder; an unfinished, damaged or foreign one is refused."""
        path = Path(path)
        manifest = read_manifest(path)
        if not manifest.complete:
            raise FormatError(
                f"{path}: the bank is unfinished, {manifest.source_rows} rows of its source are in; "
                "run the command that writes it again, it goes on from there."
            )
        for name, size in manifest.sizes().items():
            found = (path / name).stat().st_size if (path / name).is_file() else None
            if found != size:
                what = "is missing" if found is None else f"has {found} bytes instead of {size}"
                raise FormatError(
                    f"{path}: {name} {what}; delete the folder and write the bank again."
                )
        return cls(path, manifest)

    @staticmethod
    def is_bank(path: str | os.PathLike[str]) -> bool:
        """Tell whether a path is the folder of a bank, finished or not."""
        try:
            with (Path(path) / MANIFEST).open("rb") as file:
                return file.read(9) == b'{\n "bank"'
        except OSError:
            return False

    @functools.cached_property
    def head(self) -> Head | None:
        """The network's head."""
        if self._manifest.head is None:
            return None
        what = "is not this bank's own"
        try:
            head = store.load(self.path / HEAD)
            if isinstance(head, Head) and store.fingerprint(head) == self._manifest.head:
                return head
        except InputError:
            what = "is damaged" if (self.path / HEAD).exists() else "is missing"
        raise FormatError(
            f"{self.path}: {HEAD} {what}; write the bank again (`typica extract --fresh`), or pass the head in a file "
            "of its own (--head)."
        )

    @property
    def origin(self) -> Origin | None:
        """The network that made the features, or None if none did."""
        if not Origin.known_in(self.identity):
            return None
        files = {key: self.settings.get(key) for key in ("model_file", "weights_file")}
        return Origin.from_dict({**self.identity, **files})

    @property
    def source(self) -> dict[str, Any] | None:
        """What a detector fitted on this bank remembers of the model that made it, or None if no model did."""
        if not set(SOURCE) <= set(self.identity):
            return None
        files = {key: self.settings.get(key) for key in ("model_file", "weights_file")}
        return {
            key: self.identity[key] for key in (*SOURCE, *_MORE) if key in self.identity
        } | files

    @property
    def accuracy(self) -> float | None:
        """The share of rows whose largest logit is at their label; None without logits, or labels that index them."""
        if self.logits is None or self.labels is None or self.labels.dtype.kind not in "iu":
            return None
        if self.classes is not None and len(self.classes) != self.logits.shape[1]:
            return None
        right = [
            np.argmax(self.logits[rows], axis=1) == self.labels[rows]
            for rows in row_blocks(len(self), 1)
        ]
        return float(np.mean(np.concatenate(right)))

    def fingerprint(self) -> str:
        """Return the SHA-256 of the identity, the columns' checksums and the head: equal for equal banks."""
        manifest = self._manifest
        parts = [
            manifest.identity,
            manifest.columns,
            manifest.classes,
            manifest.head,
            manifest.shards,
        ]
        return hashlib.sha256(canonical(parts).encode()).hexdigest()

    def verify(self) -> int:
        """Read all data and check it against the checksums; an error names the shard that is damaged.

        Return how many bytes of columns and names were read.
        """
        _ = self.head
        checked = 0
        for number, shard in enumerate(self._manifest.shards):
            parts = {
                column_file(name): column[shard.start : shard.stop]
                for name, column in self._columns.items()
            }
            if self.names is not None:
                parts |= self.names.part(shard.start, shard.stop)
            digests = {name: hashlib.sha256(_bytes(part)).digest() for name, part in parts.items()}
            if shard_digest(digests if shard.stop > shard.start else {}) != shard.sha256:
                raise FormatError(
                    f"{self.path}: shard {number} (rows {shard.start} to {shard.stop - 1}) is damaged, its checksum "
                    "does not match; delete the folder and write the bank again."
                )
            checked += sum(part.nbytes for part in parts.values())
            advance(shard.stop - shard.start)
        return checked

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the bank to one Parquet file: list columns `features`, `logits` and `layer.NAME`,
        columns `label` and `name`; head and identity in the schema's metadata. A row group a shard;
        float16 becomes float32.
        """
        from typica.bank._parquet import write_parquet  # noqa: PLC0415 (needs an extra)

        write_parquet(self, Path(path))

    def __len__(self) -> int:
        return self._manifest.rows

    def __repr__(self) -> str:
        parts = [name for name in self._columns if name != "features"]
        parts += [] if self.names is None else ["names"]
        parts += [] if self._manifest.head is None else ["head"]
        return f"Bank({', '.join([f'{len(self)} rows', f'{self.features.shape[1]} features', *parts])})"


def write_bank(
    path: str | os.PathLike[str],
    features: Any,
    *,
    logits: Any = None,
    labels: Any = None,
    names: Sequence[str] | None = None,
    head: Head | None = None,
    classes: Sequence[str] | None = None,
    identity: Mapping[str, Any] | None = None,
) -> Bank:
    """Write arrays to a bank and return it, opened.

    features (n, m), logits (n, C), labels (n,), names: n strings. The features keep their type:
    float16, float32 or float64. Interrupted and called again with the same data, it goes on; other
    data in the folder is refused.

    >>> import tempfile
    >>> write_bank(tempfile.mkdtemp(), np.ones((2, 5), np.float16), names=["a", "b"]).names[0]
    'a'
    """
    given = {"features": features, "logits": logits, "labels": labels}
    columns = {name: np.asarray(column) for name, column in given.items() if column is not None}
    if columns["features"].ndim != 2 or not len(columns["features"]):
        raise InputError(
            f"write_bank: features of shape {columns['features'].shape}; pass rows (n, m)."
        )
    rows = len(columns["features"])
    lengths = {name: len(column) for name, column in columns.items() if column.ndim}
    lengths |= {} if names is None else {"names": len(names)}
    wrong = next((f"{count} {name}" for name, count in lengths.items() if count != rows), None)
    if wrong is not None:
        raise InputError(f"write_bank: {wrong} for {rows} rows of features; pass one a row.")
    dtype = str(columns["features"].dtype.newbyteorder("="))
    settings = {"content": _content(columns, names, head, classes)}
    with BankWriter(
        path, identity or {}, settings=settings, dtype=dtype if dtype in DTYPES else "float32"
    ) as writer:
        if writer.settings != settings:
            raise InputError(
                f"{path}: holds a bank of other data; choose another folder, or delete this one."
            )
        step = 4096
        for start in range(writer.done if not writer.complete else rows, rows, step):
            part = slice(start, start + step)
            batch = {name: column[part] for name, column in columns.items()}
            writer.write(batch, None if names is None else names[part], len(batch["features"]))
        return writer.finish(head, classes)


def check_source(
    path: str | os.PathLike[str], other: Mapping[str, Any] | None, source: Mapping[str, Any] | None
) -> None:
    """Raise if `other`, the source of the bank at `path`, is another model, layer or preprocessing than `source`.

    See `Bank.source`. Where either is unknown there is nothing to compare.
    """
    if source is None or other is None:
        return
    for key in (*SOURCE, *_MORE):
        ours, theirs = source.get(key), other.get(key)
        if key == "layer":
            ours, theirs = feature_layer(ours), feature_layer(theirs)
        if ours != theirs:
            raise InputError(
                f"{path}: features of another network, {key} {theirs!r} in place of {ours!r}; extract them with "
                "the same model, layer and transform."
            )


def remove_bank(path: str | os.PathLike[str]) -> None:
    """Delete a bank, finished or not, if there is one.

    A bank that is being written, and a folder that is no bank, are left alone and refused.
    """
    if Bank.is_bank(path):
        with contextlib.ExitStack() as lock:
            lock.callback(os.close, lock_folder(Path(path)))
            if os.name == "nt":  # which deletes no file that is open, as the one with the lock is
                lock.close()
            shutil.rmtree(path)
    elif Path(path).exists() and (not Path(path).is_dir() or any(Path(path).iterdir())):
        raise InputError(f"{path}: holds something that is no bank; choose another folder.")


def bank_from_parquet(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> Bank:
    """Write the bank that `Bank.to_parquet` put in a file to the folder `out`: the same one, to the byte.

    Interrupted and called again, it goes on; a folder that holds other data is refused.
    """
    from typica.bank._parquet import read_parquet  # noqa: PLC0415 (needs an extra)

    return read_parquet(Path(path), Path(out))


def _content(
    columns: dict[str, NDArray[Any]],
    names: Sequence[str] | None,
    head: Head | None,
    classes: Sequence[str] | None,
) -> str:
    """Return a digest of all that `write_bank` is given, so that it never goes on with another call's data."""
    digest = hashlib.sha256(
        store.fingerprint([head, None if classes is None else list(classes)]).encode()
    )
    for name, column in columns.items():
        digest.update(f"{name} {column.dtype} {column.shape}\n".encode())
        for start in range(0, len(column), 4096):
            part = column[start : start + 4096]
            digest.update(_bytes(part.astype(np.str_) if part.dtype.kind == "O" else part))
    for encoded in () if names is None else encode_names(names, "write_bank"):
        digest.update(b"%d:" % len(encoded) + encoded)
    return digest.hexdigest()


def _bytes(part: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(part).view(np.uint8).data
