"""Options whose text is read: NAME=VALUE, NAME=FILE, a transform."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typica.errors import InputError

if TYPE_CHECKING:
    from typica.data import Preprocessing


def read_params(detector: str, pairs: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of a detector from `--param NAME=VALUE`, read as they are declared."""
    from typica.detectors import parse_params  # noqa: PLC0415 (NumPy, which most do not need)

    texts: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--param {pair}: expected NAME=VALUE, e.g. --param k=50.")
        if name in texts:
            raise InputError(f"--param {pair}: {name} is given twice; leave one of them out.")
        texts[name] = value
    return parse_params(detector, texts)


def named_files(pairs: list[str]) -> dict[str, Path]:
    """Return the files of `--ood NAME=FILE` by name; without NAME it is the file's own."""
    files: dict[str, Path] = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals:
            name, path = Path(pair).stem, pair
        if not name or not path:
            raise InputError(f"--ood {pair}: expected NAME=FILE, e.g. --ood svhn=svhn.npy.")
        if name in files:
            raise InputError(f"--ood {pair}: the name {name!r} is given twice; choose another.")
        files[name] = Path(path)
    return files


def read_transform(text: str | None) -> Preprocessing | Mapping[str, Any] | None:
    """Return the transform that the option names, or the settings that it holds."""
    if text is None:
        return None
    from typica.data import Preprocessing  # noqa: PLC0415 (NumPy, which most options do not need)

    keys = ", ".join(Preprocessing.keys())
    form = f"JSON with the keys {keys}, such as '{Preprocessing.EXAMPLE}'"
    content = text
    if text.lower().endswith(".json") and Path(text).is_file():
        content = Path(text).read_text(encoding="utf-8", errors="replace")
    if not content.lstrip().startswith("{"):
        return _of_zoo(text, form)
    try:
        settings = json.loads(content)
    except ValueError as error:
        raise InputError(f"--transform {text}: not JSON ({error}); pass {form}.") from None
    _check_settings(settings, text)
    return dict(settings)


def _of_zoo(text: str, form: str) -> Preprocessing:
    from typica.nets import zoo  # noqa: PLC0415 (needs torch, which is an extra)

    try:
        return zoo.transform(text)
    except InputError:
        names = ", ".join(zoo.list_architectures())
        raise InputError(
            f"--transform {text}: unknown; pass a name of the zoo ({names}), or {form}."
        ) from None


def _check_settings(settings: dict[str, Any], text: str) -> None:
    from typica.nets import check_settings  # noqa: PLC0415 (only preprocessing needs it)

    try:
        check_settings(settings)
    except InputError as error:
        # Without the name of the function, which nobody typed.
        raise InputError(f"--transform {text}: {error.args[0]}") from None
