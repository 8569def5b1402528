from ._calibration import Calibration
from ._groups import (
    EVERYTHING,
    SMALLEST_GROUP,
    Classes,
    pool_rare,
    predicted_classes,
)
from ._levels import CalibrationOptions, Levels, false_alarm_rate
from ._p_values import p_values
from ._sample import LIMIT, ScoreSample
from ._scores import check_scores
from ._threshold import calibration_size, guaranteed_rank, threshold_at
from ._warnings import warn_of_pool

__all__ = [
    "EVERYTHING",
    "LIMIT",
    "SMALLEST_GROUP",
    "Calibration",
    "CalibrationOptions",
    "Classes",
    "Levels",
    "ScoreSample",
    "calibration_size",
    "check_scores",
    "false_alarm_rate",
    "guaranteed_rank",
    "p_values",
    "pool_rare",
    "predicted_classes",
    "threshold_at",
    "warn_of_pool",
]
