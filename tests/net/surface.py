"""List what users can reach: names, commands, keys of JSON, inputs and outputs of graphs, routes.

python tests/net/surface.py          write surface.txt anew
python tests/net/surface.py --diff   show what has changed
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import io
import json
import os
import pkgutil
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import typica
from typica.cli import main
from typica.cli._app import COMMANDS
from typica.testing import make_data

FILE = Path(__file__).with_name("surface.txt")
PACKAGES = [
    name
    for _, name, is_package in pkgutil.walk_packages(typica.__path__, "typica.")
    if is_package and not any(part.startswith("_") for part in name.split("."))
]
JSON = {  # commands with a small answer, in a folder of small files
    "fit": "fit train.npy --labels labels.npy --calibrate held_out.npy -o fitted.safetensors",
    "calibrate": "calibrate ctm.safetensors held_out.npy -o calibrated.safetensors",
    "info": "info ctm.safetensors",
    "score": "score ctm.safetensors test.npy",
    "explain": "explain ctm.safetensors test.npy --row 0",
    "evaluate": "evaluate ctm.safetensors test.npy --ood ood=ood.npy",
    "compare": "compare train.npy test.npy --labels labels.npy --ood ood=ood.npy --detectors ctm",
    "choose": "choose train.npy --labels labels.npy --detectors ctm,knn,quorum",
    "detectors": "detectors",
}


def listing() -> Iterator[str]:
    """Yield a line for each thing that a user can name."""
    for package in ["typica", *PACKAGES]:
        module = importlib.import_module(package)
        for name in sorted(getattr(module, "__all__", ())):
            try:
                value = getattr(module, name)
            except typica.InputError:  # its extra is not installed
                yield f"{package}.{name}"
                continue
            yield f"{package}.{name}{_signature(value)}"
            if inspect.isclass(value) and package == "typica":
                yield from _members(value, f"{package}.{name}")
    for name in COMMANDS:
        application = importlib.import_module(f"typica.cli.{name}").app
        for command in application.registered_commands:
            given = inspect.signature(command.callback, eval_str=True).parameters.values()
            options = sorted(_option(parameter) for parameter in given)
            yield f"$ typica {name} {command.callback.__name__}: {' '.join(options)}"
    yield from _json_keys()
    yield from _graphs()


def _signature(value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _members(kind: type, place: str) -> Iterator[str]:
    for name in sorted(vars(kind)):
        if not name.startswith("_"):
            found = inspect.getattr_static(kind, name)
            function = getattr(found, "__func__", found)
            yield f"{place}.{name}{_signature(function) if callable(function) else ''}"


def _option(parameter: inspect.Parameter) -> str:
    *_, info = getattr(parameter.annotation, "__metadata__", (None,))
    names = "/".join(getattr(info, "param_decls", None) or [parameter.name])
    needed = parameter.default is inspect.Parameter.empty
    return names if needed else f"[{names}={parameter.default}]"


def _json_keys() -> Iterator[str]:
    data = make_data()
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for name in ("train", "labels", "held_out", "test", "ood"):
                np.save(f"{name}.npy", getattr(data, name))
            detector = typica.CTM().fit(data.train, data.labels).calibrate(data.held_out)
            detector.save("ctm.safetensors")
            for name, line in JSON.items():
                document = _run(line)
                if name == "detectors":
                    document = document["ctm"]
                for key in sorted(set(_keys(document))):
                    yield f"--json {name}: {key}"
        finally:
            os.chdir(before)


def _run(line: str) -> Any:
    said, noted = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(noted):
        try:
            main([*line.split(), "--json", "-"])
        except SystemExit as stop:
            if stop.code:
                raise RuntimeError(f"typica {line}: exit {stop.code}: {noted.getvalue()}") from stop
    text = said.getvalue()
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(each) for each in text.splitlines()]


def _keys(value: Any, place: str = "") -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _keys(item, f"{place}.{key}".lstrip("."))
    elif isinstance(value, list) and value:
        yield from _keys(value[0], f"{place}[]")
    else:
        yield place


def _graphs() -> Iterator[str]:
    from typica.export import to_onnx

    data = make_data()
    for calibrated in (False, True):
        detector = typica.CTM().fit(data.train, data.labels)
        if calibrated:
            detector.calibrate(data.held_out)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ctm.onnx"
            to_onnx(detector, path=path)
            import onnx

            graph = onnx.load(path).graph
        inputs, outputs = ([each.name for each in part] for part in (graph.input, graph.output))
        yield f"onnx of CTM, {'' if calibrated else 'not '}calibrated: {inputs} -> {outputs}"


def changes(lines: list[str]) -> list[str]:
    """Return what a listing has lost (-) and gained (+) since it was written."""
    known = FILE.read_text(encoding="utf-8").splitlines()
    found = difflib.unified_diff(known, lines, lineterm="", n=0)
    return [line for line in found if not line.startswith(("---", "+++", "@@"))]


if __name__ == "__main__":
    now = list(listing())
    if "--diff" in sys.argv:
        print(*changes(now), sep="\n")
    else:
        FILE.write_text("\n".join(now) + "\n", encoding="utf-8")
        print(f"{FILE}: {len(now)} lines")
