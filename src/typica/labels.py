"""Labels of rows: which kinds there are, and each row's place among the sorted classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, Labels, to_numpy
from typica.errors import InputError

_INT64 = np.iinfo(np.int64)


def as_labels(y: Any) -> Labels:
    """Return labels, one per row, as an array of integers or of strings.

    A list that mixes the two, which NumPy would take for strings, is refused, and so is None.

    >>> as_labels([3, 1]), as_labels(["cat", "dog"])
    (array([3, 1]), array(['cat', 'dog'], dtype='<U3'))
    """
    labels = np.asarray(y, dtype=object) if isinstance(y, list | tuple) else to_numpy(y)
    if labels.dtype != object:
        return labels
    for row, label in enumerate(labels.flat):
        if label is None:
            raise InputError(
                f"label None of row {row} is neither an integer nor a string; fix or remove it."
            )
    if len({isinstance(label, str) for label in labels.flat}) > 1:
        raise InputError("labels mix strings and integers; keep one kind of labels.")
    return np.asarray(labels.tolist())


def labels_at(y: Any, rows: NDArray[np.int64]) -> Labels:
    """Return the labels of some rows, by the rows' numbers, as `as_labels` does those of all.

    >>> labels_at(["cat", "dog", "cow"], np.array([0, 2]))
    array(['cat', 'cow'], dtype='<U3')
    """
    if isinstance(y, list | tuple):  # of which the others need not be looked at
        return as_labels([y[row] for row in rows])
    return as_labels(to_numpy(y)[rows])


def encode_labels(labels: Any, n_rows: int) -> tuple[AnyArray, NDArray[np.int32]]:
    """Give the sorted classes among the labels, and each row's place among them."""
    if labels is not None:
        labels = _check_labels(labels, n_rows)
    if n_rows == 0:
        return np.empty(0, np.int64), np.empty(0, np.int32)
    if labels is None:
        return np.zeros(1, np.int64), np.zeros(n_rows, np.int32)
    if isinstance(labels, list):
        names = sorted(set(labels))
        places = {name: place for place, name in enumerate(names)}
        return np.array(names), np.fromiter((places[label] for label in labels), np.int32, n_rows)
    low, high = int(labels.min()), int(labels.max())
    if high - low > 4 * n_rows:
        classes, codes = np.unique(labels, return_inverse=True)
        return classes, codes.astype(np.int32)
    codes = (labels - low).astype(np.int32)
    seen = np.bincount(codes) > 0
    if not seen.all():
        codes = (np.cumsum(seen, dtype=np.int32) - 1)[codes]
    return np.flatnonzero(seen) + low, codes


def _check_labels(labels: Any, n_rows: int) -> NDArray[np.int64] | list[str]:
    # NumPy would turn a list that mixes numbers and strings into strings; objects stay so.
    array = np.asarray(labels, dtype=object if isinstance(labels, list | tuple) else None)
    if array.ndim != 1:
        raise InputError(f"labels of shape {array.shape}; pass one label per row.")
    if array.size != n_rows:
        raise InputError(f"{array.size} labels for {n_rows} rows; pass one label per row.")
    if array.dtype.kind in "biu" and array.dtype != np.uint64:
        return array.astype(np.int64, copy=False)
    listed: list[Any] = array.tolist()
    if array.dtype.kind == "U":
        return listed
    return _check_each(listed)


def _check_each(labels: list[Any]) -> NDArray[np.int64] | list[str]:
    for row, label in enumerate(labels):
        if not isinstance(label, str) and not _is_whole(label):
            raise InputError(
                f"label {label!r} of row {row} is neither an integer nor a string; "
                "fix or remove it."
            )
    kinds = {isinstance(label, str) for label in labels}
    if len(kinds) > 1:
        raise InputError("labels mix strings and integers; keep one kind of labels.")
    if True in kinds:
        return labels
    return np.array(labels, dtype=np.int64)


def _is_whole(label: Any) -> bool:
    """Tell whether a label is a whole number that 64 bits can hold."""
    if isinstance(label, float | np.floating):
        whole = float(label).is_integer()
    else:
        whole = isinstance(label, int | np.integer | np.bool)
    return whole and -(2**63) <= int(label) < 2**63


def labels_of_texts(texts: Sequence[str]) -> AnyArray:
    """Return labels that were read as texts: whole numbers where all are, else the texts.

    >>> labels_of_texts(["3", "-1"]), labels_of_texts(["3", "--5"]), labels_of_texts(["3", "²"])
    (array([ 3, -1]), array(['3', '--5'], dtype='<U3'), array(['3', '²'], dtype='<U1'))
    """
    if not all(map(_is_whole_text, texts)):
        return np.array(texts)
    numbers = [int(text) for text in texts]
    if any(not _INT64.min <= number <= _INT64.max for number in numbers):
        return np.array(texts)
    return np.array(numbers, dtype=np.int64)


def _is_whole_text(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit()
