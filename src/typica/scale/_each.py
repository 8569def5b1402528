"""Every batch of a data set in turn, read ahead and shown as work."""

from __future__ import annotations

from collections.abc import Callable

from typica.progress import advance, quiet, work
from typica.scale._ahead import ahead
from typica.scale._batches import Batch
from typica.scale._tables import Stream, Tables


def each_batch(what: str, tables: Tables | Stream, do: Callable[[Batch], object]) -> None:
    """Call `do` with every batch in order, while the next one is read."""
    with work(what, tables.rows, "rows/s"):
        for batch in ahead(tables.batches()):
            with quiet():
                do(batch)
            advance(len(batch))
