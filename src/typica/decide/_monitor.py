"""Watch a stream: is the input still what the detector was calibrated on?

`Monitor` ranks each score among the calibration scores and the stream so far (`_online_ranks`) and
bets against the p-values being uniform (`_martingale`). If calibration and stream are exchangeable,
the probability that it ever raises an alarm is at most alpha, however long it runs and however
often one looks. Inputs that depend on their predecessors, such as the frames of a video, are not
exchangeable: thin them out first.
"""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica import store
from typica.arrays import AnyArray
from typica.as_json import json_number
from typica.calibration import Calibration, Levels, check_scores, predicted_classes
from typica.checks import Parameter, check_share, check_values, count, share
from typica.decide._calibrate import calibrate, copy_to_calibrate
from typica.decide._judge import judge
from typica.decide._martingale import Wealth
from typica.decide._online_ranks import CELLS, CHUNK, OnlineRanks
from typica.detectors import final_detector
from typica.errors import FormatError, InputError, a_kind, border
from typica.labels import class_text
from typica.metrics import rate_interval
from typica.store import State, storable
from typica.written_numbers import Level


class Rate(NamedTuple):
    """What a monitor says about n inputs: how many were rejected, the rate, its exact interval."""

    n: int
    rejected: int
    rate: float
    low: float
    high: float


_RATES = {  # the fields of a Rate that are gauges, and what they are
    "rate": "Rate of rejected inputs in the window.",
    "low": "Its lower limit, 95 %.",
    "high": "Its upper limit, 95 %.",
    "n": "Inputs in the window.",
}


def _rate(rejected: NDArray[np.bool_]) -> Rate:
    n, hits = len(rejected), int(np.count_nonzero(rejected))
    return Rate(n, hits, hits / n if n else 0.0, *rate_interval(hits, n))


