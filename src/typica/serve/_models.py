"""The detectors of one server, by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from typica.errors import InputError

if TYPE_CHECKING:
    from typica.serve._runtime import Runtime
    from typica.serve._served import Served


class UnknownModelError(InputError):
    """A model that is not served here."""


class Models:
    """What a server serves; its pages ask here for a detector."""

    def __init__(self) -> None:
        self._runtimes: dict[str, Runtime] = {}

    def add(self, runtime: Runtime) -> None:
        """Serve one more."""
        self._runtimes[runtime.name] = runtime

    def __iter__(self) -> Iterator[Runtime]:
        return iter(self._runtimes.values())

    def __contains__(self, name: object) -> bool:
        return name in self._runtimes

    def get(self, name: str | None) -> Runtime:
        """Return one by its name, which may be left out if there is only one."""
        if name is None and len(self._runtimes) == 1:
            return next(iter(self._runtimes.values()))
        if name is None or name not in self._runtimes:
            known = ", ".join(self._runtimes)
            asked = "no model is named" if name is None else f"model {name[:80]!r} is not here"
            raise UnknownModelError(f"{asked}; choose one of {known}.")
        return self._runtimes[name]


def told(runtime: Runtime) -> dict[str, Any]:
    """Return what the page shows about a detector, as JSON values."""
    served = runtime.served
    return {
        "name": served.name,
        **served.told,
        "digest": served.digest,
        "inputs": served.width,
        "reads": served.reads,
        "takes_images": served.network is not None,
        "no_images": served.no_images or None,
        "calibrated": served.calibration is not None,
        "histogram": served.histogram(),
        "image": _image(served),
        "bank": None if runtime.bank is None else str(runtime.bank.path),
        "shows_known": runtime.gallery is not None and runtime.gallery.has_images,
    }


def _image(served: Served) -> dict[str, Any] | None:
    """Return what images the network takes: channels, height, width; None if any size works."""
    if served.network is None:
        return None
    channels, height, width = served.network.transform.shape
    return {"channels": channels, "height": height, "width": width}
