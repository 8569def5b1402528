"""Score on one machine: verdicts as a reader, or as a folder of files that can be continued."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import posixpath
import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from typica import store
from typica.data import RowWriter
from typica.decide import fingerprint
from typica.detectors import Estimator, column_names, final_detector, input_width
from typica.errors import border
from typica.extras import need
from typica.files import atomic_path, check_not_input
from typica.progress import advance, note, quiet, work
from typica.scale._batches import Batch, Skipped
from typica.scale._engines import Engine, check_engine, open_engine
from typica.scale._files import File, is_address, stamp_of
from typica.scale._judge import Counted, Counts, Judge
from typica.scale._on_cluster import as_files, judge_parts
from typica.scale._parts import OPENED_AT_ONCE, Part
from typica.scale._read_ahead import ahead
from typica.scale._tables import Data, Stream, Tables, open_tables
from typica.scale._verdict_shards import FileOfParts, Shards, open_shards
from typica.scale._worker_jobs import Judged
from typica.threads import in_threads, one_blas_thread_fewer
from typica.written_numbers import Level

STREAM_ROWS = 2**20  # verdicts of a stream per file


class Scored(NamedTuple):
    """How many rows were judged, how many of them are atypical, and where the verdicts are.

    skipped: how many rows have no verdict, as they have no whole embedding.
    """

    n: int
    rejected: int
    path: str
    skipped: int = 0


@border
def score(
    estimator: Estimator,
    data: Data,
    output: str | os.PathLike[str] | None = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    ids: str | None = None,
    alpha: Level | None = None,
    tpr: Level | None = None,
    confidence: Level | None = None,
    only: str | None = None,
    on_error: str = "stop",
    engine: Engine | None = None,
    address: str | None = None,
) -> Any:
    """Judge tables of any size with a fitted detector, or a Pipeline that ends in one.

    Parameters
    ----------
    estimator
        The fitted detector or Pipeline.
    data, features, columns, ids
        As `open_tables` takes them.
    output
        A folder, or its address, for Parquet files of verdicts: if the work is killed, the same
        call continues it. Or one file, .csv, .jsonl or .parquet.
    alpha, tpr, confidence
        As `typica.judge` takes them.
    only
        Leave out all but "typical" or "atypical" rows.
    on_error
        As `open_tables` takes it. The verdict on a row that is skipped is null.
    engine, address
        As `fit` takes them. The workers then write the files of a folder, so they must see it
        under the same path as this process.

    Returns
    -------
    scored
        A `Scored`; without `output`, a reader of Arrow record batches, which judges as it is read.

    >>> import numpy as np, pyarrow as pa
    >>> from typica import CTM
    >>> y = np.arange(80) % 4
    >>> detector = CTM().fit(np.eye(4)[y], y)
    >>> found = score(detector, pa.table({"features": np.eye(4).tolist()})).read_all()
    >>> found["nearest"].to_pylist()
    [0, 1, 2, 3]
    """
    options: dict[str, Any] = {"features": features, "columns": columns, "ids": ids, "only": only}
    options |= {"on_error": on_error, "engine": engine, "address": address}
    judged = judge_stream(estimator, data, **options, alpha=alpha, tpr=tpr, confidence=confidence)
    if output is None:
        reader = need("pyarrow", "parquet").RecordBatchReader
        return reader.from_batches(judged.schema, judged)
    path = os.fspath(output)
    _check_apart(judged.tables, path)
    with work("scoring", judged.tables.rows, "rows/s"):
        if posixpath.splitext(path)[1] in RowWriter.ENDINGS and not is_address(path):
            _write_file(judged, path)
        else:
            _write_folder(judged, path)
    judged.skipped.note()
    return Scored(judged.n, judged.rejected, path, judged.skipped.n)


class JudgedStream:
    """Verdicts as record batches, judged once, as they are taken; made by `judge_stream`."""

    def __init__(
        self,
        judge: Judge,
        tables: Tables | Stream,
        engine: Engine | None = None,
        address: str | None = None,
    ) -> None:
        self.judge = judge
        self.tables = tables
        self.engine = engine
        self.address = address
        self.schema = judge.schema
        self.counted: list[Counted | Counts] = []  # what has been judged, some at a time

    @property
    def n(self) -> int:
        """How many rows have been judged so far."""
        return sum(some.n for some in self.counted)

    @property
    def rejected(self) -> int:
        """How many of them are atypical."""
        return sum(some.rejected for some in self.counted)

    @property
    def skipped(self) -> Skipped:
        """The rows that were skipped so far."""
        return functools.reduce(Skipped.joined, (some.skipped for some in self.counted), Skipped())

    def __iter__(self) -> Iterator[Any]:
        if self.engine is None:
            yield from self.verdicts(ahead(self.tables.batches()))
            return
        for judged in self.on_cluster(self.engine, as_files(self.tables).parts):
            yield from judged.batches()

    def on_cluster(
        self, engine: Engine, parts: Iterable[Part], output: str | None = None
    ) -> Iterator[Judged]:
        """Yield the verdicts of workers, and count them; output: the folder that they write to."""
        tables = as_files(self.tables)
        with open_engine(engine, self.address) as cluster:
            for judged in judge_parts(cluster, self.judge, tables, list(parts), output):
                self.counted.append(Counts(judged.n, judged.rejected, judged.skipped))
                yield judged

    def verdicts(self, batches: Iterable[Batch]) -> Counted:
        """Return the verdicts on batches, which are counted as they are taken."""
        made = Counted(self.judge, _advancing(batches), _beside_the_reader)
        self.counted.append(made)
        return made


def _advancing(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield batches, and report progress after each."""
    for batch in batches:
        yield batch
        advance(batch.read)


