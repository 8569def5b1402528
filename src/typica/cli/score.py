"""`typica score`."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer

from typica.arrays import AnyArray
from typica.cli._app import new_app
from typica.cli._option_checks import (
    check_calibrated,
    check_out_file,
    one_of,
    out_verdicts,
    prints,
)
from typica.cli._options import (
    Address,
    Backend,
    Confidence,
    Engine,
    FeatureColumn,
    FeatureColumns,
    Json,
    MovedModel,
    MovedWeights,
    OnError,
    Tpr,
    Transform,
    Trust,
    network,
)
from typica.cli._score_tables import TableScoring, score_tables
from typica.cli._show import (
    complain,
    console,
    say_written,
    write_json,
)
from typica.cli._verdict_table import atypical_line, say_if_more, verdict_table
from typica.data import (
    Images,
    RowPrinter,
    are_images,
    check_verdict_file,
    open_images,
    read_arriving,
    read_labels,
    write_verdicts,
)
from typica.decide import describe_rule, judge, load_detector
from typica.detectors import Estimator, column_names, final_detector
from typica.errors import InputError
from typica.groups import GroupVerdict, GroupVerdicts
from typica.nets import InputReader
from typica.progress import work
from typica.scale import are_tables
from typica.verdicts import SORTS, WORDS, Verdicts

STANDARD = Path("-")  # standard input, or output
SHOWN = 20  # rows of a long table that are printed

app = new_app()


@app.command(epilog="Example: typica score ctm.safetensors photo.jpg folder/ -o scores.csv")
def score(
    detector: Annotated[
        Path, typer.Argument(help="A file that `typica fit` or `typica calibrate` wrote.")
    ],
    inputs: Annotated[
        list[str],
        typer.Argument(
            help="Features or a bank; tables of any size; or images, folders and archives, any "
            "number; - reads features from standard input: .npy, JSON lines or CSV."
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            callback=out_verdicts,
            help="Write every row: .csv, .jsonl or .parquet; - prints lines of JSON. A page "
            "of what was rejected: .html. For tables also a folder of Parquet files, in which "
            "interrupted work is resumed.",
        ),
    ] = None,
    feature_column: FeatureColumn = None,
    columns: FeatureColumns = None,
    id_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="For tables: a column to pass through to the output."),
    ] = None,
    engine: Engine = None,
    address: Address = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            help="Reject where p <= alpha; needs `typica calibrate`, whose alpha is the default."
        ),
    ] = None,
    tpr: Tpr = None,
    confidence: Confidence = None,
    fdr: Annotated[
        str | None,
        typer.Option(help="Reject so that at most this share of the rejected is ID, on average."),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|COLUMN",
            help="What each row belongs to, e.g. the image of a box: a file with one entry per "
            "row, or a column of the features' file. Rows of a group are judged together, and "
            "each group has a verdict; alpha and fdr then apply to groups.",
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            callback=one_of(SORTS),
            help=f"The order: {', '.join(SORTS)}. If not given, the strangest come first on the "
            "screen and on a page, and files keep the order of the input.",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(callback=one_of(tuple(WORDS.values())), help="Show and write only these."),
    ] = None,
    limit: Annotated[int, typer.Option(help="How many rows to print.", min=0)] = SHOWN,
    model: MovedModel = None,
    weights: MovedWeights = None,
    transform: Transform = None,
    trust: Trust = False,
    backend: Backend = "auto",
    on_error: OnError = "stop",
    json_file: Json = None,
) -> None:
    """Score features or images: typical or not, the nearest class and the runner-up.

    Images go through the model that the detector remembers from the bank it was fitted on.
    """
    named = {"features": feature_column, "columns": columns or None, "ids": id_column}
    where = {"engine": engine, "address": address}
    tables = are_tables(inputs, **named, **where)
    if not tables:
        _check_output_option(output)
    estimator = load_detector(detector)
    levels: dict[str, Any] = {"alpha": alpha, "tpr": tpr, "confidence": confidence}
    if any(level is not None for level in (*levels.values(), fdr, groups)):
        check_calibrated(estimator, detector)
    printed = prints(json=json_file, output=output)
    if tables:
        whole = {"--fdr": fdr, "--groups": groups, "--sort": sort}
        wanted = TableScoring(estimator, inputs, named | where, levels, only, output, whole)
        score_tables(wanted, limit, json_file, printed=printed)
        return
    paths = list(map(Path, inputs))
    asked = {**levels, "fdr": fdr}
    if _can_stream(paths, output, (fdr, groups, sort, json_file)):
        _pipe(lambda rows: judge(estimator, rows, **levels), column_names(estimator), only)
        return
    images = open_images(paths) if _are_images(paths) else None
    if images is None:
        verdicts = _score_rows(estimator, paths, groups, asked)
    else:
        through = network(model, weights, transform, trust, backend, on_error)
        verdicts = _score_images(estimator, images, groups, asked | through)
    if output is not None:
        by = repr(final_detector(estimator))
        write_verdicts(verdicts, output, images=images, only=only, sort=sort, about=by)
        if output != "-":
            say_written(output)
    shown = _Shown(verdicts, only, sort, limit, "rows" if images is None else "images")
    if not printed:
        shown.show()
    if json_file is not None:
        rule = describe_rule(estimator, verdicts, asked=set(asked.values()) != {None})
        write_json(rule | shown.to_dict(), json_file)


def _can_stream(
    inputs: Sequence[Path], output: str | None, need_all_rows: Sequence[str | None]
) -> bool:
    """Tell whether rows can be judged as they arrive: nothing that needs all of them was asked."""
    return inputs == [STANDARD] and output == "-" and set(need_all_rows) == {None}


def _check_output_option(output: str | None) -> None:
    """Refuse what `typica score --output` names where verdicts could not be written to it."""
    if output is None:
        return
    if output != "-":
        check_out_file(Path(output), "--output")
    check_verdict_file(output)


def _arriving(columns: Sequence[str] | None) -> Iterator[AnyArray]:
    return read_arriving(cast(io.BufferedReader, sys.stdin.buffer), columns)


def _pipe(
    judged: Callable[[AnyArray], Verdicts], columns: Sequence[str] | None, only: str | None
) -> None:
    """Judge the rows of standard input as they arrive, and print each verdict at once."""
    printer = RowPrinter()
    seen = 0
    rejected: int | None = 0
    for rows in _arriving(columns):
        verdicts = replace(judged(rows), row=np.arange(seen, seen + len(rows)))
        seen += len(rows)
        found = verdicts.n_rejected
        rejected = None if rejected is None or found is None else rejected + found
        printer.write((verdicts if only is None else verdicts.only(only)).table())
    complain(atypical_line(rejected, seen, "rows"), style="")


def _score_rows(
    estimator: Estimator, inputs: list[Path], groups: str | None, asked: dict[str, Any]
) -> Verdicts:
    """Return the verdicts of `typica score` on features: of a file, or of standard input."""
    rows, ids = _read(InputReader.of(estimator), inputs, groups)
    with work("scoring", len(rows)):
        return judge(estimator, rows, **asked, groups=ids)


def _read(
    reader: InputReader, inputs: list[Path], groups: str | None
) -> tuple[AnyArray, AnyArray | None]:
    """Return the rows that the detector reads, and what each belongs to if that was asked for."""
    if inputs == [STANDARD]:
        return np.concatenate(list(_arriving(reader.columns))), _file_of(groups)
    if groups is not None:
        return reader.grouped(inputs, groups)
    return reader.rows(inputs), None


def _score_images(
    estimator: Estimator, images: Images, groups: str | None, options: dict[str, Any]
) -> Verdicts:
    """Return the verdicts of `typica score` on images, with the options of its command line."""
    from typica.nets import judge_images  # noqa: PLC0415 (needs torch, which is an extra)

    return judge_images(estimator, images, groups=_file_of(groups), **options)


def _file_of(groups: str | None) -> AnyArray | None:
    """Return the groups of `--groups FILE`, where the inputs have no columns."""
    return None if groups is None else read_labels(groups)


@dataclass(frozen=True)
class _Shown:
    """Verdicts, and which of them to show: in what order, and how many rows on the screen.

    what: what the verdicts are about, "rows" or "images".
    """

    verdicts: Verdicts
    only: str | None
    sort: str | None
    limit: int
    what: str

    @property
    def chosen(self) -> Verdicts:
        """The verdicts that `typica score` prints: all, or those of `--only`."""
        return self.verdicts if self.only is None else self.verdicts.only(self.only)

    def show(self) -> None:
        """Print the first rows, the first groups, and how many there are."""
        found = self.verdicts
        self._show_rows(self.chosen.sort(self.sort))
        if found.groups is not None:
            self._show_groups(found.groups)
        console.print(atypical_line(found.n_rejected, len(found), self.what))

    def to_dict(self) -> dict[str, Any]:
        """Return rows and groups as JSON values, with how many there are."""
        listed = self.chosen if self.sort is None else self.chosen.sort(self.sort)
        columns, found = listed.table(), self.verdicts
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        told = {"n": len(found), "rejected": found.n_rejected, "rows": rows}
        if found.groups is None:
            return told
        return told | {"groups": [one._asdict() for one in found.groups]}

    def _show_rows(self, verdicts: Verdicts) -> None:
        limit = self.limit
        if limit and len(verdicts):
            console.print(verdict_table(verdicts[:limit].table()))
        say_if_more(limit, len(verdicts), by=self.sort)

    def _show_groups(self, groups: GroupVerdicts) -> None:
        limit = self.limit
        chosen = [one for one in groups if self.only in (None, one.verdict)]
        chosen.sort(key=lambda one: one.p_value)
        if limit and chosen:
            columns = map(list, zip(*chosen[:limit], strict=True))
            console.print(verdict_table(dict(zip(GroupVerdict._fields, columns, strict=True))))
        say_if_more(limit, len(chosen), "groups")
        console.print(atypical_line(groups.n_atypical, len(groups), "groups"))


def _are_images(inputs: list[Path]) -> bool:
    """Tell whether the command was given images; refuse - beside other inputs."""
    if inputs == [STANDARD]:
        return False
    if STANDARD in inputs:
        raise InputError(
            "score: - reads standard input, which cannot be mixed with files; leave out the others."
        )
    return are_images(inputs)
