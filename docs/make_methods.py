"""Write docs/methods.md, the page of all methods, from what their files and Tags say.

Run it after a method was added or changed: python docs/make_methods.py. What was measured comes
from docs/measured.csv, which docs/measure_methods.py writes; what others call a method from
docs/elsewhere.csv.
"""

from __future__ import annotations

import ast
import csv
import inspect
import sys
import textwrap
from pathlib import Path
from typing import Any

from typica.detectors import detector_class, list_detectors
from typica.rectify import list_rectifiers, rectifier_class

PAGE = Path(__file__).with_name("methods.md")
MEASURED = Path(__file__).with_name("measured.csv")
ELSEWHERE = Path(__file__).with_name("elsewhere.csv")
NETWORKS = Path(__file__).with_name("measured_networks.csv")
NETS = Path(__file__).parents[1] / "src" / "typica" / "nets"
# Modules of `typica.nets`, which are read and not imported: that would need torch.
OVER_NETWORKS = {
    "Perturb and ODIN": "_perturb",
    "AdaSCALE": "_adascale",
    "Gram": "_gram",
    "DAVIS pooling": "_reduce",
}
BASELINE = "msp"
BEST = 3  # ranks that count as won
SUITES = {
    "cifar10-densenet": "CIFAR-10 (DenseNet-BC-100)",
    "clinc150-minilm": "CLINC150 intents (MiniLM)",
}

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

FIGURES = """\
## Measured here

AUROC / FPR95 in percent, all with the defaults of this page and none tuned: penultimate features of
the paper's CIFAR-10 DenseNet-BC-100 (50,000 training rows, SVHN, ten categories of textures,
CIFAR-100) and sentence embeddings of CLINC150 (15,000 rows, 150 intents, 1,000 sentences out of
scope). By the mean over the three image sets. Two suites say where a method is worth trying, not
which is best: `typica choose` tells that of your own data. Rectifiers stand before Energy unless
their section says otherwise.
"""

NAMES = """\
## What OpenOOD and pytorch-ood call it

Every postprocessor of OpenOOD v1.5 and every detector of pytorch-ood, and where it is here. `nets`
needs the network itself.
"""

OVER = """\
## Over the network

What needs more than features of the last layer is in `typica.nets`, and takes a PyTorch model.
Measured here on the first images of CIFAR-10's test set, SVHN and textures (too few for the second
digit of the figures), with the network of the first table; what is fitted saw as many training
images.
"""


def page() -> str:
    """Return the whole page as Markdown."""
    detectors = [detector_class(name) for name in list_detectors()]
    rectifiers = [rectifier_class(name) for name in list_rectifiers()]
    parts = [INTRODUCTION]
    for title, classes in (("Detectors", detectors), ("Rectifiers", rectifiers)):
        parts += [f"## {title}\n", _needs(classes), _costs(classes)]
    figures = read_lines(MEASURED)
    parts += [FIGURES, _measured(figures, [*detectors, *rectifiers]), NAMES, _elsewhere()]
    parts += [_section(cls, figures) for cls in [*detectors, *rectifiers]]
    parts += [OVER, _networks(), *(_module(title) for title in OVER_NETWORKS)]
    return "\n".join(parts)


def read_lines(path: Path) -> list[dict[str, str]]:
    """Return the lines of a table, by the names of its columns."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _networks() -> str:
    """Return one row per method that needs the network itself."""
    rows: dict[str, list[str]] = {}
    sets: dict[str, None] = {}
    for line in read_lines(NETWORKS):
        sets[f"{line['set']} ({line['images']} images)"] = None
        rows.setdefault(line["method"], []).append(f"{line['auroc']} / {line['fpr95']}")
    return _table(("method", *sets), [(name, *cells) for name, cells in rows.items()])


def _module(title: str) -> str:
    source = (NETS / f"{OVER_NETWORKS[title]}.py").read_text(encoding="utf-8")
    return f"### {title}\n\n{ast.get_docstring(ast.parse(source))}\n"


def _elsewhere() -> str:
    """Return what others call the methods that are here, and why the others are not."""
    found, absent = [], []
    for line in read_lines(ELSEWHERE):
        if line["here"]:
            found.append((line["openood"], line["pytorch_ood"], line["here"]))
        else:
            absent.append((line["openood"], line["pytorch_ood"], line["why"]))
    first = _table(("OpenOOD", "pytorch-ood", "here"), found)
    second = _table(("OpenOOD", "pytorch-ood", "why not"), absent)
    return f"{first}\nLeft out:\n\n{second}"


def _measured(figures: list[dict[str, str]], classes: list[Any]) -> str:
    """Return one row per method, one column per set."""
    names = {cls.kind: _link(cls) for cls in classes}
    columns = list(dict.fromkeys((line["suite"], line["set"]) for line in figures))
    columns = [key for key in columns if key != ("clinc150-minilm", "mean")]
    columns.sort(key=lambda key: (key[0], key[1] == "mean"))
    cells: dict[str, dict[tuple[str, str], str]] = {}
    for line in figures:
        cell = f"{line['auroc']} / {line['fpr95']}"
        cells.setdefault(line["method"], {})[line["suite"], line["set"]] = cell
    first = ("cifar10-densenet", "mean")
    order = sorted(cells, key=lambda name: float(cells[name][first].split()[0]), reverse=True)
    rows = [(names[name], *(cells[name][key] for key in columns)) for name in order]
    return _table(("method", *(f"{key[1]}" for key in columns)), rows)


def _findings(kind: str, figures: list[dict[str, str]]) -> str:
    """Return what was measured of one method, set by set, and where it won and failed."""
    own = [line for line in figures if line["method"] == kind and line["set"] != "mean"]
    if not own:
        return ""
    told: dict[str, list[str]] = {}
    won, failed = [], []
    for line in own:
        others = [
            other
            for other in figures
            if (other["suite"], other["set"]) == (line["suite"], line["set"])
        ]
        rank = 1 + sum(float(other["auroc"]) > float(line["auroc"]) for other in others)
        baseline = next(float(x["auroc"]) for x in others if x["method"] == BASELINE)
        told.setdefault(line["suite"], []).append(
            f"{line['set']} {line['auroc']} / {line['fpr95']}"
        )
        if rank <= BEST:
            won.append(line["set"])
        if float(line["auroc"]) < baseline:
            failed.append(line["set"])
    how = f", {own[0]['as']}" if own[0]["as"] else ""
    parts = [f"{SUITES[suite]}: {', '.join(lines)}" for suite, lines in told.items()]
    text = f"Measured here, AUROC / FPR95{how}. {'. '.join(parts)}."
    if won:
        text += f" Among the {BEST} best on {', '.join(won)}."
    if failed:
        text += f" Behind MSP on {', '.join(failed)}."
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False) + "\n"


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


def _section(cls: Any, figures: list[dict[str, str]]) -> str:
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
    findings = _findings(cls.kind, figures)
    if findings:
        lines.append(findings)
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
