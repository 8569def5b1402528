"""Tables, progress bars and JSON for the terminal."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from typica.bench.run import Comparison
from typica.data import Images
from typica.files import atomic_path
from typica.metrics import CONVENTIONS, METRICS, Evaluation, Result
from typica.progress import listening

console = Console(highlight=False)
error_console = Console(stderr=True, highlight=False)


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    text: int = 1,
    header: bool = True,
) -> RenderableType:
    """Return a table whose first `text` columns are left-aligned text and whose others are numbers."""
    made = Table(box=None, header_style="bold underline", show_header=header, pad_edge=False)
    made.padding = (0, 2 if len(columns) < 8 else 1, 0, 0)
    for i, column in enumerate(columns):
        width = 0 if i < text else max(6, *map(len, column.split()))
        made.add_column(
            column,
            justify="left" if i < text else "right",
            overflow="fold" if i < text else "ellipsis",
            no_wrap=i == 0,
            min_width=width,
        )
    for row in rows:
        made.add_row(*row)
    # A title of its own: rich would fold it to the table's width.
    return Group(Text(title, style="bold"), made) if title else made


def percent(share: float) -> str:
    """Return a share as a percentage with two decimals.

    >>> percent(0.98765)
    '98.77'
    """
    return f"{100 * share:.2f}"


def evaluation_table(evaluation: Evaluation, title: str) -> RenderableType:
    """Return the table of one detector: a row an OOD set, and their average."""
    rows = [
        [name, str(result.n_ood), *(percent(getattr(result, metric)) for metric in METRICS)]
        for name, result in evaluation.ood.items()
    ]
    rows.append(["average", "", *(percent(evaluation.average[metric]) for metric in METRICS)])
    headings = [metric.label() for metric in METRICS.values()]
    return table(title, ["OOD set", "n", *headings], rows)


def comparison_table(rows: Mapping[str, Comparison], title: str) -> RenderableType:
    """Return one row a detector: AUROC on each OOD set, mean AUROC and FPR, and what it cost; best first."""
    done = {name: row for name, row in rows.items() if row.evaluation is not None}
    results = {name: _comparison_cells(row) for name, row in done.items()}
    order = sorted(done, key=lambda name: -results[name]["mean"])
    columns = list(next(iter(results.values()), {"mean": 0.0}))
    best = {
        c: (min if c in _LESS_IS_BETTER else max)((r[c] for r in results.values()), default=0.0)
        for c in columns
    }
    lines = []
    for name in order:
        cells = [
            f"{value:.2f}" if c not in _COSTS else f"{value:.3g}"
            for c, value in results[name].items()
        ]
        marked = [
            f"[bold]{x}[/]" if results[name][c] == best[c] else x
            for c, x in zip(columns, cells, strict=True)
        ]
        lines.append([name, *marked])
    lines += [[name, "failed"] for name, row in rows.items() if row.error]
    return table(title, ["detector", *columns], lines)


_COSTS = ("fit s", "µs/row")
_LESS_IS_BETTER = ("FPR ↓", *_COSTS)


def _comparison_cells(row: Comparison) -> dict[str, float]:
    if row.evaluation is None:
        return {}
    average = row.evaluation.average
    cells = {name: 100 * result.auroc for name, result in row.evaluation.ood.items()}
    cells |= {"mean": 100 * average["auroc"], "FPR ↓": 100 * average["fpr"]}
    return cells | {"fit s": row.fit_seconds, "µs/row": row.score_microseconds}


def footnote(result: Result) -> str:
    """Say under a table of results how FPR is defined."""
    return (
        f"In percent. FPR: share of OOD inputs accepted when {100 * result.tpr:g} % of ID are kept "
        f"(convention '{result.convention}': {CONVENTIONS[result.convention]})"
    )


def write_json(document: Mapping[str, Any], target: str) -> None:
    """Write a JSON document to a file, or to standard output for '-'."""
    write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", target)


def write_text(text: str, target: str) -> None:
    """Write a text to a file, or to standard output for '-'."""
    if target == "-":
        sys.stdout.write(text)
        return
    with atomic_path(Path(target)) as temporary:
        temporary.write_text(text, encoding="utf-8")
    error_console.print(f"wrote {target}")


def show_left_out(images: Images) -> None:
    """Say on standard error what lies among images and is none, and how the images were taken."""
    for note in images.notes:
        error_console.print(note, style="yellow", markup=False, soft_wrap=True)
    for name in images.ignored:
        error_console.print(
            f"left out, no image: {name}", style="yellow", markup=False, soft_wrap=True
        )


def show_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    """Say on standard error which images were left out, and why; the reason names the image."""
    for _, reason in skipped:
        error_console.print(f"skipped: {reason}", style="yellow", markup=False, soft_wrap=True)


@contextlib.contextmanager
def progress(what: str, rows: int, unit: str = "") -> Iterator[None]:
    """Show a progress bar on standard error for work on `rows` rows, once it has taken a second.

    unit: what the speed is counted in, such as images/s; it is not shown if empty.
    """
    with _late_bar(what, rows, unit) as advance, listening(advance):
        yield


@contextlib.contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show a progress bar that steps on with each name that is passed to what this yields."""
    with _late_bar(what, total) as advance:
        yield lambda name: advance(1)


class _Speed(ProgressColumn):
    """How many are done a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:.0f} {self.unit}")


@contextlib.contextmanager
def _late_bar(what: str, total: int, unit: str = "") -> Iterator[Callable[[int], None]]:
    """Yield what advances a bar on standard error, which appears once the work has taken a second."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    speed = (_Speed(unit),) if unit else ()
    bar = Progress(*columns, *speed, console=error_console, transient=True)
    task = bar.add_task(what, total=total)
    began = time.monotonic()

    def advance(done: int) -> None:
        bar.advance(task, done)
        if not bar.live.is_started and error_console.is_terminal and time.monotonic() - began > 1:
            bar.start()

    try:
        yield advance
    finally:
        if bar.live.is_started:  # stopping one that never showed prints an empty line
            bar.stop()
