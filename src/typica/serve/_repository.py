"""A folder that `mlserver start`, KServe and Seldon serve detectors from."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from typica.decide import load_detector
from typica.errors import InputError, border
from typica.files import atomic_path
from typica.serve._options import Options

MONITORING = Path(__file__).parent / "monitoring"  # a dashboard for Grafana, rules for Prometheus


@border
def write_repository(
    *detectors: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    options: Options | None = None,
) -> Path:
    """Write a model repository with a copy of each detector, and return its folder.

        write_repository("ctm.safetensors", folder="repository")

    `mlserver start repository` then serves them. In `monitoring/` are a Grafana dashboard and
    Prometheus's alert rules.
    """
    if not detectors:
        raise InputError("no detectors; pass one or more files that `typica fit` wrote.")
    chosen, target = options or Options(), Path(folder)
    paths = [Path(path) for path in detectors]
    if len({path.stem for path in paths}) < len(paths):
        raise InputError("two detectors have the same name; rename one of the files.")
    for path in paths:
        load_detector(path)
    for path in paths:
        place = target / path.stem
        place.mkdir(parents=True, exist_ok=True)
        with atomic_path(place / path.name) as temporary:
            shutil.copyfile(path, temporary)
        _write(place / "model-settings.json", _model(path, chosen))
    _write(target / "settings.json", _server(chosen))
    shutil.copytree(MONITORING, target / "monitoring", dirs_exist_ok=True)
    return target


def _model(path: Path, options: Options) -> dict[str, Any]:
    limits = vars(options.limits)
    return {
        "name": path.stem,
        "implementation": "typica.serve.Runtime",
        "platform": "typica",
        "parameters": {"uri": f"./{path.name}", "extra": limits},
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
