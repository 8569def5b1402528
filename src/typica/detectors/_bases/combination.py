"""What detectors that combine others share: how the members' scores become one."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import (
    AnyArray,
    Array,
    as_features,
    as_floating,
    like,
    map_rows,
    namespace,
    to_numpy,
)
from typica.checks import choice
from typica.combine import COMBINATIONS, Null, of_deviates, of_logs, p_of, raw_sums
from typica.detectors._calibrated import Places
from typica.detectors._pipelines import final_detector
from typica.detectors._ranks import Deviates, LogP, Ranks, observed
from typica.detectors._registry import detector_class
from typica.detectors.base import Detector
from typica.errors import InputError, about, border

Floats = NDArray[np.float64]
COMBINE = choice("mean", *COMBINATIONS, "linear")
HALVES = 0  # the seed by which held-out rows are halved
_PENALTIES = np.logspace(-4, 4, 10).tolist()


class Combination(Detector):
    """A detector whose score is made from those of its members.

    Subclasses give `_member_scores` and `_member_names`, and fit `members_`. observed_: the
    members' scores of in-distribution rows. null_: mean and variance over them of Fisher's or
    Stouffer's sum, and null_of_: of which. weights_: those of the members' scores, once
    `learn_weights` was called.
    """

    combine: str
    members_: list[Any]
    observed_: list[Floats]
    null_: tuple[float, float]
    null_of_: str
    weights_: Floats
    _ranks: list[Ranks]
    _tails: list[LogP | Deviates]

    # What a combination supplies

    def _member_scores(self, Z: Array) -> Array:
        """Return the members' scores (n, members) of one block."""
        raise NotImplementedError

    def _member_names(self) -> list[str]:
        """Return the names of the fitted members."""
        raise NotImplementedError

    # What users call

    @border
    def member_scores(self, X: Any) -> Array:
        """Return the scores (n, members) of each member, as it makes them."""
        return map_rows(self._member_scores, self._ready(X), self._score_width())

    @border
    def combine_scores(self, S: Any) -> Array:
        """Return the scores (n,) of rows whose members' scores S (n, members) are known."""
        self._check_fitted()
        self._prepare()
        return self._combined(self._checked_scores(S))

    @border
    def combined_p_values(self, X: Any) -> Floats:
        """Return the members' p-values of each row, combined as `combine` says.

        They need no calibration of the combination, only its members' p-values, which come from one
        half of the rows that `calibrate` was given. `p_values`, from the other half, is valid
        however the members depend on each other; these p-values are so only for "twice_mean".
        """
        if self.combine not in COMBINATIONS:
            raise InputError(
                f"combine={self.combine!r} gives no p-value; "
                f"choose one of {', '.join(COMBINATIONS)}, or call p_values."
            )
        return self._p_of(to_numpy(self.member_scores(X)))

    @border
    def learn_weights(self, known: Any, strange: Any) -> Self:
        """Learn by logistic regression how much each member says, for combine="linear".

        known: held-out rows. strange: rows that should be distinguished from them, e.g. those of
        the same images, changed a little to mislead the network: no out-of-distribution data is
        needed. The penalty is chosen by five-fold cross-validation. The threshold is void then:
        call `calibrate`.
        """
        self._check_linear()
        S = [to_numpy(self.member_scores(rows)) for rows in (known, strange)]
        self.set_weights(logistic_weights(*S))
        return self

    @border
    def observe(self, S: Any) -> Self:
        """Compare with these members' scores S (n, members) of in-distribution inputs.

        `fit` and `calibrate` do this themselves, the latter with one half of its rows; call it for
        scores that were made elsewhere. The threshold is void then: calibrate on other rows than
        these.
        """
        self._check_fitted()
        table = to_numpy(self._checked_scores(S))
        self._learnt_more()
        self._prepare()
        self._observe(table)
        return self

    @border
    def set_weights(self, weights: Any) -> Self:
        """Set the members' weights, for combine="linear"; the threshold is void then."""
        self._check_fitted()
        count = len(self._member_names())
        given = to_numpy(weights)
        numbers = given.dtype.kind in "fiub" and given.shape == (count,)
        if not numbers or not np.isfinite(given).all():
            raise InputError(f"weights={weights!r}; pass {count} finite numbers, one per member.")
        self._check_linear()
        self._learnt_more()
        self.weights_ = given.astype(np.float64)
        return self

    # How it is done

    def _prepare(self) -> None:
        for member in self.members_:
            final_detector(member)._prepare()
        super()._prepare()

    def _check_linear(self) -> None:
        if self.combine != "linear":
            raise InputError(f"combine={self.combine!r} has no weights; make it with 'linear'.")

    def _checked_scores(self, S: Any) -> Array:
        """Return members' scores as an array, or say what is wrong with them; -inf is allowed."""
        count = len(self._member_names())
        with about("scores"):
            table = as_floating(as_features(S))
        if table.shape[1] != count:
            raise InputError(
                f"scores of shape {tuple(table.shape)}; pass (n, {count}), one per member."
            )
        xp = namespace(table)
        if bool(xp.any(xp.isnan(table))):
            raise InputError("a score is NaN; pass what member_scores returns.")
        return table

    def _observe(self, S: AnyArray) -> None:
        """Take the scores S (n, members) of in-distribution rows as those to compare with."""
        names = self._member_names()
        self.observed_ = [observed(S[:, i], name) for i, name in enumerate(names)]
        self._derive()
        if self.combine in ("fisher", "stouffer"):
            sums = raw_sums(to_numpy(self._combined(S)), self.combine, S.shape[1])
            null = Null.of(sums.astype(np.float64))
            self.__dict__.pop("null_", None)
            if null is not None:
                self.null_, self.null_of_ = (null.mean, null.variance), self.combine

    def _derive(self) -> None:
        known = getattr(self, "observed_", [])
        count = len(self._member_names())
        if known and len(known) != count:  # which a file can say
            raise InputError(f"scores of {len(known)} members are kept for {count}; fit it again.")
        self._ranks = [Ranks.of(scores) for scores in known]
        kind: type[LogP] | type[Deviates] = Deviates if self.combine == "stouffer" else LogP
        self._tails = [kind.of(scores) for scores in known]

    def _before_threshold(self, Z: Array) -> None:
        """Compare with the training rows, for which the provisional threshold is then set."""
        self._observe(self._table_of(Z))

    def _before_calibration(self, Z: Array) -> Places:
        """Compare with one half of the held-out rows, and let the other half calibrate.

        A single row calibrates: it is compared with what was observed before.
        """
        n = int(Z.shape[0])
        # Drawn at random: every second row would be of one class if two classes alternate.
        order = np.random.default_rng(HALVES).permutation(n)
        compared, calibrating = order[: n // 2], order[n // 2 :]
        if len(compared):
            self._observe(self._table_of(Z)[compared])
        return np.sort(calibrating)

    def _table_of(self, Z: Array) -> AnyArray:
        """Return the members' scores (n, members) of checked rows."""
        return to_numpy(map_rows(self._member_scores, Z, self._score_width()))

    def _score(self, Z: Array) -> Array:
        return self._combined(self._member_scores(Z))

    def _combined(self, S: Array, ending: bool = False) -> Array:
        """Return the score (n,) of members' scores S (n, members), in the precision of S."""
        xp = namespace(S)
        if self.combine == "mean":
            total = sum(rank(S[:, i]) for i, rank in enumerate(self._ranks))
            return xp.astype(total / len(self._ranks), S.dtype)
        if self.combine == "linear":
            return self._weighed(S)
        columns = [tail(S[:, i], ending) for i, tail in enumerate(self._tails)]
        table = xp.stack(columns, axis=1)
        if self.combine == "stouffer":
            return xp.astype(of_deviates(table), S.dtype)
        return xp.astype(of_logs(table, self.combine), S.dtype)

    def _weighed(self, S: Array) -> Array:
        """Return the weighted sum of the scores; without weights, in units of their tails."""
        xp = namespace(S)
        weights = getattr(self, "weights_", None)
        if weights is None:
            weights = np.array([1 / rank.unit for rank in self._ranks])
        wide = xp.astype(S, xp.float64)
        centre = like(np.array([np.median(scores) for scores in self.observed_]), wide)
        # One by one: a member without weight must not make NaN of its infinity.
        total = xp.zeros_like(wide[:, 0])
        for i, weight in enumerate(weights.tolist()):
            if weight:
                total = total + weight * (wide[:, i] - centre[i])
        return xp.astype(total, S.dtype)

    def _p_of(self, S: AnyArray) -> Floats:
        """Return the combined p-values (n,) of members' scores; those of each member end."""
        statistics = to_numpy(self._combined(S.astype(np.float64), ending=True))
        return p_of(statistics, self.combine, S.shape[1], self._null())

    def _null(self) -> Null | None:
        """Return what is known of the sum that `combine` makes; early files do not name it."""
        if not hasattr(self, "null_") or getattr(self, "null_of_", self.combine) != self.combine:
            return None
        return Null(*self.null_)

    def _note(self, z: AnyArray) -> str:
        S = to_numpy(self._member_scores(z[None]))
        names = self._member_names()
        if self.combine == "mean":
            values = [float(rank(S[:, i])[0]) for i, rank in enumerate(self._ranks)]
            return "ranks: " + _listed(names, [f"{value:.2f}" for value in values])
        p = [LogP.of(scores)(S[:, i], True) for i, scores in enumerate(self.observed_)]
        shown = "p-values: " + _listed(names, [f"{np.exp(log[0]):.2g}" for log in p])
        if self.combine == "linear":
            return shown
        return f"{shown}; together {self._p_of(S)[0]:.2g}"


def unfitted(member: Any) -> Any:
    """Return a member of a combination as it was given; of a text, the detector that it names.

    >>> unfitted("knn")
    KNN()
    """
    return detector_class(member)() if isinstance(member, str) else member


@border
def logistic_weights(known: AnyArray, strange: AnyArray) -> Floats:
    """Return the weights (m,) by which an ensemble's scores tell `known` (n, m) from `strange`.

    >>> known = np.array([[1.0, 5.0], [2.0, -5.0], [3.0, 5.0], [2.5, -5.0], [1.5, 5.0]])
    >>> w = logistic_weights(known, known - [9.0, 0.0])
    >>> bool(w[0] > 10 * abs(w[1]))
    True
    """
    # They take long to load, and only this needs them.
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.model_selection import GridSearchCV  # noqa: PLC0415

    for name, rows in (("known", known), ("strange", strange)):
        if len(rows) < 5 or not np.isfinite(rows).all():
            raise InputError(
                f"{len(rows)} {name} rows are too few, or have scores that are not finite; "
                "pass at least 5 rows with finite scores."
            )
    S = np.concatenate([known, strange]).astype(np.float64)
    is_known = np.arange(len(S)) < len(known)
    spread = known.astype(np.float64).std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    centred = (S - known.mean(axis=0)) / spread
    search = GridSearchCV(LogisticRegression(max_iter=1000), {"C": _PENALTIES}, cv=5)
    best = search.fit(centred, is_known).best_estimator_
    return np.asarray(best.coef_[0] / spread)


def _listed(names: list[str], texts: list[str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in zip(names, texts, strict=True))
