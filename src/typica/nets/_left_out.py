"""What is said of images that no network sees."""

from __future__ import annotations

from collections.abc import Iterable

from typica.data import Images
from typica.errors import InputError
from typica.progress import note


def say_left_out(images: Images) -> None:
    """Say what lies among images and is not an image, and how the images were taken."""
    for text in images.notes:
        note(text)
    for name in images.ignored:
        note(f"left out, not an image: {name}")


def say_skipped(skipped: Iterable[tuple[str, str]]) -> None:
    """Say which images could not be read, and why; the reason names the image."""
    for _, reason in skipped:
        note(f"skipped: {reason}")


def none_readable(images: Images) -> InputError:
    """Return the error about images of which none can be read."""
    return InputError(
        f"none of the {len(images)} images can be read, e.g. {images.names[0]}; look at them."
    )
