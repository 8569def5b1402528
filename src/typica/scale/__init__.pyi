from . import dask, ray, spark, sql
from ._batches import Batch, read_batch, read_part
from ._calibrator import Calibrator
from ._columns import Columns
from ._engines import ENGINES, HERE, Cluster, On, check_engine, open_engine
from ._files import File, are_tables, find_files, fixed_part, is_pattern, is_tables
from ._fit import Fitted, calibrate, fit, fit_counted
from ._judge import Judge
from ._learner import Learner
from ._parts import Part
from ._score import JudgedStream, Scored, judge_stream, score, strangest
from ._tables import Stream, Tables, open_tables
from ._worker_jobs import (
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
    "ENGINES",
    "HERE",
    "Batch",
    "Calibrator",
    "Cluster",
    "Columns",
    "File",
    "Fitted",
    "Judge",
    "JudgedStream",
    "Learner",
    "On",
    "Part",
    "Scored",
    "Stream",
    "Tables",
    "are_tables",
    "calibrate",
    "calibrate_batches",
    "calibrate_part",
    "check_engine",
    "dask",
    "find_files",
    "fit",
    "fit_counted",
    "fixed_part",
    "is_pattern",
    "is_tables",
    "judge_part",
    "judge_stream",
    "learn_batches",
    "learn_part",
    "merge_calibrated",
    "merge_learnt",
    "merge_tree",
    "open_engine",
    "open_tables",
    "ray",
    "read_batch",
    "read_part",
    "score",
    "spark",
    "sql",
    "strangest",
]
