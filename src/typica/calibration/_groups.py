"""Which inputs are compared with each other: all, or those of one group of predicted classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from typica.arrays import AnyArray, to_numpy
from typica.errors import (
    InputError,
    a_kind,
    border,
)
from typica.labels import class_text

SMALLEST_GROUP = 100  # calibration inputs that a class should expect to be a group of its own
RARE = "rare"  # the group of rare classes, with a + for each class of that name
EVERYTHING = "all"  # the one group if not calibrated by class

Classes = AnyArray | None


@border
def pool_rare(classes: Any, counts: Any, n: int, smallest: int = SMALLEST_GROUP) -> dict[Any, str]:
    """Return the group "rare" for each class that can expect fewer than `smallest` of n inputs.

    counts: how often each class occurs in other data, such as the training set. The calibration set
    itself must not decide: whether a class is pooled would then depend on the scores that it is
    judged by.

    >>> pool_rare(["cat", "dog", "emu"], [600, 390, 10], n=1000)
    {'emu': 'rare'}
    """
    names = to_numpy(classes).tolist()
    numbers = to_numpy(counts).astype(np.float64)
    if len(names) != len(numbers) or not bool((numbers >= 0).all()) or not numbers.sum() > 0:
        raise InputError(
            f"{len(names)} classes, counts {numbers}; pass one count per class, not all 0."
        )
    expected = n * numbers / numbers.sum()
    group = RARE
    while group in map(str, names):
        group += "+"
    return {name: group for name, number in zip(names, expected, strict=True) if number < smallest}


def check_groups(groups: Any, by_class: bool) -> None:
    """Raise unless `groups` is None, or a mapping that comes with by_class."""
    if groups is None:
        return
    if not by_class:
        raise InputError("groups without by_class; pass by_class=True as well.")
    if not isinstance(groups, Mapping):
        raise InputError(f"groups is {a_kind(groups)}, not a mapping; pass {{class: group}}.")


def group_rows(classes: Classes, taxonomy: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield each group that occurs, and an index of its rows.

    classes: the predicted class of each row, None where all rows are of one group. taxonomy: the
    group of a class; a class that is not in it is a group of its own.

    >>> for group, rows in group_rows(np.array(["ant", "cat", "bee"]), {"ant": "x", "bee": "x"}):
    ...     print(group, rows)
    cat [False  True False]
    x [ True False  True]
    """
    if classes is None:
        yield EVERYTHING, slice(None)
        return
    names, codes = np.unique(classes, return_inverse=True)
    texts = [class_text(name) for name in names.tolist()]
    group_of = np.array([taxonomy.get(text, text) for text in texts])
    for group in np.unique(group_of):
        yield str(group), (group_of == group)[codes]


def predicted_classes(predicted: Any) -> AnyArray:
    """Return the predicted class of each row as an array; None and NaN are refused.

    >>> predicted_classes([1, 2]), predicted_classes(np.array(["cat", 3.0], dtype=object))
    (array([1, 2]), array(['cat', '3'], dtype='<U3'))
    """
    classes = np.atleast_1d(to_numpy(predicted))
    missing = classes.dtype.kind == "f" and bool(np.isnan(classes).any())
    if classes.dtype.kind != "O" and not missing:
        return classes
    names = classes.ravel().tolist()
    for row, name in enumerate(names):
        if not _is_class(name):
            raise InputError(
                f"predicted class {name!r} of row {row} is neither a number nor a text; "
                "fix or remove it."
            )
    return np.array([class_text(name) for name in names]).reshape(classes.shape)


def _is_class(name: Any) -> bool:
    """Tell whether a value of `predicted` can be a class of a calibration's groups."""
    if isinstance(name, float | np.floating):
        return not np.isnan(name)
    return isinstance(name, str | int | np.integer | np.bool)
