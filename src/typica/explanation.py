"""One decision, explained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from typica.cards import card


class Contribution(NamedTuple):
    """What a feature adds to the distance from the nearest class: it is in excess, or missing.

    name: the feature's column, if the detector was fitted on a data frame.
    """

    feature: int
    amount: float
    excess: bool
    name: str | None = None

    def __str__(self) -> str:
        if self.name is None:
            return str(self.feature)
        return self.name


class Term(NamedTuple):
    """One of the terms that add up to a score, and what it says in words."""

    name: str
    amount: float
    words: str


class Neighbour(NamedTuple):
    """A known input that lies near: its row in the bank, the cosine, its label and its file."""

    row: int
    similarity: float
    label: Any = None
    file: str | None = None

    def __str__(self) -> str:
        name = f"row {self.row}" if self.file is None else self.file
        label = "" if self.label is None else f"{self.label}, "
        return f"{name} ({label}{self.similarity:.4f})"


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why one input was accepted or rejected. `str()` of it is a sentence.

    What a detector cannot tell is None or empty.

    Attributes
    ----------
    score
        Higher = more typical.
    typical
        Whether the input is accepted.
    threshold
        The score at or above which an input is accepted.
    percentile, below
        The share (in percent) of calibration inputs that scored no higher, and that scored lower.
    nearest, similarity
        The class that matches best, and how well.
    runner_up, runner_up_similarity
        The class that matches second best, and how well.
    margin
        By how much the nearest class beats the runner-up.
    contributions
        The features that add most to the distance from the nearest class, the largest first.
    p_value
        The conformal p-value, once there is a calibration.
    examples, neighbours
        The rows of the nearest known inputs, and these inputs; they come with `bank=`.
    note
        What else the detector has to say.
    terms
        What the score is the sum of, where a detector adds up several terms.
    file
        The name of the image, if it is one.
    """

    score: float
    typical: bool | None
    threshold: float | None
    percentile: float | None
    nearest: Any = None
    similarity: float | None = None
    runner_up: Any = None
    runner_up_similarity: float | None = None
    margin: float | None = None
    contributions: tuple[Contribution, ...] = ()
    p_value: float | None = None
    examples: tuple[int, ...] = ()
    note: str = ""
    terms: tuple[Term, ...] = ()
    below: float | None = None
    neighbours: tuple[Neighbour, ...] = ()
    file: str | None = None

    @property
    def rank(self) -> tuple[float, float]:
        """What to sort by, the strangest first: the p-value where there is one, then the score."""
        return (0.0 if self.p_value is None else self.p_value, self.score)

    def named(self, names: Sequence[str]) -> Explanation:
        """Return the explanation with these names of the features, one per column."""
        parts = [part._replace(name=names[part.feature]) for part in self.contributions]
        return replace(self, contributions=tuple(parts))

    def __repr__(self) -> str:
        return f"Explanation({self})"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain Python values."""
        return asdict(self) | {
            "contributions": [contribution._asdict() for contribution in self.contributions],
            "terms": [term._asdict() for term in self.terms],
            "neighbours": [neighbour._asdict() for neighbour in self.neighbours],
        }

    def __str__(self) -> str:
        return "; ".join(self.parts())

    def parts(self) -> list[str]:
        """Return the parts of the sentence, the verdict first."""
        parts = [*self._verdict(), *self._classes(), *self._features()]
        if self.terms:
            parts.append(", ".join(term.words for term in self.terms))
        if self.neighbours:
            parts.append(f"nearest known inputs: {', '.join(map(str, self.neighbours))}")
        if self.note:
            parts.append(self.note)
        return parts

    def _repr_html_(self) -> str:
        """Return a card for notebooks."""
        title, *parts = self.parts()
        return card(title, [[part] for part in parts])

    def _verdict(self) -> Iterator[str]:
        words = {True: "typical", False: "atypical", None: "not judged (no threshold)"}
        verdict = f"{words[self.typical]}: score {self.score:.4f}"
        if self.threshold is not None:
            relation = ">=" if self.typical else "<"
            verdict += f" {relation} threshold {self.threshold:.4f}"
        yield verdict
        if self.p_value is not None:
            yield f"p-value {self.p_value:.4g}"
        if self.below is not None:
            yield f"more typical than {_share(self.below)} known inputs"

    def _classes(self) -> Iterator[str]:
        if self.nearest is not None:
            yield f"nearest class {self.nearest} ({self.similarity:.4f})"
        if self.runner_up is not None:
            yield f"then {self.runner_up} ({self.runner_up_similarity:.4f})"

    def _features(self) -> Iterator[str]:
        if self.typical:
            return
        for word, excess in (("missing", False), ("in excess", True)):
            features = [str(c) for c in self.contributions if c.excess is excess]
            if features:
                noun = "feature" if len(features) == 1 else "features"
                yield f"{word}: {noun} {', '.join(features)}"


def _share(percentage: float) -> str:
    """Return a share as an explanation says it: none, all, or a percentage.

    It has more digits near either end.

    >>> [_share(percentage) for percentage in (0.0, 0.031, 12.34, 99.97, 100.0)]
    ['none of the', '0.03 % of', '12.3 % of', '99.97 % of', 'all']
    >>> _share(0.001), _share(99.999)
    ('fewer than 0.01 % of', 'more than 99.99 % of')
    """
    if percentage in (0.0, 100.0):
        return "all" if percentage else "none of the"
    if percentage < 0.01:
        return "fewer than 0.01 % of"
    if percentage > 99.99:
        return "more than 99.99 % of"
    digits = 1 if 1 <= percentage <= 99 else 2
    return f"{percentage:.{digits}f} % of"
