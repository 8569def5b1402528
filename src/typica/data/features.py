"""Feature files in: .npy, .npz, .safetensors, .parquet, .csv and banks.

A file holds one matrix of features, and may hold labels beside it:

| ending          | features                                        | labels              |
|-----------------|-------------------------------------------------|---------------------|
| .npy            | the array, memory-mapped: may exceed memory     | a file of their own |
| .npz            | the array `features`, or the only one           | the array `labels`  |
| .safetensors    | the tensor `features`, or the only one          | the tensor `labels` |
| .parquet        | the column of lists, or all columns of numbers  | the column `label`  |
| .csv            | all columns, with or without a header           | the column `label`  |
| a bank's folder | its features, memory-mapped                     | its labels          |

A file that is memory-mapped must not be made shorter while it is in use: the system would end the
process. Write a new file in its place instead.

The array or column of labels may be called `labels` or `label`, or be named. For a detector that
was fitted on columns with names, columns are read by their names, in any order, and others are left
aside. A .parquet file that a bank was written to has the bank's logits, head, classes and origin as
well.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Union

from typica.arrays import AnyArray
from typica.bank import Bank, ParquetNotes, read_notes
from typica.data._feature_arrays import (
    ARRAY_READERS,
    array_names,
    features_among,
    labels_among,
    read_arrays,
)
from typica.data._feature_csv import csv_columns, read_csv, read_csv_labels, read_label_lines
from typica.data._feature_parquet import parquet_columns, read_parquet
from typica.data._feature_table import UNNAMED, Features, NamedColumns, no_column
from typica.errors import FormatError, InputError, about, listed
from typica.files import existing, reading
from typica.head import Head
from typica.kinds import STORED, Kind, check_kind, kind_of, layers_named, wrong_kind
from typica.labels import class_names
from typica.origin import Origin

ENDINGS = (*ARRAY_READERS, ".parquet", ".csv")

_COLUMNS = {".csv": csv_columns, ".parquet": parquet_columns}

Location = str | os.PathLike[str]
Notes = Bank | ParquetNotes
Source = Union[Location, "FeatureFile"]


@dataclass(frozen=True)
class FeatureFile:
    """A file of features, or a bank, opened once; made by `open_features`.

    notes: what a bank, or a .parquet file that one was written to, says of its features.
    """

    path: Path
    notes: Notes | None

    @property
    def bank(self) -> Bank | None:
        """The bank, where it is one."""
        return self.notes if isinstance(self.notes, Bank) else None

    @property
    def origin(self) -> Origin | None:
        """The network that made a bank's features."""
        with reading(self.path, "not a bank that can be read"):
            return None if self.notes is None else self.notes.origin

    @property
    def has_logits(self) -> bool:
        """Whether it is a bank that has logits beside its features."""
        if self.bank is not None:
            return self.bank.logits is not None
        return self.notes is not None and "logits" in parquet_columns(self.path)

    @property
    def columns(self) -> list[str]:
        """The names of the columns, or arrays, that a file has; a bank has none."""
        if self.bank is not None:
            return []
        with reading(self.path, "not a file of features that can be read"):
            _check_readable(self.path)
            return _COLUMNS.get(self.path.suffix.lower(), array_names)(self.path)

    @property
    def head(self) -> Head | None:
        """The head of a bank, with the bank's class names where they fit."""
        with reading(self.path, "not a bank that can be read"):
            return None if self.notes is None else self.notes.head

    def read(
        self,
        origin: Origin | None = None,
        *,
        logits: bool = False,
        groups: str | None = None,
        labels: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> Features:
        """Read the features.

        Parameters
        ----------
        origin, logits, groups, labels, columns
            As `read_features` takes them.
        """
        if origin is not None:
            with about(os.fspath(self.path)):
                origin.check_same(self.origin)
        with reading(self.path, "not a file of features that can be read"):
            found = _read_table(self.path, self.notes, NamedColumns(labels, groups, columns))
            found.check(self.path)
            if self.notes is None:
                return found
            return _chosen_rows(found, self.notes, logits)


def open_features(source: Source) -> FeatureFile:
    """Open a file of features, or a bank, to ask several things of it; or return an open one."""
    if isinstance(source, FeatureFile):
        return source
    path = Path(source)
    with reading(path, "not a file of features that can be read"):
        return FeatureFile(path, _notes(path))


def read_features(
    path: Source,
    origin: Origin | None = None,
    *,
    logits: bool = False,
    groups: str | None = None,
    labels: str | None = None,
    columns: Sequence[str] | None = None,
) -> Features:
    """Read a matrix of features, and the labels if the file holds them.

    Parameters
    ----------
    path
        A file of features, or a bank; or one that `open_features` opened.
    origin
        The network that the features should come from; a bank of another one is refused.
    logits
        Read a bank's logits in place of its features, where it has them, with labels that index
        them. Other files hold only one matrix.
    groups
        The name of a column, or array, that says what each row belongs to, and is not a feature.
    labels
        The name of the column, or array, of labels, where that is not "labels" or "label".
    columns
        The names of the columns of features in the wanted order, where the file has names; other
        columns are left out.
    """
    opened = open_features(path)
    return opened.read(origin, logits=logits, groups=groups, labels=labels, columns=columns)


def read_labels(path: Location) -> AnyArray:
    """Read one label per row: a 1-D array, labels beside features, or lines of text."""
    path = Path(path)
    with reading(path, "not a file of labels that can be read"):
        labels = _read_labels(path)
    if labels.ndim == 2 and kind_of(path) == Kind.FEATURES:
        raise wrong_kind(path, "labels", "pass one label per row")
    gaps = sum(label is None for label in labels) if labels.dtype == object else 0
    if gaps:
        raise FormatError(f"{path}: {gaps} of {len(labels)} rows have no label; write one per row.")
    if labels.ndim != 1 or not labels.size:
        raise FormatError(f"{path}: labels of shape {labels.shape}; expected one per row.")
    return labels


def read_head(path: Location) -> Head:
    """Read a head from a bank, or from a .safetensors or .npz file.

    Such a file holds `weight`, and maybe `bias` and `classes`. A checkpoint whose only tensors end
    in `.weight` and `.bias` (`fc.weight`, `fc.bias`) will do as well.
    """
    path = Path(path)
    with reading(path, "not a file of a head that can be read"):
        notes = _notes(path)
        return _head_of_file(path) if notes is None else _head_of_bank(notes)


def _head_of_file(path: Path) -> Head:
    """Read a head, as `read_head` does, from a file that is no bank: a weight and maybe a bias."""
    _check_readable(path, Kind.HEAD, "a head")
    found = read_arrays(path) if path.suffix.lower() in ARRAY_READERS else {}
    arrays = {name.rpartition(".")[2]: array for name, array in found.items()}
    layers = layers_named(found)
    if len(layers) > 1:
        raise FormatError(
            f"{path}: holds the weights of several layers ({listed(layers, quoted=True)}); "
            "write the head's weight and bias to a file of their own."
        )
    if "weight" not in arrays:
        check_kind(path, Kind.HEAD, "a head", "pass weight (classes, features) and maybe bias")
        raise FormatError(
            f"{path}: holds no 'weight'; "
            "a head is weight (classes, features) and maybe bias (classes)."
        )
    with about(str(path)):
        return Head(arrays["weight"], arrays.get("bias"), arrays.get("classes"))


def find_head(path: Location | None, features: Source) -> Head | None:
    """Read a head, as `read_head` does, or where no file is given that of the bank of features.

    A bank's class names are given to its head where there are as many. None without either.
    """
    return open_features(features).head if path is None else read_head(path)


def read_origin(path: Source) -> Origin | None:
    """Return the network that made a bank's features; None for other files."""
    return open_features(path).origin


def has_logits(path: Source) -> bool:
    """Tell whether a path is a bank that has logits beside its features."""
    return open_features(path).has_logits


def _notes(path: Path) -> Notes | None:
    """Return the notes beside features: a bank, a .parquet file's own; None for other files."""
    if path.is_dir():
        if kind_of(path) == Kind.RESULT:
            raise wrong_kind(path, "features", "pass a file of features, or a bank")
        return Bank.open(path)
    if path.suffix.lower() == ".parquet" and path.is_file():
        return read_notes(path)
    return None


def _read_table(path: Path, notes: Notes | None, wanted: NamedColumns = UNNAMED) -> Features:
    """Read the features of a file or a bank, with labels and logits, as they stand there."""
    if isinstance(notes, Bank):
        for name in (wanted.labels, wanted.groups):
            if name is not None:
                raise no_column(path, name, ())
        return Features(notes.features, notes.labels, notes.logits)
    _check_readable(path)
    if path.suffix.lower() == ".parquet":
        return read_parquet(path, wanted, of_bank=notes is not None)
    if path.suffix.lower() == ".csv":
        return read_csv(path, wanted)
    return features_among(read_arrays(path), path, wanted)


def _check_readable(path: Path, kind: Kind = Kind.FEATURES, wanted: str = "features") -> None:
    """Raise for an unknown ending, for a file of another kind, and for a missing file.

    kind: what it should be; wanted: what that holds, for the message.
    """
    if path.suffix.lower() not in ENDINGS:
        known = ", ".join(ENDINGS)
        if kind_of(path) is not None:
            raise wrong_kind(path, wanted, f"pass one of {known}, or a bank")
        if path.suffix or path.exists():
            raise InputError(f"{path}: the ending {path.suffix!r} is unknown; use one of {known}.")
    if path.suffix.lower() == ".safetensors" and kind_of(path) in STORED - {kind}:
        raise wrong_kind(path, wanted, f"pass a file of {wanted}")
    existing(path)


def _chosen_rows(found: Features, notes: Notes, logits: bool) -> Features:
    """Return a bank's features with named labels, or its logits with labels that index them."""
    if not logits or found.logits is None:
        return replace(found, labels=_named(found.labels, notes))
    if notes.classes is not None and len(notes.classes) == found.logits.shape[1]:
        return replace(found, features=found.logits)
    return replace(found, features=found.logits, labels=_named(found.labels, notes))


def _read_labels(path: Path) -> AnyArray:
    ending = path.suffix.lower()
    if ending == ".txt":
        return read_label_lines(path)
    notes = _notes(path)
    if notes is None and ending in ARRAY_READERS:
        _check_readable(path, Kind.LABELS, "labels")
        return labels_among(read_arrays(path), path)
    labels = read_csv_labels(path) if ending == ".csv" else _read_table(path, notes).labels
    if labels is None:
        raise FormatError(f"{path}: holds no labels; name the column of labels 'label'.")
    return labels if notes is None else _names(labels, notes)


def _named(labels: AnyArray | None, notes: Notes) -> AnyArray | None:
    return None if labels is None else _names(labels, notes)


def _names(labels: AnyArray, notes: Notes) -> AnyArray:
    """Return labels that were read as the names of their classes, from the notes beside them."""
    with about(str(notes.path)):
        return class_names(labels, notes.classes)


def _head_of_bank(notes: Notes) -> Head:
    if notes.head is None:
        raise FormatError(
            f"{notes.path}: a bank without a head; "
            "pass the head's own file, or write the bank with one."
        )
    return notes.head
