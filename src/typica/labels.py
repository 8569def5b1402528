"""Labels of rows: which kinds there are, and each row's place among the sorted classes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, Labels, to_numpy
from typica.errors import FormatError, InputError, counted

_ROWS_OF_EACH = 32  # class, on average: this far into shuffled rows, every class has come


def as_labels(y: Any) -> Labels:
    """Return labels, one per row, as an array of integers or of strings.

    A list that mixes the two, which NumPy would turn into strings, is refused, and so is None.

    >>> as_labels([3, 1]), as_labels(["cat", "dog"])
    (array([3, 1]), array(['cat', 'dog'], dtype='<U3'))
    """
    labels = np.asarray(y, dtype=object) if isinstance(y, list | tuple) else to_numpy(y)
    if labels.dtype != object:
        return labels
    for row, label in enumerate(labels.flat):
        if _is_missing(label):
            raise InputError(
                f"label {label} of row {row} is neither an integer nor a string; fix or remove it."
            )
    if len({isinstance(label, str) for label in labels.flat}) > 1:
        raise InputError("labels mix strings and integers; keep one kind of labels.")
    return np.asarray(labels.tolist())


def _is_missing(label: Any) -> bool:
    """Tell whether a label is missing, in one of the ways that data frames have."""
    is_nan = isinstance(label, float) and math.isnan(label)
    return label is None or is_nan or type(label).__name__ in ("NAType", "NaTType")


def labels_at(y: Any, rows: NDArray[np.int64]) -> Labels:
    """Return the labels of some rows, given by number, as `as_labels` does for all rows.

    >>> labels_at(["cat", "dog", "cow"], np.array([0, 2]))
    array(['cat', 'cow'], dtype='<U3')
    """
    if isinstance(y, list | tuple):  # the other labels need not be looked at
        return as_labels([y[row] for row in rows])
    return as_labels(to_numpy(y)[rows])


def with_gaps(labels: AnyArray, there: Sequence[bool]) -> AnyArray:
    """Return the labels of those rows that have one as labels of all rows: None for the others.

    Who needs labels refuses None, and who needs none can read the features.
    """
    if all(there):
        return labels
    found = np.full(len(there), None, dtype=object)
    found[np.asarray(there)] = labels.tolist()
    return found


def class_text(name: Any) -> str:
    """Return the text of a label, the same for an integer and an equal float.

    >>> class_text(3), class_text(3.0), class_text("cat")
    ('3', '3', 'cat')
    """
    if isinstance(name, float | np.floating) and name.is_integer():
        return str(int(name))
    return str(name)


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
    numbers = np.empty(n_rows, np.int32)
    np.subtract(labels, low, out=numbers, casting="unsafe")  # in one pass
    seen = np.bincount(numbers) > 0
    if not seen.all():
        numbers = (np.cumsum(seen, dtype=np.int32) - 1)[numbers]
    return np.flatnonzero(seen) + low, numbers


def _check_labels(labels: Any, n_rows: int) -> NDArray[np.int64] | list[str]:
    # NumPy would turn a list that mixes numbers and strings into strings; objects stay so.
    array = np.asarray(labels, dtype=object if isinstance(labels, list | tuple) else None)
    if array.ndim != 1:
        raise InputError(f"labels of shape {array.shape}; pass one label per row.")
    check_label_count(array, n_rows)
    if array.dtype.kind in "biu" and array.dtype != np.uint64:
        return array.astype(np.int64, copy=False)
    listed: list[Any] = array.tolist()
    if array.dtype.kind == "U":
        return listed
    return _check_each(listed)


def check_label_count(labels: AnyArray, n_rows: int) -> None:
    """Refuse labels that are more or fewer than rows."""
    if labels.size != n_rows:
        may_have_header = labels.size == n_rows + 1 and isinstance(labels[0], str)
        header = " (is the first a header?)" if may_have_header else ""
        found, rows = counted(labels.size, "label"), counted(n_rows, "row")
        raise InputError(f"{found} for {rows}{header}; pass one label per row.")


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


def first_rows_of_classes(codes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the number of the first row of each class, given the class number of every row."""
    first = np.empty(codes.max() + 1, np.int64)
    begin = codes[: _ROWS_OF_EACH * first.size]
    if not np.bincount(begin, minlength=first.size).all():
        begin = codes
    first[begin[::-1]] = np.arange(begin.size)[::-1]  # where indices repeat, the last value stays
    return first


def class_names(labels: AnyArray, classes: Sequence[str] | None) -> AnyArray:
    """Return labels as the names of their classes, where these are known.

    >>> class_names(np.array([1, 0]), ["cat", "dog"])
    array(['dog', 'cat'], dtype='<U3')
    """
    if classes is None or labels.dtype.kind not in "iu":
        return labels
    if not 0 <= labels.min() <= labels.max() < len(classes):
        raise FormatError("labels outside its classes: the bank is damaged; write it again.")
    return np.asarray(np.array(classes)[labels])
