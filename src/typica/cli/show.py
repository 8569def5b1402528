"""Tables, progress bars and JSON for the terminal."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from typica.metrics import CONVENTIONS, Evaluation, Result
from typica.progress import listening
from typica.store import atomic_path

console = Console(highlight=False)
error_console = Console(stderr=True, highlight=False)

METRICS = {  # field of a Result -> heading, by how people say it
    "fpr": "FPR ↓",
    "auroc": "AUROC ↑",
    "aupr_in": "AUPR-in ↑",
    "aupr_out": "AUPR-out ↑",
    "detection_error": "Det.err ↓",
}


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, text: int = 1) -> Table:
    """Return a table whose first `text` columns are left-aligned text and whose others are numbers."""
    made = Table(title=title or None, box=SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for i, column in enumerate(columns):
        made.add_column(column, justify="left" if i < text else "right", no_wrap=i >= text)
    for row in rows:
        made.add_row(*row)
    return made


def percent(share: float) -> str:
    """Return a share as a percentage with two decimals.

    >>> percent(0.98765)
    '98.77'
    """
    return f"{100 * share:.2f}"


def evaluation_table(evaluation: Evaluation, title: str) -> Table:
    """Return the table of one detector: a row an OOD set, and their average."""
    rows = [
        [name, str(result.n_ood), *(percent(getattr(result, metric)) for metric in METRICS)]
        for name, result in evaluation.ood.items()
    ]
    rows.append(["average", "", *(percent(evaluation.average[metric]) for metric in METRICS)])
    return table(title, ["OOD set", "n", *METRICS.values()], rows)


def footnote(result: Result) -> str:
    """Say under a table of results how FPR is defined."""
    return (
        f"In percent. FPR: share of OOD inputs accepted when {100 * result.tpr:g} % of ID are kept "
        f"(convention '{result.convention}': {CONVENTIONS[result.convention]})"
    )


def write_json(document: Mapping[str, Any], target: str) -> None:
    """Write a JSON document to a file, or to standard output for '-'."""
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    with atomic_path(Path(target)) as temporary:
        temporary.write_text(text, encoding="utf-8")
    error_console.print(f"wrote {target}")


@contextlib.contextmanager
def progress(what: str, rows: int) -> Iterator[None]:
    """Show a progress bar on standard error for work on `rows` rows, once it has taken a second."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=error_console,
        transient=True,
    )
    task = bar.add_task(what, total=rows)
    began = time.monotonic()

    def advance(done: int) -> None:
        bar.advance(task, done)
        if not bar.live.is_started and time.monotonic() - began > 1:
            bar.start()

    try:
        with listening(advance):
            yield
    finally:
        bar.stop()
