"""Fits, calibrations and scores on Dask: its arrays, its data frames, and files that workers read.

    from dask.distributed import Client
    from typica.scale import dask as on_dask

    with Client("tcp://scheduler:8786"):
        detector = on_dask.fit(CTM(), X, y)          # Dask arrays (n, m) and (n,)
        on_dask.calibrate(detector, held_out, alpha=0.05)
        verdicts = on_dask.score(detector, frame, features="embedding", ids="id")

Every partition is learnt by itself, and what was learnt is merged in a tree. What is retried, moved
or recomputed is Dask's affair: a worker that dies changes nothing in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from typica.calibration import CalibrationOptions
from typica.detectors import Detector, E, Estimator, input_width
from typica.errors import border
from typica.extras import need
from typica.scale import _fit, _score
from typica.scale._calibrator import Calibrator
from typica.scale._columns import Wanted
from typica.scale._dask_cluster import DaskCluster, connect, over_pieces
from typica.scale._dask_rows import opened_rows
from typica.scale._dask_verdicts import verdict_frame
from typica.scale._fit import (
    Known,
    check_learning,
    fit_counted,
    table_width,
    wants_label_column,
)
from typica.scale._judge import Judge, check_id_column
from typica.scale._learner import Learner
from typica.scale._on_cluster import learn, take_scores
from typica.scale._on_frames import refuse_output
from typica.scale._worker_jobs import Judging

__all__ = ["DaskCluster", "calibrate", "connect", "fit", "score"]


@border
def fit(
    detector: Detector,
    X: Any,
    y: Any = None,
    client: Any = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    sample: int | None = None,
) -> Detector:
    """Fit a detector on a Dask array (n, m) or data frame, or on files that workers read.

    y: labels, a Dask array or series of as many partitions, an array, or a column of the data frame
    or of the files. client: None takes Dask's current one, or its scheduler in this process.
    features, columns: of a data frame or of files, the column of lists, or one column for each
    feature; a data frame that is given neither is features from its first column to its last, but
    for y. sample: as `typica.scale.fit` takes it.

    The result does not depend on the chunks of an array, nor on the parts of files. Rows of a data
    frame are known by partition and place there: those of a sample, and of the provisional
    threshold of more than 2,048, depend on the partitions.
    """
    need("distributed", "dask")
    named: dict[str, Any] = {"features": features, "columns": columns}
    if not _is_collection(X):
        options = {**named, "labels": y, "sample": sample, "engine": DaskCluster(client)}
        return fit_counted(detector, X, **options).detector
    learner = Learner(detector, sample)
    rows = opened_rows(X, y, Wanted(**named), table_width(detector), wants_label_column(detector))
    check_learning(learner, Known(rows.has_labels, rows.n, rows.width))
    return learn(learner.expect(rows.n), over_pieces(rows, client)).finish()


@border
def calibrate(
    estimator: E,
    X: Any,
    client: Any = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    **options: Unpack[CalibrationOptions],
) -> E:
    """Calibrate a fitted detector, or a Pipeline that ends in one, on held-out rows.

    X, client, features, columns: as `fit` takes them. options: alpha or tpr, confidence, by_class
    and groups, those of `Detector.calibrate`. The estimator is changed and returned.
    """
    need("distributed", "dask")
    named: dict[str, Any] = {"features": features, "columns": columns}
    if not _is_collection(X):
        return _fit.calibrate(estimator, X, **named, **options, engine=DaskCluster(client))
    rows = opened_rows(X, None, Wanted(**named), input_width(estimator))
    calibrator = Calibrator.begin(estimator, rows.n, **options)
    take_scores(calibrator, over_pieces(rows, client)).finish()
    return estimator


@border
def score(
    estimator: Estimator,
    X: Any,
    output: Any = None,
    client: Any = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    ids: str | None = None,
    **options: Any,
) -> Any:
    """Judge rows: a Dask data frame of verdicts, which is computed when it is asked for.

    X, client, features, columns: as `fit` takes them. ids: a column of a data frame to pass on. The
    verdicts have the index and the partitions of a data frame, and the row numbers of an array as
    their index. Files are judged to a folder `output`, as by `typica.scale.score`. options: alpha
    or tpr, confidence and only, those of `Judge`.
    """
    check_id_column(ids)
    need("distributed", "dask")
    named: dict[str, Any] = {"features": features, "columns": columns}
    if not _is_collection(X):
        wanted = {**named, "ids": ids, **options}
        return _score.score(estimator, X, output, **wanted, engine=DaskCluster(client))
    refuse_output(output, "to_parquet")
    judge = Judge(estimator, **options)
    rows = opened_rows(X, None, Wanted(**named, ids=ids), input_width(estimator))
    return verdict_frame(rows, Judging.by(judge), ids)


def _is_collection(X: Any) -> bool:
    return bool(need("dask", "dask").is_dask_collection(X))
