"""Verdicts on collections of Dask, as its data frames."""

from __future__ import annotations

from typing import Any

from typica.extras import need
from typica.scale._dask_rows import Read, Rows
from typica.scale._worker_jobs import Judging


def verdict_frame(rows: Rows, judging: Judging, ids: str | None) -> Any:
    """Return a data frame of verdicts, with one partition per piece."""
    delayed = need("dask", "dask").delayed
    sent = delayed(judging, pure=False)
    frames = [
        delayed(_verdicts)(sent, rows.read, piece.value, piece.start, ids) for piece in rows.pieces
    ]
    meta = _verdicts(judging, rows.read, rows.empty, 0, ids)
    return need("dask.dataframe", "dask").from_delayed(
        frames, meta, rows.divisions, verify_meta=False
    )


def _verdicts(judging: Judging, read: Read, value: Any, start: int, ids: str | None) -> Any:
    """Return the verdicts on a piece as a data frame of pandas, with the index of the piece."""
    arrow, pandas = need("pyarrow", "dask"), need("pandas", "dask")
    judge = judging.judge()
    made = arrow.Table.from_batches(map(judge, read(value, None, "", start)), judge.schema)
    rows = made.column("row").to_numpy()
    frame = made.drop_columns(["file", "row"]).to_pandas(types_mapper=pandas.ArrowDtype)
    if not hasattr(value, "index"):
        return frame.set_index(pandas.Index(rows))
    found = value.iloc[rows - start]
    frame.index = found.index
    if ids is not None:
        frame.insert(0, ids, found[ids])
    return frame
