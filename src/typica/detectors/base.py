"""The contract that every detector keeps, written once.

A method is one file beside this one: its formula, a pure kernel, a thin subclass of `Detector` with
its `Tags`. The subclass says how to learn from a batch (`_learn`) and how to score a block of rows
(`_score`). Scores are in `_scoring`, thresholds in `_calibrated`, verdicts in
`_decider`, explanations in `_explain`, validation, merging and storage in `typica.estimator`.
"""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import OutlierMixin

from typica.arrays import AnyArray, Array
from typica.detectors._banks import FeatureBank, bank_labels, bank_rows, is_bank
from typica.detectors._decider import Decider
from typica.detectors._explain import explanations
from typica.detectors._matches import Matches, top_two
from typica.detectors._repr import fitted_card, summary
from typica.errors import border
from typica.explanation import Contribution, Explanation, Term
from typica.origin import Origin
from typica.tags import Tags
from typica.written_numbers import Level

__all__ = ["Detector", "Matches", "Tags", "top_two"]


class Detector(OutlierMixin, Decider):
    """A detector: fit on what the classifier has seen, then score; higher = more typical.

    Subclasses set `tags` and write `_learn`, `_score` and, where a row can be matched with a class,
    `_similarities`. Fitted attributes end in an underscore and are what `save` stores. origin_: the
    network that made the features, if `fit` was given a bank that knows it.

    Many threads may score, judge and explain with one detector while none changes it: `fit`,
    `partial_fit`, `merge`, `calibrate` and `set_params` need it for themselves.
    """

    origin_: Origin

    # What a method supplies

    def _contributions(self, z: AnyArray, nearest: int) -> tuple[Contribution, ...]:
        """Return the features of one row that add most to its distance from the class `nearest`."""
        return ()

    def _terms(self, z: AnyArray) -> tuple[Term, ...]:
        """Return the terms that add up to the score of one row, where there are several."""
        return ()

    def _note(self, z: AnyArray) -> str:
        """Return what else `explain` should say about one row."""
        return ""

    def _warn_of_labels(self, labels: Any) -> None:
        """Warn if the training labels do not go with the parameters."""

    # What users call

    @border
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from the training features X (n, m) and, where the method uses them, the labels y.

        A bank in place of X brings its own labels and knows where its features come from. Sets a
        provisional threshold from a sample of the training rows themselves, which is optimistic:
        the fit has seen them. Call `calibrate` with held-out rows for one that keeps its promise.
        """
        origin = None
        if is_bank(X):
            origin = X.origin
            y = bank_labels(X) if y is None else y
            X = self._bank_rows(X)
        self._in_fit = True  # so that no other thread saves it without a threshold
        try:
            Z = self._fit(X, y)
            with self._blank_on_error():
                self._set_provisional_threshold(Z, y)
        finally:
            self.__dict__.pop("_in_fit", None)
        if y is not None:
            self._warn_of_labels(y)
        if origin is not None:
            self.origin_ = origin
        return self

    @border
    def fit_predict(self, X: Any, y: Any = None) -> Array:
        """Fit on X, with the labels y, and judge the same rows."""
        return self.fit(X, y).predict(X)

    @border
    def explain(
        self,
        X: Any,
        *,
        alpha: Level | None = None,
        tpr: Level | None = None,
        confidence: Level | None = None,
        predicted: Any = None,
        bank: Any = None,
    ) -> list[Explanation]:
        """Say for each row why it is accepted or rejected.

        Parameters
        ----------
        X
            Features (n, m), or a bank.
        alpha, tpr, confidence, predicted
            As `judge` takes them.
        bank
            Known inputs, e.g. the held-out ones: features or a bank. Each explanation then names
            the nearest of them by cosine, with their labels and files if it is a bank.
        """
        levels = {"alpha": alpha, "tpr": tpr, "confidence": confidence}
        return explanations(self, X, levels, predicted, bank)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return one line on what a fitted detector knows; scikit-learn's for an unfitted one."""
        return summary(self) if self._knows_something() else str(super().__repr__(N_CHAR_MAX))

    def _repr_html_inner(self) -> str:
        """Return a card of a fitted detector; scikit-learn's diagram for an unfitted one.

        scikit-learn's `_repr_html_` asks for this, unless its `display` is "text".
        """
        return fitted_card(self) if self._knows_something() else str(super()._repr_html_inner())

    def _knows_something(self) -> bool:
        """Tell whether it was fitted or calibrated, which some can be without a fit."""
        return self._has_learnt() or hasattr(self, "calibration_")

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    # How it is done

    def _wants_head(self) -> bool:
        """Tell whether a head is needed to work on features."""
        return self.tags.needs_head or self.tags.reads == "logits"

    def _reads_logits(self) -> bool:
        """Tell whether the input is logits."""
        return self.tags.reads == "logits" and getattr(self, "head", None) is None

    def _bank_rows(self, bank: FeatureBank) -> Any:
        """Return what is read from a bank."""
        return bank_rows(bank, self._reads_logits())

    def _ready(self, X: Any) -> Array:
        if is_bank(X):
            origin = getattr(self, "origin_", None)
            if origin is not None:
                origin.check_same(X.origin)
            X = self._bank_rows(X)
        return super()._ready(X)
