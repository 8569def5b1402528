"""The images of the gallery, by method and kind; each image is in the page once."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PIL import Image

from typica.as_json import finite_number
from typica.bench._open_result import ResultFolder
from typica.bench._report_templates import short
from typica.bench._write_gallery import Shown
from typica.errors import InputError

KINDS: Final = {  # of a gallery's images -> heading, and what they are
    "typical": ("Most typical", "In-distribution images with the highest scores."),
    "borderline": ("Borderline", "Images whose scores lie nearest to the threshold."),
    "missed": ("Missed", "OOD images that are accepted as typical."),
    "false alarm": ("False alarms", "In-distribution images that are rejected."),
}
LARGEST_IMAGE = 256  # pixels a side; larger ones are scaled down, as they are shown at half of it
LARGEST_FILE = 16 << 10  # bytes; a larger file is encoded again


@dataclass(frozen=True)
class Encoded:
    """An image as a data URI, its place among the page's images, and whether it is small.

    small: whether it has so few pixels that they should stay visible.
    """

    uri: str
    place: int
    small: bool


@dataclass(frozen=True)
class Figure:
    """An image of the gallery as the page shows it, and what a method makes of it."""

    shown: Shown
    image: Encoded

    @property
    def set_name(self) -> str:
        """The set of the image."""
        return "ID test" if self.shown.set == "test" else self.shown.set

    @property
    def facts(self) -> dict[str, str]:
        """What is known about the image."""
        score = finite_number(self.shown.score)
        facts = {
            "is": self.shown.label or "",
            "nearest": self.shown.nearest or "",
            "score": "" if score is None else short(score),
        }
        return {key: value for key, value in facts.items() if value}

    @property
    def alt(self) -> str:
        """The image in words."""
        taken_from = "the ID test set" if self.shown.set == "test" else self.shown.set
        known = ", ".join(f"{key} {value}" for key, value in self.facts.items())
        return f"{self.shown.kind} from {taken_from}: {known}"


@dataclass(frozen=True)
class Kind:
    """Images of one kind: the heading, what they are, and the images."""

    heading: str
    note: str
    figures: Sequence[Figure]


@dataclass(frozen=True)
class Gallery:
    """The images of each method by kind, that of the method to take first; and all images."""

    methods: dict[str, list[Kind]]
    uris: list[str]


def gallery_of(result: ResultFolder, take: str = "") -> Gallery:
    """Return the gallery of a result. take: the method that is shown first, if it has images."""
    images: dict[str, Encoded] = {}
    figures: dict[str, list[Figure]] = {}
    for shown in result.gallery:
        if shown.file not in images:
            images[shown.file] = _encoded(result.path, shown.file, len(images))
        figures.setdefault(shown.method, []).append(Figure(shown, images[shown.file]))
    order = sorted(figures, key=lambda method: method != take)
    methods = {method: _kinds(figures[method]) for method in order}
    return Gallery(methods, [image.uri for image in images.values()])


def _kinds(figures: Sequence[Figure]) -> list[Kind]:
    groups: dict[str, list[Figure]] = {}
    for figure in figures:
        groups.setdefault(figure.shown.kind, []).append(figure)
    known = [kind for kind in KINDS if kind in groups]
    others = [kind for kind in groups if kind not in KINDS]
    return [Kind(*KINDS.get(kind, (kind, "")), groups[kind]) for kind in known + others]


def _encoded(folder: Path, name: str, place: int) -> Encoded:
    path = folder / name
    try:
        _check_inside(folder, name)
        with Image.open(path) as image:
            image.load()
            small = max(image.size) < LARGEST_IMAGE // 4
            mime, content = _embedded(image, path)
    except InputError:
        raise
    except Exception as error:  # Pillow's plugins raise nearly every kind; a path, of a zero byte
        raise InputError(
            f"{path}: the gallery's image cannot be read ({error}); run the benchmark again."
        ) from None
    uri = f"data:{mime};base64,{base64.b64encode(content).decode('ascii')}"
    return Encoded(uri, place, small)


def _check_inside(folder: Path, name: str) -> None:
    if not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{folder}/gallery.json: names {name!r}, which lies outside; copy it into the folder."
        )


def _embedded(image: Image.Image, path: Path) -> tuple[str, bytes]:
    """Return the MIME type and bytes of an image in the report: its file's, or a smaller JPEG's."""
    is_known = image.format in ("PNG", "JPEG", "WEBP", "GIF")
    is_large = max(image.size) > LARGEST_IMAGE or path.stat().st_size > LARGEST_FILE
    if is_known and not is_large:
        return f"image/{str(image.format).lower()}", path.read_bytes()
    reduced = image.convert("RGB")
    reduced.thumbnail((LARGEST_IMAGE, LARGEST_IMAGE))
    buffer = io.BytesIO()
    reduced.save(buffer, "JPEG", quality=85)
    return "image/jpeg", buffer.getvalue()
