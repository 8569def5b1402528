"""`typica export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

import typica
from typica.cli.app import new_app
from typica.cli.checks import out_file
from typica.cli.options import Json
from typica.cli.show import present, table
from typica.export import describe_onnx, to_onnx

app = new_app()


@app.command(epilog="Example: typica export ctm.safetensors -o ctm.onnx")
def export(
    detector: Annotated[Path, typer.Argument(help="A file that `typica fit` wrote.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", callback=out_file, help="The ONNX file to write.")
    ],
    calibration_size: Annotated[
        int | None,
        typer.Option(
            help="Calibration scores to keep at most, of each group; all if not given.", min=1
        ),
    ] = None,
    json_file: Json = None,
) -> None:
    """Write a detector as one ONNX file, which runs without Typica.

    It takes features, and a threshold where another than the detector's is wanted.
    """
    estimator = typica.load(detector)
    model = to_onnx(estimator, path=output, calibration_size=calibration_size)
    told = describe_onnx(model)
    present({"file": str(output), **told}, json_file, _values(f"wrote {output}", told))


def _values(title: str, told: dict[str, Any]) -> RenderableType:
    lines = []
    for role in ("input", "output"):
        for name, value in told[f"{role}s"].items():
            shape = " x ".join(map(str, value["shape"]))
            lines.append([role, name, value["type"], shape])
    return table(title, ["", "name", "type", "shape"], lines)
