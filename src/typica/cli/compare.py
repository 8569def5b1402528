"""`typica compare`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from typica.bench import Comparison, compare_files, pareto
from typica.cli.app import new_app
from typica.cli.checks import argument_of, named_files
from typica.cli.options import (
    Alpha,
    Detectors,
    Json,
    Labels,
    OldTestFeatures,
    Ood,
    TestFeatures,
    Tpr,
)
from typica.cli.show import failures, footnote, present, table
from typica.errors import InputError
from typica.exact import percent

COSTS = ("fit s", "µs/row")
LESS_IS_BETTER = ("FPR ↓", *COSTS)

app = new_app()


@app.command(
    epilog="Example: typica compare train.npy test.npy --labels y.npy --head head.safetensors "
    "--ood svhn=svhn.npy"
)
def compare(
    features: Annotated[Path, typer.Argument(help="Training features.")],
    ood: Ood,
    test: TestFeatures = None,
    in_distribution: OldTestFeatures = None,
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
    known = argument_of(test, in_distribution, "--id", "TEST")
    compared = compare_files(
        features,
        known,
        named_files(ood),
        labels=labels,
        head=head,
        names=detectors,
        alpha=alpha,
        tpr=tpr,
    )
    parts = [_table(compared, f"AUROC ↑ on {known.name}, best in bold")]
    done = [row.evaluation for row in compared.values() if row.evaluation is not None]
    if done:
        parts.append(footnote(next(iter(done[0].ood.values()))))
        parts.append(_worth(compared))
    errors = {name: row.error for name, row in compared.items() if row.error}
    document = {name: row.to_dict() for name, row in compared.items()}
    present(document, json_file, *parts, *failures(errors))
    if not done:
        raise InputError("compare: every detector failed; see the messages above.")


def _worth(compared: Mapping[str, Comparison]) -> Text:
    """Say which detectors no cheaper one is as good as: the line from quick to good."""
    steps = []
    for name, auroc, microseconds in pareto(compared):
        steps.append(f"{name} ({percent(auroc)} at {microseconds:.2g} µs/row)")
    return Text(f"Worth their cost, cheapest first: {', '.join(steps)}")


def _table(compared: Mapping[str, Comparison], title: str) -> RenderableType:
    """Return one row per detector: AUROC on each OOD set, their mean, FPR and costs; best first."""
    results = {}
    for name, row in compared.items():
        if row.evaluation is not None:
            results[name] = _numbers(row)
    columns = list(next(iter(results.values()), {"mean": 0.0}))
    best = {column: _best(column, results) for column in columns}
    lines: list[list[str | Text]] = []
    for name in sorted(results, key=lambda name: -results[name]["mean"]):
        cells = [_cell(column, results[name][column], best[column]) for column in columns]
        lines.append([name, *cells])
    lines += [[name, "failed"] for name, row in compared.items() if row.error]
    return table(title, ["detector", *columns], lines, keep=("mean", "FPR ↓"))


def _numbers(row: Comparison) -> dict[str, float]:
    if row.evaluation is None:
        return {}
    average = row.evaluation.average
    numbers = {name: 100 * result.auroc for name, result in row.evaluation.ood.items()}
    numbers |= {"mean": 100 * average["auroc"], "FPR ↓": 100 * average["fpr"]}
    return numbers | {"fit s": row.fit_seconds, "µs/row": row.score_microseconds}


def _best(column: str, results: Mapping[str, Mapping[str, float]]) -> float:
    numbers = [row[column] for row in results.values()]
    if column in LESS_IS_BETTER:
        return min(numbers, default=0.0)
    return max(numbers, default=0.0)


def _cell(column: str, number: float, best: float) -> Text:
    text = f"{number:.3g}" if column in COSTS else f"{number:.2f}"
    return Text(text, style="bold" if number == best else "")
