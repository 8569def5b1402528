"""Banks out: written batch by batch, and resumed after the last whole shard if killed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from typica import store
from typica.arrays import AnyArray
from typica.bank._columns import (
    DTYPES,
    check_head_and_classes,
    check_labels,
    prepared_columns,
)
from typica.bank._files import (
    HEAD,
    HEADER,
    NAMES,
    OFFSETS,
    Growing,
    column_file,
    npy_header,
    shard_digest,
)
from typica.bank._folder import differing_settings, is_ours, make_bank_folder, unmake_bank_folder
from typica.bank._manifest import (
    MANIFEST,
    MANIFEST_NEXT,
    Manifest,
    Shard,
    checked_json,
    read_manifest,
)
from typica.bank._names import encode_names
from typica.bank._reader import Bank
from typica.checks import is_whole
from typica.errors import FormatError, InputError, about, argument, border, by_caller, counted
from typica.files import DELETES_OPEN_FILES, FULL, LOCK, check_lock, is_locked, lock_folder
from typica.head import Head

# Shards grow with the bank: otherwise the manifest, written with each, would list too many.
_OF_DONE = 256


class BankWriter:
    """Write a bank, a batch at a time, into a folder.

    An unfinished bank of the same identity in the folder is resumed: `done` says how many source
    rows are in, and `settings` is what the first run set. `complete` is True where the bank is
    finished. A bank of another identity is refused. Given the same batches, the finished folder is
    the same to the byte, however often the writing was interrupted.

    Parameters
    ----------
    path
        The folder of the bank.
    identity
        What the rows were made of and how (model, layer, transform, data ...), JSON values.
    settings
        How they are made, JSON values, or a function that finds out, which is only called for a
        new bank.
    dtype
        Of features and layers in the files.
    shard_rows
        Source rows after which what was written is made safe, at the next end of a batch; a run
        that is killed loses no more than that, or 1/256 of what is done where that is more.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with BankWriter(folder, {"model": "a"}) as writer:
    ...     writer.write({"features": np.eye(3)}, names=["x", "y", "z"], source_rows=3)
    ...     bank = writer.finish()
    >>> bank.features.shape, bank.names[2]
    ((3, 3), 'z')
    """

    @border
    def __init__(
        self,
        path: str | os.PathLike[str],
        identity: Mapping[str, Any],
        *,
        settings: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
        dtype: str = "float32",
        shard_rows: int = 4096,
    ) -> None:
        self.path = Path(path)
        wanted = _new_manifest(identity, dtype, shard_rows)
        self._files: dict[str, Growing] = {}
        self._pending = 0  # source rows since the last shard ended
        self._lock: int | None = None
        self._manifest = wanted
        self._found_empty = False
        try:
            self._made = make_bank_folder(self.path)
            self._lock = lock_folder(self.path, "writing this bank")
        except OSError as error:
            raise InputError(
                f"{path}: cannot write a bank there ({error.strerror}); choose another folder."
            ) from None
        with self._or_close():
            self._manifest = self._take_up(wanted, settings or {})

    @property
    def settings(self) -> dict[str, Any]:
        """What the first run on this folder was given."""
        return self._manifest.settings

    @property
    def done(self) -> int:
        """The number of source rows that are in, skipped ones included."""
        return self._manifest.source_rows

    @property
    def complete(self) -> bool:
        """Whether the folder holds the finished bank already."""
        return self._manifest.complete

    def _take_up(
        self, wanted: Manifest, settings: Mapping[str, Any] | Callable[[], Mapping[str, Any]]
    ) -> Manifest:
        found = {entry.name for entry in self.path.iterdir()} - {MANIFEST_NEXT, LOCK}
        if not found:
            self._found_empty = True
            given = settings() if callable(settings) else settings
            wanted.settings = checked_json(given, "settings")
            wanted.write(self.path, self._lock)
            return wanted
        if MANIFEST not in found:
            raise InputError(
                f"{self.path}: the folder holds other files ({min(found)} ...); "
                "choose an empty or a new one."
            )
        manifest = read_manifest(self.path)
        others = differing_settings(manifest.identity, wanted.identity)
        others += differing_settings(manifest.dtype, wanted.dtype, "dtype")
        if others:
            again = by_caller("delete this one", f"begin again, {argument('fresh', True)}")
            raise InputError(
                f"{self.path}: holds a bank of something else ({'; '.join(others[:3])}); "
                f"choose another folder, or {again}."
            )
        if not manifest.complete:
            self._cut(manifest)
        return manifest

    def _cut(self, manifest: Manifest) -> None:
        """Bring the files back to where the manifest says that they end."""
        sizes = manifest.sizes()
        for file in self.path.iterdir():
            if file.name not in sizes and is_ours(file.name):
                file.unlink()
        there = {file.name: file.stat().st_size for file in self.path.iterdir()}
        missing = next((name for name, size in sizes.items() if there.get(name, -1) < size), None)
        if missing is not None:
            raise FormatError(
                f"{self.path}: {missing} is shorter than the manifest says, or gone; "
                "delete the folder and write the bank again."
            )
        for name, size in sizes.items():
            self._files[name] = Growing(self.path / name, size=size)

    @border
    def write(
        self,
        columns: Mapping[str, Any],
        names: Sequence[str] | None = None,
        source_rows: int | None = None,
        skipped: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Append one batch.

        Parameters
        ----------
        columns
            `features` (n, m), and maybe `logits` (n, C), `labels` (n,) and `layer.NAME` (n, k), the
            same ones in every batch; none where all rows of a batch were skipped.
        names
            One per row in every batch, or None in every batch.
        source_rows
            How many rows of the source the batch stands for; None counts these and the skipped.
        skipped
            (name, reason) pairs.
        """
        self._check_open()
        prepared = prepared_columns(columns, self._manifest)
        rows = len(next(iter(prepared.values()), ()))
        source_rows = _checked_source_rows(source_rows, rows, len(skipped))
        encoded = self._prepared_names(names, rows) if rows else None
        with self._or_close():
            if rows:
                self._append(prepared, encoded)
            self._manifest.rows += rows
            self._manifest.source_rows += source_rows
            self._manifest.skipped += [(str(name), str(reason)) for name, reason in skipped]
            self._pending += source_rows
            safe = self.done - self._pending
            if self._pending >= max(self._manifest.shard_rows, safe // _OF_DONE):
                self._end_shard()
                self._manifest.write(self.path, self._lock)

    def _prepared_names(self, names: Sequence[str] | None, rows: int) -> list[bytes] | None:
        """Return the names of a batch as they are stored, checked against the batches before."""
        encoded = None if names is None else encode_names(names)
        if encoded is not None and len(encoded) != rows:
            named = counted(len(encoded), "name")
            raise InputError(f"{named} for {counted(rows, 'row')}; pass one per row.")
        had_names = self._manifest.name_bytes is not None
        if self._manifest.columns and had_names != (encoded is not None):
            raise InputError("some batches have names and others none; pass them always or never.")
        return encoded

    def _begin_files(self, columns: dict[str, AnyArray], with_names: bool) -> None:
        """Begin the files of the first batch, with room for the headers that `finish` writes."""
        for name, column in columns.items():
            width = column.shape[1] if column.ndim == 2 else None
            self._manifest.columns[name] = {"dtype": column.dtype.str, "width": width}
            file = column_file(name)
            self._files[file] = Growing(self.path / file, bytes(HEADER))
        if with_names:
            self._manifest.name_bytes = 0
            self._files[NAMES] = Growing(self.path / NAMES)
            self._files[OFFSETS] = Growing(self.path / OFFSETS, bytes(HEADER + 8))

    def _append(self, columns: dict[str, AnyArray], names: list[bytes] | None) -> None:
        if not self._manifest.columns:
            self._begin_files(columns, with_names=names is not None)
        for name, column in columns.items():
            self._files[column_file(name)].append(np.ascontiguousarray(column).view(np.uint8))
        if names is not None and self._manifest.name_bytes is not None:
            ends = self._manifest.name_bytes + np.cumsum([len(name) for name in names], dtype="<i8")
            self._files[NAMES].append(b"".join(names))
            self._files[OFFSETS].append(ends)
            self._manifest.name_bytes = int(ends[-1])

    def _end_shard(self) -> None:
        manifest = self._manifest
        start = manifest.shards[-1].stop if manifest.shards else 0
        digests = {name: file.commit() for name, file in self._files.items()}
        digest = shard_digest(digests if manifest.rows > start else {})
        manifest.shards.append(Shard(start, manifest.rows, manifest.source_rows, digest))
        self._pending = 0

    def finish(self, head: Head | None = None, classes: Sequence[str] | None = None) -> Bank:
        """Make the bank whole and return it.

        head: of the network. classes: the names that integer labels point to.
        """
        if self.complete:
            self.close()
            return Bank.open(self.path)
        self._check_open()
        self._check_whole(head, classes)
        manifest = self._manifest
        with self._or_close():
            if head is not None:
                store.save(head, self.path / HEAD)
                manifest.head = store.fingerprint(head)
            manifest.classes = None if classes is None else [str(name) for name in classes]
            self._write_headers()
            if self._pending:
                self._end_shard()
            for file in self._files.values():
                file.commit()
            dataclasses.replace(manifest, complete=True).write(self.path, self._lock)
            manifest.complete = True
        self.close()
        return Bank.open(self.path)

    def _check_whole(self, head: Head | None, classes: Sequence[str] | None) -> None:
        """Check that there are rows, and that head and classes fit them."""
        with about(str(self.path)):
            check_head_and_classes(head, classes)
        manifest = self._manifest
        if not manifest.rows:
            skipped = _skipped_text(manifest.skipped)
            raise InputError(f"{self.path}: no row was written, {skipped}; check the source.")
        width = manifest.columns["features"]["width"]
        if head is not None and head.n_features != width:
            raise InputError(
                f"{self.path}: a head for {head.n_features} features, the bank has {width}; "
                "pass the head of this layer."
            )
        if classes is not None:
            check_labels(self.path, manifest, classes)

    def _write_headers(self) -> None:
        """Write the headers of the columns, now that the number of rows is known."""
        manifest = self._manifest
        for name in manifest.columns:
            header = npy_header(manifest.dtype_of(name), manifest.shape_of(name))
            self._files[column_file(name)].rewrite(header)
        if manifest.name_bytes is not None:
            self._files[OFFSETS].rewrite(npy_header(np.dtype("<i8"), (manifest.rows + 1,)))

    @contextlib.contextmanager
    def _or_close(self) -> Iterator[None]:
        """Close on any error or Ctrl-C: half a batch may be there, which the next run cuts off."""
        try:
            yield
        except OSError as error:
            self._stop(error)
            if error.errno not in FULL:
                raise
            raise InputError(
                f"{self.path}: the disk is full ({error.strerror}); free some space "
                "and run the same command again, it goes on after the last whole shard."
            ) from None
        except BaseException as error:
            self._stop(error)
            raise

    def _check_open(self) -> None:
        if self.complete:
            raise InputError(f"{self.path}: the bank is complete; open it with Bank.open.")
        if self._lock is None:
            raise InputError(f"{self.path}: the bank's writer is closed; make a new BankWriter.")
        check_lock(self.path, self._lock)

    def close(self) -> None:
        """Release the folder. The next run cuts off what came after the last shard."""
        for file in self._files.values():
            file.close()
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None

    def __enter__(self) -> BankWriter:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._stop(error)

    def _stop(self, error: BaseException | None) -> None:
        """Close. An error before the first shard leaves nothing behind in a folder that was empty.

        Ctrl-C is not an error, and the next run resumes what it leaves.
        """
        stopped_early = error is not None and not (self.path / MANIFEST).exists()
        failed = isinstance(error, Exception) or stopped_early
        ours = self._lock is not None and is_locked(self.path, self._lock)
        if failed and ours and self._found_empty and not self._manifest.shards:
            if not DELETES_OPEN_FILES:
                self.close()
            unmake_bank_folder(self.path, self._made)
        self.close()


def _new_manifest(identity: Mapping[str, Any], dtype: str, shard_rows: int) -> Manifest:
    if dtype not in DTYPES:
        raise InputError(f"dtype={dtype!r} is not one of {', '.join(DTYPES)}; pass one of them.")
    if not is_whole(shard_rows) or shard_rows < 1:
        raise InputError(f"shard_rows={shard_rows!r}; pass a number of rows, e.g. 4096.")
    # JSON has no NumPy types, which equal the texts and integers that are expected.
    return Manifest(checked_json(identity, "identity"), {}, str(dtype), int(shard_rows))


def _checked_source_rows(source_rows: int | None, rows: int, skipped: int) -> int:
    """Return how many rows of the source a batch stands for, those and the skipped ones if None."""
    if source_rows is None:
        return rows + skipped
    if not is_whole(source_rows) or source_rows < rows:
        raise InputError(
            f"{rows} rows from source_rows={source_rows!r}; pass an integer of at least as many."
        )
    return int(source_rows)


def _skipped_text(skipped: Sequence[tuple[str, str]]) -> str:
    """Say of a bank without rows how many its manifest lists as skipped, and why the first."""
    if not skipped:
        return "0 were skipped"
    name, reason = skipped[0]
    return f"{len(skipped)} were skipped; the first, {name}: {reason}"
