"""Tables as people and programs read them: terminal, CSV, Markdown, LaTeX and HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from typica.bench._narrow_table import NarrowTable
from typica.bench._report_templates import render
from typica.bench._table import Cell, Column, Table, tone
from typica.spreadsheets import quoted_cell

WIDE = 7  # a terminal table of this many columns has no room for deviations
LONG = 10  # a heading of more characters is folded
COLOURS: Final = {"close": "green", "some": "yellow", "far": "red"}
SCALES: Final = {"percent": 100, "difference": 100, "milli": 1000, "number": 1, "text": 1}
_ESCAPES = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"↓": r"$\downarrow$", "↑": r"$\uparrow$", "±": r"$\pm$", "‰": r"\textperthousand{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"\\": r"\textbackslash{}", "|": r"$|$"}
)


def text_of(cell: Cell, column: Column, *, with_std: bool = True) -> str:
    """Return a bench table's cell as people read it: percent with two decimals, a deviation if any.

    >>> percent, points = Column("AUROC", ()), Column("diff", (), "difference")
    >>> text_of(Cell(0.98765, 0.0012), percent), text_of(Cell(-0.001), points)
    ('98.77 ±0.12', '-0.10')
    """
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    match column.kind:
        case "percent":
            spread = f" ±{100 * cell.std:.2f}" if with_std and cell.std else ""
            return f"{100 * value:.2f}{spread}"
        case "difference":
            return f"{100 * value:+.2f}"
        case "milli":
            return f"{1000 * value:.2f}"
    return f"{value:.4g}"


def bench_cell_style(cell: Cell, column: Column) -> str:
    """Return how a bench table as text shows a cell: the best bold, differences coloured.

    >>> bench_cell_style(Cell(0.02), Column("diff", (), "difference"))
    'red'
    """
    if column.kind == "difference" and isinstance(cell.value, float):
        return COLOURS[tone(cell.value)]
    return "bold" if cell.best else ""


def to_terminal(table: Table, keep: Sequence[str] = ()) -> RenderableType:
    """Return a table for rich to print, its sections one below the other, its notes dimmed.

    keep: headings of columns that a narrow terminal shows before others.
    """
    labels = [column.label for column in table.columns if column.heading in keep]
    parts: list[RenderableType] = []
    sectioned = len(table.sections) > 1
    if sectioned:
        parts.append(Text(table.title, style="bold"))
    for heading, rows in table.sectioned:
        title = heading if sectioned else table.title
        if title:
            parts.append(Text(title, style="bold"))
        parts.append(_grid(table.columns, rows, labels))
    parts += [Text(note, style="dim") for note in table.notes]
    return Group(*parts, Text(""))


def _grid(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], keep: Sequence[str] = ()
) -> RenderableType:
    # Numbers may be published for one section and not for another.
    filled = [_has_value(rows, index) for index in range(len(columns))]
    columns = list(compress(columns, filled))
    grid = Grid(box=None, header_style="bold underline", pad_edge=False)
    grid.padding = (0, 2 if len(columns) < WIDE + 1 else 1, 0, 0)
    for index, column in enumerate(columns):
        _add_column(grid, column, is_first=index == 0)
    for row in rows:
        cells = list(compress(row, filled))
        grid.add_row(*_styled(cells, columns, with_std=len(columns) < WIDE))
    return NarrowTable(grid, keep)


def _has_value(rows: Sequence[Sequence[Cell]], index: int) -> bool:
    return any(row[index].value is not None for row in rows)


def _styled(cells: Sequence[Cell], columns: Sequence[Column], *, with_std: bool) -> Iterator[Text]:
    """Yield the cells of a row as the terminal shows them."""
    for cell, column in zip(cells, columns, strict=True):
        text = text_of(cell, column, with_std=with_std)
        yield Text(text, style=bench_cell_style(cell, column))


def _add_column(grid: Grid, column: Column, *, is_first: bool) -> None:
    label = column.label
    if len(label) > LONG:  # long names of sets fold where their hyphens are
        label = label.replace("-", " ")
    if is_first:
        grid.add_column(label, overflow="fold", no_wrap=True)
        return
    width = max(6, *map(len, label.split()))
    grid.add_column(label, justify="right", overflow="ellipsis", min_width=width)


def to_csv(tables: Sequence[Table]) -> str:
    """Return tables as CSV: percentages unrounded, deviations in columns of their own.

    An empty line stands between tables.
    """
    return "\n".join(map(_csv, tables))


def _csv(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    sectioned = len(table.sections) > 1
    header = ["section"] if sectioned else []
    for column in table.columns:
        header.append(column.heading)
        if column.has_spread:
            header.append(f"{column.heading} std")
    writer.writerow(map(quoted_cell, header))
    for heading, rows in table.sectioned:
        first: list[object] = [quoted_cell(heading)] if sectioned else []
        for row in rows:
            writer.writerow(first + _csv_cells(row, table.columns))
    return out.getvalue()


def _csv_cells(row: Sequence[Cell], columns: Sequence[Column]) -> list[object]:
    line: list[object] = []
    for cell, column in zip(row, columns, strict=True):
        line.append(_plain(cell.value, column))
        if column.has_spread:
            line.append(_plain(None if cell.value is None else cell.std or 0.0, column))
    return line


def _plain(value: float | str | None, column: Column) -> object:
    """Return a number as a spreadsheet reads it, in the unit that the table shows."""
    if not isinstance(value, float):
        return "" if value is None else quoted_cell(value)
    return round(SCALES[column.kind] * value, 10)


def to_markdown(tables: Sequence[Table]) -> str:
    """Return tables as Markdown, the best of each column bold, with their notes."""
    return "\n".join(map(_markdown, tables))


def _markdown(table: Table) -> str:
    labels = [_in_markdown(column.label) for column in table.columns]
    rules = ["---" if column.kind == "text" else "---:" for column in table.columns]
    lines = [f"**{table.title}**", "", f"| {' | '.join(labels)} |", f"|{'|'.join(rules)}|"]
    for heading, rows in table.sectioned:
        if heading:
            lines.append(f"| *{_in_markdown(heading)}* |" + " |" * (len(table.columns) - 1))
        for row in rows:
            texts = _texts(row, table.columns, _in_markdown, "**{}**")
            lines.append(f"| {' | '.join(texts)} |")
    lines += [f"\n{note}" for note in table.notes]
    return "\n".join(lines) + "\n"


def _in_markdown(text: str) -> str:
    """Return a text that stays in one cell of a table in Markdown."""
    return text.replace("|", "\\|")


def to_latex(tables: Sequence[Table]) -> str:
    """Return tables as LaTeX for booktabs, the best of each column bold, notes underneath."""
    return "\n".join(map(_latex, tables))


def _latex(table: Table) -> str:
    width = len(table.columns)
    layout = "".join("l" if column.kind == "text" else "r" for column in table.columns)
    labels = [_in_latex(column.label) for column in table.columns]
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_in_latex(table.title)}}}"]
    lines += [rf"\begin{{tabular}}{{{layout}}}", r"\toprule", " & ".join(labels) + r" \\"]
    for heading, rows in table.sectioned:
        lines.append(r"\midrule")
        if heading:
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\emph{{{_in_latex(heading)}}}}} \\")
        for row in rows:
            texts = _texts(row, table.columns, _in_latex, r"\textbf{{{}}}")
            lines.append(" & ".join(texts) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\smallskip\footnotesize {_in_latex(note)}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _texts(
    row: Sequence[Cell], columns: Sequence[Column], escape: Callable[[str], str], bold: str
) -> list[str]:
    """Return the cells of a row as text, escaped, the best in bold."""
    texts = []
    for cell, column in zip(row, columns, strict=True):
        text = escape(text_of(cell, column))
        texts.append(bold.format(text) if cell.best else text)
    return texts


def _in_latex(text: str) -> str:
    return text.translate(_ESCAPES)


def to_html(table: Table, key: str) -> str:
    """Return a table in a box of its own that scrolls; headings sort it, a star marks the best.

    key: distinguishes it from the other tables of its page. Notes are left to the page.
    """
    return render("table.html", table=table, key=key)
