"""`typica bench`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from typica.bench import (
    EXPERIMENTS,
    Record,
    Suite,
    Table,
    Workbench,
    adapted,
    check_sources,
    headline,
    keep_result,
    load_suite,
    run_experiment,
    suite_features,
    tables_of,
    to_csv,
    to_latex,
    to_markdown,
    to_terminal,
    without_idle_methods,
)
from typica.bench.published import publications, title_of
from typica.cli._app import new_app
from typica.cli._option_checks import check_out_folder, one_of, out_folder, out_text, prints
from typica.cli._options import Backend, Json, OnError, Trust
from typica.cli._show import console, say_written, write_json, write_text
from typica.errors import InputError, about
from typica.nets import Settings
from typica.progress import note

app = new_app()


@app.command(
    epilog="Example: typica bench cifar10-densenet --features DIR --experiment detail "
    "--against paper"
)
def bench(
    suite: Annotated[
        str, typer.Argument(help="A suite's name (see `typica suite list`) or TOML file.")
    ],
    features: Annotated[
        Path | None, typer.Option(help="A folder of features, if you have them already.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="A folder of images and weights.")] = None,
    experiment: Annotated[
        str, typer.Option(callback=one_of(EXPERIMENTS), help=f"{', '.join(EXPERIMENTS)}.")
    ] = "main",
    against: Annotated[
        str | None,
        typer.Option(
            callback=one_of(tuple(publications())),
            help=f"Show published numbers beside: {', '.join(publications())}.",
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Take OOD sets whole instead of random subsets.")
    ] = False,
    methods: Annotated[
        str | None, typer.Option(help="all, paper, or names separated by commas.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="In place of the suite's own.", min=0)] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", callback=out_folder, help="A folder for the result and its scores."
        ),
    ] = None,
    report: Annotated[
        bool,
        typer.Option(
            "--report", help="Write report.html there too; the folder is SUITE-result if not given."
        ),
    ] = False,
    cache: Annotated[Path | None, typer.Option(help="Where the banks of --data are kept.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="The function that the suite names as its network, package.module:function: its "
            "code runs only if it is named here."
        ),
    ] = None,
    trust: Trust = False,
    backend: Backend = "auto",
    on_error: OnError = "stop",
    json_file: Json = None,
    csv_file: Annotated[
        str | None,
        typer.Option(
            "--csv", metavar="FILE", callback=out_text, help="Write the table as CSV; - prints it."
        ),
    ] = None,
    markdown: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", callback=out_text, help="Write the table as Markdown; - prints it."
        ),
    ] = None,
    latex: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            callback=out_text,
            help="Write the table as LaTeX (booktabs); - prints it.",
        ),
    ] = None,
) -> None:
    """Measure the methods of a suite: the CTM paper's tables, OpenOOD's, or your own network's."""
    if features is not None and data is not None:
        raise InputError(
            "--features and --data: pass one of the two, features or the images to take them from."
        )
    with about("bench"):
        check_sources(suite, features, data)
    printed = prints(json=json_file, csv=csv_file, markdown=markdown, latex=latex)
    found = load_suite(suite, data=data, check_paths=features is None)
    described = adapted(found, seed=seed, methods=methods)
    folder = _result_folder(described, output, report)
    sets = suite_features(
        without_idle_methods(described, experiment, for_report=report),
        features=features,
        data=data,
        cache=cache,
        settings=Settings(backend=backend, on_error=on_error),  # type: ignore[arg-type]
        trust=trust,
        model=model,
    )
    workbench = Workbench(sets, described.protocol)
    outcome = run_experiment(
        experiment, described, sets, described.methods, full=full, workbench=workbench
    )
    tables = tables_of(outcome.record, against=against)
    if not printed:
        _show(outcome.record, tables, against)
    if json_file is not None:
        write_json(outcome.record.to_dict(), json_file)
    _write(tables, {to_csv: csv_file, to_markdown: markdown, to_latex: latex})
    if folder is not None:
        kept = keep_result(folder, outcome, described, workbench, report=report, against=against)
        for path in kept:
            say_written(path)
    with about("bench"):
        outcome.check_measured()


def _result_folder(suite: Suite, output: Path | None, report: bool) -> Path | None:
    """Return where result and report go, if anywhere: a folder that can be written to."""
    folder = output
    if output is None and report:
        folder = Path(f"{suite.name}-result")
    if folder is not None:
        check_out_folder(folder)
    return folder


def _show(record: Record, tables: Sequence[Table], against: str | None) -> None:
    """Print the tables, with the sentence that leads them."""
    measures = record.experiment != "analysis"
    if against is not None and measures and not record.beside(against):
        note(f"{title_of(against)} has nothing to compare this with")
    if leads := headline(record, against=against):
        console.print(f"{leads}\n", markup=False)
    for table in tables:
        console.print(to_terminal(table))


def _write(
    tables: Sequence[Table], targets: Mapping[Callable[[Sequence[Table]], str], str | None]
) -> None:
    """Write the tables of `typica bench` in each form that was asked for."""
    for rendered, target in targets.items():
        if target is not None:
            write_text(rendered(tables), target)
