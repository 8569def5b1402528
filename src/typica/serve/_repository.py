"""A folder that `mlserver start`, KServe and Seldon serve detectors from."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from typica.decide import origin_of
from typica.errors import InputError, border
from typica.files import atomic_path
from typica.progress import note
from typica.serve._options import Options
from typica.serve._served import Network, Served, read_served
from typica.serve._settings import BESIDE, IMPLEMENTATION, PLATFORM, check_names

MONITORING = Path(__file__).parent / "monitoring"  # a dashboard for Grafana, rules for Prometheus
NETWORK = "network"  # the folder of a network's files, beside the detector


@border
def write_repository(
    *detectors: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    options: Options | None = None,
    bank: str | os.PathLike[str] | None = None,
    bank_images: str | os.PathLike[str] | None = None,
    model: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    trust: bool = False,
) -> Path:
    """Write a model repository with a copy of each detector, and return its folder.

        write_repository("ctm.safetensors", folder="repository")

    `mlserver start repository` then serves them. The files of a network are copied too, so that
    the folder takes images wherever it goes; if the network is a function, its code must be
    installed there. `monitoring/` holds a Grafana dashboard and alert rules for Prometheus.

    Parameters
    ----------
    detectors
        Files that `typica fit` wrote.
    folder
        Where to write.
    options
        Where the server listens, and its limits; a token is refused, as MLServer has none.
    bank, bank_images, model, weights, trust
        As `serve` takes them; a bank is not copied.
    """
    chosen, target = options or Options(), Path(folder)
    paths = [Path(path) for path in detectors]
    _check(paths, chosen)
    network = Network(model, None if weights is None else str(weights), trust)
    known_inputs = _absolute(bank=bank, bank_images=bank_images)
    found = [read_served(path.stem, path, network) for path in paths]
    for served in found:
        place = target / served.name
        place.mkdir(parents=True, exist_ok=True)
        _copy(served.path, place)
        extra = {**vars(chosen.limits), **_network(served, network, place), **known_inputs}
        _write(place / "model-settings.json", _model(served, extra))
    _write(target / "settings.json", _server(chosen))
    shutil.copytree(MONITORING, target / MONITORING.name, dirs_exist_ok=True)
    return target


def _absolute(**places: str | os.PathLike[str] | None) -> dict[str, str]:
    """Return the places that are given, as absolute paths."""
    given = {name: Path(place) for name, place in places.items() if place is not None}
    return {name: str(place.absolute()) for name, place in given.items()}


def _check(paths: list[Path], options: Options) -> None:
    check_names(paths)
    if MONITORING.name in {path.stem for path in paths}:
        raise InputError(f"a detector called {MONITORING.name!r}; rename its file.")
    if options.token is not None:
        raise InputError(
            "MLServer asks for no token; leave it out and put a gateway in front of it, "
            "or serve with `typica serve`."
        )


def _network(served: Served, network: Network, place: Path) -> dict[str, Any]:
    """Copy the files of a served detector's network; return the settings that find it there."""
    origin = origin_of(served.estimator)
    if origin is None:
        return {}
    if served.network is None:
        note(f"{served.name} will take features only ({served.no_images})")
        return {}
    model = network.model or origin.model_file
    weights = network.weights or origin.weights_file
    settings: dict[str, Any] = {"trust": True} if network.trust else {}
    if model is not None:
        settings["model"] = _beside(model, place)
    if weights is not None:
        settings["weights"] = _beside(weights, place)
    return settings


def _beside(source: str, place: Path) -> str:
    """Copy a file of a network to the detector's folder, and return its name there.

    What is not a file, such as a function or a name of the zoo, is returned unchanged.
    """
    if not Path(source).is_file():
        return source
    (place / NETWORK).mkdir(exist_ok=True)
    copied = _copy(Path(source), place / NETWORK)
    return f"{BESIDE}{NETWORK}/{copied.name}"


def _copy(path: Path, folder: Path) -> Path:
    target = folder / path.name
    with atomic_path(target) as temporary:
        shutil.copyfile(path, temporary)
    return target


def _model(served: Served, extra: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": served.name,
        "implementation": IMPLEMENTATION,
        "platform": PLATFORM,
        "parameters": {"uri": f"{BESIDE}{served.path.name}", "extra": extra},
    }


def _server(options: Options) -> dict[str, Any]:
    """Return the settings of the server; one process, so that one monitor sees the whole stream."""
    return {
        "host": options.host,
        "http_port": options.port,
        "grpc_port": options.grpc_port,
        "metrics_port": options.metrics_port,
        "grpc_max_message_length": options.limits.body,
        "parallel_workers": 0,
        "debug": False,
    }


def _write(path: Path, values: dict[str, Any]) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
