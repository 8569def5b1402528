"""What detectors and rectifiers share: checked input, learning in batches, merging and storage.

A method is a thin subclass with its `Tags`; it says how to learn from a batch (`_learn`) and, where
batches add up, how to take in another's knowledge (`_absorb`). Fitted attributes end in an
underscore and are what is stored.
"""
# mypy: allow-subclassing-any, allow-untyped-decorators

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Self

import array_api_compat
import numpy as np
from sklearn import exceptions
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from typica import store
from typica.arrays import (
    AnyArray,
    Array,
    Labels,
    Rows,
    as_features,
    check_some,
    is_traced,
    like,
    refuse_lazy,
    to_numpy,
)
from typica.checks import Parameter, check_parameters, is_number
from typica.errors import InputError, argument, border, by_caller
from typica.head import head_to_pass
from typica.labels import as_labels
from typica.moments import Moments
from typica.remembered import held
from typica.store import State
from typica.tags import Tags


class NotFittedError(InputError, exceptions.NotFittedError):
    """An `Estimator` that has not learnt, or is not calibrated, was asked to decide."""


def _mergeable(estimator: Estimator) -> bool:
    return estimator.tags.mergeable


class Estimator(BaseEstimator):
    """A scikit-learn estimator of features: checked, storable, and mergeable where tags say so."""

    tags: ClassVar[Tags]
    # What each parameter may be; when one of them changes, what is derived is derived again.
    params: ClassVar[Mapping[str, Parameter]] = {}
    # Those that learning itself depends on: after a fit they must not change.
    learnt_by: ClassVar[tuple[str, ...]] = ()
    kind: ClassVar[str]
    n_features_in_: int
    feature_names_in_: AnyArray  # only of data frames

    _derived_from: list[Any]
    _moved: dict[str, tuple[Any, Array]]

    # What a method supplies

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        """Take in one batch of training features (any real dtype, NumPy)."""

    def _absorb(self, other: Self) -> None:
        """Take in what `other` has learnt."""
        name = type(self).__name__
        raise InputError(f"this {name} cannot merge; fit it on all data at once.")

    def _derive(self) -> None:
        """Set private attributes that scoring needs, from parameters and from what was learnt.

        Raise where that is impossible. See `_prepare`.
        """

    def _learnt_more(self) -> None:
        """Drop what else `partial_fit` and `merge` have made invalid."""

    @property
    def n_features(self) -> int | None:
        """The number of features that a row must have, or None if anything goes."""
        head = getattr(self, "head", None)
        return head.n_features if head is not None else getattr(self, "n_features_in_", None)

    # What users call

    @available_if(_mergeable)
    @border
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more batch.

        A detector's threshold is void then: call `calibrate` when the stream ends.
        """
        self._check_parameters()
        self._check_learnt_by()
        first = not self._has_learnt()
        Z = self._check(X, reset=first)
        check_some(Z)
        with self._blank_on_error(first):
            self._learn(to_numpy(Z), self._check_labels(y))
        self._end_learning()
        return self

    @available_if(_mergeable)
    @border
    def merge(self, other: Self) -> Self:
        """Take in what `other` has learnt from other data; the result equals a fit on all of it.

        Where a detector keeps a sample of its rows, it equals a fit on a sample of each part.
        Changes this one and returns it; `other` stays as it is. A detector's threshold is void
        then.
        """
        self._check_mergeable(other)
        blank = not self._has_learnt()
        self._absorb(other)
        self.n_features_in_ = other.n_features_in_
        if blank and hasattr(other, "feature_names_in_"):
            self.feature_names_in_ = other.feature_names_in_
        self._end_learning()
        return self

    def _check_mergeable(self, other: Self) -> None:
        if type(other) is not type(self):
            raise InputError(f"got {type(other).__name__}; pass another {type(self).__name__}.")
        if other is self:
            another = f"another {type(self).__name__}"
            raise InputError(
                f"it cannot merge with itself: its rows would count twice; pass {another}."
            )
        if held(self.get_params(deep=False)) != held(other.get_params(deep=False)):
            raise InputError("the two were made with different parameters; fit both alike.")
        self._check_learnt_by()
        other._check_fitted()
        if not self._has_learnt():
            return
        if self.n_features != other.n_features:
            raise InputError(
                f"{self.n_features} features here, {other.n_features} there; "
                "fit both on the same layer."
            )
        self._check_same_columns(other)

    def _check_same_columns(self, other: Self) -> None:
        """Refuse columns in another order, where both were fitted on data frames."""
        ours, theirs = (getattr(each, "feature_names_in_", None) for each in (self, other))
        if ours is None or theirs is None or np.array_equal(ours, theirs):
            return
        first = np.flatnonzero(ours != theirs)[0]
        raise InputError(
            f"column {first} is {ours[first]!r} here, {theirs[first]!r} there; "
            "fit both on the same columns in one order."
        )

    @border
    def save(self, path: Any) -> None:
        """Write the estimator to one safetensors file; `typica.load` reads it back."""
        store.save(self, path)

    # What is derived: one rule for when it is stale

    def _prepare(self) -> None:
        """Derive what scoring needs, unless parameters and knowledge are the same as last time.

        What `_derive` sets is declared on the class, as annotations of private attributes. It is
        never stored, pickled or copied, and dropped when a parameter or what was learnt changes.
        """
        parameters = self._parameters()
        self._drop_stale(parameters)
        if not hasattr(self, "_derived_from"):
            self._derive()
            # Last, so that no other thread uses what is still being made.
            self._derived_from = parameters

    def _drop_stale(self, parameters: list[Any]) -> None:
        """Drop what was made with other parameters than today's."""
        if getattr(self, "_derived_from", parameters) != parameters:
            self._drop_derived()

    def _parameters(self) -> list[Any]:
        """Return the values of the declared parameters, in a form that `==` can compare."""
        return [held(getattr(self, name)) for name in self.params]

    @classmethod
    def _derived_names(cls) -> set[str]:
        kinds = [kind for kind in cls.__mro__ if issubclass(kind, Estimator)]
        declared = chain.from_iterable(map(inspect.get_annotations, kinds))
        return {name for name in declared if name.startswith("_")}

    def _drop_derived(self) -> None:
        for name in self._derived_names() & set(vars(self)):
            delattr(self, name)

    def __getstate__(self) -> dict[str, Any]:
        """Leave what is derived out of pickles and copies: maybe large, and soon made again."""
        state: dict[str, Any] = super().__getstate__()
        derived = self._derived_names()
        return {name: value for name, value in state.items() if name not in derived}

    def _like(self, name: str, Z: Array) -> Array:
        """Return a derived array in the backend, dtype and device of Z, kept from block to block.

        For a named tuple of arrays, convert each.
        """
        if is_traced(Z):  # what a trace makes is useless after it
            return _moved(getattr(self, name), Z)
        place = (type(Z), Z.dtype, array_api_compat.device(Z))
        if not hasattr(self, "_moved"):
            self._moved = {}
        kept = self._moved.get(name)
        if kept is None or kept[0] != place:
            with _for_gradients_too(Z):
                kept = self._moved[name] = (place, _moved(getattr(self, name), Z))
        return kept[1]

    # How it is done

    def _fit(self, X: Any, y: Any) -> Array:
        """Forget earlier fits, learn from all training data at once, and return the checked X."""
        self._check_parameters()
        Z = self._check(X, reset=True)
        self._forget()
        with self._blank_on_error():
            self._learn(to_numpy(Z), self._check_labels(y))
            self._prepare()
        self._learnt_with = self._learning_parameters()
        return Z

    def _end_learning(self) -> None:
        """Drop what one more batch, once it is learnt, has made invalid."""
        self._drop_derived()
        self._learnt_more()
        self._learnt_with = self._learning_parameters()

    def _learning_parameters(self) -> dict[str, Any]:
        """Return the parameters that learning depends on, in a form that `==` can compare."""
        return {name: held(getattr(self, name)) for name in self.learnt_by}

    def _check_learnt_by(self) -> None:
        """Raise if a parameter that learning depends on has changed since."""
        today = self._learning_parameters()
        for name, value in getattr(self, "_learnt_with", today).items():
            if value is not today[name] and value != today[name]:
                raise InputError(f"{name} was set after the fit; call fit again.")

    @contextlib.contextmanager
    def _blank_on_error(self, needed: bool = True) -> Iterator[None]:
        """Leave an estimator unfitted if its first fit fails."""
        try:
            yield
        except Exception:
            if needed:
                self._forget(keep=())
            raise

    def _check(self, X: Any, reset: bool = False) -> Array:
        """Check the input's form; with `reset`, note the width and column names to expect."""
        _refuse_tables(X)
        named = hasattr(X, "columns")
        by_name = named and not reset and hasattr(self, "feature_names_in_")
        if by_name:  # first: naming the missing column says more than a count
            self._check_names(X, reset)
        width = self._width_to_expect(reset)
        Z = as_features(X, width, type(self).__name__, empty=not reset)
        if not by_name:
            self._check_columns(X if named else Z, named, reset)
        return Z

    def _check_columns(self, X: Any, named: bool, reset: bool) -> None:
        """Compare or note the names of checked rows; without names, note their width."""
        known = hasattr(self, "feature_names_in_") and (reset or not self._takes_unnamed())
        if named or known:
            self._check_names(X, reset)
        elif reset:
            self.n_features_in_ = int(X.shape[1])

    def name_columns(self, names: Sequence[str]) -> None:
        """Note the names of a file's columns, by which other files are read.

        Arrays, which have no names, are read by position.
        """
        self.feature_names_in_ = np.array(names, dtype=object)
        self._unnamed_too = True

    def _takes_unnamed(self) -> bool:
        """Tell whether rows without names need no warning, as after a fit on files."""
        return getattr(self, "_unnamed_too", False)

    def _check_names(self, X: Any, reset: bool) -> None:
        """Compare the names of columns as scikit-learn does; with `reset`, note them."""
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)
        except ValueError as error:
            raise InputError(str(error)) from None

    def _width_to_expect(self, reset: bool) -> int | None:
        if not reset:
            return self.n_features
        head = getattr(self, "head", None)
        return None if head is None else int(head.n_features)

    def _check_parameters(self) -> None:
        """Check the constructor's parameters before work starts."""
        if self.tags.needs_head and getattr(self, "head", None) is None:
            raise InputError(f"no head; pass {head_to_pass()}.")
        check_parameters(self.params, self)

    def _check_labels(self, y: Any) -> Labels | None:
        if y is None and self.tags.needs_labels:
            python = "requires y to be passed, but the target y is None; pass the labels."
            shell = f"needs labels; pass {argument('labels', 'FILE')}."
            raise InputError(by_caller(python, shell))
        return None if y is None or not self.tags.uses_labels else as_labels(y)

    def _ready(self, X: Any) -> Array:
        """Return the checked input of an estimator that is checked to be ready for use."""
        self._check_fitted()
        self._prepare()
        return self._check(X)

    def _check_fitted(self) -> None:
        self._check_parameters()
        if self.tags.needs_fit and not self._has_learnt():
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first.")
        self._check_learnt_by()

    def __sklearn_is_fitted__(self) -> bool:
        return not self.tags.needs_fit or self._has_learnt()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = self.tags.needs_fit
        tags.target_tags.required = self.tags.needs_labels
        return tags

    def _has_learnt(self) -> bool:
        return hasattr(self, "n_features_in_")

    def _forget(self, keep: tuple[str, ...] = ("n_features_in_", "feature_names_in_")) -> None:
        """Drop what an earlier fit has left, but not what this one's check has just set."""
        self._drop_derived()
        self.__dict__.pop("_learnt_with", None)
        self.__dict__.pop("_unnamed_too", None)
        for name in [key for key in store.state_to_store(self) if key not in keep]:
            delattr(self, name)

    def state(self) -> State:
        """Return parameters and fitted attributes, to be stored."""
        if not self.tags.saveable:
            raise InputError(
                f"this {type(self).__name__} holds objects that only pickle can store; "
                "fit it again where it is needed."
            )
        self._check_learnt_by()  # a file does not tell
        return {"params": self.get_params(deep=False), "fitted": store.state_to_store(self)}

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild an estimator from what was stored."""
        estimator = cls(**state["params"])
        cls._check_numbers(state["fitted"])
        store.restore_state(estimator, state["fitted"])
        estimator._learnt_with = estimator._learning_parameters()
        estimator._unnamed_too = True
        return estimator

    @classmethod
    def _check_numbers(cls, fitted: Mapping[str, Any]) -> None:
        """Refuse a stored value that is not a number where the class declares one."""
        for base in cls.__mro__:
            declarations: dict[str, Any] = {}
            with contextlib.suppress(NameError):  # Python 3.14, of names that only types know
                declarations = inspect.get_annotations(base)
            for name, kind in declarations.items():
                declared = kind in ("int", "float", int, float)
                if declared and name in fitted and not is_number(fitted[name]):
                    found = type(fitted[name]).__name__
                    raise TypeError(f"{name} is a {found} and not a number")


def _refuse_tables(X: Any) -> None:
    """Say what to do with a bank, or a table without rows yet, where an estimator takes rows."""
    if hasattr(X, "shape"):
        return
    refuse_lazy(X)
    if hasattr(X, "features") and hasattr(X, "logits"):
        raise InputError(
            "got a bank where rows are needed; pass its features or, to fit a Pipeline on it, "
            "call typica.fit(pipeline, bank)."
        )


def _for_gradients_too(Z: Array) -> contextlib.AbstractContextManager[Any]:
    """Return the block in which to make tensors that are kept, as inference mode may end first."""
    if not array_api_compat.is_torch_array(Z):
        return contextlib.nullcontext()
    mode: contextlib.AbstractContextManager[Any] = sys.modules["torch"].inference_mode(False)
    return mode


def _moved(derived: Any, Z: Array) -> Any:
    """Return an array, or each of a named tuple of arrays, like Z."""
    if isinstance(derived, tuple):
        return type(derived)(*(like(array, Z) for array in derived))
    return like(derived, Z)


class LearnsMoments(Estimator):
    """An estimator whose knowledge is moments of the features, so that it streams and merges.

    Subclasses turn `moments_` into what use needs in `_derive`; `_scatter` says whether that needs
    the scatter as well.
    """

    moments_: Moments
    _scatter: ClassVar[bool] = False

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        if not hasattr(self, "moments_"):
            self.moments_ = Moments(scatter=self._scatter)
        self.moments_.add(Z, labels)

    def _absorb(self, other: Self) -> None:
        own = self.moments_ if self._has_learnt() else Moments(scatter=self._scatter)
        self.moments_ = own.merge(other.moments_)
