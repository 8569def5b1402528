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
from typica.bench._measures import mapping
from typica.bench._record import Record
from typica.bench._result_files import not_written, read_result, read_result_scores, result_file
from typica.bench._runs import Scores
from typica.bench._write_gallery import Shown
from typica.errors import FormatError
from typica.files import reading

_TABLES = {"kernel", "one_hot", "motivation"}  # of an analysis, without which it has charts alone


@dataclass(frozen=True)
class ResultFolder:
    """The content of a result folder; scores are read when asked for.

    experiments: the records of `ablation` and `layers`, where they are there.
    """

    path: Path
    record: Record
    gallery: tuple[Shown, ...] = ()
    analysis: Analysis | None = None
    histograms: tuple[Chart, ...] = ()
    curves: tuple[Chart, ...] = ()
    experiments: Mapping[str, Record] = field(default_factory=dict)

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
    beside = [name for name in ("ablation", "layers") if result_file(folder, name).is_file()]
    document = _read_json(folder / "analysis.json")
    charts = document if isinstance(document, dict) else {}
    return ResultFolder(
        path=folder,
        record=record,
        gallery=_shown_of(_read_json(folder / "gallery.json")),
        analysis=_analysis(folder, charts),
        histograms=tuple(histogram_charts(charts.get("histograms"))),
        curves=tuple(curve_charts(charts.get("curves"))),
        experiments={name: read_result(folder, name) for name in beside},
    )


def _shown_of(entries: Any) -> tuple[Shown, ...]:
    if not isinstance(entries, list):
        return ()
    named = [entry for entry in entries if isinstance(mapping(entry).get("file"), str)]
    return tuple(Shown.from_dict(entry) for entry in named)


def _analysis(folder: Path, document: Mapping[str, Any]) -> Analysis | None:
    if not set(document) >= _TABLES:
        return None
    try:
        return Analysis.from_dict(document)
    except (KeyError, TypeError, AttributeError) as error:
        path = result_file(folder, "analysis")
        raise not_written(path, "analysis", f"{type(error).__name__}: {error}") from None


def _read_json(path: Path) -> Any:
    if not path.is_file():
        return None
    with reading(path, "not JSON", "run the benchmark again"):
        return read_json_file(path)
