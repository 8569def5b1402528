"""`typica extract`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from typica.bank import Bank, describe_bank
from typica.cli._app import new_app
from typica.cli._option_checks import one_of, out_folder
from typica.cli._option_values import read_transform
from typica.cli._options import Backend, Classes, Json, OnError, Split, Transform, Trust
from typica.cli._show import error_console, present
from typica.data import open_images, read_classes
from typica.errors import InputError, counted
from typica.nets import REDUCTIONS
from typica.written_numbers import percent

DTYPES = ("float32", "float16")

app = new_app()


@app.command(
    epilog="Example: typica extract train/ --model densenet-bc-100 --weights net.pth.tar "
    "-o train.bank"
)
def extract(
    images: Annotated[
        list[Path],
        typer.Argument(help="Folder, archive, .npz, .parquet, CIFAR or SVHN files, any number."),
    ],
    model: Annotated[
        str,
        typer.Option(help="A name of the zoo, an .onnx file, or package.module:function."),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", callback=out_folder, help="The bank, a folder.")
    ],
    weights: Annotated[
        str | None, typer.Option(help="The checkpoint, for a model of the zoo or a function.")
    ] = None,
    trust: Trust = False,
    layer: Annotated[
        str | None, typer.Option(help="The feature's layer; the input of the head if not given.")
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help="More layers to keep, separated by commas.")
    ] = None,
    reduce: Annotated[
        str,
        typer.Option(
            callback=one_of(REDUCTIONS), help=f"How maps become rows: {', '.join(REDUCTIONS)}."
        ),
    ] = "mean",
    split: Split = None,
    transform: Transform = None,
    classes: Classes = None,
    exif: Annotated[
        bool | None,
        typer.Option(
            "--exif/--no-exif",
            help="Rotate photographs as their EXIF data say; if not given, the transform decides.",
        ),
    ] = None,
    backend: Backend = "auto",
    batch: Annotated[int | None, typer.Option(help="Images at a time.", min=1)] = None,
    threads: Annotated[int | None, typer.Option(help="Threads for the network.", min=1)] = None,
    workers: Annotated[int | None, typer.Option(help="Threads that decode images.", min=1)] = None,
    device: Annotated[str | None, typer.Option(help="For torch: cpu, cuda, cuda:1 ...")] = None,
    autocast: Annotated[
        bool, typer.Option("--autocast", help="For torch on a GPU: half precision inside.")
    ] = False,
    dtype: Annotated[
        str,
        typer.Option(callback=one_of(DTYPES), help=f"The features on disk: {', '.join(DTYPES)}."),
    ] = "float32",
    on_error: OnError = "stop",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over, whatever the output holds already.")
    ] = False,
    json_file: Json = None,
) -> None:
    """Run images through a network and keep features, logits and labels in a bank.

    If it is stopped at any moment, the same command resumes where it was.
    """
    from typica.nets import Settings, open_model, transform_for  # noqa: PLC0415 (needs torch, which is an extra)
    from typica.nets import extract as run  # noqa: PLC0415

    given = read_transform(transform)
    names = None if classes is None else read_classes(classes)
    found = open_images(images if len(images) > 1 else images[0], split=split)
    wanted = None if layers is None else [*layers.split(","), layer or "penultimate"]
    opened = open_model(
        model,
        weights,
        layer=None if wanted else layer,
        layers=wanted,
        reduce=reduce,
        trust=trust,
    )
    chosen = transform_for(opened, found, given)
    if exif is not None:
        chosen = replace(chosen, exif=exif)
    settings = Settings(backend, batch, threads, device, autocast, on_error, workers)  # type: ignore[arg-type]
    whole = not fresh and _is_whole(output)
    with _saying_that_it_goes_on():
        bank = run(
            found,
            opened,
            output,
            chosen,
            classes=names,
            settings=settings,
            dtype=dtype,
            fresh=fresh,
        )
    done = f"{output}: is whole already" if whole else f"wrote {output}"
    lines = [done, *_told(bank), f"typica info {output} shows the rest"]
    present(describe_bank(bank), json_file, *lines)


def _is_whole(output: Path) -> bool:
    """Tell whether `typica extract` finds its output complete, by an earlier run."""
    if not Bank.is_bank(output):
        return False
    try:
        Bank.open(output)
    except InputError:  # the extraction will say what is wrong with it
        return False
    return True


def _told(bank: Bank) -> Iterator[str]:
    """Yield what was made, in two lines."""
    yield repr(bank)
    skipped = f"{counted(len(bank.skipped), 'image')} skipped"
    if bank.accuracy is None:
        yield skipped
    else:
        yield f"{skipped}, {percent(bank.accuracy)} % of the labels predicted (top-1)"


@contextlib.contextmanager
def _saying_that_it_goes_on() -> Iterator[None]:
    """At Ctrl-C, say in the terminal that the same command resumes the work."""
    try:
        yield
    except KeyboardInterrupt:
        error_console.print("stopped; the same command resumes here")
        raise
