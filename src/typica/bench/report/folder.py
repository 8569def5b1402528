"""A benchmark's result folder: `result.json`, `scores/METHOD.npz`, and maybe a gallery and other experiments."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.bench.results import read_result, read_scores, result_file
from typica.errors import FormatError
from typica.metrics import CONVENTIONS


class Scores(NamedTuple):
    """What one method gave to `test`, to each OOD set and, if there is one, to the calibration set."""

    test: NDArray[Any]
    calibration: NDArray[Any] | None
    ood: dict[str, NDArray[Any]]


@dataclass(frozen=True)
class BenchResult:
    """The content of a result folder; scores are read when asked for.

    experiments: the documents of `ablation` and `layers`, where they are there.
    """

    folder: Path
    document: Mapping[str, Any]
    gallery: list[Any]
    analysis: Mapping[str, Any]
    experiments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def methods(self) -> list[str]:
        """The methods that were measured, the best mean AUROC first."""
        return sorted(
            self.document["results"], key=lambda name: -(self.value(name, None, "auroc") or 0)
        )

    @property
    def sets(self) -> list[str]:
        """The OOD sets, in the order of the suite."""
        return list(
            dict.fromkeys(
                name for entry in self.document["results"].values() for name in entry["ood"]
            )
        )

    @property
    def title(self) -> str:
        """What the suite calls itself."""
        return str(self.document.get("title") or self.document.get("suite") or self.folder.name)

    @property
    def tpr(self) -> float:
        """The share of ID that FPR is measured at."""
        found = number(self.part("protocol").get("tpr", 0.95))
        if found is None or not 0 < found <= 1:
            raise FormatError(
                f"{self.folder}: result.json has a tpr of {found}; run the benchmark again."
            )
        return found

    @property
    def convention(self) -> str:
        """How FPR is defined: a key of `CONVENTIONS`."""
        found = self.part("protocol").get("convention")
        return str(found) if found in CONVENTIONS else "first"

    @property
    def fpr_name(self) -> str:
        """FPR with the share that it is measured at, e.g. FPR95."""
        return f"FPR{100 * self.tpr:g}"

    def part(self, key: str) -> Mapping[str, Any]:
        """Return an entry of result.json that is an object; empty if there is none."""
        found = self.document.get(key)
        return found if isinstance(found, Mapping) else {}

    def value(
        self, method: str, ood: str | None, metric: str, source: str = "results"
    ) -> float | None:
        """Return one measured number, or a published one, of a set or (None) of the average; None if absent."""
        keys = (
            [method, "average"]
            if ood is None
            else [method, "ood", ood]
            if source == "results"
            else [method, ood]
        )
        found: Any = self.part(source)
        for key in [*keys, metric]:
            found = found.get(key) if isinstance(found, Mapping) else None
        return number(found)

    def std(self, method: str, ood: str | None, metric: str) -> float | None:
        """Return the standard deviation over random subsets; None where there was but one set."""
        spread = self.value(method, ood, f"{metric}_std")
        return None if self.value(method, ood, "subsets") == 1 else spread

    def scores(self, method: str) -> Scores | None:
        """Return the scores of a method; None if none were kept."""
        arrays = self._all_scores.get(method)
        if arrays is None:
            return None
        where = f"{self.folder}/scores/{method}.npz"
        if "test" not in arrays:
            raise FormatError(f"{where}: has no array 'test'; run the benchmark again.")
        checked = {name: _checked(array, f"{where}: {name}") for name, array in arrays.items()}
        ood = {name: checked[name] for name in self.sets if name in checked}
        return Scores(checked["test"], checked.get("calibration"), ood)

    @cached_property
    def _all_scores(self) -> dict[str, dict[str, NDArray[Any]]]:
        return read_scores(self.folder)


def open_result(folder: str | os.PathLike[str]) -> BenchResult:
    """Open a result folder; what is missing or malformed is named.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> results = {"ctm": {"ood": {"svhn": {"auroc": 0.99}}}}
    >>> _ = (folder / "result.json").write_text(json.dumps({"suite": "my", "protocol": {}, "results": results}))
    >>> open_result(folder).value("ctm", "svhn", "auroc")
    0.99
    """
    folder = Path(folder)
    document = read_result(folder)
    results = document["results"]
    if not isinstance(results, dict) or not results:
        raise FormatError(f"{folder}/result.json: has no results; run the benchmark again.")
    for name, entry in results.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("ood"), dict):
            raise FormatError(
                f"{folder}/result.json: {name!r} has no results on OOD sets; run the benchmark again."
            )
    gallery, analysis = (_read_json(folder / name) for name in ("gallery.json", "analysis.json"))
    beside = [name for name in ("ablation", "layers") if result_file(folder, name).is_file()]
    return BenchResult(
        folder,
        document,
        gallery if isinstance(gallery, list) else [],
        analysis if isinstance(analysis, dict) else {},
        {name: read_result(folder, name) for name in beside},
    )


def number(value: Any) -> float | None:
    """Return a finite JSON number as a float, and None for anything else.

    >>> number(1), number("inf"), number(None)
    (1.0, None, None)
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def _checked(array: NDArray[Any], what: str) -> NDArray[Any]:
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "fiub":
        raise FormatError(
            f"{what} is {array.dtype} of shape {array.shape}, not a row of scores; run it again."
        )
    if np.isnan(array).any():
        raise FormatError(f"{what} has NaN among its scores; run the benchmark again.")
    return array


def _read_json(path: Path) -> Any:
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(f"{path}: not JSON ({error}); run the benchmark again.") from None
