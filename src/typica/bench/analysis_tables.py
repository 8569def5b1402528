"""Tables of the analysis: the kernel, predictions at the class means, the step on the weights, the motivation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typica.bench.cells import Cell, Column, Table

MOST_CLASSES = 10  # of which the prediction at the mean is shown: the least certain first


def tables(document: Mapping[str, Any]) -> list[Table]:
    """Return the tables of an analysis' document."""
    sets = [name for name in document["n"] if name not in ("train", "test")]
    return [
        _kernel(document, sets),
        _one_hot(document),
        *_curves(document, sets),
        _motivation(document, sets),
    ]


def _kernel(document: Mapping[str, Any], sets: Sequence[str]) -> Table:
    columns = (
        Column("form", "text"),
        *(Column(name) for name in sets),
        Column("rank corr.", "number"),
        Column("max", "number"),
    )
    rows = []
    for form, found in document["kernel"].items():
        correlation = found.get("correlation", {}).get("all", {}).get("spearman")
        aurocs = [Cell(found["auroc"][name]) for name in sets]
        rows.append((Cell(form.replace("_", "-")), *aurocs, Cell(correlation), Cell(found["max"])))
    notes = (
        "rank corr.: Spearman's correlation with that cosine over all inputs. The form 'printed' lacks a square root: "
        "it is no cosine, for it exceeds 1.",
    )
    title = "(a) Influence kernel of inputs and the mean of their predicted class: AUROC ↑"
    return Table(title, columns, (("", tuple(rows)),), notes)


def _one_hot(document: Mapping[str, Any]) -> Table:
    found = document["one_hot"]
    columns = (
        Column("class", "text"),
        Column("1 - p", "number"),
        Column("runner-up", "text"),
        Column("entropy", "number"),
    )
    least = sorted(found["classes"], key=lambda entry: entry["probability"])[:MOST_CLASSES]
    rows = tuple(
        (
            Cell(str(entry["class"])),
            Cell(1 - entry["probability"]),
            Cell(str(entry["runner_up"])),
            Cell(entry["entropy"]),
        )
        for entry in least
    )
    summary = found["probability"]
    note = f"{len(found['classes'])} classes: p is {summary['mean']:.6f} on average, {summary['min']:.6f} at the least."
    return Table(
        "(b) Prediction at each class mean, the least certain first",
        columns,
        (("", rows),),
        (note,),
    )


def _curves(document: Mapping[str, Any], sets: Sequence[str]) -> list[Table]:
    columns = (Column("step", "text"), *(Column(name, "number") for name in ("test", *sets)))
    titles = {
        "variation": "(c) W steps towards uncertainty at the class means: total variation of predictions",
        "uncertainty": "(c) The same step: fall of KL(u || p)",
    }
    made = []
    for quantity, title in titles.items():
        curve = document["curves"][quantity]
        rows = tuple(
            (Cell(f"{size:g}"), *(Cell(curve["y"][name][i]) for name in ("test", *sets)))
            for i, size in enumerate(curve["x"])
        )
        made.append(
            Table(
                title,
                columns,
                (("", rows),),
                ("Means over the inputs; the step is in lengths of W.",),
            )
        )
    return made


def _motivation(document: Mapping[str, Any], sets: Sequence[str]) -> Table:
    found = document["motivation"]
    columns = (Column("alone", "text"), *(Column(name) for name in sets))
    rows = [
        (
            Cell(quantity),
            *(Cell(by_set[name], best=found["caught_by"][name]["by"] == quantity) for name in sets),
        )
        for quantity, by_set in found["auroc"].items()
    ]
    return Table(
        "(d) AUROC ↑ of norm, cosine and largest logit alone, the best in bold",
        columns,
        (("", tuple(rows)),),
    )
