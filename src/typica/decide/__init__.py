"""Decisions: calibrate, judge and explain, for detectors and Pipelines; watch a stream."""

from typica.decide._calibrate import (
    add_scores,
    begin_calibration,
    calibrate,
    copy_to_calibrate,
    partial_calibrate,
    set_calibration,
)
from typica.decide._describe_detector import describe, describe_file, describe_rule
from typica.decide._fit import fit
from typica.decide._identity import fingerprint
from typica.decide._judge import discoveries, explain, judge, p_values
from typica.decide._monitor import Monitor, Rate
from typica.decide._open_set import OpenSetClassifier
from typica.decide._score_lines import read_scores
from typica.detectors import load_detector, origin_of

__all__ = [
    "Monitor",
    "OpenSetClassifier",
    "Rate",
    "add_scores",
    "begin_calibration",
    "calibrate",
    "copy_to_calibrate",
    "describe",
    "describe_file",
    "describe_rule",
    "discoveries",
    "explain",
    "fingerprint",
    "fit",
    "judge",
    "load_detector",
    "origin_of",
    "p_values",
    "partial_calibrate",
    "read_scores",
    "set_calibration",
]
