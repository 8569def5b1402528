"""The last linear layer and the names of its classes."""

from __future__ import annotations

import numpy as np
import pytest

import typica


@pytest.mark.parametrize(
    "classes", [np.array(["cat", "dog"], dtype=object), np.array([3, 7], dtype=object)]
)
def test_class_names_may_be_python_objects_as_pandas_has_them(classes):
    head = typica.Head(np.eye(2), None, classes)
    assert head.classes.tolist() == classes.tolist() and head.classes.dtype.kind in "iU"
    assert head == typica.Head(np.eye(2), None, classes.tolist())


@pytest.mark.parametrize(
    "classes", [np.array(["a", 1], dtype=object), np.array([1.5, 2.5], dtype=object), [1.5, 2.5]]
)
def test_other_objects_are_no_names(classes):
    with pytest.raises(typica.InputError, match=r"Head: class names of type .*; pass integers or"):
        typica.Head(np.eye(2), None, classes)
