"""A page that shows what was rejected: one HTML file without scripts, which loads no other."""

from __future__ import annotations

import base64
import functools
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typica
from typica.cards import shown
from typica.data._decode import ImageError
from typica.data._image_sets import Images
from typica.data._thumbnail import thumbnail
from typica.errors import InputError
from typica.spreadsheets import visible
from typica.verdicts import WORDS, Verdicts

if TYPE_CHECKING:
    from jinja2 import Template

IMAGES = 200  # on a page, at most
ROWS = 1000  # of its table
SIDE = 192  # of a thumbnail's longer side, at most, in pixels
SMALL = 64  # up to this side the pixels stay as they are, and are shown as squares
CLASSES = 8  # that are counted by name


@dataclass(frozen=True)
class VerdictFigure:
    """An image on the page of verdicts. uri: its thumbnail; problem: why it cannot be read."""

    name: str
    reasons: tuple[str, ...]
    uri: str = ""
    small: bool = False
    problem: str = ""


def verdict_page(
    verdicts: Verdicts,
    images: Images | None = None,
    *,
    only: str | None = None,
    sort: str | None = None,
    about: str = "",
) -> str:
    """Return the page; see `typica.data.write_verdicts`."""
    listed = _listed(verdicts, only).sort(sort)
    figures = [] if images is None else list(_figures(listed[:IMAGES], images))
    rest = listed[len(figures) : len(figures) + ROWS]
    table = rest.table() if len(rest) else {}
    return _template().render(
        version=typica.__version__,
        title=_title(verdicts),
        about=about,
        kind=_kind(listed, len(verdicts)),
        nothing=not len(listed),
        classes=_classes(listed),
        figures=figures,
        headings=[name.replace("_", "-") for name in table],
        rows=[list(map(shown, row)) for row in zip(*table.values(), strict=True)],
        left=len(listed) - len(figures) - len(rest),
    )


def _listed(verdicts: Verdicts, only: str | None) -> Verdicts:
    """Return what the page is about: the rejected, unless told otherwise or nothing decides."""
    if only is None and verdicts.typical is None:
        return verdicts
    return verdicts.only(only or WORDS[False])


def _title(verdicts: Verdicts) -> str:
    noun = "rows" if verdicts.file is None else "images"
    if verdicts.typical is None:
        return f"{len(verdicts)} {noun}, no threshold"
    share = 100 * verdicts.n_atypical / max(len(verdicts), 1)
    return f"{verdicts.n_atypical} of {len(verdicts)} {noun} are atypical, {share:.2f} %"


def _kind(listed: Verdicts, total: int) -> str:
    """Say which verdicts the page lists, where that is not all."""
    if listed.typical is None or len(listed) in (0, total):
        return "What was judged"
    if listed.typical[0]:
        return "What was accepted"
    return "What was rejected"


def _classes(verdicts: Verdicts) -> list[tuple[str, int]]:
    """Return what the page of verdicts counts: the nearest classes, the most frequent first."""
    if verdicts.nearest is None:
        return []
    return Counter(map(str, verdicts.nearest.tolist())).most_common(CLASSES)


def _figures(verdicts: Verdicts, images: Images) -> Iterator[VerdictFigure]:
    for i, one in enumerate(verdicts):
        row = one.row
        if row is None or row >= len(images):
            raise InputError(
                f"{len(images)} images, but a verdict on number {row}; pass those that were judged."
            )
        uri, small, problem = _thumbnail(images, row)
        yield VerdictFigure(
            name=one.file or images.names[row],
            reasons=tuple(verdicts.reasons(i)),
            uri=uri,
            small=small,
            problem=problem,
        )


def _thumbnail(images: Images, row: int) -> tuple[str, bool, str]:
    """Return an image as a data URI, whether it is small, and what is wrong with it."""
    try:
        image = thumbnail(images.read(row), SIDE)
    except ImageError as error:  # it was read once already, but files change
        return "", False, str(error)
    small = max(image.size) <= SMALL
    file = io.BytesIO()
    kind = "png" if small else "jpeg"
    image.save(file, kind)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}", small, ""


@functools.cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 (pages only)

    environment = Environment(
        loader=PackageLoader("typica.data"),
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("verdicts.html")
