"""What a result on disk gains beside its record: what a report shows, and images."""

from __future__ import annotations

from pathlib import Path

from typica.bench._engine import Engine
from typica.bench._experiments import Outcome, run_experiment
from typica.bench._gallery import write_gallery
from typica.bench._results import APART, result_file, write_result
from typica.bench._suite import Suite


def complete_result(
    folder: str | Path,
    outcome: Outcome,
    suite: Suite,
    engine: Engine,
    *,
    for_report: bool = False,
) -> None:
    """Write the images that a result is told by, where its sets have any, beside the result.

    outcome: what `write_result` wrote to the folder. for_report: run and write the other
    experiments that a report shows as well; `engine` has fitted their methods already.
    """
    experiment, sets = outcome.record.experiment, engine.sets
    full = bool(outcome.record.protocol.full)
    scores = None if experiment in APART else outcome.scores
    written = result_file(folder, experiment)
    shown = ["main"] if sets.head is None else ["main", "analysis"]
    for other in shown if for_report else []:
        if result_file(folder, other) != written:
            more = run_experiment(other, suite, sets, suite.methods, full=full, engine=engine)
            write_result(folder, more)
            scores = more.scores or scores
    write_gallery(folder, sets, suite.protocol.tpr, engine, scores)
