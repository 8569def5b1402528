"""The contract that every detector keeps, written once.

A method is one file beside this one: its formula, a pure kernel, a thin subclass of `Detector` with
its `Tags`. The subclass says how to learn from a batch (`_learn`) and how to score a block of rows
(`_score`). Scores are in `_scoring`, thresholds in `_calibrated`, verdicts in
`_decider`, validation, merging and storage in `typica.estimator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin

from typica.arrays import AnyArray, Array, as_features, as_floating, check_finite, to_numpy
from typica.cosines import cosines
from typica.detectors._banks import FeatureBank, bank_labels, bank_rows, is_bank
from typica.detectors._decider import Decider
from typica.detectors._matches import Matches, top_two
from typica.detectors._repr import fitted_card, summary
from typica.errors import about, argument, border
from typica.explanation import Contribution, Explanation, Neighbour, Term
from typica.linalg import unit_rows
from typica.origin import Origin
from typica.tags import Tags
from typica.verdicts import Verdicts, item_of
from typica.written_numbers import Level

__all__ = ["Detector", "Matches", "Tags", "top_two"]

EXAMPLES = 3  # known inputs that `explain` names


class Detector(OutlierMixin, Decider):
    """A detector: fit on what the classifier has seen, then score; higher = more typical.

    Subclasses set `tags` and write `_learn`, `_score` and, where a row can be matched with a class,
    `_similarities`. Fitted attributes end in an underscore and are what `save` stores. origin_: the
    network that made the features, if `fit` was given a bank that knows it.
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
        self._set_provisional_threshold(self._fit(X, y), y)
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
        Z = as_floating(to_numpy(self._ready(X)))
        rows = X if hasattr(X, "columns") else Z  # a data frame's columns are known by name
        levels = {"alpha": alpha, "tpr": tpr, "confidence": confidence}
        verdicts = self.judge(rows, **levels, predicted=predicted)
        known = _RowsToExplain(
            matches=self.match(rows),
            percentiles=self._percentiles(verdicts, predicted),
            below=self._percentiles(verdicts, predicted, ties=False),
            neighbours=None if bank is None else self._neighbours(Z, bank),
        )
        return [self._explained(Z[i], i, verdicts, known) for i in range(len(Z))]

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

    def _explained(
        self, z: AnyArray, i: int, verdicts: Verdicts, known: _RowsToExplain
    ) -> Explanation:
        one = verdicts[i]
        matches = known.matches
        parts = () if matches is None else self._contributions(z, int(matches.nearest[i]))
        neighbours = () if known.neighbours is None else known.neighbours[i]
        explanation = Explanation(
            score=one.score,
            typical=None if verdicts.typical is None else bool(verdicts.typical[i]),
            threshold=item_of(verdicts.threshold, i),
            percentile=item_of(known.percentiles, i),
            nearest=one.nearest,
            similarity=item_of(verdicts.similarity, i),
            runner_up=one.runner_up,
            runner_up_similarity=item_of(verdicts.runner_up_similarity, i),
            margin=one.margin,
            contributions=parts,
            p_value=one.p_value,
            examples=tuple(neighbour.row for neighbour in neighbours),
            note=self._note(z),
            terms=self._terms(z),
            below=item_of(known.below, i),
            neighbours=neighbours,
        )
        names = getattr(self, "feature_names_in_", None)
        return explanation if names is None else explanation.named(names.tolist())

    def _percentiles(
        self, verdicts: Verdicts, predicted: Any, *, ties: bool = True
    ) -> NDArray[np.float64] | None:
        calibration = getattr(self, "calibration_", None)
        if calibration is None:
            return None
        if not calibration.by_class:
            return np.asarray(calibration.percentiles(verdicts.score, ties=ties))
        classes = verdicts.nearest if predicted is None else to_numpy(predicted)
        return np.asarray(calibration.percentiles(verdicts.score, classes, ties=ties))

    def _neighbours(self, Z: AnyArray, bank: Any) -> list[tuple[Neighbour, ...]]:
        """Return the rows of `bank` with the largest cosines to each row of Z."""
        with about(argument("bank")):
            rows = self._ready(bank) if is_bank(bank) else bank
            known = as_floating(to_numpy(as_features(rows, Z.shape[1])))
            check_finite(known)
        directed = np.flatnonzero(known.any(axis=1))  # a zero row is near nothing
        similar = cosines(Z, unit_rows(known[directed].astype(np.float64)).astype(Z.dtype))
        nearest = np.argsort(-similar, axis=1, kind="stable")[:, :EXAMPLES]
        labels = bank_labels(bank) if is_bank(bank) else None
        names = getattr(bank, "names", None)
        found = []
        for cosines_of_row, places in zip(similar, nearest, strict=True):
            pairs = [(int(directed[place]), float(cosines_of_row[place])) for place in places]
            found.append(tuple(_neighbour(row, cosine, labels, names) for row, cosine in pairs))
        return found


class _RowsToExplain(NamedTuple):
    """What `Detector.explain` computes for all rows at once, before it explains each by itself."""

    matches: Matches | None
    percentiles: NDArray[np.float64] | None
    below: NDArray[np.float64] | None
    neighbours: list[tuple[Neighbour, ...]] | None


def _neighbour(
    row: int, cosine: float, labels: AnyArray | None, names: Sequence[str] | None
) -> Neighbour:
    label = None if labels is None else labels[row : row + 1].tolist()[0]
    return Neighbour(row, cosine, label, None if names is None else names[row])
