"""A result on disk: a folder that the report, the plots and people read.

result.json         the record of `main`, `detail` and `misclassification`, which are one
ablation.json, layers.json, analysis.json      those of the other experiments
scores/METHOD.npz   the scores behind result.json: `test`, `calibration` (maybe) and `ood.NAME`
gallery.json        which images the report shows, and what to say about them
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from typica.as_json import read_json_file
from typica.bench._analysis_record import Analysis
from typica.bench._experiments import APART, Outcome
from typica.bench._record import Record
from typica.bench._runs import Scores
from typica.bombs import check_growth
from typica.errors import FormatError, InputError, about
from typica.files import atomic_path, existing, reading
from typica.kinds import Kind, kind_of, wrong_kind

_OF_EVERY = {"suite", "protocol", "results"}
_OF_APART = _OF_EVERY | {"accuracy", "n", "published", "skipped"}  # which their tables need
_OF_ANALYSIS = _OF_APART | {field.name for field in fields(Analysis)}


def result_file(folder: str | Path, experiment: str) -> Path:
    """Return the path of an experiment's record in a folder."""
    return Path(folder) / (f"{experiment}.json" if experiment in APART else "result.json")


def write_result(folder: str | Path, outcome: Outcome) -> Path:
    """Write an experiment's record and the scores behind it to a folder; return the record's path.

    Records of other experiments in the folder stay, and so do files that no benchmark wrote. Scores
    of methods that only the previous result had are removed.
    """
    folder = Path(folder)
    experiment = outcome.record.experiment
    folder.mkdir(parents=True, exist_ok=True)
    path = result_file(folder, experiment)
    if experiment not in APART:
        _write_scores(folder / "scores", outcome.scores, replaced=_rows(path) or set())
    text = json.dumps(outcome.record.to_dict(), indent=2, allow_nan=False)
    with atomic_path(path) as temporary:
        temporary.write_text(f"{text}\n", encoding="utf-8")
    return path


def read_result(folder: str | Path, experiment: str = "main") -> Record:
    """Read the record of an experiment from a folder that `write_result` wrote."""
    path = result_file(folder, experiment)
    document = read_experiment(path, experiment)
    _check_parts(path, document, experiment)
    _check_results(path, document["results"])
    try:
        with about(str(path)):
            return Record.from_dict(document)
    except InputError:
        raise
    except Exception as error:  # of every kind: the file may hold anything
        raise _not_written(path, experiment, f"{type(error).__name__}: {error}") from None


def read_experiment(path: Path, experiment: str) -> Any:
    """Read the JSON file of an experiment; what is missing or damaged is named."""
    folder, wanted = path.parent, "the result of a benchmark"
    if folder.is_file() or (not path.is_file() and kind_of(folder) == Kind.BANK):
        raise wrong_kind(folder, wanted, "pass a folder that `typica bench -o` wrote")
    option = f" --experiment {experiment}" if experiment in APART else ""
    existing(path, f"make it with `typica bench SUITE -o FOLDER{option}`")
    with reading(path, "not a whole JSON file", "run the benchmark again"):
        return read_json_file(path)


def _not_written(path: Path, experiment: str, why: str) -> FormatError:
    """Return the error of a file that is not what an experiment writes."""
    what = f"{path}: not what `--experiment {experiment}` writes"
    return FormatError(f"{what} ({why}); run the benchmark again.")


def _check_parts(path: Path, document: Any, experiment: str) -> None:
    is_apart = experiment in APART
    if not isinstance(document, dict) or not (is_apart or set(document) >= _OF_EVERY):
        raise FormatError(
            f"{path}: not a benchmark's result; pass a folder that `typica bench -o` wrote."
        )
    wanted = _OF_ANALYSIS if experiment == "analysis" else _OF_APART
    if is_apart and (lacking := sorted(wanted - set(document))):
        raise _not_written(path, experiment, f"it lacks {', '.join(lacking)}")


def _check_results(path: Path, results: Any) -> None:
    if not isinstance(results, dict):
        raise FormatError(f"{path}: has no results; run the benchmark again.")
    for name, entry in results.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("ood"), dict):
            raise FormatError(
                f"{path}: {name!r} has no results on OOD sets; run the benchmark again."
            )


def read_result_scores(folder: str | Path) -> dict[str, Scores]:
    """Read the scores behind a result by method.

    Files that are not named after a method of the result are ignored.
    """
    found = {}
    rows = _rows(result_file(folder, "main"))
    for path in sorted((Path(folder) / "scores").glob("*.npz")):
        if rows is None or path.stem in rows:
            found[path.stem] = _read_scores(path)
    return found


def _read_scores(path: Path) -> Scores:
    with reading(path, "not a whole .npz file", "run the benchmark again"):
        with zipfile.ZipFile(path) as archive:
            check_growth(path, sum(member.file_size for member in archive.infolist()))
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    if "test" not in arrays:
        raise FormatError(f"{path}: has no array 'test'; run the benchmark again.")
    for name, array in arrays.items():
        with about(str(path)):
            _check_scores(array, name)
    ood = {}
    for name, array in arrays.items():
        if name.startswith("ood."):
            ood[name.removeprefix("ood.")] = array
    return Scores(arrays["test"], ood, arrays.get("calibration"))


def _check_scores(array: Any, name: str) -> None:
    if not isinstance(array, np.ndarray):  # NumPy gives the bytes of other members
        raise FormatError(f"{name} is not an array; run the benchmark again.")
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "fiub":
        found = f"{array.dtype} of shape {array.shape}"
        raise FormatError(f"{name} is {found}, not a row of scores; run it again.")
    if np.isnan(array).any():
        raise FormatError(f"{name} has NaN among its scores; run the benchmark again.")


def _rows(path: Path) -> set[str] | None:
    """Return the methods that a record names; None if there is no readable one."""
    try:
        return set(json.loads(path.read_text(encoding="utf-8"))["results"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _write_scores(folder: Path, scores: Mapping[str, Scores], replaced: set[str]) -> None:
    folder.mkdir(exist_ok=True)
    for method, found in scores.items():
        arrays = {"test": found.test}
        arrays |= {f"ood.{name}": array for name, array in found.ood.items()}
        if found.calibration is not None:
            arrays["calibration"] = found.calibration
        with atomic_path(folder / f"{method}.npz") as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
    for path in folder.glob("*.npz"):
        if path.stem in replaced and path.stem not in scores:
            path.unlink()
