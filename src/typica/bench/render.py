"""Tables as text: for a terminal, CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from typica.bench.cells import Cell, Column, Table

CLOSE, NEAR = (
    0.005,
    0.015,
)  # differences from the paper up to half a point are green, up to one and a half yellow
_ESCAPES = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"↓": r"$\downarrow$", "↑": r"$\uparrow$", "±": r"$\pm$", "‰": r"\textperthousand{}"}
    | {
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "|": r"$|$",
    }
)


def text_of(cell: Cell, column: Column, *, with_std: bool = True) -> str:
    """Return a cell as people read it: percent with two decimals, and the deviation where it is not 0.

    >>> text_of(Cell(0.98765, 0.0012), Column("AUROC ↑")), text_of(Cell(-0.001), Column("diff", "difference"))
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


def style_of(cell: Cell, column: Column) -> str:
    """Return how a terminal shows a cell: bold for the best, differences green, yellow or red by their size.

    >>> style_of(Cell(0.02), Column("diff", "difference"))
    'red'
    """
    if column.kind == "difference" and isinstance(cell.value, float):
        size = abs(cell.value)
        return "green" if size <= CLOSE else "yellow" if size <= NEAR else "red"
    return "bold" if cell.best else ""


def to_csv(tables: Sequence[Table]) -> str:
    """Return tables as CSV, percentages unrounded, deviations in columns of their own; an empty line between tables."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for number, table in enumerate(tables):
        if number:
            out.write("\n")
        rows = [row for _, section in table.sections for row in section]
        spread = {i for i in range(len(table.columns)) if any(row[i].std for row in rows)}
        sections = len(table.sections) > 1
        header = ["section"] if sections else []
        for i, column in enumerate(table.columns):
            header += [column.heading.rstrip(" ↑↓")] + (
                [f"{column.heading.rstrip(' ↑↓')} std"] if i in spread else []
            )
        writer.writerow(header)
        for heading, section in table.sections:
            for row in section:
                line: list[object] = [heading] if sections else []
                for i, (cell, column) in enumerate(zip(row, table.columns, strict=True)):
                    line.append(_plain(cell.value, column))
                    if i in spread:
                        line.append(_plain(None if cell.value is None else cell.std, column))
                writer.writerow(line)
    return out.getvalue()


def to_markdown(tables: Sequence[Table]) -> str:
    """Return tables as Markdown, the best of each column bold, with their notes."""
    parts = []
    for table in tables:
        lines = [f"**{table.title}**", ""]
        lines.append(
            "| " + " | ".join(column.heading.replace("|", "\\|") for column in table.columns) + " |"
        )
        lines.append(
            "|"
            + "|".join("---" if column.kind == "text" else "---:" for column in table.columns)
            + "|"
        )
        for heading, rows in table.sections:
            if heading:
                lines.append(f"| *{heading}* |" + " |" * (len(table.columns) - 1))
            for row in rows:
                texts = [
                    text_of(cell, column) for cell, column in zip(row, table.columns, strict=True)
                ]
                marked = [
                    f"**{text}**" if cell.best else text
                    for cell, text in zip(row, texts, strict=True)
                ]
                lines.append("| " + " | ".join(marked) + " |")
        parts.append("\n".join([*lines, *(f"\n{note}" for note in table.notes)]) + "\n")
    return "\n".join(parts)


def to_latex(tables: Sequence[Table]) -> str:
    """Return tables as LaTeX for the package booktabs, the best of each column bold, notes under the tabular."""
    parts = []
    for table in tables:
        width = len(table.columns)
        layout = "".join("l" if column.kind == "text" else "r" for column in table.columns)
        lines = [r"\begin{table}", r"\centering", rf"\caption{{{_latex(table.title)}}}"]
        lines += [rf"\begin{{tabular}}{{{layout}}}", r"\toprule"]
        lines += [" & ".join(_latex(column.heading) for column in table.columns) + r" \\"]
        for heading, rows in table.sections:
            lines.append(r"\midrule")
            if heading:
                lines += [rf"\multicolumn{{{width}}}{{l}}{{\emph{{{_latex(heading)}}}}} \\"]
            for row in rows:
                texts = [
                    _latex(text_of(cell, column))
                    for cell, column in zip(row, table.columns, strict=True)
                ]
                marked = [
                    rf"\textbf{{{text}}}" if cell.best else text
                    for cell, text in zip(row, texts, strict=True)
                ]
                lines.append(" & ".join(marked) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}"]
        lines += [rf"\par\smallskip\footnotesize {_latex(note)}" for note in table.notes]
        parts.append("\n".join([*lines, r"\end{table}"]) + "\n")
    return "\n".join(parts)


def _latex(text: str) -> str:
    return text.translate(_ESCAPES)


def _plain(value: float | str | None, column: Column) -> object:
    """Return a number as a spreadsheet reads it, in the unit that the table shows."""
    if not isinstance(value, float):
        return "" if value is None else value
    scale = {"percent": 100, "difference": 100, "milli": 1000}.get(column.kind, 1)
    return round(scale * value, 10)
