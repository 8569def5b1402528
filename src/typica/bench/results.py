"""A result on disk: a folder that the report, the plots and people read.

result.json           the document of `main`, `detail` or `misclassification`, which are one and the same
ablation.json, layers.json, analysis.json      those of the other experiments
scores/METHOD.npz     the scores behind result.json: `test`, `calibration` (maybe) and `ood.NAME`
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.bench.experiments import Outcome
from typica.errors import FormatError, InputError
from typica.files import atomic_path

APART = ("ablation", "layers", "analysis")  # experiments with rows of their own


def result_file(folder: str | Path, experiment: str) -> Path:
    """Return where the document of an experiment lies in a folder."""
    return Path(folder) / (f"{experiment}.json" if experiment in APART else "result.json")


def write_result(folder: str | Path, outcome: Outcome) -> Path:
    """Write an experiment's document, and the scores behind it, to a folder; return the document's path.

    Documents of other experiments in the folder stay, and so does all that no benchmark wrote.
    Scores of methods that the result before had, and this one has not, go.
    """
    folder = Path(folder)
    document, scores = outcome
    experiment = document["experiment"]
    folder.mkdir(parents=True, exist_ok=True)
    path = result_file(folder, experiment)
    if experiment not in APART:
        _write_scores(folder / "scores", scores, replaced=_rows(path) or set())
    with atomic_path(path) as temporary:
        temporary.write_text(
            json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8"
        )
    return path


def read_result(folder: str | Path, experiment: str = "main") -> dict[str, Any]:
    """Read the document of an experiment from a folder that `write_result` wrote."""
    path = result_file(folder, experiment)
    if not path.is_file():
        made = "typica bench SUITE -o FOLDER" + (
            f" --experiment {experiment}" if experiment in APART else ""
        )
        raise InputError(f"{path}: there is no such file; make it with `{made}`.")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FormatError(
            f"{path}: not a whole JSON file ({error}); run the benchmark again."
        ) from None
    if not isinstance(document, dict) or not {"suite", "protocol", "results"} <= set(document):
        raise FormatError(
            f"{path}: not a benchmark's result; pass a folder that `typica bench -o` wrote."
        )
    return document


def read_scores(folder: str | Path) -> dict[str, dict[str, NDArray[Any]]]:
    """Read the scores behind a result, {method: {"test", "calibration" (maybe), OOD set: scores}}.

    Files of other names than the result's methods are passed over.
    """
    found = {}
    rows = _rows(result_file(folder, "main"))
    for path in sorted((Path(folder) / "scores").glob("*.npz")):
        if rows is not None and path.stem not in rows:
            continue
        try:
            with np.load(path, allow_pickle=False) as file:
                found[path.stem] = {name.removeprefix("ood."): file[name] for name in file.files}
        except Exception as error:  # zipfile, zlib and NumPy raise many kinds for a damaged archive
            raise FormatError(
                f"{path}: not a whole .npz file ({error}); run the benchmark again."
            ) from None
    return found


def _rows(path: Path) -> set[str] | None:
    """Return the methods that a document names; None if there is no readable one."""
    try:
        return set(json.loads(path.read_text(encoding="utf-8"))["results"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_scores(
    folder: Path, scores: Mapping[str, Mapping[str, NDArray[Any]]], replaced: set[str]
) -> None:
    folder.mkdir(exist_ok=True)
    for method, by_set in scores.items():
        arrays = {
            name if name in ("test", "calibration") else f"ood.{name}": array
            for name, array in by_set.items()
        }
        with atomic_path(folder / f"{method}.npz") as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
    for path in folder.glob("*.npz"):
        if path.stem in replaced and path.stem not in scores:
            path.unlink()
