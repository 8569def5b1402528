"""`typica compare`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from typica.bench import Comparison, compare_files, comparison_table, pareto, to_terminal
from typica.cli._app import new_app
from typica.cli._option_values import named_files
from typica.cli._options import (
    Alpha,
    Detectors,
    Json,
    Labels,
    Ood,
    TestFeatures,
    Tpr,
)
from typica.cli._show import failures, footnote, present
from typica.errors import InputError
from typica.metrics import METRICS
from typica.written_numbers import percent

app = new_app()


@app.command(
    epilog="Example: typica compare train.npy test.npy --labels y.npy --head head.safetensors "
    "--ood svhn=svhn.npy"
)
def compare(
    features: Annotated[Path, typer.Argument(help="Training features.")],
    test: TestFeatures,
    ood: Ood,
    labels: Labels = None,
    head: Annotated[
        Path | None, typer.Option(help="The last layer: weight, bias, classes.")
    ] = None,
    detectors: Detectors = "all",
    alpha: Alpha = None,
    tpr: Tpr = None,
    json_file: Json = None,
) -> None:
    """Fit every detector on the same features and show which tells ID from OOD best."""
    compared = compare_files(
        features,
        test,
        named_files(ood),
        labels=labels,
        head=head,
        names=detectors,
        alpha=alpha,
        tpr=tpr,
    )
    made = comparison_table(compared, f"{METRICS['auroc'].label()} on {test.name}, best in bold")
    parts = [to_terminal(made, keep=("mean", METRICS["fpr"].heading))]
    done = [row.evaluation for row in compared.values() if row.evaluation is not None]
    if done:
        parts.append(footnote(next(iter(done[0].ood.values()))))
        parts.append(_worth_line(compared))
    errors = {name: row.error for name, row in compared.items() if row.error}
    document = {name: row.to_dict() for name, row in compared.items()}
    present(document, json_file, *parts, *failures(errors))
    if not done:
        raise InputError("compare: every detector failed; see the messages above.")


def _worth_line(compared: Mapping[str, Comparison]) -> Text:
    """Return the line of `typica compare` on detectors that no cheaper one is as good as."""
    steps = []
    for name, auroc, microseconds in pareto(compared):
        steps.append(f"{name} ({percent(auroc)} at {microseconds:.2g} µs/row)")
    return Text(f"Worth their cost, cheapest first: {', '.join(steps)}")
