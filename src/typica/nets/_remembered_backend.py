"""Which backend was the quickest for a network here: found out once, then remembered.

A choice holds for one network, shape of input, processor and set of library versions; it lies in
Typica's home, one small file each, and may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from typica.errors import InputError
from typica.files import atomic_path, home
from typica.machine import cores, processor
from typica.nets._settings import Settings

_PACKAGES = ("typica", "numpy", "torch", "onnx", "onnxruntime", "openvino", "MNN")
_LARGEST = 2**16  # bytes of a choice


@dataclass(frozen=True)
class FastBackend:
    """A backend with its batch size and threads, and the seconds that it took to find out.

    images: how many there were to run, where the trial was cut short because they were few; for
    more, another trial may pay off. None where everything was tried.
    """

    backend: str
    batch: int
    threads: int
    seconds: float
    images: int | None = None

    def holds_for(self, images: int) -> bool:
        """Tell whether this many images are too few for a longer trial."""
        return self.images is None or images <= self.images


def choice_file(identity: Mapping[str, Any], shape: tuple[int, ...], settings: Settings) -> Path:
    """Return where the choice for a network's input on this machine lies."""
    asked = [settings.batch, settings.threads, settings.device, settings.autocast]
    known = [dict(identity), list(shape), asked, _machine(), _versions()]
    digest = hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()
    return home() / "backends" / f"{digest[:32]}.json"


def read_choice(path: Path) -> FastBackend | None:
    """Return the backend that a file remembers; None where there is none, or something else."""
    try:
        with path.open("rb") as file:
            values = json.loads(file.read(_LARGEST))
        choice = FastBackend(**values)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    numbers = [choice.batch, choice.threads, 1 if choice.images is None else choice.images]
    right = isinstance(choice.backend, str) and isinstance(choice.seconds, int | float)
    if right and all(map(_is_count, numbers)):
        return choice
    return None


def write_choice(path: Path, choice: FastBackend) -> None:
    """Remember a choice; where that cannot be written, it is found out again."""
    with contextlib.suppress(OSError, InputError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(asdict(choice)) + "\n", encoding="utf-8")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value > 0


def _machine() -> list[Any]:
    """Return what tells one kind of machine from another."""
    return [platform.system(), platform.machine(), processor(), cores()]


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions
