"""Verdicts as Arrow record batches, with one schema whatever the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from typica.arrays import AnyArray
from typica.calibration import Calibration, Levels
from typica.decide import judge
from typica.detectors import Estimator, final_detector, reads_logits
from typica.errors import InputError, border, by_caller, given
from typica.extras import need
from typica.scale._batches import Batch, Skipped, read_records
from typica.scale._columns import Columns
from typica.verdicts import WORDS, Verdicts
from typica.written_numbers import Level

DECIDED = ("verdict", "score", "p_value", "nearest", "runner_up", "margin")


class Judge:
    """Judges batches: a callable that makes a record batch of verdicts from each.

    Its columns are the ids, or else the file and the row, then verdict, score, p_value, nearest,
    runner_up and margin; null if the detector cannot tell, or if the row was skipped. The attribute
    `rejected` is the number of atypical rows in the last batch.

    Parameters
    ----------
    estimator
        A fitted detector, or a Pipeline that ends in one.
    ids
        The name and the Arrow type of the column of ids.
    alpha, tpr, confidence
        As `typica.judge` takes them.
    only
        Leave out all but "typical" or "atypical" rows.

    >>> from typica import CTM
    >>> detector = CTM().fit(np.eye(20), range(20))
    >>> Judge(detector)(Batch(np.eye(20), source="a.parquet")).num_rows
    20
    """

    @border
    def __init__(
        self,
        estimator: Estimator,
        ids: tuple[str, Any] | None = None,
        *,
        alpha: Level | None = None,
        tpr: Level | None = None,
        confidence: Level | None = None,
        only: str | None = None,
    ) -> None:
        check_id_column(None if ids is None else ids[0])
        if only not in (None, *WORDS.values()):
            raise InputError(f"{given('only', only)}: choose one of {', '.join(WORDS.values())}.")
        self.estimator = estimator
        self.levels = _texts({"alpha": alpha, "tpr": tpr, "confidence": confidence})
        self.only = only
        self.rejected = 0
        self.ids = ids
        self.schema = _schema(estimator, ids)
        _check_judge_of_batches(estimator, self.levels, only)

    @border
    def __call__(self, batch: Batch) -> Any:
        """Return the verdicts on a batch; an error names the file and the row."""
        arrow = need("pyarrow", "parquet")
        self.rejected = 0
        if not batch.read:
            return arrow.RecordBatch.from_pylist([], schema=self.schema)
        with batch.blamed():
            whose = self._whose(batch)
            decided = self._decided_of(batch)
        made = arrow.record_batch([*whose, *decided], schema=self.schema)
        if self.only is None:
            return made
        equal = need("pyarrow.compute", "parquet").equal
        return made.filter(equal(made.column("verdict"), self.only))

    def _decided_of(self, batch: Batch) -> list[Any]:
        """Return the columns of verdicts on a batch, with null for rows that were left out."""
        arrow = need("pyarrow", "parquet")
        if not len(batch):
            kinds = [self.schema.field(name).type for name in DECIDED]
            return [arrow.nulls(batch.read, kind) for kind in kinds]
        verdicts = judge(self.estimator, batch.features, **self.levels)
        self.rejected = verdicts.n_atypical
        columns = self._decided(verdicts)
        if not len(batch.left_out):
            return columns
        left_out = np.zeros(batch.read, dtype=np.bool_)
        left_out[batch.left_out] = True
        places = arrow.array(np.cumsum(~left_out) - 1, mask=left_out)
        return [column.take(places) for column in columns]

    def _whose(self, batch: Batch) -> list[Any]:
        """Return the ids, or else the file and the row of each."""
        arrow = need("pyarrow", "parquet")
        if self.ids is not None:
            return [_cast_ids(batch.ids, *self.ids)]
        rows = np.arange(batch.start, batch.start + batch.read)
        return [arrow.repeat(batch.source, batch.read), arrow.array(rows)]

    def _decided(self, verdicts: Verdicts) -> list[Any]:
        arrow = need("pyarrow", "parquet")
        nulls = arrow.nulls(len(verdicts))
        columns = []
        for name in DECIDED:
            kind = self.schema.field(name).type
            if name == "verdict":
                column = _words(verdicts.typical, arrow)
            else:
                column = _verdict_array(getattr(verdicts, name), kind, arrow)
            columns.append(nulls.cast(kind) if column is None else column)
        return columns


def check_id_column(name: str | None) -> None:
    """Refuse a column of ids that has the name of a column of verdicts."""
    if name in DECIDED:
        asked = by_caller(f"ids={name!r}", f"--id-column {name}")
        raise InputError(f"{asked}: verdicts have a column of that name; give the ids another.")


class Counts(NamedTuple):
    """How many rows were judged, how many of them are atypical, and which were skipped."""

    n: int
    rejected: int
    skipped: Skipped = Skipped()


class Counted:
    """Verdicts on batches as record batches, judged once, as they are taken.

    setting: the context that each batch is judged in. n, rejected: how many rows have been judged
    so far, and how many of them are atypical. skipped: other rows.
    """

    def __init__(
        self,
        judge: Judge,
        batches: Iterable[Batch],
        setting: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.judge = judge
        self.batches = batches
        self.setting = setting
        self.n = 0
        self.rejected = 0
        self.skipped = Skipped()

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            with self.setting():
                made = self.judge(batch)
            self.n += len(batch)
            self.rejected += self.judge.rejected
            self.skipped = self.skipped.joined(batch.skipped)
            yield made


class VerdictsOf:
    """Judges an engine's record batches, and passes on their ids, if there are any.

    schema: that of the verdicts. Without ids, `Judge` adds the file and the row, which an engine's
    own rows do not have.
    """

    def __init__(self, judge: Judge, columns: Columns) -> None:
        self.judge = judge
        self.columns = columns
        whose = () if judge.ids is not None else ("file", "row")
        fields = [field for field in judge.schema if field.name not in whose]
        self.schema = need("pyarrow", "parquet").schema(fields)

    def __call__(self, records: Iterable[Any]) -> Iterator[Any]:
        """Yield record batches of verdicts."""
        for batch in read_records(records, self.columns):
            yield self.judge(batch).select(self.schema.names)


def _cast_ids(ids: Any, name: str, kind: Any) -> Any:
    """Return ids in the type that the first file has."""
    try:
        return ids.cast(kind)
    except need("pyarrow", "parquet").ArrowException:
        raise InputError(
            f"the column {name!r} is of {ids.type}, and not all of it is of {kind}, as the first "
            "ids are; write ids of one type."
        ) from None


def _texts(levels: dict[str, Any]) -> dict[str, str | None]:
    """Return the levels of a judge as texts, which are exact and can be written as JSON."""
    return {name: None if level is None else str(level) for name, level in levels.items()}


def _check_judge_of_batches(
    estimator: Estimator, levels: dict[str, str | None], only: str | None
) -> None:
    """Refuse, for `scale.judge` and its kin, a detector that lacks what was asked of it."""
    final = final_detector(estimator)
    is_calibrated = hasattr(final, "calibration_")
    asks_for_levels = any(level is not None for level in levels.values())
    how = by_caller("call calibrate", "run `typica calibrate`")
    if asks_for_levels and not is_calibrated:
        raise InputError(f"there are no calibration scores; {how} with held-out inputs first.")
    if asks_for_levels:
        _check_levels(final.calibration_, levels)
    if only is not None and not final.has_threshold:
        raise InputError(f"there is no threshold to tell them by; {how} with held-out inputs.")


def _check_levels(calibration: Calibration, levels: dict[str, str | None]) -> None:
    """Refuse levels of a `Judge` of batches at which the calibration cannot set thresholds."""
    alpha: Level | None = levels["alpha"]
    if alpha is None and levels["tpr"] is None:
        alpha = calibration.levels.alpha
    asked = Levels.of(alpha, levels["tpr"], levels["confidence"])
    calibration.thresholds(asked)  # raises what is wrong with them


def _schema(estimator: Estimator, ids: tuple[str, Any] | None) -> Any:
    arrow = need("pyarrow", "parquet")
    name = _type_of_names(estimator, arrow)
    whose = [("file", arrow.string()), ("row", arrow.int64())] if ids is None else [ids]
    kinds = {"verdict": arrow.string(), "nearest": name, "runner_up": name}
    decided = [(column, kinds.get(column, arrow.float64())) for column in DECIDED]
    return arrow.schema([*whose, *decided])


def _type_of_names(estimator: Estimator, arrow: Any) -> Any:
    """Return the Arrow type of the names of classes."""
    if reads_logits(estimator):
        return arrow.int64()
    try:
        classes = final_detector(estimator).classes_
    except AttributeError:  # it matches no classes
        return arrow.string()
    return arrow.int64() if classes.dtype.kind in "iub" else arrow.string()


def _words(typical: AnyArray | None, arrow: Any) -> Any:
    if typical is None:
        return None
    words = arrow.array([WORDS[False], WORDS[True]])
    return words.take(arrow.array(typical.astype(np.int8)))


def _verdict_array(values: AnyArray | None, kind: Any, arrow: Any) -> Any:
    """Return a column of the verdicts on a record batch for Arrow, with null for None and NaN."""
    if values is None:
        return None
    if values.dtype.kind in "fiub":
        return arrow.array(values, from_pandas=True).cast(kind)
    return arrow.array(values.tolist(), type=kind)
