"""Images for the report, as each method sees them: typical, borderline, missed, false alarms."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.as_json import finite_number, json_values
from typica.bench._feature_suite import FeatureSuite
from typica.bench._runs import Scores
from typica.bench._workbench import Workbench
from typica.calibration import guaranteed_rank, threshold_at
from typica.data import thumbnail
from typica.detectors import Detector
from typica.files import atomic_path
from typica.written_numbers import exact

EACH = 8  # images of a kind
SIDE = 128  # of an image's longer side, at most, in pixels


@dataclass(frozen=True)
class Shown:
    """An image of the gallery: its file and set, and what a method makes of it.

    kind: typical, borderline, missed or false alarm. nearest: the class whose mean is nearest, as
    CTM has it. label: what it is, where that is known.
    """

    file: str
    set: str = ""
    name: str = ""
    method: str = ""
    score: float | None = None
    nearest: str | None = None
    label: str | None = None
    kind: str = "other"

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Shown:
        """Read what `to_dict` gave; only the file must be there. An infinite score is None."""
        nearest, label = document.get("nearest"), document.get("label")
        return cls(
            file=document["file"],
            set=str(document.get("set", "")),
            name=str(document.get("name") or ""),
            method=str(document.get("method") or ""),
            score=finite_number(document.get("score")),
            nearest=None if nearest is None else str(nearest),
            label=None if label is None else str(label),
            kind=str(document.get("kind", "other")),
        )


def write_gallery(
    folder: str | Path,
    sets: FeatureSuite,
    tpr: float,
    workbench: Workbench | None = None,
    scores: Mapping[str, Scores] | None = None,
) -> int:
    """Write the images that each method finds most telling to `folder`; return how many.

    Parameters
    ----------
    folder
        Where gallery.json and the images are written; an earlier gallery is removed.
    sets
        The features and their images. Sets without images are left out.
    tpr
        The share of calibration inputs that the threshold keeps, or of test inputs if there are no
        calibration inputs.
    workbench
        One that has fitted CTM already.
    scores
        The scores by method; only those of CTM if there are none.
    """
    folder = Path(folder)
    _remove(folder)
    if "test" not in sets.images:
        return 0
    workbench = workbench or Workbench(sets)
    images = _Images(folder, sets, workbench.detector("ctm"))
    (folder / "gallery").mkdir(parents=True, exist_ok=True)
    entries = []
    for method, found in (scores or _of_ctm(workbench)).items():
        cut = _threshold(_held_out(found), tpr)
        by_set = {"test": np.asarray(found.test)}
        for name, strange in found.ood.items():
            if name in sets.images:
                by_set[name] = np.asarray(strange)
        for kind, name, row in _chosen(by_set, cut):
            shown = images.shown(name, row)
            scored = replace(shown, method=method, kind=kind, score=float(by_set[name][row]))
            entries.append(scored.to_dict())
    with atomic_path(folder / "gallery.json") as temporary:
        text = json.dumps(json_values(entries), indent=1, allow_nan=False)
        temporary.write_text(f"{text}\n", encoding="utf-8")
    return len(images.files)


def _of_ctm(workbench: Workbench) -> dict[str, Scores]:
    found = workbench.scored({"ctm": {}})["ctm"].scores
    return {} if found is None else {"ctm": found}


def _held_out(scores: Scores) -> NDArray[np.float64]:
    held_out = scores.test if scores.calibration is None else scores.calibration
    return np.asarray(held_out, dtype=np.float64)


class _Images:
    """The images that are written, each once, whichever methods show it."""

    def __init__(self, folder: Path, sets: FeatureSuite, detector: Detector) -> None:
        self._folder = folder
        self._sets = sets
        self._detector = detector
        self.files: dict[tuple[str, int], Shown] = {}

    def shown(self, name: str, row: int) -> Shown:
        """Return what is known about a row of a set, and write its image to the folder."""
        if (name, row) not in self.files:
            sets, file = self._sets, _file(len(self.files))
            title, image = sets.images[name][row]
            thumbnail(image, SIDE).save(self._folder / file)
            features = sets.test if name == "test" else sets.ood[name]
            self.files[name, row] = Shown(
                file=file,
                set=name,
                name=title,
                nearest=_nearest(self._detector, features[row : row + 1]),
                label=str(sets.test_labels[row]) if name == "test" else None,
            )
        return self.files[name, row]


def _threshold(scores: NDArray[np.float64], tpr: float) -> float:
    """Return the threshold of the gallery: the k-th smallest score, k = floor((n + 1)(1 - tpr))."""
    k = guaranteed_rank(len(scores), 1 - exact(tpr))
    return threshold_at(k, np.sort(scores))


def _nearest(detector: Detector, row: AnyArray) -> str | None:
    matches = detector.match(row)
    if matches is None:
        return None
    return str(detector.classes_[matches.nearest[0]])


def _remove(folder: Path) -> None:
    """Remove an earlier gallery, and nothing else that lies beside it."""
    listing = folder / "gallery.json"
    if not listing.is_file():
        return
    try:
        entries = json.loads(listing.read_text(encoding="utf-8"))
        named = {entry["file"] for entry in entries}
    except (ValueError, TypeError, KeyError):
        named = set()
    for number in range(len(named)):
        if _file(number) in named:
            (folder / _file(number)).unlink(missing_ok=True)
    listing.unlink()


def _file(number: int) -> str:
    return f"gallery/{number:03d}.png"


class _Scored(NamedTuple):
    """A row of a set with its score."""

    score: float
    set: str
    row: int


def _chosen(scores: Mapping[str, AnyArray], cut: float) -> Iterator[tuple[str, str, int]]:
    """Yield kind, set and row; of OOD sets, the extremes of all of them together."""
    known = scores["test"]
    everything = list(_every_row(scores))
    kinds = {
        "typical": _typical(known),
        "borderline": _borderline(everything, cut),
        "missed": _missed(everything, cut),
        "false alarm": _false_alarms(known, cut),
    }
    for kind, rows in kinds.items():
        for name, row in rows:
            yield kind, name, row


def _every_row(scores: Mapping[str, AnyArray]) -> Iterator[_Scored]:
    for name, of_set in scores.items():
        for row, score in enumerate(of_set):
            yield _Scored(float(score), name, row)


def _typical(known: AnyArray) -> Iterator[tuple[str, int]]:
    """Yield the known inputs with the highest scores."""
    for row in _best_first(known)[:EACH]:
        yield "test", int(row)


def _borderline(everything: Iterable[_Scored], cut: float) -> Iterator[tuple[str, int]]:
    """Yield the inputs of any set whose scores are nearest to the threshold."""
    nearest = sorted(everything, key=lambda one: (abs(one.score - cut), one.set, one.row))
    for one in nearest[:EACH]:
        yield one.set, one.row


def _missed(everything: Iterable[_Scored], cut: float) -> Iterator[tuple[str, int]]:
    """Yield the OOD inputs that are accepted, those with the highest scores."""
    accepted = [one for one in everything if one.set != "test" and one.score >= cut]
    accepted.sort(key=lambda one: (-one.score, one.set, one.row))
    for one in accepted[:EACH]:
        yield one.set, one.row


def _false_alarms(known: AnyArray, cut: float) -> Iterator[tuple[str, int]]:
    """Yield the known inputs that are rejected, those with the lowest scores."""
    for row in _best_first(known)[::-1][:EACH]:
        if known[row] < cut:
            yield "test", int(row)


def _best_first(scores: AnyArray) -> NDArray[np.int64]:
    return np.argsort(-scores, kind="stable")
