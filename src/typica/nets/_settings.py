"""How images are run through a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BACKENDS = ("auto", "torch", "compile", "onnx", "openvino", "mnn")
OnError = Literal["stop", "skip"]


@dataclass(frozen=True)
class Settings:
    """How images are run through a network; None leaves the choice to the backend.

    backend: one of `BACKENDS`. on_error: "stop" at an image
    that cannot be read, or "skip" it and say so. workers: threads that decode.
    """

    backend: str = "auto"
    batch: int | None = None
    threads: int | None = None
    device: str | None = None
    autocast: bool = False
    on_error: OnError = "stop"
    workers: int | None = None
