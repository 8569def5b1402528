from . import sql
from ._batches import Batch, read_batch, read_part
from ._calibrator import Calibrator
from ._columns import Columns
from ._files import File, find_files, is_tables
from ._fit import calibrate, fit
from ._judge import Judge
from ._learner import Learner
from ._parts import Part
from ._score import Scored, score
from ._tables import Stream, Tables, open_tables
from ._work import (
    calibrate_batches,
    calibrate_part,
    judge_part,
    learn_batches,
    learn_part,
    merge_calibrated,
    merge_learnt,
    merge_tree,
)

__all__ = [
    "Batch",
    "Calibrator",
    "Columns",
    "File",
    "Judge",
    "Learner",
    "Part",
    "Scored",
    "Stream",
    "Tables",
    "calibrate",
    "calibrate_batches",
    "calibrate_part",
    "find_files",
    "fit",
    "is_tables",
    "judge_part",
    "learn_batches",
    "learn_part",
    "merge_calibrated",
    "merge_learnt",
    "merge_tree",
    "open_tables",
    "read_batch",
    "read_part",
    "score",
    "sql",
]