@contextlib.contextmanager
def _beside_the_reader() -> Iterator[None]:
    """Judge a batch without messages, while a thread reads the next one."""
    with quiet(), one_blas_thread_fewer():
        yield


@border
def judge_stream(
    estimator: Estimator,
    data: Data,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    ids: str | None = None,
    on_error: str = "stop",
    engine: Engine | None = None,
    address: str | None = None,
    **options: Any,
) -> JudgedStream:
    """Return the verdicts on tables, to be taken once.

    Parameters
    ----------
    estimator
        A fitted detector, or a Pipeline that ends in one.
    data, features, columns, ids, on_error
        As `open_tables` takes them.
    engine, address
        As `fit` takes them; the cluster is opened when the first verdict is taken.
    options
        The `alpha`, `tpr`, `confidence` and `only` of `Judge`.
    """
    check_engine(engine, address)
    expected: dict[str, Any] = {"width": input_width(estimator), "names": column_names(estimator)}
    named: dict[str, Any] = {"features": features, "columns": columns, "ids": ids}
    tables = open_tables(data, **named, **expected, on_error=on_error)
    if engine is not None:
        tables = as_files(tables)
    return JudgedStream(Judge(estimator, tables.id_field, **options), tables, engine, address)


@border
def strangest(judged: JudgedStream, limit: int) -> Any:
    """Return the `limit` strangest rows as a table, sorted by p-value, then by score."""
    arrow = need("pyarrow", "parquet")
    kept = judged.schema.empty_table()
    order = [("p_value", "ascending"), ("score", "ascending")]
    for batch in judged:
        there = batch.filter(batch.column("score").is_valid())
        together = arrow.concat_tables([kept, arrow.table(there)])
        kept = together.sort_by(order).slice(0, limit)
    return kept


def _check_apart(tables: Tables | Stream, path: str) -> None:
    """Refuse a path for the verdicts of `scale.score` that is one of its tables."""
    if not isinstance(tables, Stream):
        check_not_input(path, *dict.fromkeys(part.file.path for part in tables.parts))


