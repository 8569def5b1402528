"""Decisions: calibrate, judge and explain a detector or a Pipeline that ends in one; watch a stream."""

from typica.decide._conformal import ConformalDetector, Judgement
from typica.decide._describe import describe, describe_file
from typica.decide._estimators import calibrate, explain, remembered
from typica.decide._monitor import Monitor
from typica.decide._stream import read_batches

__all__ = [
    "ConformalDetector",
    "Judgement",
    "Monitor",
    "calibrate",
    "describe",
    "describe_file",
    "explain",
    "read_batches",
    "remembered",
]
