"""`typica serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from typica.cli._app import new_app
from typica.cli._option_checks import out_folder
from typica.cli._options import MovedModel, MovedWeights, Trust
from typica.cli._show import say
from typica.errors import InputError, argument
from typica.extras import check_installed

app = new_app()


@app.command(epilog="Example: typica serve ctm.safetensors --port 9000")
def serve(
    detectors: Annotated[
        list[Path] | None,
        typer.Argument(help="Files that `typica fit` wrote; each is a model.", show_default=False),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 for all of this machine's.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="For HTTP; 0 takes any free port.")] = 8080,
    grpc_port: Annotated[int, typer.Option(help="For gRPC.")] = 8081,
    metrics_port: Annotated[int, typer.Option(help="For Prometheus.")] = 8082,
    bank: Annotated[
        Path | None, typer.Option(help="Known inputs; the nearest of them are named and shown.")
    ] = None,
    bank_images: Annotated[
        Path | None, typer.Option(help="Where the images of the bank are, if they have moved.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="Ask every caller for the token in this file.")
    ] = None,
    max_body: Annotated[int, typer.Option(help="Megabytes per request at most.", min=1)] = 64,
    max_pixels: Annotated[
        int, typer.Option(help="Millions of pixels per image at most.", min=1)
    ] = 64,
    queue: Annotated[
        int, typer.Option(help="How many inputs may wait for a detector.", min=1)
    ] = 1024,
    model: MovedModel = None,
    weights: MovedWeights = None,
    trust: Trust = False,
    write: Annotated[
        Path | None,
        typer.Option(
            callback=out_folder,
            help="Write the folder that `mlserver start` and KServe read, and serve nothing.",
        ),
    ] = None,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", help="Serve a detector of handwritten digits, which you draw on the page."
        ),
    ] = False,
) -> None:
    """Serve detectors over HTTP and gRPC: verdicts, metrics, and a page to drop images on.

    A detector is read again when its file is replaced. SIGTERM or Ctrl-C ends the server, once all
    accepted requests are answered.
    """
    known: dict[str, Any] = {
        "bank": bank,
        "bank_images": bank_images,
        "model": model,
        "weights": weights,
    }
    _check(detectors, demo, {**known, "write": write})
    check_installed("mlserver", "serve")
    from typica.serve import (  # noqa: PLC0415 (an extra)
        Limits,
        Options,
        read_token,
        serve_demo,
        write_repository,
    )
    from typica.serve import serve as run  # noqa: PLC0415

    paths = detectors or []
    token = None if token_file is None else read_token(token_file)
    limits = Limits(body=max_body * 10**6, pixels=max_pixels * 10**6, queue=queue)
    options = Options(host, port, grpc_port, metrics_port, token, limits)
    if demo:
        if port:
            where = options.page_at(port)
            say(f"draw a digit from 0 to 6 at {where}, and then a letter")
        serve_demo(options)
        return
    known["trust"] = trust
    if write is not None:
        folder = write_repository(*paths, folder=write, options=options, **known)
        say(f"wrote {folder}; serve it with `mlserver start {folder}`")
        return
    run(*paths, options=options, **known)


def _check(detectors: list[Path] | None, demo: bool, beside: dict[str, Any]) -> None:
    """Refuse --demo together with other detectors, and a server without any."""
    if not demo and not detectors:
        raise InputError("no detectors; pass files that `typica fit` wrote, or --demo.")
    unused = [argument(name) for name, value in beside.items() if value is not None]
    if demo and detectors:
        unused.insert(0, "the files")
    if demo and unused:
        raise InputError(f"--demo brings its own detectors; leave out {', '.join(unused)}.")
