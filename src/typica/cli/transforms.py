"""`--transform`, as several commands take it: a name of the zoo, JSON, or a file of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from typica.data import Preprocessing
from typica.errors import InputError

EXAMPLE = '{"resize": 28, "crop": 28, "mode": "L", "mean": 0.5, "std": 0.5}'
KEYS = Preprocessing.keys()

Transform = Annotated[
    str | None,
    typer.Option(
        help=f"Preprocessing: a name of the zoo, JSON such as '{EXAMPLE}', or a .json file. "
        f"Its keys: {', '.join(KEYS)}; size and mode are read off the model where left out."
    ),
]


def read_transform(text: str | None) -> Preprocessing | Mapping[str, Any] | None:
    """Return the transform that the option gives, or the settings that it gives of one."""
    if text is None:
        return None
    form = f"JSON with the keys {', '.join(KEYS)}, such as '{EXAMPLE}'"
    content = text
    if text.lower().endswith(".json") and Path(text).is_file():
        content = Path(text).read_text(encoding="utf-8", errors="replace")
    if not content.lstrip().startswith("{"):
        return _of_zoo(text, form)
    try:
        settings = json.loads(content)
    except ValueError as error:
        raise InputError(f"--transform {text}: not JSON ({error}); pass {form}.") from None
    _check(settings, text)
    return dict(settings)


def _of_zoo(text: str, form: str) -> Preprocessing:
    from typica.nets import zoo  # noqa: PLC0415 (needs torch, which is an extra)

    try:
        return zoo.transform(text)
    except InputError:
        names = ", ".join(zoo.names())
        raise InputError(
            f"--transform {text}: unknown; pass a name of the zoo ({names}), or {form}."
        ) from None


def _check(settings: dict[str, Any], text: str) -> None:
    from typica.nets import check_settings  # noqa: PLC0415 (only who preprocesses needs it)

    try:
        check_settings(settings)
    except InputError as error:
        # Without the name of the function, which nobody has typed.
        raise InputError(f"--transform {text}: {error.args[0]}") from None
