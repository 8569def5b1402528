"""What Prometheus scrapes about the detectors, named by its conventions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from prometheus_client import REGISTRY, Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric

import typica
from typica.decide import Monitor
from typica.serve._served import Served
from typica.verdicts import WORDS

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
BUCKETS = 20  # of scores: equally likely parts of the calibration scores

INPUTS = Counter("typica_inputs", "Inputs judged, by verdict.", ["model", "verdict"])
SECONDS_TAKEN = Histogram(
    "typica_inference_seconds",
    "From when a request's inputs were accepted to their verdicts.",
    ["model"],
    buckets=SECONDS,
)
WEALTH = Gauge(
    "typica_monitor_wealth",
    "Evidence that the inputs are not what the detector was calibrated on.",
    ["model"],
    multiprocess_mode="max",
)
WEALTH_LIMIT = Gauge(
    "typica_monitor_wealth_limit",
    "The wealth that raises the alarm.",
    ["model"],
    multiprocess_mode="max",
)
ALARM = Gauge(
    "typica_monitor_alarm",
    "1 once the wealth has reached its limit.",
    ["model"],
    multiprocess_mode="max",
)
REJECTED = Gauge(
    "typica_rejected_ratio",
    "Share of atypical inputs among the last 1000.",
    ["model"],
    multiprocess_mode="mostrecent",
)
INFO = Gauge(
    "typica_detector_info",
    "1 for the detector that is being served.",
    ["model", "detector", "digest", "calibrated", "version"],
    multiprocess_mode="mostrecent",
)
WAITING = Gauge(
    "typica_waiting_inputs",
    "Inputs that were accepted and are not judged yet.",
    ["model"],
    multiprocess_mode="sum",
)
RELOADS = Counter("typica_reloads", "Detector files read again, by outcome.", ["model", "outcome"])
OUTCOMES = ("done", "failed")
REFUSED = Counter("typica_refused", "Requests refused because the queue was full.", ["model"])


class _Scores:
    """`typica_score`: a histogram whose buckets are each detector's own."""

    def __init__(self) -> None:
        self._of: dict[str, Histogram] = {}
        self._lock = threading.Lock()

    def begin(self, name: str, edges: Iterable[float]) -> None:
        """Count the scores of a model by these edges, from nothing."""
        made = Histogram(
            "typica_score",
            "Scores: higher is more typical. The buckets are parts of the calibration scores.",
            ["model"],
            buckets=tuple(edges),
            registry=None,
        )
        with self._lock:
            self._of[name] = made

    def observe(self, name: str, scores: Iterable[float]) -> None:
        child = self._of[name].labels(name)
        for score in scores:
            child.observe(score)

    def remove(self, name: str) -> None:
        with self._lock:
            self._of.pop(name, None)

    def collect(self) -> Iterator[Metric]:
        """Yield one family that holds every model's histogram."""
        with self._lock:
            histograms = list(self._of.values())
        family: Metric | None = None
        for histogram in histograms:
            for found in histogram.collect():
                if family is None:
                    family = found
                else:
                    family.samples.extend(found.samples)
        if family is not None:
            yield family

    def describe(self) -> list[Metric]:
        """Return nothing: the family is there once a model is."""
        return []


SCORES = _Scores()
REGISTRY.register(SCORES)

_OF_MONITOR = (WEALTH, WEALTH_LIMIT, ALARM)
_serving: dict[str, Served] = {}  # by name: MLServer ends the one before after the next has begun


def begin(served: Served, monitor: Monitor | None) -> None:
    """Report a detector from now on, instead of another of its name."""
    name = served.name
    if name in _serving:
        INFO.remove(*_labels(_serving[name]))
    _serving[name] = served
    INFO.labels(*_labels(served)).set(1)
    SCORES.begin(name, score_edges(served))
    for word in WORDS.values():
        INPUTS.labels(name, word)
    for outcome in OUTCOMES:
        RELOADS.labels(name, outcome)
    SECONDS_TAKEN.labels(name)
    REFUSED.labels(name)
    WAITING.labels(name)
    REJECTED.labels(name).set(0)
    if monitor is None:
        _forget(_OF_MONITOR, name)
        return
    WEALTH_LIMIT.labels(name).set(monitor.limit)
    tell_monitor(name, monitor)


def tell_monitor(name: str, monitor: Monitor) -> None:
    """Report the evidence so far."""
    WEALTH.labels(name).set(monitor.wealth)
    ALARM.labels(name).set(int(monitor.alarm))


def end(served: Served) -> None:
    """Stop reporting a detector, unless another has taken its place."""
    name = served.name
    if _serving.get(name) is not served:
        return
    del _serving[name]
    INFO.remove(*_labels(served))
    SCORES.remove(name)
    _forget((*_OF_MONITOR, REJECTED), name)


def score_edges(served: Served) -> list[float]:
    """Return the edges of the buckets: quantiles of the calibration scores, and the threshold."""
    scores = served.known_scores
    if scores is None:
        return [-1e3, -1e2, -10.0, -1.0, 0.0, 0.25, 0.5, 0.75, 1.0, 10.0, 1e2, 1e3]
    edges = np.quantile(scores, np.linspace(0, 1, BUCKETS + 1))
    thresholds = list(served.calibration.thresholds().values())
    finite = np.array([edge for edge in [*edges.tolist(), *thresholds] if np.isfinite(edge)])
    return [float(edge) for edge in np.unique(finite)]


def _forget(gauges: Iterable[Gauge], name: str) -> None:
    for gauge in gauges:
        with contextlib.suppress(KeyError):  # it was never set
            gauge.remove(name)


def _labels(served: Served) -> tuple[Any, ...]:
    calibrated = str(served.calibration is not None).lower()
    kind = served.told["detector"]
    return (served.name, kind, served.digest[:12], calibrated, typica.__version__)
