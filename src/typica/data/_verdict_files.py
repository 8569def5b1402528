"""Verdicts out: as rows for a program, or as a page for a person."""

from __future__ import annotations

from pathlib import Path

from typica.arrays import row_blocks
from typica.data._image_sets import Images
from typica.data._row_writer import RowPrinter, RowWriter
from typica.data._verdict_page import verdict_page
from typica.errors import InputError, border
from typica.files import atomic_path
from typica.verdicts import TABLE, Verdicts

PAGE = ".html"
ENDINGS = (*RowWriter.ENDINGS, PAGE)


@border
def write_verdicts(
    verdicts: Verdicts,
    path: str | Path,
    *,
    images: Images | None = None,
    only: str | None = None,
    sort: str | None = None,
    about: str = "",
) -> None:
    """Write verdicts to a file: rows as .csv, .jsonl or .parquet, or a page to look at, .html.

    By default rows are written for all inputs, in their order. The page is one file that loads no
    others, and shows what was rejected, the strangest first.

    Parameters
    ----------
    verdicts
        What `judge` or `judge_images` returned.
    path
        The file; "-" prints the rows as lines of JSON, and their number as the last line.
    images
        What was judged, to be shown on the page.
    only, sort
        Which verdicts, and in which order: see `Verdicts.only` and `Verdicts.sort`.
    about
        A line on the page, e.g. which detector decided.

    >>> import tempfile
    >>> import numpy as np
    >>> verdicts = Verdicts(np.array([0.9, 0.5]), typical=np.array([True, False]))
    >>> path = Path(tempfile.mkdtemp()) / "strange.csv"
    >>> write_verdicts(verdicts, path, only="atypical")
    >>> print(path.read_text().rstrip())
    row,verdict,score
    1,atypical,0.5
    """
    check_verdict_file(path)
    if Path(path).suffix == PAGE:
        page = verdict_page(verdicts, images, only=only, sort=sort, about=about)
        with atomic_path(path) as temporary:
            temporary.write_text(page, encoding="utf-8")
        return
    shown = verdicts if only is None else verdicts.only(only)
    if sort is not None:
        shown = shown.sort(sort)
    with RowPrinter() if str(path) == "-" else RowWriter(path) as writer:
        _write_rows(shown, writer)


def check_verdict_file(path: str | Path) -> None:
    """Refuse a file that verdicts cannot be written to, before any work."""
    ending = Path(path).suffix
    if str(path) == "-" or ending == PAGE:
        return
    if ending not in ENDINGS:
        known = ", ".join(ENDINGS)
        raise InputError(f"{path}: the ending {ending!r} is unknown; use {known}.")
    RowWriter(path)  # says what is not installed


def _write_rows(verdicts: Verdicts, writer: RowWriter | RowPrinter) -> None:
    if not len(verdicts):
        writer.write(verdicts.table())  # the names of the columns
    numbered = verdicts.numbered()
    for block in row_blocks(len(verdicts), 8 * len(TABLE)):
        writer.write(numbered[block].table())
