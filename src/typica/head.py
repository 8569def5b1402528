"""The last linear layer of a classifier: logits = Z @ weight.T + bias."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from numpy.typing import ArrayLike

from typica.arrays import (
    AnyArray,
    Array,
    Labels,
    as_features,
    as_floating,
    check_finite,
    is_floating,
    like,
    to_numpy,
)
from typica.checks import Parameter
from typica.errors import InputError, about, argument, border, by_caller
from typica.store import State, storable


@storable("head")
class Head:
    """The last linear layer, with the class names that tie its logits to labels.

    Parameters
    ----------
    weight
        (C, m). One row w with two names, as scikit-learn has it for two classes, stands for -w/2
        and w/2, which give the same probabilities.
    bias
        (C,), zero if None.
    classes
        C distinct integers or strings, 0 ... C-1 if None.

    >>> head = Head(np.eye(2), classes=["cat", "dog"])
    >>> head
    Head(2 classes, 2 features)
    >>> head.logits(np.array([[3.0, 1.0]]))
    array([[3., 1.]])
    >>> head.predict(np.array([[3.0, 1.0]]))
    array(['cat'], dtype='<U3')
    >>> Head([[4.0, 0.0]], [2.0], classes=["cat", "dog"]).logits(np.array([[1.0, 0.0]]))
    array([[-3.,  3.]])
    """

    @border
    def __init__(self, weight: Any, bias: Any = None, classes: ArrayLike | None = None) -> None:
        self.weight: AnyArray = _weight(weight)
        n = self.weight.shape[0]
        self.bias: AnyArray = _floats(np.zeros(n) if bias is None else to_numpy(bias))
        if self.bias.shape != (n,):
            raise InputError(
                f"bias of shape {self.bias.shape} for {n} classes; "
                "pass one number per row of the weight."
            )
        if not np.isfinite(self.bias).all():
            raise InputError("the bias holds NaN or infinity; fix the checkpoint.")
        self.classes: AnyArray = np.arange(n) if classes is None else _head_classes(classes)
        if n == 1 and self.classes.shape == (2,):
            n = 2
            self.weight = _floats(np.concatenate([-self.weight, self.weight]) / 2)
            self.bias = _floats(np.concatenate([-self.bias, self.bias]) / 2)
        if self.classes.dtype.kind not in "iuU":
            raise InputError(f"class names of type {self.classes.dtype}; pass integers or strings.")
        if self.classes.shape != (n,) or len(np.unique(self.classes)) != n:
            raise InputError(
                f"class names of shape {self.classes.shape} for {n} rows of the weight; "
                "pass one distinct name per row."
            )

    @property
    def n_features(self) -> int:
        """The width m of the features that the head takes."""
        return int(self.weight.shape[1])

    @border
    def logits(self, Z: Array) -> Array:
        """Return the logits (n, C) of the features Z (n, m), in their backend and dtype.

        For integers they are float64.
        """
        Z = _floating_rows(Z)
        if Z.shape[1] != self.n_features:
            raise InputError(
                f"the head takes {self.n_features} features per row, and these have {Z.shape[1]}; "
                "pass the features that it reads in the network."
            )
        return Z @ like(self.weight, Z).T + like(self.bias, Z)

    @border
    def predict(self, Z: Array) -> AnyArray:
        """Return the name of the class with the largest logit for each row."""
        best: AnyArray = self.classes[np.argmax(to_numpy(self.logits(Z)), axis=1)]
        return best

    def named(self, classes: Sequence[str] | None) -> Head:
        """Return the head with these names of its classes if they fit, else the head itself.

        One output with two names stands for both classes.

        >>> Head(np.eye(2)).named(["cat", "dog"]).classes.tolist()
        ['cat', 'dog']
        """
        outputs = len(self.classes)
        if classes is None or (len(classes), outputs) not in ((outputs, outputs), (2, 1)):
            return self
        return Head(self.weight, self.bias, classes)

    def __repr__(self) -> str:
        return f"Head({self.weight.shape[0]} classes, {self.n_features} features)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Head):
            return NotImplemented
        ours, theirs = self.state(), other.state()
        return all(np.array_equal(ours[key], theirs[key]) for key in ours)

    def __hash__(self) -> int:
        return hash((self.weight.tobytes(), self.bias.tobytes()))

    def state(self) -> State:
        """Return the arrays to be stored."""
        return {"weight": self.weight, "bias": self.bias, "classes": self.classes}

    @classmethod
    def from_state(cls, state: State) -> Head:
        """Rebuild the head from its stored arrays."""
        return cls(**state)


HEAD = Parameter(
    lambda value: value is None or isinstance(value, Head),
    "a typica.Head, or None where it is not needed",
    "{name} is {kind}; pass typica.Head(weight, bias).",
)


def head_to_pass() -> str:
    """Return how one passes a `Head`: `head=typica.Head(weight, bias)`, or `--head FILE`."""
    return by_caller("head=typica.Head(weight, bias)", argument("head", "FILE"))


def check_known(labels: Labels | None, head: Head) -> None:
    """Raise unless a `Head` has all labels among its classes."""
    check_same_kind(np.asarray(labels), head)
    unknown = np.setdiff1d(np.asarray(labels), head.classes)
    if len(unknown):
        raise InputError(
            f"label {unknown[0]!s} is not a class of the head; remove its rows, or rename it."
        )


def check_same_kind(labels: Labels, head: Head) -> None:
    """Raise if labels are texts and the classes of a `Head` are numbers, or vice versa."""
    texts, names = labels.dtype.kind in "UT", head.classes.dtype.kind == "U"
    if texts == names or not len(labels):
        return
    kinds = ("texts", "numbers") if texts else ("numbers", "texts")
    python = "pass head.named([...]) with the label of each row of its weight"
    shell = "put 'classes', the label of each row of the weight, into the head's file"
    raise InputError(
        f"labels are {kinds[0]} such as {labels.flat[0]!s}, the head's classes {kinds[1]} such as "
        f"{head.classes[0]!s}; {by_caller(python, shell)}."
    )


def _floating_rows(Z: Any) -> Array:
    """Return features as a head multiplies them: floats as they are, anything else as float64."""
    if is_array_api_obj(Z) and Z.ndim == 2 and is_floating(Z):
        return Z
    return as_floating(as_features(Z))


def _weight(weight: Any) -> AnyArray:
    with about("the weight"):
        checked = _floats(to_numpy(as_features(weight)))
        check_finite(checked)
    return checked


def _head_classes(classes: ArrayLike) -> AnyArray:
    """Return a head's classes as an array; Python objects, as pandas has them, by their type."""
    names = np.array(classes)
    if names.dtype.kind != "O" or len({type(name) for name in names.ravel()}) != 1:
        return names
    return np.array(names.tolist())


def _floats(a: AnyArray) -> AnyArray:
    """Return a read-only copy of a head's weight or bias in float32 or float64."""
    if a.dtype.kind not in "fiub":
        raise InputError(f"weights of type {a.dtype}; pass numbers.")
    a = np.array(a, dtype=np.float64 if a.dtype == np.float64 else np.float32)
    a.flags.writeable = False
    return a
