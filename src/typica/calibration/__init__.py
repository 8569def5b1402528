"""Calibration: the scores of held-out in-distribution inputs, and all that is decided by them."""

from typica.calibration._calibration import Calibration
from typica.calibration._groups import (
    EVERYTHING,
    SMALLEST_GROUP,
    Classes,
    pool_rare,
    predicted_classes,
)
from typica.calibration._levels import CalibrationOptions, Levels, false_alarm_rate
from typica.calibration._p_values import p_values
from typica.calibration._sample import LIMIT, ScoreSample
from typica.calibration._scores import check_scores, check_threshold
from typica.calibration._threshold import calibration_size, guaranteed_rank, threshold_at
from typica.calibration._warnings import about_ties, warn_of_fitted_rows, warn_of_pool

__all__ = [
    "EVERYTHING",
    "LIMIT",
    "SMALLEST_GROUP",
    "Calibration",
    "CalibrationOptions",
    "Classes",
    "Levels",
    "ScoreSample",
    "about_ties",
    "calibration_size",
    "check_scores",
    "check_threshold",
    "false_alarm_rate",
    "guaranteed_rank",
    "p_values",
    "pool_rare",
    "predicted_classes",
    "threshold_at",
    "warn_of_fitted_rows",
    "warn_of_pool",
]
