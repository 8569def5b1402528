"""Fit and calibrate on one machine, in memory that the rows do not add to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from typica.detectors import Detector, E, column_names, input_width
from typica.errors import InputError, argument, border
from typica.machine import free_memory
from typica.progress import advance, note, quiet, work
from typica.scale._batches import Batch
from typica.scale._calibrator import Calibrator
from typica.scale._columns import Columns
from typica.scale._engines import Engine, check_engine, open_engine
from typica.scale._learner import Learner
from typica.scale._learner_ways import Sampled, Share, Sums, Way
from typica.scale._on_cluster import as_files, learn, over_parts, take_scores
from typica.scale._read_ahead import ahead
from typica.scale._tables import Data, Stream, Tables, open_tables
from typica.threads import one_blas_thread_fewer
from typica.written_numbers import Level

_KEPT = 0.4  # share of the free memory that kept rows may take: they are joined at the end


@border
def fit(
    detector: Detector,
    data: Data,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    labels: Any = None,
    sample: int | None = None,
    on_error: str = "stop",
    engine: Engine | None = None,
    address: str | None = None,
) -> Detector:
    """Fit a detector on tables of any size, and return it; the one that is passed stays as it is.

    Up to rounding, the result is that of `detector.fit` on all rows, with two exceptions: the
    provisional threshold of more than 2,048 rows comes from another sample, and `subsample` keeps
    other rows.

    Parameters
    ----------
    detector
        An unfitted detector.
    data, features, columns
        As `open_tables` takes them.
    labels
        As `open_tables` takes them; None uses the column `label`, if there is one.
    sample
        Fit on only this many random rows: for detectors that need all rows at once, or keep them.
    on_error
        As `open_tables` takes it.
    engine
        "dask", "ray" or "spark"; None works in this process.
    address
        The cluster to use; None starts a local one for this fit.

    >>> import numpy as np, pyarrow as pa
    >>> from typica import CTM
    >>> y = np.arange(80) % 4
    >>> rows = pa.table({"features": np.eye(4)[y].tolist(), "label": y})
    >>> fit(CTM(), rows).classes_.tolist()
    [0, 1, 2, 3]
    """
    options: dict[str, Any] = {"features": features, "columns": columns, "labels": labels}
    options |= {"sample": sample, "on_error": on_error}
    return fit_counted(detector, data, **options, engine=engine, address=address).detector


class Fitted(NamedTuple):
    """What `fit_counted` returns: a detector that was fitted in parts, and the number of rows."""

    detector: Detector
    n: int


@border
def fit_counted(
    detector: Detector,
    data: Data,
    *,
    sample: int | None = None,
    engine: Engine | None = None,
    address: str | None = None,
    **columns: Any,
) -> Fitted:
    """Fit a detector as `fit` does, and return how many rows there were as well.

    Parameters
    ----------
    detector, data, sample, engine, address
        As `fit` takes them.
    columns
        The `features`, `columns`, `labels` and `on_error` of `fit`.
    """
    check_engine(engine, address)
    learner = Learner(detector, sample)
    tables = open_training(detector, data, **columns)
    check_fit(learner, tables)
    if engine is None:
        _learn_here(learner, tables)
    else:
        files = as_files(tables)
        with open_engine(engine, address) as cluster:
            learner = learn(learner.expect(files.rows), over_parts(cluster, files, "fitting"))
    learner.skipped.note()
    return Fitted(with_names(learner.finish(), tables.columns), learner.n)


def with_names(detector: Detector, columns: Columns | None) -> Detector:
    """Let a detector know the names of the columns it was fitted on, one for each feature."""
    if columns is not None and not isinstance(columns.features, str):
        detector.name_columns(columns.features)
    return detector


def _learn_here(learner: Learner, tables: Tables | Stream) -> None:
    for number in range(learner.passes):
        what = "fitting" if learner.passes == 1 else f"fitting, pass {number + 1} of 2"
        _each_batch(what, tables, learner.add)
        learner.close()


@border
def calibrate(
    estimator: E,
    data: Data,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    alpha: Level | None = None,
    tpr: Level | None = None,
    confidence: Level | None = None,
    by_class: bool = False,
    groups: Mapping[Any, str] | None = None,
    on_error: str = "stop",
    engine: Engine | None = None,
    address: str | None = None,
) -> E:
    """Calibrate a fitted detector, or a Pipeline that ends in one, on tables of any size.

    Scores are identified by their file within the data set and their row, so a calibration does
    not depend on how the tables are read.

    Parameters
    ----------
    estimator
        A fitted detector or Pipeline; it is changed and returned.
    data, features, columns, on_error
        As `open_tables` takes them.
    alpha, tpr, confidence, by_class, groups
        As `Detector.calibrate` takes them.
    engine, address
        As `fit` takes them.
    """
    check_engine(engine, address)
    expected: dict[str, Any] = {"width": input_width(estimator), "names": column_names(estimator)}
    tables = open_tables(data, features=features, columns=columns, on_error=on_error, **expected)
    calibrator = Calibrator.begin(
        estimator,
        tables.rows,
        alpha=alpha,
        tpr=tpr,
        confidence=confidence,
        by_class=by_class,
        groups=groups,
    )
    if engine is None:
        with one_blas_thread_fewer():
            _each_batch("calibrating", tables, calibrator.add)
    else:
        with open_engine(engine, address) as cluster:
            reduce = over_parts(cluster, as_files(tables), "calibrating")
            calibrator = take_scores(calibrator, reduce)
    calibrator.skipped.note()
    calibrator.finish()
    return estimator


def _each_batch(what: str, tables: Tables | Stream, do: Callable[[Batch], object]) -> None:
    """Call `do` with every batch in order, while the next one is read."""
    with work(what, tables.rows, "rows/s"):
        for batch in ahead(tables.batches()):
            with quiet():
                do(batch)
            advance(batch.read)


def open_training(detector: Detector, data: Data, **columns: Any) -> Tables | Stream:
    """Open the tables that a detector is to be fitted on, with labels if it uses them."""
    width = table_width(detector)
    return open_tables(data, **columns, width=width, find_labels=wants_label_column(detector))


def wants_label_column(detector: Detector) -> bool:
    """Tell whether a fit in parts looks for a column of labels, which the detector can use."""
    return detector.tags.uses_labels or detector.tags.needs_labels


def table_width(detector: Detector) -> int | None:
    """Return how many features tables in parts must have, if the detector's head tells."""
    head = getattr(detector, "head", None)
    return None if head is None else int(head.n_features)


