"""`typica score`."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
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
from typica.nets import InputReader, check_no_network
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
            help="Write every row: .csv, .jsonl or .parquet; - prints lines of JSON, their number "
            "last. A page of what was rejected: .html. For tables also a folder of Parquet files, "
            "in which interrupted work is resumed.",
        ),
    ] = None,
    feature_column: FeatureColumn = None,
    columns: FeatureColumns = None,
    id_column: Annotated[
        list[str] | None,
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
    of_tables: dict[str, Any] = {
        "features": feature_column,
        "columns": columns or None,
        "ids": _one_column(id_column),
        "engine": engine,
        "address": address,
    }
    tables = are_tables(inputs, on_error, **of_tables)
    of_tables["on_error"] = on_error
    if not tables:
        _check_output_option(output)
    estimator = load_detector(detector)
    levels = {"alpha": alpha, "tpr": tpr, "confidence": confidence}
    if any(level is not None for level in (*levels.values(), fdr, groups)):
        check_calibrated(estimator, detector)
    printed = prints(json=json_file, output=output)
    wanted = _Wanted(
        estimator, levels, fdr, groups, sort, only, limit, output, json_file, printed=printed
    )
    through = network(model, weights, transform, trust, backend, on_error)
    if tables:
        check_no_network(through, "these are tables")
        _score_by_tables(wanted, inputs, of_tables)
        return
    paths = list(map(Path, inputs))
    if wanted.can_stream(paths):
        check_no_network(through, "these are features")
        _score_by_stream(wanted)
        return
    _score_at_once(wanted, paths, through)


@dataclass(frozen=True)
class _Wanted:
    """What `typica score` was asked: by what, which verdicts, and where they go.

    printed: whether a document takes standard output.
    """

    estimator: Estimator
    levels: dict[str, str | None]
    fdr: str | None
    groups: str | None
    sort: str | None
    only: str | None
    limit: int
    output: str | None
    json_file: str | None
    printed: bool

    @property
    def rule(self) -> dict[str, Any]:
        """The levels by which `judge` rejects."""
        return {**self.levels, "fdr": self.fdr}

    def can_stream(self, inputs: Sequence[Path]) -> bool:
        """Tell whether rows can be judged as they arrive: nothing asked for needs all of them."""
        needs_all_rows = (self.fdr, self.groups, self.sort, self.json_file)
        return inputs == [STANDARD] and self.output == "-" and set(needs_all_rows) == {None}


def _score_by_tables(wanted: _Wanted, inputs: list[str], columns: dict[str, Any]) -> None:
    """Judge tables of any size, in parts."""
    scoring = TableScoring(
        wanted.estimator,
        inputs,
        columns,
        wanted.levels,
        wanted.only,
        wanted.output,
        whole={"--fdr": wanted.fdr, "--groups": wanted.groups, "--sort": wanted.sort},
    )
    score_tables(scoring, wanted.limit, wanted.json_file, printed=wanted.printed)


def _score_by_stream(wanted: _Wanted) -> None:
    """Judge the rows of standard input as they arrive, and print each verdict at once."""
    seen = 0
    rejected: int | None = 0
    with RowPrinter() as printer:
        for rows in _arriving(column_names(wanted.estimator)):
            judged = judge(wanted.estimator, rows, **wanted.levels)
            verdicts = replace(judged, row=np.arange(seen, seen + len(rows)))
            seen += len(rows)
            found = verdicts.n_rejected
            rejected = None if rejected is None or found is None else rejected + found
            printer.write(_chosen(verdicts, wanted.only).table())
    complain(atypical_line(rejected, seen, "rows"), style="")


def _score_at_once(wanted: _Wanted, inputs: list[Path], through: dict[str, Any]) -> None:
    """Judge features or images together, then write and show the verdicts.

    through: the options of the network, for images.
    """
    images = open_images(inputs) if _are_images(inputs) else None
    if images is None:
        check_no_network(through, "these are features")
        verdicts = _score_rows(wanted, inputs)
    else:
        verdicts = _score_images(wanted, images, through)
    if wanted.output is not None:
        _write(wanted, wanted.output, verdicts, images)
    what = "rows" if images is None else "images"
    shown = _Shown(verdicts, wanted.only, wanted.sort, wanted.limit, what)
    if not wanted.printed:
        shown.show()
    if wanted.json_file is not None:
        asked = set(wanted.rule.values()) != {None}
        rule = describe_rule(wanted.estimator, verdicts, asked=asked)
        write_json(rule | shown.to_dict(), wanted.json_file)


def _write(wanted: _Wanted, output: str, verdicts: Verdicts, images: Images | None) -> None:
    by = repr(final_detector(wanted.estimator))
    write_verdicts(verdicts, output, images=images, only=wanted.only, sort=wanted.sort, about=by)
    if output != "-":
        say_written(output)


def _one_column(named: list[str] | None) -> str | None:
    """Return the column of `--id-column`; refuse a second one."""
    if named is not None and len(named) > 1:
        raise InputError(
            f"--id-column {' and '.join(named)}: one column is passed through; name one, and join "
            "others to the verdicts by it."
        )
    return named[0] if named else None


def _check_output_option(output: str | None) -> None:
    """Refuse what `typica score --output` names where verdicts could not be written to it."""
    if output is None:
        return
    if output != "-":
        check_out_file(Path(output), "--output")
    check_verdict_file(output)


def _arriving(columns: Sequence[str] | None) -> Iterator[AnyArray]:
    return read_arriving(cast(io.BufferedReader, sys.stdin.buffer), columns)


def _chosen(verdicts: Verdicts, only: str | None) -> Verdicts:
    """Return the verdicts that `typica score` shows: all, or those of `--only`."""
    return verdicts if only is None else verdicts.only(only)


def _score_rows(wanted: _Wanted, inputs: list[Path]) -> Verdicts:
    """Return the verdicts of `typica score` on features: of a file, or of standard input."""
    rows, ids = _read(InputReader.of(wanted.estimator), inputs, wanted.groups)
    with work("scoring", len(rows)):
        return judge(wanted.estimator, rows, **wanted.rule, groups=ids)


def _read(
    reader: InputReader, inputs: list[Path], groups: str | None
) -> tuple[AnyArray, AnyArray | None]:
    """Return the rows that the detector reads, and what each belongs to if that was asked for."""
    if inputs == [STANDARD]:
        return np.concatenate(list(_arriving(reader.columns))), _file_of(groups)
    if groups is not None:
        return reader.grouped(inputs, groups)
    return reader.rows(inputs), None


def _score_images(wanted: _Wanted, images: Images, through: dict[str, Any]) -> Verdicts:
    """Return the verdicts of `typica score` on images that go through a network."""
    from typica.nets import judge_images  # noqa: PLC0415 (needs torch, which is an extra)

    ids = _file_of(wanted.groups)
    return judge_images(wanted.estimator, images, groups=ids, **wanted.rule, **through)


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
        return _chosen(self.verdicts, self.only)

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
        columns = listed.table() | {"why": listed.why.tolist()}
        found = self.verdicts
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
