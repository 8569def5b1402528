"""The live stream of one detector: what it has judged lately, and whether that has drifted."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

from typica.as_json import json_number
from typica.decide import Monitor
from typica.errors import InputError
from typica.serve import _metrics
from typica.serve._logs import log
from typica.serve._served import Served
from typica.verdicts import WORDS, Verdicts

WINDOW = 1000  # inputs that the share of rejected ones is computed over
SHOWN = 200  # inputs that the page shows one by one


class Live:
    """Takes in verdicts as they are made, from one thread, and reports them to any other."""

    def __init__(self, served: Served) -> None:
        self._lock = threading.Lock()
        self._served = served
        self.monitor = _monitor(served)
        self._typical: deque[bool] = deque(maxlen=WINDOW)
        self._recent: deque[dict[str, Any]] = deque(maxlen=SHOWN)
        self._trace: deque[dict[str, Any]] = deque(maxlen=SHOWN)
        self._inputs = self._atypical = 0
        _metrics.begin(served, self.monitor)

    def replace(self, served: Served) -> None:
        """Continue with a new version of the detector; the monitor starts again."""
        with self._lock:
            self.monitor = _monitor(served)
            for seen in (self._typical, self._recent, self._trace):
                seen.clear()
            self._served = served
            _metrics.begin(served, self.monitor)

    def end(self) -> None:
        """Stop reporting the detector."""
        _metrics.end(self._served)

    def take_in(self, served: Served, verdicts: Verdicts) -> None:
        """Take in verdicts in the order of their arrival."""
        with self._lock:
            self._count(verdicts)
            if self._served is served:  # scores of the version before would be strangers here
                _metrics.SCORES.observe(served.name, verdicts.score.tolist())
                self._watch(verdicts)
            self._trace.append(self._point())

    def _count(self, verdicts: Verdicts) -> None:
        name, now = self._served.name, time.time()
        self._inputs += len(verdicts)
        words = verdicts.to_dict(("score", "verdict"))
        given = words.get("verdict", [None] * len(verdicts))
        for score, word in zip(words["score"], given, strict=True):
            self._recent.append({"time": now, "score": json_number(score), "verdict": word})
        if verdicts.typical is None:
            _metrics.INPUTS.labels(name, "none").inc(len(verdicts))
            return
        self._typical.extend(verdicts.typical.tolist())
        self._atypical += verdicts.n_atypical
        _metrics.INPUTS.labels(name, WORDS[True]).inc(len(verdicts) - verdicts.n_atypical)
        _metrics.INPUTS.labels(name, WORDS[False]).inc(verdicts.n_atypical)
        _metrics.REJECTED.labels(name).set(self._ratio())

    def _point(self) -> dict[str, Any]:
        """Return where the stream stands now: how many inputs, the share rejected, the wealth."""
        wealth = None if self.monitor is None else json_number(self.monitor.wealth)
        return {"inputs": self._inputs, "rejected_ratio": self._ratio(), "wealth": wealth}

    def _ratio(self) -> float:
        return self._typical.count(False) / len(self._typical) if self._typical else 0.0

    def _watch(self, verdicts: Verdicts) -> None:
        monitor = self.monitor
        if monitor is None:
            return
        before = monitor.alarm
        try:
            monitor.update(verdicts.score, verdicts.nearest)
        except Exception as error:  # of any kind: the verdicts are valid without it
            log("monitor failed", model=self._served.name, level="error", reason=str(error))
            return
        _metrics.tell_monitor(self._served.name, monitor)
        if monitor.alarm and not before:
            log(
                "drift alarm",
                level="warning",
                model=self._served.name,
                alarm_at=monitor.alarm_at,
                changed_at=monitor.changed_at,
                wealth=json_number(monitor.wealth),
                limit=monitor.limit,
            )

    def report(self) -> dict[str, Any]:
        """Return the state of the stream as JSON values."""
        with self._lock:
            return {
                "digest": self._served.digest,
                "inputs": self._inputs,
                "atypical": self._atypical,
                "window": len(self._typical),
                "rejected_ratio": self._ratio(),
                "monitor": None if self.monitor is None else self.monitor.to_dict(),
                "recent": list(self._recent),
                "trace": list(self._trace),
            }


def _monitor(served: Served) -> Monitor | None:
    """Return a monitor of a calibrated detector's scores; None if there can be none."""
    if served.calibration is None:
        return None
    try:
        return Monitor(served.calibration)
    except InputError as error:
        log("no monitor", model=served.name, level="warning", reason=str(error))
        return None
