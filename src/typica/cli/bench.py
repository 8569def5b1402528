"""`typica bench`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from typica.bench import (
    APART,
    EXPERIMENTS,
    Engine,
    FeatureSuite,
    Outcome,
    Suite,
    Table,
    builtin_features,
    complete_result,
    headline,
    list_suites,
    load_suite,
    named_methods,
    read_features_folder,
    run_experiment,
    tables_of,
    to_csv,
    to_latex,
    to_markdown,
    to_terminal,
    write_report,
    write_result,
)
from typica.bench.published import publications, title_of
from typica.cli.app import new_app
from typica.cli.checks import check_folder, one_of, out_folder, out_text, prints
from typica.cli.options import Backend, Json, OnError, Trust
from typica.cli.show import console, error_console, write_json, write_text
from typica.errors import InputError
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
        Path | None, typer.Option(help="A folder of features that you have already.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="A folder of images and weights.")] = None,
    experiment: Annotated[
        str, typer.Option(callback=one_of(EXPERIMENTS), help=f"{', '.join(EXPERIMENTS)}.")
    ] = "main",
    against: Annotated[
        str | None,
        typer.Option(
            callback=one_of(tuple(publications())),
            help=f"Put published numbers beside: {', '.join(publications())}.",
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Take OOD sets whole instead of random subsets.")
    ] = False,
    methods: Annotated[
        str | None, typer.Option(help="all, paper, or names with commas between.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="In place of the suite's own.", min=0)] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", callback=out_folder, help="A folder for result and scores."),
    ] = None,
    report: Annotated[
        bool,
        typer.Option(
            "--report", help="Write report.html there too; the folder is SUITE-result if not given."
        ),
    ] = False,
    cache: Annotated[Path | None, typer.Option(help="Where the banks of --data are kept.")] = None,
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
    _check(suite, features, data)
    printed = prints(json=json_file, csv=csv_file, markdown=markdown, latex=latex)
    described = load_suite(suite, data=data, check_paths=features is None)
    described = _adapted(described, seed, methods)
    folder = output or (Path(f"{described.name}-result") if report else None)
    if folder is not None:
        check_folder(folder)
    scored = described
    if experiment in APART and not report:
        scored = replace(described, methods={})
    sets = _sets(scored, features, data, cache, trust, backend, on_error)
    engine = Engine(sets, described.protocol)
    outcome = run_experiment(
        experiment, described, sets, described.methods, full=full, engine=engine
    )
    record = outcome.record
    tables = tables_of(record, against=against)
    measures = experiment != "analysis"
    if not printed:
        if against is not None and measures and not record.beside(against):
            note(f"{title_of(against)} has nothing that this can be compared with")
        if found := headline(record, against=against):
            console.print(f"{found}\n", markup=False)
        for made in tables:
            console.print(to_terminal(made))
    if json_file is not None:
        write_json(record.to_dict(), json_file)
    _write(tables, {to_csv: csv_file, to_markdown: markdown, to_latex: latex})
    if folder is not None:
        _keep(folder, report, outcome, described, engine, against)
    if measures and not record.rows:
        reason = next(iter(record.skipped.values()), "name methods")
        raise InputError(f"bench: nothing could be measured; {reason}.")


def _adapted(suite: Suite, seed: int | None, methods: str | None) -> Suite:
    """Return the suite with the seed and the methods that were asked for."""
    if seed is not None:
        suite = replace(suite, protocol=replace(suite.protocol, seed=seed))
    return replace(suite, methods=named_methods(suite, methods))


def _check(suite: str, features: Path | None, data: Path | None) -> None:
    """Raise for options that make no sense, before any work."""
    if features is not None and data is not None:
        raise InputError(
            "--features and --data: pass one of the two, features or the images to take them from."
        )
    known = load_suite(suite) if suite in list_suites() else None
    if known is None:
        return
    if known.features is not None and features is None:
        raise InputError(
            f"bench: {suite} has no network, but takes its features, {known.features}; pass "
            "--features DIR."
        )
    if known.builtin and not features is data is None:
        raise InputError(
            f"bench: {suite} brings its own data; leave out --features and --data, or name another "
            "suite."
        )
    if features is data is None and not known.builtin:
        raise InputError(
            f"bench: {suite} needs data; pass --data DIR with its weights and sets, or --features "
            "DIR."
        )


def _write(
    tables: Sequence[Table], targets: Mapping[Callable[[Sequence[Table]], str], str | None]
) -> None:
    """Write the tables in each form that was asked for."""
    for rendered, target in targets.items():
        if target is not None:
            write_text(rendered(tables), target)


def _keep(
    folder: Path,
    report: bool,
    outcome: Outcome,
    suite: Suite,
    engine: Engine,
    against: str | None,
) -> None:
    """Write the result, its images where there are any, and the report with all that it shows."""
    written = write_result(folder, outcome)
    error_console.print(f"wrote {written}")
    complete_result(folder, outcome, suite, engine, for_report=report)
    if report:
        page = write_report(folder, folder / "report.html", against=against)
        error_console.print(f"wrote {page}")


def _sets(
    suite: Suite,
    features: Path | None,
    data: Path | None,
    cache: Path | None,
    trust: bool,
    backend: str,
    on_error: str,
) -> FeatureSuite:
    """Return the suite's features: from the folder that has them, on the spot, or from images."""
    if features is not None:
        return read_features_folder(suite, features)
    if suite.builtin:
        return builtin_features(suite)
    from typica.bench import prepare  # noqa: PLC0415 (needs torch, which is an extra)
    from typica.nets import Settings  # noqa: PLC0415

    settings = Settings(backend=backend, on_error=on_error)  # type: ignore[arg-type]
    return prepare(suite, data, cache=cache, settings=settings, trust=trust)