def _write_file(judged: JudgedStream, path: str) -> None:
    """Write what `scale.score` judges to one file, which appears when all is done."""
    if path.endswith(".parquet"):
        parquet = need("pyarrow.parquet", "parquet")
        with atomic_path(path) as temporary, parquet.ParquetWriter(temporary, judged.schema) as out:
            for batch in judged:
                out.write_batch(batch)
        return
    with RowWriter(path) as writer:
        writer.write({name: [] for name in judged.schema.names})  # the names, if no row follows
        for batch in judged:
            writer.write(batch.to_pydict())


def _write_folder(judged: JudgedStream, path: str) -> None:
    """Judge what is not in the folder yet, one part per file."""
    tables = judged.tables
    identity = identity_of(judged.judge, tables)
    with open_shards(path, identity, _files_of(tables), judged.schema) as shards:
        if judged.engine is not None:
            _write_parts(judged, shards, path)
            return
        if isinstance(tables, Stream):
            numbered = _numbered_stream(tables)
        else:
            numbered = _numbered_parts(tables, _left(tables, shards, judged))
        for number, some in groupby(ahead(numbered), key=lambda pair: pair[0]):
            batches = (batch for _, batch in some if batch is not None)
            shards.write(number, judged.verdicts(batches))


def _write_parts(judged: JudgedStream, shards: Shards, path: str) -> None:
    """Let workers judge what is not in the folder yet, each part to a file of its own."""
    tables = as_files(judged.tables)
    left = _left(tables, shards, judged)
    parts = [part for part in tables.parts if part.number in left]
    if judged.engine is not None and parts:
        where = path if is_address(path) else str(Path(path).resolve())
        for _ in judged.on_cluster(judged.engine, parts, where):
            pass


def identity_of(judge: Judge, tables: Tables | Stream) -> dict[str, Any]:
    """Return what verdicts depend on, as JSON values; all verdicts in a folder have the same."""
    final = final_detector(judge.estimator)
    decisions = [getattr(final, "calibration_", None), getattr(final, "training_offset_", None)]
    return {
        "detector": fingerprint(judge.estimator),
        "calibration": store.fingerprint(decisions),
        "levels": judge.levels,
        "columns": [*tables.columns.names, *judge.schema.names],
        "rows": judge.only or "all",
    }


def _files_of(tables: Tables | Stream) -> dict[str, FileOfParts]:
    """Return the files that are judged, by their path within the data set."""
    if isinstance(tables, Stream):
        # Nobody can tell whether the next stream is the same.
        return {"": FileOfParts([], secrets.token_hex(16))}
    parts: dict[File, list[Part]] = {}
    for part in tables.parts:
        parts.setdefault(part.file, []).append(part)
    found = {}
    for (file, own), stamp in zip(
        parts.items(), in_threads(stamp_of, list(parts), OPENED_AT_ONCE), strict=True
    ):
        cuts = [[part.number, part.start, part.rows, part.row_bytes] for part in own]
        digest = hashlib.sha256(json.dumps([cuts, stamp]).encode()).hexdigest()
        found[file.source] = FileOfParts([part.number for part in own], digest)
    return found


Numbered = tuple[int, Batch | None]  # a part's number, with a batch of it


def _left(tables: Tables, shards: Shards, judged: JudgedStream) -> set[int]:
    """Return the numbers of the parts still to be judged; count those that are there."""
    there = shards.numbers()
    for part in tables.parts:
        if part.number in there:
            counts = shards.counts(part.number, part.rows)
            judged.counted.append(counts)
            advance(counts.n)
    if there:
        note(f"{len(there)} of {len(tables.parts)} files of verdicts are there already")
    return {part.number for part in tables.parts} - there


def _numbered_parts(tables: Tables, left: set[int]) -> Iterator[Numbered]:
    for part in tables.parts:
        if part.number in left:
            yield part.number, None  # so that a part without rows has its file, too
            for batch in tables.read(part):
                yield part.number, batch


def _numbered_stream(stream: Stream) -> Iterator[Numbered]:
    yield 0, None
    for batch in stream.batches():
        yield batch.start // STREAM_ROWS, batch
