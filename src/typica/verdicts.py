"""What a person or a program acts on: typical or not, how sure, which class, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.cards import card, shown
from typica.errors import InputError, border, by_caller, counted, given
from typica.extras import need
from typica.groups import GroupVerdicts
from typica.spreadsheets import one_line

COLUMNS = (
    "file",
    "row",
    "group",
    "verdict",
    "score",
    "p_value",
    "nearest",
    "runner_up",
    "margin",
    "why",
)
WORDS = {True: "typical", False: "atypical"}
TABLE = ("group", "verdict", "score", "p_value", "nearest", "runner_up", "margin")
SORTS = ("p_value", "score", "margin", "nearest", "file", "group", "input")
SHOWN = 20  # rows of a table in a notebook, or printed
OF_ALL = ("groups", "rule")  # about all inputs together


class Verdict(NamedTuple):
    """The verdict on one input; see `Verdicts`. None where the detector cannot tell."""

    verdict: str | None
    score: float
    p_value: float | None
    nearest: Any
    runner_up: Any
    margin: float | None
    why: str
    file: str | None = None
    row: int | None = None
    group: Any = None


class Rule(NamedTuple):
    """What decided: a false-alarm rate, with what confidence, or a false discovery rate."""

    alpha: float | None = None
    confidence: float | None = None
    fdr: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Return alpha and confidence, or the false discovery rate in their place."""
        if self.fdr is not None:
            return {"fdr": self.fdr}
        return {"alpha": self.alpha, "confidence": self.confidence}


