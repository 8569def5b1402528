"""One decision, explained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Explanation:
    """Why one input was accepted or rejected. `str()` of it is a sentence.

    `percentile` is the share (in percent) of calibration inputs that scored no higher. `nearest` is the class
    that matches best, with its similarity; `margin` is by how much it beats the `runner_up`. What a detector
    cannot tell is None.
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
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain Python values."""
        return asdict(self)

    def __str__(self) -> str:
        words = {True: "typical", False: "NOT typical", None: "not judged (no threshold)"}
        parts = [f"{words[self.typical]}: score {self.score:.4f}"]
        if self.threshold is not None:
            relation = ">=" if self.typical else "<"
            parts[0] += f" {relation} threshold {self.threshold:.4f}"
        if self.percentile is not None:
            parts.append(f"higher than or equal to {self.percentile:.1f} % of known inputs")
        if self.nearest is not None:
            parts.append(f"nearest class {self.nearest} ({self.similarity:.4f})")
        if self.runner_up is not None:
            parts.append(f"then {self.runner_up} ({self.runner_up_similarity:.4f})")
        if self.note:
            parts.append(self.note)
        return "; ".join(parts)
