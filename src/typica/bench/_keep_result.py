"""What `typica bench -o` writes: the result, images that illustrate it, and the report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from typica.bench._experiments import APART, Outcome, run_experiment
from typica.bench._result_files import result_file, write_result
from typica.bench._suite import Suite
from typica.bench._workbench import Workbench
from typica.bench._write_gallery import write_gallery
from typica.bench.report import write_report
from typica.errors import InputError
from typica.progress import note


def keep_result(
    folder: str | Path,
    outcome: Outcome,
    suite: Suite,
    workbench: Workbench,
    *,
    report: bool = False,
    against: str | None = None,
) -> Iterator[Path]:
    """Write a result to a folder, with its images and report; yield each file once it is written.

    Parameters
    ----------
    folder
        Where to write; made if it is missing.
    outcome
        What `run_experiment` returned.
    suite, workbench
        What it was run with.
    report
        Whether to write report.html as well, with the other experiments that it shows.
    against
        Whose published numbers come first in the report, e.g. "paper".
    """
    yield write_result(folder, outcome)
    complete_result(folder, outcome, suite, workbench, for_report=report)
    if report:
        yield write_report(folder, Path(folder) / "report.html", against=against)


def complete_result(
    folder: str | Path,
    outcome: Outcome,
    suite: Suite,
    workbench: Workbench,
    *,
    for_report: bool = False,
) -> None:
    """Write the images that illustrate a result beside it, where its sets have images.

    Parameters
    ----------
    folder
        Where `write_result` wrote the result.
    outcome
        What it wrote.
    suite, workbench
        What the experiment was run with; methods that the workbench has fitted are not fitted
        again.
    for_report
        Whether to run and write the other experiments that a report shows as well.
    """
    experiment, sets = outcome.record.experiment, workbench.sets
    full = bool(outcome.record.protocol.full)
    scores = None if experiment in APART else outcome.scores
    written = result_file(folder, experiment)
    shown = ["main"] if sets.head is None else ["main", "analysis"]
    for other in shown if for_report else []:
        if result_file(folder, other) == written:
            continue
        try:
            more = run_experiment(other, suite, sets, suite.methods, full=full, workbench=workbench)
        except InputError as error:
            if other != "analysis":
                raise
            note(f"the report has no analysis ({error})")
            continue
        write_result(folder, more)
        scores = more.scores or scores
    write_gallery(folder, sets, suite.protocol.tpr, workbench, scores)