def check_fit(learner: Learner, tables: Tables | Stream) -> None:
    """Say before any row is read what a fit on tables cannot do, or will do differently."""
    has_labels = tables.columns.labels is not None or getattr(tables, "labels", None) is not None
    known = Known(has_labels, tables.rows, tables.width, tables.is_repeatable)
    check_learning(learner, known)


class Known(NamedTuple):
    """What is known about training rows before any is read; None if it is not known."""

    has_labels: bool
    rows: int | None = None
    width: int | None = None
    is_repeatable: bool = True


def check_learning(learner: Learner, known: Known) -> None:
    """Say before any row is read what a fit cannot do, or will do differently."""
    detector = learner.way.detector
    if not known.has_labels:
        _check_without_labels(detector)
    if learner.passes > 1 and not known.is_repeatable:
        raise InputError(
            f"{type(detector).__name__} reads the rows twice, and this stream can be read once; "
            "pass files, or a table."
        )
    _check_rows_kept(learner.way, known)


def _check_without_labels(detector: Detector) -> None:
    """Refuse, in `scale.fit` and its kin, a detector that needs labels where parts have none."""
    wanted = argument("labels", "COLUMN")
    if detector.tags.needs_labels:
        raise InputError(f"{type(detector).__name__} needs labels; pass {wanted}.")
    if detector.tags.uses_labels:
        note(f"no labels: all rows count as one class (pass {wanted} for one mean per class)")


def _check_rows_kept(way: Way, known: Known) -> None:
    """Say which rows the detector keeps, and refuse more than memory holds."""
    keeps_rows = "subsample" in way.detector.get_params(deep=False)
    if isinstance(way, Sums) and keeps_rows:
        _check_memory(way.detector, known)
    if isinstance(way, Sampled) and way.detector.tags.needs_fit:
        note(f"fitted on a random sample of at most {way.limit:,} rows")
    if isinstance(way, Share):
        note(f"fitted on a random share of {way.share:g} of the rows")


def _check_memory(detector: Detector, known: Known) -> None:
    """Refuse to keep more rows than the memory holds."""
    sample = argument("sample", 100_000)
    if known.rows is None or known.width is None:
        note(f"{type(detector).__name__} keeps every row in memory; pass {sample} to keep some")
        return
    size = 4 * known.rows * known.width
    rows = f"{type(detector).__name__} keeps all {known.rows:,} rows, {size / 1e9:.1f} GB"
    free = free_memory()
    if free is not None and size > _KEPT * free:
        raise InputError(
            f"{rows}, and {free / 1e9:.1f} GB of memory are free; pass {sample} to keep that "
            "many, chosen at random."
        )
    note(f"{rows}; pass {sample} to keep that many, chosen at random")
