"""What MLServer is told about a detector: its name, where it is, and how a Runtime reads that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from mlserver.errors import MLServerError
from mlserver.settings import ModelParameters, ModelSettings
from mlserver.utils import to_absolute_path

from typica.decide import load_detector
from typica.errors import InputError
from typica.serve._options import Limits
from typica.serve._served import Network

IMPLEMENTATION = "typica.serve.Runtime"
PLATFORM = "typica"
BESIDE = "./"  # before a path relative to the settings file
WATCH = 0.5  # seconds between two looks at a file
_FILE = "file://"


@dataclass(frozen=True)
class RuntimeSettings:
    """Where a detector is and what belongs to it.

    path: the detector's file. watch: seconds between two looks at it, 0 for none.
    """

    path: Path
    network: Network
    limits: Limits
    bank: Path | None
    bank_images: str | None
    watch: float


def check_names(paths: Sequence[Path]) -> None:
    """Refuse to serve nothing, or two detectors of one name, which is their file's stem."""
    if not paths:
        raise InputError("no detectors; pass one or more files that `typica fit` wrote.")
    names = [path.stem for path in paths]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two detectors are called {name!r}; rename one of the files.")


def model_settings(paths: Sequence[Path], limits: Limits, **extra: Any) -> list[ModelSettings]:
    """Return what MLServer is told about each detector, which is read once to check that it can be.

    extra: what applies to all of them, as `serve` takes it.
    """
    check_names(paths)
    named = {key: str(value) for key, value in extra.items() if value is not None and value != ""}
    whole = {**named, **vars(limits), "trust": bool(extra.get("trust"))}
    return [_settings_of(path, whole) for path in paths]


def _settings_of(path: Path, extra: dict[str, Any]) -> ModelSettings:
    load_detector(path)
    return ModelSettings(
        name=path.stem,
        implementation=IMPLEMENTATION,
        parameters=ModelParameters(uri=str(path.absolute()), extra=extra),
        platform=PLATFORM,
    )


def read_settings(settings: ModelSettings) -> RuntimeSettings:
    """Return what settings say; limits are checked."""
    parameters = settings.parameters
    if parameters is None or not parameters.uri:
        raise MLServerError(f"{settings.name}: no parameters.uri; name the detector's file.", 422)
    extra: dict[str, Any] = dict(parameters.extra or {})
    for name in ("model", "weights", "bank", "bank_images"):
        if str(extra.get(name, "")).startswith(BESIDE):
            extra[name] = to_absolute_path(settings, extra[name])
    bank = extra.get("bank")
    return RuntimeSettings(
        path=Path(to_absolute_path(settings, parameters.uri.removeprefix(_FILE))),
        network=Network(**_known(extra, Network)),
        limits=Limits(**_known(extra, Limits)),
        bank=None if bank is None else Path(bank),
        bank_images=extra.get("bank_images"),
        watch=float(extra.get("watch", WATCH)),
    )


def _known(values: dict[str, Any], record: type[Any]) -> dict[str, Any]:
    """Return those of the server's settings that a record has; all others are left out."""
    return {field.name: values[field.name] for field in fields(record) if field.name in values}
