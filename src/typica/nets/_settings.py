"""How images are run through a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from typica.checks import count
from typica.errors import InputError, border

BACKENDS = ("auto", "torch", "compile", "onnx", "openvino", "mnn")
OnError = Literal["stop", "skip"]


@dataclass(frozen=True)
class Settings:
    """How images are run through a network; None leaves the choice to the backend.

    Parameters
    ----------
    backend
        One of `BACKENDS`.
    batch, threads, device, autocast
        As `make_runner` takes them.
    on_error
        "stop" at an image that cannot be read, or "skip" it and say so.
    workers
        Threads that decode images.
    """

    backend: str = "auto"
    batch: int | None = None
    threads: int | None = None
    device: str | None = None
    autocast: bool = False
    on_error: OnError = "stop"
    workers: int | None = None

    @border
    def __post_init__(self) -> None:
        for name in ("batch", "threads", "workers"):
            value = getattr(self, name)
            if value is None:
                continue
            if not count().accepts(value):
                raise InputError(f"{name}={value!r}; pass 1 or more, or None to measure.")
            object.__setattr__(self, name, int(value))  # not NumPy's


def checked_settings(given: Any) -> Settings:
    """Return the settings that were given for running a network, the usual ones for None."""
    if given is None:
        return Settings()
    if not isinstance(given, Settings):
        raise InputError(
            f"settings are of type {type(given).__name__}; pass Settings, e.g. Settings(batch=8)."
        )
    return given
