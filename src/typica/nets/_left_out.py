"""What is said about images that no network sees."""

from __future__ import annotations

from collections.abc import Iterable

from typica.data import Images
from typica.errors import InputError, counted
from typica.progress import note


def note_left_out(images: Images) -> None:
    """Note what a set of images says about itself, and its files that are not images."""
    for text in images.notes:
        note(text)
    for name in images.ignored:
        note(f"left out, not an image: {name}")


def note_skipped(skipped: Iterable[tuple[str, str]]) -> None:
    """Note which images no network saw, since they could not be read; the reason names each."""
    for _, reason in skipped:
        note(f"skipped: {reason}")


def none_readable(images: Images) -> InputError:
    """Return the error that none of the images for a network can be read."""
    return InputError(
        f"none of {counted(len(images), 'image')} can be read, e.g. {images.names[0]}; "
        "check the files."
    )
