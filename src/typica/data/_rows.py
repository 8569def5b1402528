"""Rows of features from files: of the same network, of one width, and finite."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from typica.arrays import AnyArray, as_floating, check_finite, row_blocks
from typica.bank import Bank
from typica.data._feature_table import Features
from typica.data.features import ENDINGS, FeatureFile, Source, open_features, read_labels
from typica.detectors import KnownRows
from typica.errors import InputError, about
from typica.labels import check_label_count
from typica.origin import Origin


def read_known(
    path: Source,
    origin: Origin | None = None,
    *,
    logits: bool = False,
    columns: Sequence[str] | None = None,
) -> KnownRows:
    """Read known inputs for `typica.explain`, with their labels and the names of their images.

    origin, logits, columns: as `read_features` takes them.
    """
    opened = open_features(path)
    found = opened.read(origin, logits=logits, columns=columns)
    names = None if opened.bank is None else opened.bank.names
    return KnownRows(found.features, found.labels, names)


def read_labelled(
    opened: FeatureFile,
    labels: str | Path | None,
    origin: Origin | None = None,
    *,
    logits: bool = False,
    columns: Sequence[str] | None = None,
) -> Features:
    """Read features with their own labels, or with those that are named.

    Parameters
    ----------
    opened
        The file of features.
    labels
        A file of labels, or else the name of a column, or array, beside the features.
    origin, logits, columns
        As `read_features` takes them.
    """
    column = column_named(opened, labels)
    found = opened.read(origin, logits=logits, labels=column, columns=columns)
    if labels is None or column is not None:
        return found
    targets = read_labels(labels)
    with about(str(labels)):
        check_label_count(targets, len(found.features))
    return replace(found, labels=targets)


def read_rows(
    path: Source,
    origin: Origin | None = None,
    width: int | None = None,
    *,
    logits: bool = False,
    columns: Sequence[str] | None = None,
) -> AnyArray:
    """Read features as finite rows; an error about them names the file.

    Parameters
    ----------
    path, origin, logits, columns
        As `read_features` takes them.
    width
        How many features a row must have.
    """
    opened = open_features(path)
    found = opened.read(origin, logits=logits, columns=columns)
    return checked_rows(found.features, str(opened.path), width)


def read_grouped(
    path: Source,
    groups: str,
    origin: Origin | None = None,
    *,
    logits: bool = False,
    columns: Sequence[str] | None = None,
) -> tuple[AnyArray, AnyArray]:
    """Read features as `read_rows` does, and what each row belongs to.

    Parameters
    ----------
    groups
        A file of one entry per row, or else the name of a column beside the features.
    path, origin, logits, columns
        As `read_features` takes them.
    """
    opened = open_features(path)
    column = column_named(opened, groups)
    if column is None:
        return read_rows(opened, origin, logits=logits, columns=columns), read_labels(groups)
    found = opened.read(origin, logits=logits, groups=column, columns=columns)
    if found.groups is None:
        raise InputError(f"{opened.path}: no column {groups!r}; pass a file of groups.")
    return checked_rows(found.features, str(opened.path)), found.groups


def column_named(opened: FeatureFile, entries: str | Path | None) -> str | None:
    """Return which column, or array, beside features is meant; None where a file is, or nothing.

    entries: what `--labels` or `--groups` names, one entry per row.
    """
    if entries is None or names_file(entries, opened.columns):
        return None
    return str(entries)


def names_file(entries: str | Path, columns: Collection[str]) -> bool:
    """Tell whether one entry per row is given as a file, or a bank; it may be missing.

    A column of that name comes first. columns: those that there are.
    """
    if str(entries) in columns:
        return False
    path = Path(entries)
    has_ending = path.suffix.lower() in (*ENDINGS, ".txt")
    return path.is_file() or Bank.is_bank(path) or len(path.parts) > 1 or has_ending


def checked_rows(rows: AnyArray, name: str, width: int | None = None) -> AnyArray:
    """Return the rows of a file of this name; refuse another width, and what is not finite."""
    count, found = rows.shape
    if width not in (None, found):
        raise InputError(
            f"{name}: {found} features per row instead of {width}; take them from the same layer."
        )
    for block in row_blocks(count, found):
        with about(name):
            check_finite(as_floating(rows[block]), block.start)
    return rows
