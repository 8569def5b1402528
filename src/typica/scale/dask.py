"""Fits, calibrations and scores on Dask: its arrays, its data frames, and files that workers read.

    from dask.distributed import Client
    from typica.scale import dask as on_dask

    with Client("tcp://scheduler:8786"):
        detector = on_dask.fit(CTM(), X, y)          # Dask arrays (n, m) and (n,)
        on_dask.calibrate(detector, held_out, alpha=0.05)
        verdicts = on_dask.score(detector, frame, features="embedding", ids="id")

Every partition is learnt by itself, and the results are merged in a tree. Dask takes care of what
is retried, moved or recomputed: a worker that dies does not change the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from typica.calibration import CalibrationOptions
from typica.detectors import Detector, E, Estimator, column_names, input_width
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
    with_names,
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
    on_error: str = "stop",
) -> Detector:
    """Fit a detector on a Dask array (n, m) or data frame, or on files that workers read.

    The result does not depend on the chunks of an array, nor on the parts of files. Rows of a data
    frame are identified by their partition and their place in it: those of a sample, and of the
    provisional threshold of more than 2,048, depend on the partitions.

    Parameters
    ----------
    detector
        An unfitted detector, which stays as it is.
    X
        A Dask array (n, m), a Dask data frame, or files as `typica.scale.open_tables` takes them.
    y
        Labels: a Dask array or series with as many partitions, an array, or a column of the data
        frame or of the files.
    client
        None uses Dask's current one, or its scheduler in this process.
    features, columns
        The column of lists, or one column for each feature, of a data frame or of files. If
        neither is given, all columns of a data frame except y are features.
    sample, on_error
        As `typica.scale.fit` takes them.
    """
    need("distributed", "dask")
    named: dict[str, Any] = {"features": features, "columns": columns, "on_error": on_error}
    if not _is_collection(X):
        options = {**named, "labels": y, "sample": sample, "engine": DaskCluster(client)}
        return fit_counted(detector, X, **options).detector
    learner = Learner(detector, sample)
    rows = opened_rows(X, y, Wanted(**named), table_width(detector), wants_label_column(detector))
    check_learning(learner, Known(rows.has_labels, rows.n, rows.width))
    learnt = learn(learner.expect(rows.n), over_pieces(rows, client))
    learnt.skipped.note()
    return with_names(learnt.finish(), rows.columns)


@border
def calibrate(
    estimator: E,
    X: Any,
    client: Any = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    on_error: str = "stop",
    **options: Unpack[CalibrationOptions],
) -> E:
    """Calibrate a fitted detector, or a Pipeline that ends in one, on held-out rows.

    Parameters
    ----------
    estimator
        A fitted detector or Pipeline; it is changed and returned.
    X, client, features, columns, on_error
        As `fit` takes them.
    options
        The `alpha` or `tpr`, `confidence`, `by_class` and `groups` of `Detector.calibrate`.
    """
    need("distributed", "dask")
    named: dict[str, Any] = {"features": features, "columns": columns, "on_error": on_error}
    if not _is_collection(X):
        return _fit.calibrate(estimator, X, **named, **options, engine=DaskCluster(client))
    wanted = Wanted(**named, names=column_names(estimator))
    rows = opened_rows(X, None, wanted, input_width(estimator))
    calibrator = Calibrator.begin(estimator, rows.n, **options)
    scored = take_scores(calibrator, over_pieces(rows, client))
    scored.skipped.note()
    scored.finish()
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
    on_error: str = "stop",
    **options: Any,
) -> Any:
    """Return verdicts on rows as a Dask data frame, which is computed when it is needed.

    Verdicts on a data frame have its index and its partitions; those on an array have its row
    numbers as their index.

    Parameters
    ----------
    estimator
        A fitted detector, or a Pipeline that ends in one.
    X, client, features, columns, on_error
        As `fit` takes them.
    output
        The folder for verdicts on files, as `typica.scale.score` takes it; not for collections.
    ids
        A column to pass on.
    options
        The `alpha` or `tpr`, `confidence` and `only` of `Judge`.
    """
    check_id_column(ids)
    need("distributed", "dask")
    named: dict[str, Any] = {"features": features, "columns": columns, "on_error": on_error}
    if not _is_collection(X):
        wanted = {**named, "ids": ids, **options}
        return _score.score(estimator, X, output, **wanted, engine=DaskCluster(client))
    refuse_output(output, "to_parquet")
    judge = Judge(estimator, **options)
    asked = Wanted(**named, ids=ids, names=column_names(estimator))
    rows = opened_rows(X, None, asked, input_width(estimator))
    return verdict_frame(rows, Judging.by(judge), ids)


def _is_collection(X: Any) -> bool:
    return bool(need("dask", "dask").is_dask_collection(X))
