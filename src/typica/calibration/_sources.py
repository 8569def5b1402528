"""Which rows of each source a calibration has seen: runs of numbers, so that none counts twice."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from typica.errors import InputError
from typica.files import printable


class Span(NamedTuple):
    """A run of rows of a source: from `start` up to, but not with, `stop`."""

    start: int
    stop: int


@dataclass(frozen=True)
class SeenRows:
    """The rows of a source that a calibration has seen, as runs that neither touch nor overlap.

    They are in rising order.

    >>> SeenRows.of(Span(4, 6)).joined(SeenRows.of(Span(0, 4))).runs
    (Span(start=0, stop=6),)
    """

    runs: tuple[Span, ...] = ()

    @classmethod
    def of(cls, *runs: Span) -> SeenRows:
        """Return the seen rows of runs in any order."""
        return cls(tuple(_united(runs)))

    @property
    def end(self) -> int:
        """The number after that of the last row that the calibration has seen."""
        return self.runs[-1].stop if self.runs else 0

    def first_common(self, other: SeenRows) -> int | None:
        """Return the first row that two calibrations have both seen; None where there is none."""
        if not other.runs or other.runs[0].start >= self.end:  # the next rows, as in a stream
            return None
        end = 0
        for start, stop in sorted((*self.runs, *other.runs)):
            if start < end:
                return start
            end = stop
        return None

    def joined(self, other: SeenRows) -> SeenRows:
        """Return the rows that either calibration has seen; they have none in common."""
        if self.runs and len(other.runs) == 1 and other.runs[0].start == self.end:
            last = Span(self.runs[-1].start, other.end)  # the next rows, as a stream has them
            return SeenRows((*self.runs[:-1], last))
        return SeenRows.of(*self.runs, *other.runs)

    def moved(self, by: int) -> SeenRows:
        """Return the seen rows with their numbers raised by `by`."""
        return SeenRows(tuple(Span(start + by, stop + by) for start, stop in self.runs))

    def state(self) -> int | list[list[int]]:
        """Return what is stored: how many, if they are the first rows, else the runs."""
        if not self.runs or (len(self.runs) == 1 and self.runs[0].start == 0):
            return self.end
        return [list(run) for run in self.runs]


def source_name(source: Any) -> str:
    """Return the name of a source, which may be a path."""
    if not isinstance(source, str | os.PathLike):
        raise InputError(f"source={source!r} is not a name; pass text, e.g. the path of its file.")
    return printable(source)


def joined_rows(source: str, known: SeenRows, more: SeenRows) -> SeenRows:
    """Return the seen rows of a source with more of them; one that was seen already is refused."""
    twice = known.first_common(more)
    if twice is not None:
        raise InputError(f"row {twice} of {source!r} comes twice; take in each row once.")
    return known.joined(more)


def joined_sources(
    known: Mapping[str, SeenRows], more: Mapping[str, SeenRows]
) -> dict[str, SeenRows]:
    """Return what two calibrations have seen of their sources; unnamed ones count as different."""
    joined = dict(known)
    for source, spans in more.items():
        seen = joined.get(source, SeenRows())
        joined[source] = joined_rows(source, seen, spans if source else spans.moved(seen.end))
    return joined


def read_seen(stored: Any) -> SeenRows:
    """Rebuild what `SeenRows.state` returned."""
    if isinstance(stored, int):
        return SeenRows.of(Span(0, stored))
    return SeenRows.of(*(Span(int(start), int(stop)) for start, stop in stored))


def _united(runs: Iterable[Span]) -> list[Span]:
    united: list[Span] = []
    for run in sorted(run for run in runs if run.stop > run.start):
        if united and run.start <= united[-1].stop:
            united[-1] = Span(united[-1].start, max(run.stop, united[-1].stop))
        else:
            united.append(run)
    return united
