"""A result folder as the report and the plots read it: records, scores, gallery and charts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from typica.as_json import read_json_file
from typica.bench._analysis_record import Analysis
from typica.bench._chart_data import Chart, curve_charts, histogram_charts
from typica.bench._experiments import APART
from typica.bench._measures import mapping
from typica.bench._record import Record
from typica.bench._result_files import read_result, read_result_scores, result_file
from typica.bench._runs import Scores
from typica.bench._write_gallery import Shown
from typica.errors import FormatError
from typica.files import reading
from typica.progress import note


@dataclass(frozen=True)
class ResultFolder:
    """The content of a result folder; scores are read when asked for.

    experiments: the records of `ablation` and `layers`, where they are there.
    """

    path: Path
    record: Record
    gallery: tuple[Shown, ...] = ()
    analysis: Analysis | None = None
    experiments: Mapping[str, Record] = field(default_factory=dict)

    @property
    def histograms(self) -> list[Chart]:
        """The histograms of the analysis."""
        return [] if self.analysis is None else histogram_charts(self.analysis.histograms)

    @property
    def curves(self) -> list[Chart]:
        """The curves of the analysis."""
        return [] if self.analysis is None else curve_charts(self.analysis.curves)

    @cached_property
    def scores(self) -> dict[str, Scores]:
        """The scores of each method that has some on an OOD set of the result, the best first."""
        found = read_result_scores(self.path)
        known = {}
        for name in self.record.ranked:
            if name not in found:
                continue
            ood = {key: found[name].ood[key] for key in self.record.sets if key in found[name].ood}
            if ood:
                known[name] = found[name]._replace(ood=ood)
        return known


def open_result(folder: str | os.PathLike[str]) -> ResultFolder:
    """Open a result folder; what is missing or malformed is named.

    >>> import json, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> results = {"ctm": {"ood": {"svhn": {"auroc": 0.99}}}}
    >>> document = {"suite": "my", "protocol": {}, "results": results}
    >>> _ = (folder / "result.json").write_text(json.dumps(document))
    >>> open_result(folder).record.value("ctm", "svhn", "auroc")
    0.99
    """
    folder = Path(folder)
    record = read_result(folder)
    if not record.rows:
        raise FormatError(f"{folder}/result.json: has no results; run the benchmark again.")
    beside = _records_beside(folder, record)
    analysed = beside.pop("analysis", None)
    return ResultFolder(
        path=folder,
        record=record,
        gallery=_shown_of(_read_json(folder / "gallery.json")),
        analysis=None if analysed is None else analysed.analysis,
        experiments=beside,
    )


def _records_beside(folder: Path, record: Record) -> dict[str, Record]:
    """Read the records of other experiments; leave out those of other runs, and say so."""
    found = {}
    for name in APART:
        path = result_file(folder, name)
        if not path.is_file():
            continue
        other = read_result(folder, name)
        if other.is_of_the_run(record):
            found[name] = other
        else:
            again = f"`typica bench SUITE --experiment {name} -o {folder}`"
            note(f"{path} is left out: it has another suite, protocol or data; run {again} again")
    return found


def _shown_of(entries: Any) -> tuple[Shown, ...]:
    if not isinstance(entries, list):
        return ()
    named = [entry for entry in entries if isinstance(mapping(entry).get("file"), str)]
    return tuple(Shown.from_dict(entry) for entry in named)


def _read_json(path: Path) -> Any:
    if not path.is_file():
        return None
    with reading(path, "not JSON", "run the benchmark again"):
        return read_json_file(path)
