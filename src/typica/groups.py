"""Rows that belong to something: the boxes or patches of an image, the tokens of a text.

With the p-values p_(1) <= ... <= p_(m) of the m rows of a group,

    adjusted_(i) = min_{j >= i} m p_(j) / j
    p of the group = adjusted_(1) = min_j m p_(j) / j

which are Benjamini and Hochberg's adjusted p-values (1995) and Simes' p-value (1986). A group is
atypical where its p-value is at most a level, and so are those of its rows whose adjusted p-value
is: a group is rejected exactly where one of its rows is. The level is alpha or, where a false
discovery rate over G groups is asked for, fdr R / G, R being how many of them Benjamini and
Hochberg's procedure rejects by their p-values: Benjamini, Bogomolov: Selective Inference on
Multiple Families of Hypotheses, JRSS B 2014. docs/guarantees.md says what holds, and when.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, to_numpy
from typica.cards import card
from typica.checks import check_share
from typica.errors import InputError, argument, counted
from typica.extras import need
from typica.fdr import ROUNDING, benjamini_hochberg
from typica.written_numbers import Level

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
COLUMNS = ("group", "verdict", "p_value", "rows", "atypical", "strangest")
SHOWN = 20  # groups of a table in a notebook


class GroupVerdict(NamedTuple):
    """The verdict on one group; see `GroupVerdicts`."""

    group: Any
    verdict: str
    p_value: float
    rows: int
    atypical: int
    strangest: int


@dataclass(frozen=True, eq=False)
class GroupVerdicts:
    """The verdicts on groups of rows, as columns of arrays, in the order in which groups come.

    Attributes
    ----------
    group
        Names of the groups (g,).
    typical
        Whether no row of the group is rejected (g,).
    p_value
        Simes' p-value of its rows (g,).
    rows
        How many rows it has (g,).
    atypical
        How many of them are rejected (g,).
    strangest
        Which row has the smallest p-value (g,), and among equal ones the smallest score.
    level
        What the p-values were compared with.

    >>> p, ids = np.array([0.01, 0.6, 0.04, 0.5]), ["a", "a", "b", "b"]
    >>> found = judge_groups(p, p, ids, alpha=0.05)
    >>> found.groups
    2 groups: 1 typical, 1 atypical
    >>> found.groups.p_value.round(3).tolist(), found.typical.tolist()
    ([0.02, 0.08], [False, True, True, True])
    """

    group: AnyArray
    typical: NDArray[np.bool_]
    p_value: Floats
    rows: Places
    atypical: Places
    strangest: Places
    level: float

    @property
    def verdict(self) -> AnyArray:
        """ "typical" or "atypical" (g,)."""
        return np.where(self.typical, "typical", "atypical")

    @property
    def n_atypical(self) -> int:
        """How many groups are rejected."""
        return int(np.count_nonzero(~self.typical))

    def __len__(self) -> int:
        return len(self.p_value)

    def __getitem__(self, i: int) -> GroupVerdict:
        columns = [getattr(self, name)[i] for name in COLUMNS]
        plain = [value.item() if isinstance(value, np.generic) else value for value in columns]
        return GroupVerdict(*plain)

    def __iter__(self) -> Iterator[GroupVerdict]:
        return (self[i] for i in range(len(self)))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists of plain Python values."""
        return {name: getattr(self, name).tolist() for name in COLUMNS}

    def to_pandas(self) -> Any:
        """Return the columns as a pandas DataFrame."""
        return need("pandas", "pandas").DataFrame(self.to_dict())

    def __repr__(self) -> str:
        accepted = len(self) - self.n_atypical
        return f"{counted(len(self), 'group')}: {accepted} typical, {self.n_atypical} atypical"

    def _repr_html_(self) -> str:
        """Return a table for notebooks, with what was rejected in colour."""
        shown = range(min(len(self), SHOWN))
        marked = [i for i in shown if not self.typical[i]]
        left = len(self) - len(shown)
        note = f"and {left} more" if left else ""
        return card(repr(self), [self[i] for i in shown], COLUMNS, marked=marked, note=note)


