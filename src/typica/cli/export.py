"""`typica export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from typica.cli._app import new_app
from typica.cli._option_checks import check_ending, out_file, out_folder
from typica.cli._option_values import read_transform
from typica.cli._options import Json, Transform, Trust
from typica.cli._show import present, table
from typica.decide import load_detector

app = new_app()


@app.command(
    epilog="Example: typica export ctm.safetensors -o guarded.onnx --model net.onnx --uint8"
)
def export(
    detector: Annotated[Path, typer.Argument(help="A file that `typica fit` wrote.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", callback=out_file, help="The ONNX file to write.")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="The network, which becomes part of the file: a name of the zoo, an .onnx file, "
            "or package.module:function. If not given, the file takes features."
        ),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="The checkpoint, for a model of the zoo or a function.")
    ] = None,
    trust: Trust = False,
    transform: Transform = None,
    uint8: Annotated[
        bool,
        typer.Option(
            "--uint8",
            help="Take pixels of any size: the file resizes, crops and normalises them itself.",
        ),
    ] = False,
    calibration_size: Annotated[
        int | None,
        typer.Option(
            help="How many calibration scores per group to keep at most; all if not given.", min=1
        ),
    ] = None,
    triton: Annotated[
        Path | None,
        typer.Option(
            callback=out_folder,
            help="Write an entry of a Triton model repository too: config.pbtxt and the model.",
        ),
    ] = None,
    json_file: Json = None,
) -> None:
    """Write a detector, and its network, as one ONNX file, which runs without Typica.

    The file takes features, or images with --model; and a threshold, if one other than the
    detector's own is wanted.
    """
    check_ending(output, ".onnx", "an ONNX model")
    from typica.export import describe_onnx, to_onnx, write_triton  # noqa: PLC0415 (needs onnx, an extra)

    given = read_transform(transform)
    estimator = load_detector(detector)
    made = to_onnx(
        estimator,
        model,
        path=output,
        calibration_size=calibration_size,
        weights=weights,
        trust=trust,
        transform=given,
        uint8=uint8,
    )
    notes = [] if triton is None else [f"wrote {write_triton(made, triton)} for Triton"]
    told = describe_onnx(made)
    summary = {"file": str(output), "triton": None if triton is None else str(triton), **told}
    present(summary, json_file, f"wrote {output}", _values(told), *notes)


def _values(told: dict[str, Any]) -> RenderableType:
    lines = []
    for role in ("input", "output"):
        for name, value in told[f"{role}s"].items():
            shape = " x ".join(map(str, value["shape"]))
            lines.append([role, name, value["type"], shape])
    return table("", ["", "name", "type", "shape"], lines)
