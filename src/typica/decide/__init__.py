"""Decisions: calibrate, judge and explain, for detectors and Pipelines; watch a stream."""

from typica.decide._conformal import ConformalDetector, Judgement
from typica.decide._describe import describe, describe_file, load_detector
from typica.decide._estimators import (
    calibrate,
    discoveries,
    explain,
    fingerprint,
    judge,
    origin_of,
    p_values,
    partial_calibrate,
)
from typica.decide._monitor import Monitor, Rate
from typica.decide._open_set import OpenSetClassifier
from typica.decide._stream import read_scores

__all__ = [
    "ConformalDetector",
    "Judgement",
    "Monitor",
    "OpenSetClassifier",
    "Rate",
    "calibrate",
    "describe",
    "describe_file",
    "discoveries",
    "explain",
    "fingerprint",
    "judge",
    "load_detector",
    "origin_of",
    "p_values",
    "partial_calibrate",
    "read_scores",
]
