"""A bank of arrays, written at once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence, Sized
from typing import Any

import numpy as np

from typica import store
from typica.arrays import AnyArray
from typica.bank._columns import DTYPES, check_head_and_classes
from typica.bank._files import column_bytes
from typica.bank._names import encode_names
from typica.bank._reader import Bank
from typica.bank._writer import BankWriter
from typica.errors import InputError, a_kind, border, counted
from typica.head import Head

_STEP = 4096  # rows in a batch


@border
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

    If it was interrupted, it goes on when it is called again with the same data; a folder with
    other data is refused.

    Parameters
    ----------
    path
        The folder of the bank.
    features
        (n, m); they keep their type if that is float16, float32 or float64.
    logits, labels, names
        (n, C), (n,) integers or strings, and n strings.
    head
        The network's last layer.
    classes
        The names that integer labels point to.
    identity
        What the rows were made of and how, JSON values.

    >>> import tempfile
    >>> write_bank(tempfile.mkdtemp(), np.ones((2, 5), np.float16), names=["a", "b"]).names[0]
    'a'
    """
    columns = {"features": np.asarray(features)}
    for name, column in (("logits", logits), ("labels", labels)):
        if column is not None:
            columns[name] = np.asarray(column)
    _check_lengths(columns, names)
    check_head_and_classes(head, classes)
    _check_outputs(columns, head)
    settings = {"content": _content(columns, names, head, classes)}
    dtype = str(columns["features"].dtype.newbyteorder("="))
    stored = dtype if dtype in DTYPES else "float32"
    with BankWriter(path, identity or {}, settings=settings, dtype=stored) as writer:
        if writer.settings != settings:
            raise InputError(
                f"{path}: holds a bank of other data; choose another folder, or delete this one."
            )
        if not writer.complete:
            _write_rest(writer, _with_texts(columns), names)
        return writer.finish(head, classes)


def _check_lengths(columns: Mapping[str, AnyArray], names: Sequence[str] | None) -> None:
    """Check that there are rows of features, and one of everything for each of them."""
    features = columns["features"]
    if features.ndim != 2 or not len(features):
        raise InputError(f"features of shape {features.shape}; pass rows (n, m).")
    for name, column in columns.items():
        if not column.ndim:
            raise InputError(f"{name} of shape (); pass one per row of the features.")
    lengths = {name: len(column) for name, column in columns.items()}
    if names is not None:
        if isinstance(names, str) or not isinstance(names, Sized):
            raise InputError(f"names is {a_kind(names)}; pass one string per row.")
        lengths["names"] = len(names)
    for name, count in lengths.items():
        if count != len(features):
            raise InputError(
                f"{name} of length {count} for {counted(len(features), 'row')} of features; "
                "pass one per row."
            )


def _check_outputs(columns: Mapping[str, AnyArray], head: Head | None) -> None:
    """Check that there is a logit for each class of the head."""
    logits = columns.get("logits")
    if head is None or logits is None or logits.ndim != 2:
        return
    if logits.shape[1] != len(head.classes):
        raise InputError(
            f"{logits.shape[1]} logits per row for a head of {len(head.classes)} classes; "
            "pass those of the same network."
        )


def _content(
    columns: Mapping[str, AnyArray],
    names: Sequence[str] | None,
    head: Head | None,
    classes: Sequence[str] | None,
) -> str:
    """Return a digest of all that is given, so that no call resumes a bank of other data."""
    known = [head, None if classes is None else list(classes)]
    digest = hashlib.sha256(store.fingerprint(known).encode())
    for name, column in columns.items():
        digest.update(f"{name} {column.dtype} {column.shape}\n".encode())
        for start in range(0, len(column), _STEP):
            part = column[start : start + _STEP]
            if part.dtype.kind == "O":
                part = part.astype(np.str_)
            digest.update(column_bytes(part))
    if names is not None:
        for encoded in encode_names(names):
            digest.update(b"%d:" % len(encoded) + encoded)
    return digest.hexdigest()


def _with_texts(columns: Mapping[str, AnyArray]) -> Mapping[str, AnyArray]:
    """Return the columns with labels that are Python's strings as NumPy's, as wide as the longest.

    A single batch would only be as wide as the longest of its own.
    """
    labels = columns.get("labels")
    if labels is None or labels.dtype != object:
        return columns
    if not all(isinstance(label, str) for label in labels):
        return columns
    return {**columns, "labels": labels.astype(np.str_)}


def _write_rest(
    writer: BankWriter, columns: Mapping[str, AnyArray], names: Sequence[str] | None
) -> None:
    """Write the rows that are not in yet."""
    for start in range(writer.done, len(columns["features"]), _STEP):
        rows = slice(start, start + _STEP)
        batch = {name: column[rows] for name, column in columns.items()}
        writer.write(batch, None if names is None else names[rows], len(batch["features"]))
