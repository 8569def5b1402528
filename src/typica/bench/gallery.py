"""Images for the report, as CTM sees them: the most typical, the borderline, the missed, the false alarms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from typica.bench.suite import FeatureSuite
from typica.detectors.ctm import CTM
from typica.files import atomic_path

EACH = 8  # images of a kind
SIDE = 128  # of an image's longer side, at most, in pixels


def write_gallery(folder: str | Path, sets: FeatureSuite, tpr: float) -> int:
    """Write the images that CTM finds most telling to `folder`; return how many. Sets without images are left out.

    The threshold keeps a share `tpr` of the calibration inputs, or of the test inputs where there
    are none.
    """
    folder = Path(folder)
    _remove(folder)
    if "test" not in sets.pictures:
        return 0
    detector = CTM().fit(sets.train, sets.train_labels)
    held_out = sets.test if sets.calibration is None else sets.calibration
    cut = detector.calibrate(held_out, tpr=tpr).offset_
    features = {"test": sets.test} | {
        name: Z for name, Z in sets.ood.items() if name in sets.pictures
    }
    scores = {name: np.asarray(detector.score_samples(Z)) for name, Z in features.items()}
    (folder / "gallery").mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []
    for kind, name, row in _chosen(scores, cut):
        matches = detector.match(features[name][row : row + 1])
        title, picture = sets.pictures[name][row]
        file = _file(len(entries))
        _thumbnail(picture).save(folder / file)
        entries.append(
            {
                "file": file,
                "set": name,
                "name": title,
                "method": "ctm",
                "score": float(scores[name][row]),
                "nearest": None if matches is None else str(detector.classes_[matches.nearest[0]]),
                "label": str(sets.test_labels[row]) if name == "test" else None,
                "kind": kind,
            }
        )
    with atomic_path(folder / "gallery.json") as temporary:
        temporary.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    return len(entries)


def _remove(folder: Path) -> None:
    """Remove an earlier gallery, and nothing else that lies beside it."""
    listing = folder / "gallery.json"
    if not listing.is_file():
        return
    try:
        numbers = range(len(json.loads(listing.read_text(encoding="utf-8"))))
    except (ValueError, TypeError):
        numbers = range(0)
    for number in numbers:
        (folder / _file(number)).unlink(missing_ok=True)
    listing.unlink()


def _file(number: int) -> str:
    return f"gallery/{number:03d}.png"


def _chosen(scores: Mapping[str, NDArray[Any]], cut: float) -> Iterator[tuple[str, str, int]]:
    """Yield kind, set and row; of OOD sets, the extremes of all of them together."""
    known = scores["test"]
    order = np.argsort(-known, kind="stable")
    yield from (("typical", "test", int(row)) for row in order[:EACH])
    everything = [
        (float(score), name, row)
        for name, of_set in scores.items()
        for row, score in enumerate(of_set)
    ]
    everything.sort(key=lambda entry: (abs(entry[0] - cut), entry[1:]))
    yield from (("borderline", name, row) for _, name, row in everything[:EACH])
    strange = sorted(
        (entry for entry in everything if entry[1] != "test"),
        key=lambda entry: (-entry[0], entry[1:]),
    )
    yield from (("missed", name, row) for score, name, row in strange[:EACH] if score >= cut)
    yield from (("false alarm", "test", int(row)) for row in order[::-1][:EACH] if known[row] < cut)


def _thumbnail(picture: Any) -> Image.Image:
    image = (
        picture.convert("RGB")
        if isinstance(picture, Image.Image)
        else Image.fromarray(np.asarray(picture))
    )
    if max(image.size) > SIDE:
        image.thumbnail((SIDE, SIDE))
    return image