class Grouped(NamedTuple):
    """Rows judged in groups: which are typical, the group of each, and the verdicts on groups."""

    typical: NDArray[np.bool_]
    group: AnyArray
    groups: GroupVerdicts


def judge_groups(
    p_values: Floats,
    scores: AnyArray,
    groups: Any,
    *,
    alpha: Level | None = None,
    fdr: Level | None = None,
) -> Grouped:
    """Return which rows are typical, and the verdicts on the groups that they belong to.

    Parameters
    ----------
    p_values, scores
        Of each row.
    groups
        The group of each row.
    alpha
        The false-alarm rate of a group.
    fdr
        In place of alpha: the share of the rejected groups that may be rejected wrongly.
    """
    names, codes = named_groups(groups, len(p_values))
    order = np.lexsort((scores, p_values, codes))
    sizes = np.bincount(codes)
    first = np.cumsum(sizes) - sizes  # where each group begins in that order
    adjusted = np.empty(len(p_values))
    adjusted[order] = _adjusted_in_groups(p_values[order], codes[order], sizes, first)
    of_groups = adjusted[order[first]]
    level = _level_of_groups(of_groups, alpha, fdr)
    strange = adjusted <= level * ROUNDING
    rejected = np.bincount(codes[strange], minlength=len(names))
    made = GroupVerdicts(
        group=names,
        typical=rejected == 0,
        p_value=of_groups,
        rows=sizes,
        atypical=rejected,
        strangest=order[first],
        level=level,
    )
    return Grouped(~strange, names[codes], made)


def named_groups(groups: Any, n: int) -> tuple[AnyArray, Places]:
    """Return the names of groups in order of appearance, and the place of each row's group there.

    >>> named_groups(["b", "a", "b"], 3)
    (array(['b', 'a'], dtype='<U1'), array([0, 1, 0]))
    """
    if isinstance(groups, Mapping):
        raise InputError(
            f"{argument('groups')} is a mapping, which is for calibrate: it joins classes; pass "
            "the group of each row."
        )
    ids = to_numpy(groups)
    if ids.shape != (n,):
        raise InputError(
            f"{argument('groups')} of shape {ids.shape} for {counted(n, 'row')}; "
            "pass the group of each row."
        )
    if not n:
        ids = ids.astype(np.str_)  # an empty list has no type of its own
    if ids.dtype.kind == "O":
        ids = _plain_groups(ids)
    if ids.dtype.kind not in "iubUS":
        raise InputError(
            f"{argument('groups')} of type {ids.dtype}; pass whole numbers or texts, one per row."
        )
    names, places, codes = np.unique(ids, return_index=True, return_inverse=True)
    order = np.argsort(places)
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    return names[order], rank[codes]


def _plain_groups(ids: AnyArray) -> AnyArray:
    """Return groups that are Python objects, as in pandas, as texts or whole numbers: one kind."""
    values = ids.tolist()
    for kind in (str, int):
        if all(isinstance(value, kind) for value in values):
            return np.array(values)
    raise InputError(
        f"{argument('groups')} mixes texts and numbers, or holds neither; pass the name "
        "of each row's group."
    )


def _adjusted_in_groups(p: Floats, codes: Places, sizes: Places, first: Places) -> Floats:
    """Return the adjusted p-values of `judge_groups`; rows are sorted by group and p-value."""
    ranks = np.arange(len(p)) - first[codes] + 1
    products = p * sizes[codes] / ranks
    # The least from each row to the end of its group, for all groups at once: whole numbers stand
    # for the products, smaller in each group than in the one behind it.
    ordered, places = np.unique(products, return_inverse=True)
    keys = (places + codes * len(ordered))[::-1]
    behind = np.minimum.accumulate(keys)[::-1]
    return np.asarray(np.minimum(ordered[behind - codes * len(ordered)], 1.0))


def _level_of_groups(p_values: Floats, alpha: Level | None, fdr: Level | None) -> float:
    """Return the level that adjusted p-values of groups and of their rows are compared with."""
    if fdr is None:
        return float(check_share(alpha, "alpha", zero=True))
    rejected = int(np.count_nonzero(benjamini_hochberg(p_values, fdr)))
    return float(check_share(fdr, "fdr") * rejected / max(len(p_values), 1))
