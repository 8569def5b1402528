"""A classifier that says "unknown": the class where a detector finds a row typical, else a word."""
# mypy: allow-subclassing-any, allow-untyped-decorators

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from typica.arrays import Labels
from typica.checks import Parameter, check_parameters, count, share
from typica.decide._calibrate import calibrate
from typica.decide._judge import judge, p_values
from typica.detectors import final_detector, is_pipeline, wants_head
from typica.errors import InputError, border
from typica.estimator import NotFittedError
from typica.head import Head
from typica.verdicts import Verdicts
from typica.written_numbers import exact

UNKNOWN_WORD = "unknown"
UNKNOWN_NUMBER = -1


def _classifier_has(name: str) -> Any:
    """Return a check whether the classifier, fitted or not, has a method."""

    def check(self: OpenSetClassifier) -> bool:
        return hasattr(getattr(self, "classifier_", self.classifier), name)

    return check


class OpenSetClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A scikit-learn classifier whose `predict` may answer that it does not know.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> import typica
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OpenSetClassifier(LogisticRegression(max_iter=1000), typica.Mahalanobis())
    >>> model = model.fit(X, y)
    >>> model.predict([[5.0, 3.4, 1.5, 0.2], [50.0, 3.4, 1.5, 0.2]])
    array([ 0, -1])

    Parameters
    ----------
    classifier
        Any scikit-learn classifier; `fit` fits a clone of it on all rows.
    detector
        A detector, or a Pipeline that ends in one; `fit` fits a clone on the rows that are not
        held out, and calibrates it on those that are. A detector that reads logits, such as MSP,
        and has no head takes that of a linear classifier (`coef_` and `intercept_`; not of an SVC,
        which compares pairs of classes).
    unknown
        What `predict` returns for an atypical row; None is "unknown" for classes that are text, and
        -1 for whole numbers. It must not be a class. A word beside classes that are numbers makes
        predictions an array of objects, in which the numbers stay what they are.
    alpha
        The share of known rows that may be called unknown.
    held_out
        The share of each class's rows that is held out for calibration. Where no class has enough
        rows, or with 0, the threshold is the provisional one of the detector's fit.
    seed
        Chooses the rows that are held out.

    Attributes
    ----------
    classifier_, detector_
        What was fitted.
    classes_
        Those of the classifier; the word for unknown is not among them.
    """

    params: ClassVar[Mapping[str, Parameter]] = {
        "alpha": share(),
        "held_out": share(zero=True),
        "seed": count(0),
    }

    def __init__(
        self,
        classifier: Any,
        detector: Any,
        *,
        unknown: Any = None,
        alpha: float = 0.05,
        held_out: float = 0.2,
        seed: int = 0,
    ) -> None:
        self.classifier = classifier
        self.detector = detector
        self.unknown = unknown
        self.alpha = alpha
        self.held_out = held_out
        self.seed = seed

    @border
    def fit(self, X: Any, y: Any) -> Self:
        """Fit the classifier, fit the detector on most rows and calibrate it on the others."""
        final_detector(self.detector)
        check_parameters(self.params, self)
        with _checks_of_sklearn("pass rows of numbers, and one label per row"):
            X, y = validate_data(self, X, y)
            check_classification_targets(y)
        classes = np.unique(y)
        unknown = _unknown_among(classes, self.unknown)
        held_out = _held_out(y, float(exact(self.held_out)), self.seed)
        self.classifier_ = clone(self.classifier).fit(X, y)
        self.detector_ = _with_head(clone(self.detector), self.classifier_)
        self.detector_.fit(X[~held_out], y[~held_out])
        if held_out.any():
            calibrate(self.detector_, X[held_out], alpha=self.alpha)
        self.classes_ = classes
        self.unknown_ = unknown
        return self

    @border
    def predict(self, X: Any) -> Labels:
        """Return the classifier's class for each row, or the word for unknown."""
        rows = self._checked(X)
        named = np.asarray(self.classifier_.predict(rows))
        if isinstance(self.unknown_, str) != (named.dtype.kind == "U"):
            named = named.astype(object)  # NumPy would make 1 and "1" the same text
        typical = self.detector_.predict(rows) == 1
        return np.where(typical, named, np.asarray(self.unknown_))

    @border
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted; those called unknown are missed."""
        found = self.predict(X)
        with _checks_of_sklearn("pass one label per row"):
            labels = column_or_1d(y)
            check_consistent_length(found, labels, sample_weight)
        return float(np.average(found == labels, weights=sample_weight))

    @available_if(_classifier_has("predict_proba"))
    @border
    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """Return the classifier's own probabilities, as if every row were known."""
        rows = self._checked(X)
        return np.asarray(self.classifier_.predict_proba(rows))

    @available_if(_classifier_has("decision_function"))
    @border
    def decision_function(self, X: Any) -> NDArray[np.floating]:
        """Return the classifier's own confidence in each class."""
        rows = self._checked(X)
        return np.asarray(self.classifier_.decision_function(rows))

    @border
    def p_values(self, X: Any) -> NDArray[np.floating]:
        """Return the conformal p-value of each row: small where it is unlike what was held out."""
        rows = self._checked(X)
        if final_detector(self.detector_).current_calibration() is None:
            raise NotFittedError(
                "no rows were held out to calibrate on; fit with held_out>0, and enough rows of "
                "each class."
            )
        return np.asarray(p_values(self.detector_, rows))

    @border
    def judge(self, X: Any) -> Verdicts:
        """Return the detector's verdict on each row."""
        rows = self._checked(X)
        return judge(self.detector_, rows)

    def _checked(self, X: Any) -> NDArray[np.floating]:
        if not hasattr(self, "classifier_"):
            raise NotFittedError("this OpenSetClassifier is not fitted yet; call fit first.")
        with _checks_of_sklearn("pass rows like those of the fit"):
            rows: NDArray[np.floating] = validate_data(self, X, reset=False)
        return rows


