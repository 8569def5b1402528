"""Write docs/methods.md, the page of all methods, from what their files and Tags say.

Run it after a method was added or changed: python docs/make_methods.py
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

from typica.detectors import detector_class, list_detectors
from typica.rectify import list_rectifiers, rectifier_class

PAGE = Path(__file__).with_name("methods.md")

INTRODUCTION = """\
<!-- Written by docs/make_methods.py; do not edit. -->

# All methods

Detectors give a score, higher = more typical, under one contract: fit, calibrate, score, predict,
explain, save. Rectifiers change features before a detector sees them; scikit-learn's
`make_pipeline` puts the two together, and what says so below gives logits, for a detector of logits
that has no head of its own.

| word | meaning |
|---|---|
| input | what a row holds; *features or logits*: features with a `Head`, logits with `head=None` |
| labels | *needed*; *used* if given; or no |
| fit | whether it learns from training data; *none* is ready as it is made |
| keeps rows | whether it and its file hold training rows: to compare with, or to go on fitting |
| merges | whether `partial_fit` and `merge` give what one `fit` on all the data gives |
| gradient | whether torch's gradients of the score with respect to the input are of use |
| saves | whether `save` writes it to a file; the others need pickle, which Typica does not use |
| n, m, C, N | rows to score, features, classes, training rows; costs of scoring are for one row |
"""


def page() -> str:
    """Return the whole page as Markdown."""
    detectors = [detector_class(name) for name in list_detectors()]
    rectifiers = [rectifier_class(name) for name in list_rectifiers()]
    parts = [INTRODUCTION]
    for title, classes in (("Detectors", detectors), ("Rectifiers", rectifiers)):
        parts += [f"## {title}\n", _needs(classes), _costs(classes)]
    parts += [_section(cls) for cls in [*detectors, *rectifiers]]
    return "\n".join(parts)


def _needs(classes: list[Any]) -> str:
    rows = [
        (
            _link(cls),
            _input(cls.tags),
            "needed" if cls.tags.needs_labels else "used" if cls.tags.uses_labels else "no",
            "yes" if cls.tags.needs_fit else "none",
            _mark(cls.tags.keeps_rows),
            _mark(cls.tags.mergeable),
            _mark(cls.tags.differentiable),
            _mark(cls.tags.saveable),
        )
        for cls in classes
    ]
    return _table(
        ("method", "input", "labels", "fit", "keeps rows", "merges", "gradient", "saves"), rows
    )


def _costs(classes: list[Any]) -> str:
    rows = [
        (_link(cls), cls.tags.fit_cost, cls.tags.score_cost, cls.tags.memory, cls.tags.reference)
        for cls in classes
    ]
    return _table(("method", "fit", "a row", "memory", "reference"), rows)


def _section(cls: Any) -> str:
    text = inspect.getdoc(sys.modules[cls.__module__]) or ""
    defaults = _defaults(cls)
    call = ", ".join(f"{name}={default!r}" for name, default in defaults.items())
    lines = [
        f"### {cls.__name__}\n",
        f"`{cls.__name__}({call})`, by name `{cls.kind}`\n",
        text + "\n",
    ]
    # What the head may be is told once, at the top of the page.
    rows = [
        (f"`{name}`", f"`{defaults[name]!r}`", parameter.describe())
        for name, parameter in cls.params.items()
        if name != "head"
    ]
    if rows:
        lines.append(_table(("parameter", "default", "may be"), rows))
    return "\n".join(lines)


def _defaults(cls: Any) -> dict[str, Any]:
    return {p.name: p.default for p in inspect.signature(cls).parameters.values()}


def _input(tags: Any) -> str:
    if tags.needs_head:
        return f"{tags.reads} and head"
    if tags.uses_head:
        return f"{tags.reads}, and head if given"
    return "features or logits" if tags.reads == "logits" else tags.reads


def _link(cls: Any) -> str:
    return f"[{cls.__name__}](#{cls.__name__.lower()})"


def _mark(yes: bool) -> str:
    return "yes" if yes else "no"


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE}: {len(list_detectors())} detectors, {len(list_rectifiers())} rectifiers")
