"""Fit, calibrate and judge what an engine holds in columns: Ray data sets, Spark data frames."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, Unpack

from typica.calibration import CalibrationOptions
from typica.detectors import Detector, E, Estimator, column_names, input_width
from typica.errors import InputError, argument
from typica.scale._calibrator import Calibrator
from typica.scale._columns import Columns, Wanted, opened_columns
from typica.scale._fit import Known, check_learning, table_width, wants_label_column, with_names
from typica.scale._judge import Judge
from typica.scale._learner import Learner
from typica.scale._on_cluster import Reduce, learn, take_scores
from typica.scale._tables import field_of
from typica.scale._worker_jobs import Judging


class Frame(Protocol):
    """Rows that an engine holds, in columns that have names."""

    def schema(self) -> Any:
        """Return the Arrow schema."""

    def over(self, columns: Columns) -> Reduce:
        """Return a function that does a job on all rows."""

    def judged(self, judging: Judging, columns: Columns) -> Any:
        """Return the verdicts, in the engine's own form."""


def fit_frame(detector: Detector, frame: Frame, wanted: Wanted, sample: int | None) -> Detector:
    """Return a detector that has learnt the rows of a frame."""
    learner = Learner(detector, sample)
    sought = replace(wanted, find_labels=wants_label_column(detector))
    columns = opened_columns(frame.schema(), sought, table_width(detector))
    check_learning(learner, Known(columns.labels is not None))
    learnt = learn(learner, frame.over(columns))
    learnt.skipped.note()
    return with_names(learnt.finish(), columns)


def calibrate_frame(
    estimator: E, frame: Frame, wanted: Wanted, **options: Unpack[CalibrationOptions]
) -> E:
    """Calibrate an estimator on the rows of a frame, and return it."""
    columns = columns_for(estimator, frame.schema(), wanted)
    calibrator = Calibrator.begin(estimator, **options)
    scored = take_scores(calibrator, frame.over(columns))
    scored.skipped.note()
    scored.finish()
    return estimator


def judge_frame(estimator: Estimator, frame: Frame, wanted: Wanted, **options: Any) -> Any:
    """Return the verdicts on the rows of a frame, in the engine's own form."""
    schema = frame.schema()
    columns = columns_for(estimator, schema, wanted)
    judge = Judge(estimator, field_of(schema, wanted.ids), **options)
    return frame.judged(Judging.by(judge), columns)


def columns_for(estimator: Estimator, schema: Any, wanted: Wanted) -> Columns:
    """Return the columns of a frame that an estimator reads, by the names that it knows."""
    named = replace(wanted, names=column_names(estimator))
    return opened_columns(schema, named, input_width(estimator))


def refuse_output(output: Any, method: str) -> None:
    """Refuse a folder for what an engine holds; method: the one that writes the verdicts."""
    if output is not None:
        raise InputError(f"{argument('output')} is for files; write what this returns, {method}.")