@storable("monitor")
class Monitor:
    """Raises an alarm when a stream is no longer exchangeable with the calibration inputs.

    Parameters
    ----------
    source
        A calibrated detector or Pipeline; a fitted one, with `held_out`; a `Calibration`; or an
        array of calibration scores.
    alpha
        The probability of a false alarm over all time.
    held_out
        Inputs to calibrate on, where `source` is fitted but not calibrated.
    reject_alpha
        The level at which single inputs count as rejected in the rates.
    window
        How many of the last inputs the rates are taken over.
    cells
        How many scores are kept as they are.
    seed
        Of the random numbers that break ties.

    Attributes
    ----------
    sources
        The names of what was taken in, such as dates: `typica monitor --source` keeps them here,
        so that none is counted twice.

    >>> rng = np.random.default_rng(0)
    >>> monitor = Monitor(rng.normal(size=1000), alpha=0.01)
    >>> monitor.update(rng.normal(size=5000))
    False
    >>> monitor.update(rng.normal(size=500) - 1)
    True
    >>> 5000 <= monitor.alarm_at < 5100, abs(monitor.changed_at - 5000) < 30
    (True, True)
    >>> Monitor(rng.normal(size=1000))
    Monitor: 0 inputs, no drift seen, wealth 1 (alarm at 100)
    """

    params: ClassVar[Mapping[str, Parameter]] = {
        "alpha": share(),
        "reject_alpha": share(),
        "window": count(),
        "cells": count(),
    }
    alarm_at: int | None
    changed_at: int | None
    largest_wealth: float
    sources: list[str]

    @border
    def __init__(
        self,
        source: Any,
        alpha: Level = 0.01,
        *,
        held_out: Any = None,
        reject_alpha: Level = 0.05,
        window: int = 1000,
        cells: int = CELLS,
        seed: Any = 0,
    ) -> None:
        given = {"alpha": alpha, "reject_alpha": reject_alpha, "window": window, "cells": cells}
        check_values(self.params, given)
        self.window = int(window)
        self.alpha = float(check_share(alpha, "alpha"))
        self.reject_alpha = float(check_share(reject_alpha, "reject_alpha"))
        self.source, self.calibration = _calibrated(source, held_out)
        self._levels = Levels.of(self.reject_alpha)
        self.calibration.thresholds(self._levels)  # says what is wrong with them
        self._ranks = OnlineRanks(self._reference(), cells, seed)
        self._names: list[str] = []
        self.sources: list[str] = []
        self._begin()

    @border
    def update(self, scores: Any, predicted: Any = None) -> bool:
        """Take in scores in the order of their arrival; return whether there is an alarm.

        predicted: the class that the classifier predicts for each, for rates by class; needed where
        the source was calibrated by class.
        """
        checked = check_scores(scores)
        classes = None if predicted is None else predicted_classes(predicted)
        if classes is not None and classes.shape != checked.shape:
            raise InputError(
                f"predicted has shape {classes.shape} for {len(checked)} scores; "
                "pass one per score."
            )
        if self.by_class and classes is None:
            raise InputError("calibrated by class; pass the predicted class of each score.")
        groups = classes if self.by_class else None
        rejected = checked < self.calibration.offsets(checked, groups, self._levels)
        self._remember(rejected, classes)
        for start in range(0, len(checked), CHUNK):
            self._bet(self._ranks.p_values(checked[start : start + CHUNK]))
        return self.alarm

    @border
    def observe(self, X: Any, predicted: Any = None) -> bool:
        """Score the rows of X and take the scores in; see `update`."""
        if self.source is None:
            raise InputError("made from scores, without a detector; use update(scores).")
        verdicts = judge(self.source, X, predicted=predicted if self.by_class else None)
        if predicted is None and self.by_class:
            predicted = verdicts.nearest
        return self.update(verdicts.score, predicted)

    @property
    def by_class(self) -> bool:
        """Whether scores are compared within groups of predicted classes."""
        return self.calibration.by_class

    def __repr__(self) -> str:
        seen = f"alarm at {self.alarm_at}" if self.alarm else "no drift seen"
        wealth = f"wealth {self.wealth:.4g} (alarm at {self.limit:g})"
        return f"Monitor: {self.inputs} inputs, {seen}, {wealth}"

    def reset(self) -> None:
        """Start again from the calibration scores; each start may raise a false alarm.

        What was taken in stays known by its name.
        """
        self._ranks = OnlineRanks(self._reference(), self._ranks.cells, self._ranks.rng)
        self._begin()

    @property
    def limit(self) -> float:
        """The wealth that raises the alarm, 1 / alpha."""
        return 1 / self.alpha

    @property
    def alarm(self) -> bool:
        """Whether the wealth has ever reached the limit."""
        return self.alarm_at is not None

    @property
    def inputs(self) -> int:
        """The number of inputs since the beginning."""
        return self._wealth.steps

    @property
    def wealth(self) -> float:
        """What the bets have made of 1: evidence against exchangeability."""
        return self._wealth.value

    @property
    def rate(self) -> Rate:
        """The rate of rejected inputs among the last `window`."""
        return _rate(self._rejected)

    @property
    def rates(self) -> dict[str, Rate]:
        """The rate of rejected inputs among the last `window`, by predicted class."""
        seen = np.unique(self._codes[self._codes >= 0]).tolist()
        return {self._names[code]: _rate(self._rejected[self._codes == code]) for code in seen}

    def to_dict(self) -> dict[str, Any]:
        """Give all there is to know as plain JSON types; positions in the stream count from 0."""
        return {
            "inputs": self.inputs,
            "alpha": self.alpha,
            "alarm": self.alarm,
            "alarm_at": self.alarm_at,
            "changed_at": self.changed_at,
            "wealth": json_number(self.wealth),
            "largest_wealth": json_number(self.largest_wealth),
            "reject_alpha": self.reject_alpha,
            "rejected": self.rate._asdict(),
            "rejected_by_class": {name: rate._asdict() for name, rate in self.rates.items()},
        }

    def prometheus(self, prefix: str = "typica_monitor") -> str:
        """Return the state in the text format that Prometheus scrapes."""
        gauges: list[tuple[str, str, str, dict[str, float]]] = [
            ("inputs_total", "counter", "Inputs seen.", {"": self.inputs}),
            ("alarm", "gauge", "1 after the wealth has reached 1 / alpha.", {"": int(self.alarm)}),
            ("wealth", "gauge", "Evidence against exchangeability.", {"": self.wealth}),
            (
                "wealth_limit",
                "gauge",
                "The wealth that raises the alarm, 1 / alpha.",
                {"": self.limit},
            ),
        ]
        labelled = {"": self.rate}
        for name, rate in self.rates.items():
            labelled[f'{{class="{_escaped(name)}"}}'] = rate
        for field, text in _RATES.items():
            values = {label: getattr(rate, field) for label, rate in labelled.items()}
            gauges.append((f"rejected_{field}", "gauge", text, values))
        lines = []
        for name, kind, text, values in gauges:
            lines += [f"# HELP {prefix}_{name} {text}", f"# TYPE {prefix}_{name} {kind}"]
            lines += [f"{prefix}_{name}{label} {value}" for label, value in values.items()]
        return "\n".join(lines) + "\n"

    @border
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to one file; what `typica.load` returns continues exactly."""
        store.save(self, path)

    # How it is done

    def _begin(self) -> None:
        self._wealth = Wealth()
        self.largest_wealth = 1.0
        self.alarm_at = None
        self.changed_at = None
        self._rejected: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._codes: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def _bet(self, p: NDArray[np.float64]) -> None:
        before = copy.copy(self._wealth)
        path = self._wealth.bet(p)
        self.largest_wealth = max(self.largest_wealth, float(path.max()))
        if self.alarm_at is None and self.largest_wealth >= self.limit:
            crossing = int(np.argmax(path >= self.limit))
            before.bet(p[: crossing + 1])  # what the bets knew when the alarm came
            self.alarm_at, self.changed_at = before.steps - 1, before.change_point

    def _reference(self) -> NDArray[np.float64]:
        return self.calibration.sample_of_all

    def _remember(self, rejected: NDArray[np.bool_], classes: AnyArray | None) -> None:
        codes = np.full(len(rejected), -1)
        if classes is not None:
            names, inverse = np.unique(classes, return_inverse=True)
            texts = [class_text(name) for name in names.tolist()]
            self._names += [text for text in texts if text not in self._names]
            codes = np.array([self._names.index(text) for text in texts], dtype=np.int64)[inverse]
        self._rejected = np.concatenate([self._rejected, rejected])[-self.window :]
        self._codes = np.concatenate([self._codes, codes])[-self.window :]

    def try_parts(self) -> None:
        """Let a copy take in a score, so that parts of the wrong kind are found when loaded."""
        twin = copy.deepcopy(self)
        with contextlib.suppress(InputError):
            twin.update(np.zeros(1), np.zeros(1) if self.by_class else None)
        twin.to_dict()
        twin.prometheus()

    def state(self) -> State:
        """Return what is to be stored."""
        made_from = {
            "source": self.source,
            "calibration": self.calibration if self.source is None else None,
        }
        settings = {"alpha": self.alpha, "reject_alpha": self.reject_alpha, "window": self.window}
        alarm = {
            "largest_wealth": self.largest_wealth,
            "alarm_at": self.alarm_at,
            "changed_at": self.changed_at,
        }
        seen = {"names": self._names, "rejected": self._rejected, "codes": self._codes}
        seen |= {"sources": self.sources}
        return {
            **made_from,
            **settings,
            **alarm,
            **seen,
            "ranks": self._ranks,
            "bets": self._wealth,
        }

    @classmethod
    def from_state(cls, state: State) -> Monitor:
        """Rebuild the monitor from what was stored."""
        source = state["source"] if state["calibration"] is None else state["calibration"]
        made = cls(source, **{key: state[key] for key in ("alpha", "reject_alpha", "window")})
        made._ranks, made._wealth = state["ranks"], state["bets"]
        made.largest_wealth, made.alarm_at = state["largest_wealth"], state["alarm_at"]
        made.changed_at, made._names = state["changed_at"], state["names"]
        made._rejected, made._codes = state["rejected"], state["codes"]
        made.sources = state.get("sources", [])
        if not isinstance(made.sources, list) or not all(isinstance(s, str) for s in made.sources):
            raise FormatError("a monitor's state whose sources are no names; begin another.")
        return made


def _calibrated(source: Any, held_out: Any) -> tuple[Any, Calibration]:
    """Return the estimator, if there is one, and the scores to begin with."""
    if not hasattr(source, "score_samples"):
        if held_out is not None:
            raise InputError("held_out is for a detector to score; leave it out beside scores.")
        return None, _checked(_of_scores(source))
    source = copy_to_calibrate(source)
    if held_out is not None:
        source = calibrate(source, held_out)
    found = final_detector(source).current_calibration()
    if found is None:
        raise InputError(
            "a detector without calibration scores; calibrate it, or pass held_out inputs as well."
        )
    return source, _checked(found)


def _of_scores(source: Any) -> Calibration:
    """Return the scores that a monitor starts from as a calibration."""
    if isinstance(source, Calibration):
        return copy.deepcopy(source)  # more calibration rows leave the monitor as it is
    if not np.ndim(source):
        raise InputError(
            f"{a_kind(source)} is nothing to begin with; pass a calibrated detector, a "
            "Calibration, or an array of calibration scores."
        )
    return Calibration().add(check_scores(source))


def _checked(calibration: Calibration) -> Calibration:
    if calibration.n == 0:
        raise InputError("no calibration scores; pass those of held-out in-distribution inputs.")
    return calibration


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
