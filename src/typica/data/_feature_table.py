"""A table of features: what every reader returns, whatever the format."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from typica.arrays import AnyArray
from typica.errors import FormatError
from typica.kinds import Kind, check_kind

LABELS = ("labels", "label")


@dataclass(frozen=True)
class Features:
    """A table of features (n, m), with what came with them, if any.

    labels (n,), logits (n, C); groups (n,): the column that was asked for by name.
    """

    features: AnyArray
    labels: AnyArray | None = None
    logits: AnyArray | None = None
    groups: AnyArray | None = None

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


def label_name(names: Iterable[str]) -> str | None:
    """Return the name under which labels lie among others, or None."""
    there = set(names)
    return next((name for name in LABELS if name in there), None)


def no_column(path: Path, name: str, there: Iterable[str]) -> FormatError:
    """Return the complaint that a file, or a bank, has no column, or array, of this name."""
    known = ", ".join(there)
    if not known:
        return FormatError(
            f"{path}: has no column {name!r}, nor another; name a file with one entry per row."
        )
    return FormatError(
        f"{path}: has no column {name!r}, but {known}; "
        "name one of these, or a file with one entry per row."
    )
