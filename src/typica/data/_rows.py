"""Rows that stand beside others: of the same network, as wide, and finite."""

from __future__ import annotations

from pathlib import Path

from typica.arrays import AnyArray, as_floating, check_finite, row_blocks
from typica.bank import Bank
from typica.data.features import read_features
from typica.detectors import KnownRows
from typica.errors import InputError, about
from typica.origin import Origin


def read_known(
    path: str | Path, origin: Origin | None = None, *, logits: bool = False
) -> KnownRows:
    """Read known inputs for `typica.explain`, with their labels and the names of their images.

    origin, logits: as `read_features` takes them.
    """
    found = read_features(path, origin, logits=logits)
    names = Bank.open(path).names if Bank.is_bank(path) else None
    return KnownRows(found.features, found.labels, names)


def read_rows(
    path: str | Path,
    origin: Origin | None = None,
    width: int | None = None,
    *,
    logits: bool = False,
) -> AnyArray:
    """Read features, and refuse by the file's name what a detector would only call its input.

    origin, logits: as `read_features` takes them. width: how many features a row must have.
    """
    rows = read_features(path, origin, logits=logits).features
    count, found = rows.shape
    if width not in (None, found):
        raise InputError(
            f"{path}: {found} features per row instead of {width}; take them from the same layer."
        )
    for block in row_blocks(count, found):
        with about(str(path)):
            check_finite(as_floating(rows[block]), block.start)
    return rows
