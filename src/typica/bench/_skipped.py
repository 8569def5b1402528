"""Why a row, or an OOD set, of a record is empty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Tag = Literal["needs images", "needs layers", "needs a head", "absent", "failed"]
# Those that are in the text itself.
_SAID: Final[tuple[Tag, ...]] = ("needs images", "needs layers", "needs a head", "absent")


@dataclass(frozen=True)
class Skipped:
    """Why there are no numbers: a tag of a word or two, and what was found and what to do.

    >>> str(Skipped("absent", "write it")), str(Skipped("failed", "k=50 exceeds the 12 rows"))
    ('absent: write it', 'k=50 exceeds the 12 rows')
    """

    tag: Tag
    why: str

    def __str__(self) -> str:
        return self.why if self.tag == "failed" else f"{self.tag}: {self.why}"

    @classmethod
    def from_text(cls, text: str, tag: Any) -> Skipped:
        """Read what `str` gave, with its tag.

        >>> Skipped.from_text("absent: write it", "absent")
        Skipped(tag='absent', why='write it')
        """
        for known in _SAID:
            if tag == known:
                return cls(known, text.removeprefix(f"{known}: "))
        return cls("failed", text)


def with_tags(skipped: Mapping[str, Skipped], names: Iterable[str]) -> list[str]:
    """Return the names of what is empty, each with a word why.

    >>> with_tags({"odin": Skipped("needs images", "pass them")}, ["odin"])
    ['odin: needs images']
    """
    return [f"{name}: {skipped[name].tag}" for name in names]


def with_reasons(skipped: Mapping[str, Skipped]) -> list[str]:
    """Say what is empty and why; reasons that differ only in the name are said together."""
    alike: dict[str, list[str]] = {}
    for name, reason in skipped.items():
        alike.setdefault(str(reason).replace(name, "NAME"), []).append(name)
    reasons = []
    for why, names in alike.items():
        said = why if len(names) > 1 else str(skipped[names[0]])
        reasons.append(f"{', '.join(names)}: {said}")
    return reasons
