"""Objects of other libraries as readers of Arrow's record batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typica.arrays import refuse_lazy
from typica.errors import InputError
from typica.extras import need

_ROWS = 2**13  # asked for at a time


def reader_of(source: Any) -> Any:
    """Return a reader of an object with `__arrow_c_stream__`, or of a Hugging Face data set.

    The latter has no such method, but can be told to give tables; rows that were shuffled or
    selected come that way, and streamed rows come as they arrive.
    """
    arrow = need("pyarrow", "parquet")
    if hasattr(source, "__arrow_c_stream__"):
        return arrow.RecordBatchReader.from_stream(source)
    if hasattr(source, "with_format") and hasattr(source, "features"):
        return _reader_of_hugging_face(source)
    refuse_lazy(source)
    raise InputError(
        f"got {type(source).__name__}; pass a path, a pattern, a folder, an address, or an "
        "object with __arrow_c_stream__ (polars, DuckDB, datasets, pyarrow)."
    )


def is_repeatable(source: Any) -> bool:
    """Tell whether an object gives its rows more than once."""
    return not isinstance(source, need("pyarrow", "parquet").RecordBatchReader)


def _reader_of_hugging_face(source: Any) -> Any:
    tables = iter(source.with_format("arrow").iter(_ROWS))
    first = next(tables, None)
    arrow = need("pyarrow", "parquet")
    if first is None:
        return source.features.arrow_schema.empty_table().to_reader()
    return arrow.RecordBatchReader.from_batches(first.schema, _batches(first, tables))


def _batches(first: Any, others: Iterator[Any]) -> Iterator[Any]:
    yield from first.to_batches()
    for table in others:
        yield from table.cast(first.schema).to_batches()