@contextlib.contextmanager
def _checks_of_sklearn(advice: str) -> Iterator[None]:
    """Raise what scikit-learn's checks find wrong with the input of an OpenSetClassifier."""
    try:
        yield
    except ValueError as error:
        found = str(error).strip().removesuffix(".")
        raise InputError(f"{found}; {advice}.") from None


def _unknown_among(classes: Labels, wanted: Any) -> Any:
    """Return what stands for unknown beside these classes."""
    if wanted is None:
        wanted = _usual_unknown(classes)
    if wanted in classes.tolist():
        raise InputError(f"unknown={wanted!r} is one of the classes; pass another word for it.")
    return wanted


def _usual_unknown(classes: Labels) -> Any:
    if classes.dtype.kind in "iuf":
        return UNKNOWN_NUMBER
    if all(isinstance(name, str) for name in classes.tolist()):
        return UNKNOWN_WORD
    raise InputError(
        f"classes of {classes.dtype} have no usual word for unknown; pass one, unknown=..."
    )


def _with_head(detector: Any, classifier: Any) -> Any:
    """Give a detector that wants a head, and has none, that of a fitted linear classifier."""
    linear = all(hasattr(classifier, name) for name in ("coef_", "intercept_", "classes_"))
    pairwise = hasattr(classifier, "support_vectors_")  # whose rows each tell two classes apart
    if is_pipeline(detector) or not linear or pairwise:
        return detector
    if wants_head(detector) and detector.head is None:
        detector.set_params(head=_head_of(classifier))
    return detector


def _head_of(classifier: Any) -> Head:
    """Return the head of a linear classifier."""
    weight = np.atleast_2d(classifier.coef_)
    return Head(weight, np.broadcast_to(classifier.intercept_, len(weight)), classifier.classes_)


def _held_out(y: Labels, share: float, seed: int) -> NDArray[np.bool_]:
    """Return which rows an open-set classifier calibrates on: of each class the same share."""
    rng = np.random.default_rng(seed)
    held_out = np.zeros(len(y), dtype=np.bool_)
    for name in np.unique(y):
        members = np.flatnonzero(y == name)
        chosen = rng.permutation(members)[: int(share * len(members))]
        held_out[chosen] = True
    return held_out
