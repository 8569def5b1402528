"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from typica.cli._option_checks import one_of, out_text
from typica.cli._option_values import read_transform
from typica.data import SPLITS, Preprocessing
from typica.nets import BACKENDS, Settings
from typica.scale import ENGINES

Json = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="FILE", callback=out_text, help="Write the result as JSON; - prints it."
    ),
]
Alpha = Annotated[
    str | None,
    typer.Option(
        help="Share of in-distribution inputs that may be rejected; 0.05 if not given.",
    ),
]
Tpr = Annotated[
    str | None,
    typer.Option(help="Share of in-distribution inputs to keep, 1 - alpha, in place of alpha."),
]
Ood = Annotated[list[str], typer.Option(help="An OOD set, NAME=FILE; may be repeated.")]
TestFeatures = Annotated[Path, typer.Argument(help="In-distribution test features.")]
FeatureColumn = Annotated[
    str | None,
    typer.Option(
        "--features", metavar="COLUMN", help="For tables: the column of lists that holds features."
    ),
]
FeatureColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="COLUMN ...",
        help="For tables, in place of --features: one column per feature; 'f*' stands for all that "
        "match.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        callback=one_of(tuple(ENGINES)),
        help=f"For tables: work on a cluster of {', '.join(ENGINES)}; without --address a local "
        "one is started, and stopped at the end.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="The cluster: tcp://host:8786 for Dask, ray://host:10001 or auto for Ray, "
        "spark://host:7077, yarn or sc://host for Spark."
    ),
]
Labels = Annotated[
    Path | None, typer.Option(help="Labels, if the features hold none: a file, or a column.")
]
Detectors = Annotated[str, typer.Option(help="all, paper, or names separated by commas.")]
Confidence = Annotated[
    str | None,
    typer.Option(help="Keep to alpha with this probability over the calibration draw."),
]
Backend = Annotated[
    str,
    typer.Option(
        callback=one_of(BACKENDS), help=f"{', '.join(BACKENDS)}; auto is the fastest that agrees."
    ),
]
OnError = Annotated[
    str,
    typer.Option(
        callback=one_of(("stop", "skip")),
        help="What to do at an image that cannot be read, or a row of a table without a whole "
        "embedding: stop, or skip it and say so.",
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        callback=one_of(SPLITS), help=f"For images with several splits: {', '.join(SPLITS)}."
    ),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Allow loading files that can run code: TorchScript, .pt2."),
]
MovedModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="For images: the model, if it has moved, is new, or is a function, whose code runs "
        "only if it is named here.",
    ),
]
MovedWeights = Annotated[
    Path | None, typer.Option("--weights", help="For images: the checkpoint, if it has moved.")
]
Transform = Annotated[
    str | None,
    typer.Option(
        help=f"Preprocessing: a name of the zoo, JSON such as '{Preprocessing.EXAMPLE}', or a "
        f".json file. Its keys: {', '.join(Preprocessing.keys())}; size and mode come from the "
        "model if left out."
    ),
]
Classes = Annotated[
    Path | None,
    typer.Option(
        help="The names of the network's outputs in their order, one per line, or JSON; the names "
        "of folders, sorted, if not given."
    ),
]


def network(
    model: str | None,
    weights: Path | None,
    transform: str | None,
    trust: bool,
    backend: str,
    on_error: str,
) -> dict[str, Any]:
    """Return the options about the network that sees the images, as the library takes them."""
    return {
        "model": model,
        "weights": weights,
        "transform": read_transform(transform),
        "trust": trust,
        "settings": Settings(backend=backend, on_error=on_error),  # type: ignore[arg-type]
    }
