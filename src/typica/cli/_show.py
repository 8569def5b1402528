"""Tables, lines and JSON for the terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from typica.as_json import json_values
from typica.files import atomic_path
from typica.spreadsheets import one_line, visible

if TYPE_CHECKING:
    from typica.metrics import Result


class PlainConsole(Console):
    """A console on which the control characters of names and labels are seen, not obeyed."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the parts of what is to be shown, control characters among text escaped."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Print nowhere from now on: the command ends its work, and with its own exit code."""
        _print_nowhere(self.file)


def _print_nowhere(stream: IO[str]) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


console = PlainConsole(highlight=False)
error_console = PlainConsole(stderr=True, highlight=False)


def present(document: Mapping[str, Any], json_file: str | None, *parts: RenderableType) -> None:
    """Print the parts, unless the document is printed as JSON; write it where it was asked for.

    A part that is a plain text is one line, letter for letter.
    """
    if json_file != "-":
        for part in parts:
            if isinstance(part, str):
                say(part)
            else:
                console.print(part)
    if json_file is not None:
        write_json(document, json_file)


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    text: int = 1,
    header: bool = True,
    keep: Collection[str] = (),
) -> RenderableType:
    """Return a table whose first `text` columns are left-aligned text, the others numbers.

    Names are shown letter for letter: only what is a Text has a style. keep: the columns that stay
    longest where a terminal has no room for all.
    """
    from typica.bench import NarrowTable  # noqa: PLC0415 (which a message does not need)

    made = Table(box=None, header_style="bold underline", show_header=header, pad_edge=False)
    made.padding = (0, 2 if len(columns) < 8 else 1, 0, 0)
    for i, column in enumerate(columns):
        if i < text:
            first = i == 0
            made.add_column(_unmarked_cell(column), overflow="fold", no_wrap=first, min_width=0)
        else:
            width = max(6, *map(len, column.split()))
            made.add_column(
                _unmarked_cell(column), justify="right", overflow="ellipsis", min_width=width
            )
    for row in rows:
        made.add_row(*map(_unmarked_cell, row))
    # A title of its own: rich would fold it to the table's width.
    fitting = NarrowTable(made, keep)
    if title:
        return Group(Text(title, style="bold"), fitting)
    return fitting


def _unmarked_cell(cell: str | Text) -> Text:
    """Return a cell of a command's table, in which nothing is markup."""
    return cell if isinstance(cell, Text) else Text(one_line(cell))


def footnote(result: Result) -> Text:
    """Return the line that commands print under a table of results: how FPR is defined."""
    from typica.metrics import fpr_defined  # noqa: PLC0415 (NumPy, which a message does not need)

    return dim(f"In percent. {fpr_defined(result.tpr, result.convention)}")


def dim(text: str) -> Text:
    """Return a text that stays in the background."""
    return Text(text, style="dim")


def failures(errors: Mapping[str, str]) -> list[Text]:
    """Return a red line for each name and the error that stopped it."""
    return [Text(one_line(f"{name}: {error}"), style="red") for name, error in errors.items()]


def write_json(document: Mapping[str, Any], target: str) -> None:
    """Write a JSON document to a file, or to standard output for '-'."""
    write_text(json.dumps(json_values(document), indent=2, allow_nan=False) + "\n", target)


def write_text(text: str, target: str) -> None:
    """Write a text to a file, or to standard output for '-'."""
    if target == "-":
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            _print_nowhere(sys.stdout)
        return
    with atomic_path(Path(target)) as temporary:
        temporary.write_text(text, encoding="utf-8")
    say_written(target)


def say(text: str) -> None:
    """Say something on standard output, letter for letter and in one line, however long."""
    console.print(one_line(text), markup=False, highlight=False, soft_wrap=True)


def say_written(path: str | Path) -> None:
    """Say on standard error what was written."""
    complain(f"wrote {path}", style="")


def complain(text: str, style: str = "yellow") -> None:
    """Say something on standard error, letter for letter."""
    line = one_line(text)
    error_console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)
