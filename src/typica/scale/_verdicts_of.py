"""Verdicts on rows that an engine gives as record batches of Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from typica.extras import need
from typica.scale._batches import read_records
from typica.scale._columns import Columns
from typica.scale._judge import Judge


class VerdictsOf:
    """Judges an engine's record batches; their ids are passed on, where there are any.

    schema: that of the verdicts. `Judge` names the file and the row of those without ids, which an
    engine's own rows do not have.
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
