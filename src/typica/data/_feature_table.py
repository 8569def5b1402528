"""A table of features: what every reader returns, whatever the format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from typica.arrays import AnyArray
from typica.errors import FormatError, listed
from typica.kinds import Kind, check_kind

LABELS = ("labels", "label")
NAMED_COLUMNS = (  # what to do with columns that are no features, in Python and in the shell
    "or pass columns=[...] with those of the features",
    "or pass --columns with those of the features (and --id-column to `typica score`)",
)


@dataclass(frozen=True)
class Features:
    """A table of features (n, m), with what came with them, if any.

    labels (n,), objects of which None is a gap where some rows have none; logits (n, C); groups
    (n,): the column that was asked for by name. names (m,): those of the columns of features, where
    the file has them.
    """

    features: AnyArray
    labels: AnyArray | None = None
    logits: AnyArray | None = None
    groups: AnyArray | None = None
    names: tuple[str, ...] | None = None

    def check(self, path: Path) -> None:
        """Raise if the features are not a matrix of numbers, or the labels not one per row."""
        features = self.features
        if features.ndim == 2 and not len(features):
            raise FormatError(f"{path}: holds no rows; pass a file with one row per input.")
        if features.ndim != 2 or not features.size or features.dtype.kind not in "fiub":
            wanted = "expected numbers of shape (rows, features)"
            check_kind(path, Kind.FEATURES, "features", wanted)
            raise FormatError(
                f"{path}: features of shape {features.shape} and type {features.dtype}; {wanted}."
            )
        for what, column in {"labels": self.labels, "groups": self.groups}.items():
            if column is not None and column.shape != (len(features),):
                raise FormatError(
                    f"{path}: {what} of shape {column.shape} for {len(features)} rows; "
                    "one per row is needed."
                )


@dataclass(frozen=True)
class NamedColumns:
    """The columns, or arrays, that are asked for by name in a file of features.

    columns: those of the features, in the wanted order; where a file has names, its other columns
    are left out.
    """

    labels: str | None = None
    groups: str | None = None
    columns: Sequence[str] | None = None


UNNAMED = NamedColumns()


class ColumnKinds(NamedTuple):
    """The names of a file's columns, or arrays, by what they hold: labels, groups and features."""

    labels: str | None
    groups: str | None
    features: list[str]


def sort_columns(names: Iterable[str], wanted: NamedColumns, path: Path) -> ColumnKinds:
    """Tell the columns, or arrays, of a file apart by their names; refuse missing ones."""
    there = list(names)
    for name in (wanted.labels, wanted.groups):
        if name is not None and name not in there:
            raise no_column(path, name, there)
    own = label_name(name for name in there if name != wanted.groups)
    labels = own if wanted.labels is None else wanted.labels
    others = [name for name in there if name not in (own, labels, wanted.groups)]
    return ColumnKinds(labels, wanted.groups, others)


def columns_in_order(names: Sequence[str], wanted: Sequence[str] | None, path: Path) -> list[str]:
    """Return the names of the columns of features in the order that is wanted, without others."""
    if wanted is None:
        return list(names)
    there = set(names)
    for name in wanted:
        if name not in there:
            raise FormatError(
                f"{path}: has no column {name!r}, which the detector was fitted on; "
                "use the names that the columns had there."
            )
    return list(wanted)


def check_groups(name: str, missing: int, rows: int, path: Path) -> None:
    """Refuse a column of groups in which rows are missing."""
    if missing:
        raise FormatError(
            f"{path}: {missing} of {rows} rows are empty in the column {name!r}; "
            "write what each row belongs to."
        )


def names_apart(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of a file's columns of features; None where two share one."""
    return tuple(names) if len(set(names)) == len(names) else None


def label_name(names: Iterable[str]) -> str | None:
    """Return which of the columns of a table of features holds its labels, or None."""
    there = set(names)
    return next((name for name in LABELS if name in there), None)


def no_column(path: Path, name: str, there: Iterable[str]) -> FormatError:
    """Return the complaint that a file, or a bank, has no column, or array, of this name."""
    known = listed(there)
    if not known:
        return FormatError(
            f"{path}: has no column {name!r}, as its columns have no names; "
            "name a file with one entry per row."
        )
    return FormatError(
        f"{path}: has no column {name!r}, but {known}; "
        "name one of these, or a file with one entry per row."
    )
