"""One decision, explained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from typica.cards import card


class Contribution(NamedTuple):
    """What a feature adds to the distance from the nearest class; not in excess is missing.

    name: that of the feature's column, where the detector was fitted on a data frame.
    """

    feature: int
    amount: float
    excess: bool
    name: str | None = None

    def __str__(self) -> str:
        return str(self.feature) if self.name is None else self.name


class Term(NamedTuple):
    """One of the terms that add up to a score, and what it says in words."""

    name: str
    amount: float
    words: str


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why one input was accepted or rejected. `str()` of it is a sentence.

    `percentile` is the share (in percent) of calibration inputs that scored no higher. `nearest` is
    the class that matches best, with its similarity; `margin` is by how much it beats the
    `runner_up`. `contributions` are the features that add most to the distance from the nearest
    class, the largest first. `terms` are what a score is the sum of, where a detector adds up
    several. `p_value` and `examples` (the positions of the nearest known inputs)
    come with a calibration and with `bank=`. What a detector cannot tell is None or empty.
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
        }

    def __str__(self) -> str:
        parts = [*self._verdict(), *self._classes(), *self._features()]
        if self.terms:
            parts.append(", ".join(term.words for term in self.terms))
        if self.examples:
            parts.append(f"nearest known inputs {', '.join(map(str, self.examples))}")
        if self.note:
            parts.append(self.note)
        return "; ".join(parts)

    def _repr_html_(self) -> str:
        """Return a card for notebooks."""
        title, *parts = str(self).split("; ")
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
        if self.percentile is not None:
            yield f"higher than or equal to {self.percentile:.1f} % of known inputs"

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