@dataclass(frozen=True, eq=False)
class Verdicts:
    """The verdicts on n inputs, as columns of arrays; None where the detector cannot tell.

    Attributes
    ----------
    score
        (n,), higher = more typical.
    typical
        Whether each input is accepted (n,).
    threshold
        The score that decided (n,); None where a false discovery rate did.
    p_value
        The conformal p-value (n,).
    nearest, runner_up
        The names of the two classes that match best (n,). Where there is no runner-up, it is None.
    similarity, runner_up_similarity
        How well these two match (n,). Where there is no runner-up, its similarity is NaN.
    file
        The names of the images (n,), if the inputs are images.
    row
        Which of the inputs each verdict is on (n,), once `sort` or `only` has moved them.
    group
        What each input belongs to (n,), if `judge` was given groups.
    groups
        The verdicts on these groups: all of them, even where only some rows are left.
    rule
        The levels that decided; None without a calibration.
    index
        The index of the data frame that was judged (n,), which `to_pandas` uses again.

    >>> verdicts = Verdicts(np.array([0.5, 0.9]), typical=np.array([False, True]))
    >>> verdicts
    2 verdicts: 1 typical, 1 atypical
    >>> verdicts.verdict.tolist(), verdicts[0].why
    (['atypical', 'typical'], 'score 0.5')
    >>> print(verdicts)
    2 verdicts: 1 typical, 1 atypical
    row  verdict   score
    0    atypical  0.5
    1    typical   0.9
    """

    score: AnyArray
    typical: NDArray[np.bool_] | None = None
    threshold: AnyArray | None = None
    p_value: NDArray[np.float64] | None = None
    nearest: AnyArray | None = None
    similarity: AnyArray | None = None
    runner_up: AnyArray | None = None
    runner_up_similarity: AnyArray | None = None
    file: NDArray[np.str_] | None = None
    row: NDArray[np.int64] | None = None
    group: AnyArray | None = None
    groups: GroupVerdicts | None = None
    rule: Rule | None = None
    index: Any = None

    @property
    def verdict(self) -> AnyArray | None:
        """ "typical" or "atypical" (n,)."""
        if self.typical is None:
            return None
        return np.where(self.typical, WORDS[True], WORDS[False])

    @cached_property
    def margin(self) -> AnyArray | None:
        """By how much the nearest class beats the runner-up (n,), NaN without one."""
        if self.similarity is None or self.runner_up_similarity is None:
            return None
        return np.asarray(self.similarity - self.runner_up_similarity)

    @property
    def why(self) -> AnyArray:
        """One sentence per input (n,)."""
        sentences = ["; ".join(self.reasons(i)) for i in range(len(self))]
        return np.array(sentences, dtype=np.str_)

    def __len__(self) -> int:
        return len(self.score)

    @overload
    def __getitem__(self, i: int) -> Verdict: ...
    @overload
    def __getitem__(self, i: slice | Sequence[int] | AnyArray) -> Verdicts: ...
    def __getitem__(self, i: int | slice | Sequence[int] | AnyArray) -> Verdict | Verdicts:
        """Return the verdict on one input, or those on some: a slice, positions or a mask."""
        if not isinstance(i, int | np.integer):
            return self._sliced(i)
        return Verdict(
            verdict=None if self.typical is None else WORDS[bool(self.typical[i])],
            score=float(self.score[i]),
            p_value=item_of(self.p_value, i),
            nearest=item_of(self.nearest, i),
            runner_up=item_of(self.runner_up, i),
            margin=item_of(self.margin, i),
            why="; ".join(self.reasons(i)),
            file=item_of(self.file, i),
            row=item_of(self.row, i),
            group=item_of(self.group, i),
        )

    def __iter__(self) -> Iterator[Verdict]:
        return (self[i] for i in range(len(self)))

    def _sliced(self, rows: slice | Sequence[int] | AnyArray) -> Verdicts:
        names = [field.name for field in fields(self) if field.name not in OF_ALL]
        columns = {name: getattr(self, name) for name in names}
        known = {name: column[rows] for name, column in columns.items() if column is not None}
        return Verdicts(**known, groups=self.groups, rule=self.rule)

    @border
    def sort(self, by: str | None = None) -> Verdicts:
        """Return the verdicts in another order, the strangest first; `row` keeps the inputs' order.

        by: "p_value", "score" or "margin", the smallest first; "nearest", "file" or "group", by
        name; "input", as the inputs came. None is the p-value where there is one, else the score.
        Ties are sorted by the score.

        >>> verdicts = Verdicts(np.array([0.9, 0.5, 0.7])).sort()
        >>> verdicts.score.tolist(), verdicts.row.tolist()
        ([0.5, 0.7, 0.9], [1, 2, 0])
        """
        if by is None:
            by = "score" if self.p_value is None else "p_value"
        numbered = self.numbered()
        if by not in SORTS:
            raise InputError(f"{given('by', by)} is unknown; choose one of {', '.join(SORTS)}.")
        column = numbered.row if by == "input" else getattr(numbered, by)
        if column is None:
            raise InputError(
                f"there is no {by.replace('_', '-')} to sort by; choose another, such as score."
            )
        if column.dtype.kind == "O":  # names of several types, which have no order of their own
            column = column.astype(np.str_)
        order: NDArray[np.int64] = np.lexsort((self.score, column))
        return numbered._sliced(order)

    @border
    def only(self, verdict: str) -> Verdicts:
        """Return only the "typical" or the "atypical" ones; `row` tells which inputs they are.

        >>> Verdicts(np.array([0.9, 0.5]), typical=np.array([True, False])).only("atypical")
        1 verdict: 0 typical, 1 atypical
        """
        if verdict not in WORDS.values():
            raise InputError(f"verdict={verdict!r}; choose one of {', '.join(WORDS.values())}.")
        if self.typical is None:
            how = by_caller("call calibrate", "run `typica calibrate`")
            raise InputError(f"there is no threshold to tell them by; {how} with held-out inputs.")
        return self.numbered()._sliced(self.typical == (verdict == WORDS[True]))

    def numbered(self) -> Verdicts:
        """Return the same verdicts with `row`, which every part of them then keeps."""
        if self.row is not None:
            return self
        return replace(self, row=np.arange(len(self)))

    @property
    def n_atypical(self) -> int:
        """How many inputs are rejected; see `n_rejected` where there may be no threshold."""
        if self.typical is None:
            return 0
        return int(np.count_nonzero(~self.typical))

    @property
    def n_rejected(self) -> int | None:
        """How many inputs are rejected, None where there is no threshold to judge them by."""
        return None if self.typical is None else self.n_atypical

    def columns(self, names: Sequence[str] = COLUMNS) -> dict[str, AnyArray]:
        """Return the named columns that are known, by name."""
        known = {name: getattr(self, name) for name in names}
        return {name: column for name, column in known.items() if column is not None}

    def to_dict(self, names: Sequence[str] = COLUMNS) -> dict[str, list[Any]]:
        """Return the known columns as lists of plain Python values; what is absent is None.

        names: which of them; the sentences of "why" cost more than the others.
        """
        return {name: _plain(column) for name, column in self.columns(names).items()}

    def table(self) -> dict[str, list[Any]]:
        """Return what a table shows: the file or the row of each, then all but the sentences."""
        first = "row" if self.file is None else "file"
        return self.numbered().to_dict((first, *TABLE))

    def to_pandas(self) -> Any:
        """Return the known columns as a pandas DataFrame, with the index of the data judged."""
        return need("pandas", "pandas").DataFrame(self.to_dict(), index=self.index)

    def to_arrow(self) -> Any:
        """Return the known columns as a pyarrow Table."""
        return need("pyarrow", "parquet").table(self.to_dict())

    def __repr__(self) -> str:
        verdicts = counted(len(self), "verdict")
        if self.typical is None:
            return f"{verdicts}: no threshold"
        accepted = len(self) - self.n_atypical
        found = f"{verdicts}: {accepted} typical, {self.n_atypical} atypical"
        return found if self.groups is None else f"{found}; {self.groups!r}"

    def __str__(self) -> str:
        """Return the first rows as a table, below how many there are."""
        columns = []
        for name, values in self[:SHOWN].table().items():
            cells = [name.replace("_", "-"), *map(one_line, map(shown, values))]
            width = max(map(len, cells))
            columns.append([cell.ljust(width) for cell in cells])
        lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
        left = len(self) - SHOWN
        more = [f"and {left} more"] if left > 0 else []
        return "\n".join([repr(self), *(lines if len(self) else []), *more])

    def _repr_html_(self) -> str:
        """Return a table for notebooks, with what was rejected in colour."""
        few = self[:SHOWN]
        names = list(few.columns())
        rows = list(map(attrgetter(*names), few))
        marked = [i for i, one in enumerate(few) if one.verdict == WORDS[False]]
        left = len(self) - len(few)
        note = f"and {left} more" if left else ""
        return card(repr(self), rows, names, marked=marked, note=note)

    def reasons(self, i: int) -> list[str]:
        """Return the parts of the sentence on input i: score, p-value, nearest class, runner-up."""
        parts = [f"score {self.score[i]:.4g}"]
        if self.typical is not None and self.threshold is not None:
            relation = "at or above" if self.typical[i] else "below"
            parts[0] += f" {relation} the threshold {self.threshold[i]:.4g}"
        if self.p_value is not None:
            parts.append(f"p-value {self.p_value[i]:.4g}")
        if self.nearest is not None and self.similarity is not None:
            parts.append(f"nearest class {self.nearest[i]} ({self.similarity[i]:.4g})")
        if self.runner_up is not None and self.runner_up[i] is not None:
            parts.append(f"then {self.runner_up[i]} ({item_of(self.runner_up_similarity, i):.4g})")
        return parts


def item_of(column: AnyArray | None, i: int) -> Any:
    """Return one value of a column of verdicts as plain Python, None for what is absent."""
    if column is None:
        return None
    value = column[i].item() if isinstance(column[i], np.generic) else column[i]
    return None if _is_nan(value) else value


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _plain(column: AnyArray) -> list[Any]:
    values: list[Any] = column.tolist()
    if column.dtype.kind == "f" and np.isnan(column).any():
        return [None if _is_nan(value) else value for value in values]
    return values
