"""Score on one machine: verdicts as a reader, or as a folder of files that can be taken up."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from typica import store
from typica.decide import fingerprint
from typica.detectors import final_detector
from typica.errors import border
from typica.extras import need
from typica.progress import advance, note, quiet, work
from typica.scale._ahead import ahead
from typica.scale._batches import Batch
from typica.scale._fit import width_of
from typica.scale._judge import Judge
from typica.scale._shards import Shards, open_shards
from typica.scale._tables import Data, Stream, Tables, open_tables

STREAM_ROWS = 2**20  # of a stream's verdicts that go to one file


class Scored(NamedTuple):
    """How many rows were judged, how many of them are atypical, and where the verdicts are."""

    n: int
    rejected: int
    path: str


@border
def score(
    estimator: Any,
    data: Data,
    output: str | os.PathLike[str] | None = None,
    *,
    features: str | None = None,
    columns: Sequence[str] | None = None,
    ids: str | None = None,
    alpha: Any = None,
    tpr: Any = None,
    confidence: Any = None,
    only: str | None = None,
) -> Any:
    """Judge tables of any size, by a fitted detector or a Pipeline that ends in one.

    data, features, columns, ids: as `open_tables` takes them. output: a folder, or its address, for
    Parquet files of verdicts; work that was killed goes on there, and a `Scored` is returned.
    Without one it is a reader of Arrow's record batches, which judges as it is read. alpha, tpr,
    confidence: as `typica.judge` takes them. only: leave out all but "typical" or "atypical" ones.

    >>> import numpy as np, pyarrow as pa
    >>> from typica import CTM
    >>> y = np.arange(80) % 4
    >>> detector = CTM().fit(np.eye(4)[y], y)
    >>> found = score(detector, pa.table({"features": np.eye(4).tolist()})).read_all()
    >>> found["nearest"].to_pylist()
    [0, 1, 2, 3]
    """
    tables = open_tables(
        data, features=features, columns=columns, ids=ids, width=width_of(estimator)
    )
    levels = {"alpha": alpha, "tpr": tpr, "confidence": confidence}
    judge = Judge(estimator, tables.id_field, only=only, **levels)
    if output is None:
        reader = need("pyarrow", "parquet").RecordBatchReader
        return reader.from_batches(judge.schema, map(judge, ahead(tables.batches())))
    path = os.fspath(output)
    with open_shards(path, identity_of(judge, tables), judge.schema) as shards:
        return Scored(*_judge_all(judge, tables, shards), path)


def identity_of(judge: Judge, tables: Tables | Stream) -> dict[str, Any]:
    """Return what verdicts depend on, as JSON values: a folder holds those of one of these."""
    final = final_detector(judge.estimator)
    decisions = [getattr(final, "calibration_", None), getattr(final, "training_offset_", None)]
    return {
        "detector": fingerprint(judge.estimator),
        "calibration": store.fingerprint(decisions),
        "levels": judge.levels,
        "columns": [*tables.columns.names, *judge.schema.names],
        "data": _digest(tables),
    }


def _digest(tables: Tables | Stream) -> str:
    if isinstance(tables, Stream):
        return secrets.token_hex(16)  # nobody can tell whether it is the same another time
    parts = [[part.source, part.start, part.rows, part.row_bytes] for part in tables.parts]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


Numbered = tuple[int, Batch | None]  # a part's number, with a batch of it


def _judge_all(judge: Judge, tables: Tables | Stream, shards: Shards) -> tuple[int, int]:
    """Judge what is not there yet; return how many rows there are, and how many are atypical."""
    tally = Tally()
    with work("scoring", tables.rows, "rows/s"):
        if isinstance(tables, Stream):
            numbered = _numbered_stream(tables)
        else:
            numbered = _numbered_parts(tables, _left(tables, shards, tally))
        for number, some in groupby(ahead(numbered), key=lambda pair: pair[0]):
            batches = (batch for _, batch in some if batch is not None)
            shards.write(number, _verdicts(judge, batches, tally))
    return tally.n, tally.rejected


class Tally:
    """How many rows were judged, and how many of them are atypical."""

    n = 0
    rejected = 0


def _verdicts(judge: Judge, batches: Iterator[Batch], tally: Tally) -> Iterator[Any]:
    for batch in batches:
        with quiet():
            verdicts = judge(batch)
        tally.n += len(batch)
        tally.rejected += judge.rejected
        yield verdicts
        advance(len(batch))


def _left(tables: Tables, shards: Shards, tally: Tally) -> set[int]:
    """Return the numbers of the parts that are to be judged; count those that are there."""
    there = shards.numbers()
    for part in tables.parts:
        if part.number in there:
            tally.rejected += shards.count(part.number)
            tally.n += part.rows or 0
            advance(part.rows or 0)
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
