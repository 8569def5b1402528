"""Fits, calibrations and scores on Spark: its data frames, its SQL, and files that workers read.

    from typica.scale import spark as on_spark

    detector = on_spark.fit(CTM(), frame, "label", features="embedding")
    on_spark.calibrate(detector, held_out, features="embedding", alpha=0.05)
    verdicts = on_spark.score(detector, frame, features="embedding", ids="id")

    session.udf.register("typicality", on_spark.udf(detector))
    session.sql("SELECT id, typicality(embedding) FROM photos")

`mapInArrow` turns partitions into states, which are merged in a tree of as many levels as it takes;
a Spark Connect session works too. Spark takes care of what is retried or moved: a worker that dies
does not change the result.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, Unpack

from typica.calibration import CalibrationOptions
from typica.detectors import Detector, E, Estimator, input_width
from typica.errors import InputError, border, given, listed
from typica.extras import need
from typica.scale import _fit, _score
from typica.scale._columns import Columns, Wanted
from typica.scale._fit import fit_counted
from typica.scale._judge import DECIDED, Judge, VerdictsOf
from typica.scale._on_frames import calibrate_frame, fit_frame, judge_frame, refuse_output
from typica.scale._spark_cluster import FrameCluster, SparkCluster, cluster_of
from typica.scale._spark_frame import SparkFrame, is_frame
from typica.scale._spark_session import connect
from typica.scale._worker_jobs import Judging

__all__ = ["FrameCluster", "SparkCluster", "calibrate", "connect", "fit", "score", "udf"]


@border
def fit(
    detector: Detector,
    data: Any,
    labels: Any = None,
    session: Any = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    sample: int | None = None,
    on_error: str = "stop",
) -> Detector:
    """Fit a detector on a Spark data frame, or on files that workers read.

    Rows of a data frame are identified by their partition and their place in it: those of a
    sample, and of the provisional threshold of more than 2,048, depend on the partitions. Rows of
    files are identified by file and row number.

    Parameters
    ----------
    detector
        An unfitted detector, which stays as it is.
    data
        A Spark data frame, or files as `typica.scale.open_tables` takes them.
    labels
        A column; for files, anything that `typica.scale.fit` takes.
    session
        For files; None uses the active one.
    features, columns, sample, on_error
        As `typica.scale.fit` takes them.
    """
    named: dict[str, Any] = {"features": features, "columns": columns, "labels": labels}
    named["on_error"] = on_error
    if is_frame(data):
        return fit_frame(detector, SparkFrame(data), Wanted(**named), sample)
    engine = cluster_of(session)
    return fit_counted(detector, data, **named, sample=sample, engine=engine).detector


@border
def calibrate(
    estimator: E,
    data: Any,
    session: Any = None,
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
    data, session, features, columns, on_error
        As `fit` takes them.
    options
        The `alpha` or `tpr`, `confidence`, `by_class` and `groups` of `Detector.calibrate`.
    """
    named: dict[str, Any] = {"features": features, "columns": columns, "on_error": on_error}
    if is_frame(data):
        return calibrate_frame(estimator, SparkFrame(data), Wanted(**named), **options)
    return _fit.calibrate(estimator, data, **named, **options, engine=cluster_of(session))


@border
def score(
    estimator: Estimator,
    data: Any,
    output: str | os.PathLike[str] | None = None,
    session: Any = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    ids: str | None = None,
    on_error: str = "stop",
    **options: Any,
) -> Any:
    """Return verdicts on rows as a data frame, which is computed when it is needed.

    Parameters
    ----------
    estimator
        A fitted detector, or a Pipeline that ends in one.
    data, session, features, columns, on_error
        As `fit` takes them.
    output
        The folder for verdicts on files, as `typica.scale.score` takes it; not for data frames.
    ids
        A column to pass on.
    options
        The `alpha` or `tpr`, `confidence` and `only` of `Judge`.
    """
    named: dict[str, Any] = {"features": features, "columns": columns, "ids": ids}
    named["on_error"] = on_error
    if is_frame(data):
        refuse_output(output, "write.parquet")
        return judge_frame(estimator, SparkFrame(data), Wanted(**named), **options)
    wanted = {**named, **options, "engine": cluster_of(session)}
    return _score.score(estimator, data, output, **wanted)


@border
def udf(estimator: Estimator, column: str | None = "score", **options: Any) -> Any:
    """Return a function of a column of arrays, for `DataFrame.select` or to register for SQL.

        session.udf.register("typicality", udf(detector))
        session.sql("SELECT id, typicality(embedding) FROM photos")

    An array that is null, that holds null, NaN or infinity, or that has another width gives null.

    Parameters
    ----------
    estimator
        A fitted detector, or a Pipeline that ends in one.
    column
        A column of the verdicts: score, verdict, p_value, nearest, runner_up or margin; None gives
        all of them, as a struct.
    options
        As `score` takes them, without `only`.
    """
    if column not in (None, *DECIDED):
        raise InputError(f"column={column!r}: choose one of {listed(DECIDED)}, or None for all.")
    if options.get("only") is not None:
        raise InputError(
            f"{given('only', options['only'])}: a function has a value for each row; leave it out, "
            "and choose rows by their verdict."
        )
    verdicts = VerdictsOf(Judge(estimator, **options), Columns("features"))
    types = need("pyspark.sql.pandas.types", "spark")
    struct = types.from_arrow_schema(verdicts.schema)
    made = struct if column is None else struct[column].dataType
    judged = partial(_judged_series, Judging.by(verdicts.judge), column)

    def typicality(features: Any) -> Any:
        return judged(features)

    pandas = need("pandas", "spark")
    returned = pandas.DataFrame if column is None else pandas.Series
    typicality.__annotations__ = {"features": pandas.Series, "return": returned}
    return need("pyspark.sql.functions", "spark").pandas_udf(typicality, made)


def _judged_series(judging: Judging, column: str | None, series: Any) -> Any:
    """Return the verdicts on a series of arrays, with null for those that are not whole."""
    arrow = need("pyarrow", "spark")
    rows = arrow.array(series.tolist())
    if rows.type == arrow.null():
        rows = rows.cast(arrow.list_(arrow.float64()))
    judge = judging.judge()
    whole = Columns("features", skip=True, width=input_width(judge.estimator))
    verdicts = VerdictsOf(judge, whole)
    record = arrow.RecordBatch.from_arrays([rows], ["features"])
    made = arrow.Table.from_batches(verdicts([record]), verdicts.schema).to_pandas()
    return made if column is None else made[column]
