from . import sql
from ._batches import Batch, read_batch, read_part
from ._calibrator import Calibrator
from ._columns import Columns
from ._files import File, find_files
from ._judge import Judge
from ._learner import Learner
from ._parts import Part
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
    "Stream",
    "Tables",
    "calibrate_batches",
    "calibrate_part",
    "find_files",
    "judge_part",
    "learn_batches",
    "learn_part",
    "merge_calibrated",
    "merge_learnt",
    "merge_tree",
    "open_tables",
    "read_batch",
    "read_part",
    "sql",
]
