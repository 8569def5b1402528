"""What every detector and rectifier answers on two small data sets, kept in a file.

    python tests/net/answers.py write            write answers.npz anew
    python tests/net/answers.py compare          compare to the last digit, and name what differs
    python tests/net/answers.py write --real F   the same on the real CIFAR-10 features, in a file F

The tests compare within each method's tolerance, because processors round differently. The inputs
are kept beside the answers, so that no network and no data set has to be the same again.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import LogisticRegression

import typica
from typica import Head, rectify

FILE = Path(__file__).with_name("answers.npz")
DTYPES = ("float32", "float64")
DECIDED = ("score", "p_value", "typical", "threshold")
PARTS = ("train", "labels", "held_out", "queries", "weight", "bias")
SMALL = {
    "isolation_forest": {"trees": 20},
    "knn": {"k": 5},
    "nnguide": {"k": 3, "subsample": None},
    "weiper": {"repeats": 3, "bins": 20, "smoothing": 4},
}

Arrays = dict[str, NDArray[Any]]


def inputs() -> dict[str, Arrays]:
    """Return the two data sets: digits behind a random layer, and a standardised table of wines."""
    digits, wine = load_digits(), load_wine()
    known = digits.target < 7
    layer = np.random.default_rng(0).normal(size=(64, 24))
    features = np.maximum(digits.data @ layer / 16, 0)
    table = (wine.data - wine.data.mean(axis=0)) / wine.data.std(axis=0)
    return {
        "digits": _split(features[known], digits.target[known], features[~known], 4),
        "table": _split(table, wine.target, table[::3] * np.linspace(3, -3, 13), 1),
    }


def _split(known: Any, labels: Any, strange: Any, step: int) -> Arrays:
    known, labels = known[::step], labels[::step]
    head = LogisticRegression(max_iter=2000).fit(known[::2], labels[::2])
    queries = np.concatenate([known[1::4][:12], strange[:10], 0 * known[:1]])
    parts = known[::2], labels[::2], known[1::2], queries, head.coef_, head.intercept_
    return {
        name: part if name == "labels" else part.astype(np.float32)
        for name, part in zip(PARTS, parts, strict=True)
    }


def answers(data: Arrays, dtype: str) -> Iterator[tuple[str, str, Arrays]]:
    """Yield each case with its method and what it answers."""
    cast = {name: part if name == "labels" else part.astype(dtype) for name, part in data.items()}
    head = Head(cast["weight"], cast["bias"])
    for name in typica.list_detectors():
        yield name, name, _decided(_detector(name, head), cast)
        if typica.detector_class(name).tags.uses_labels:
            yield f"{name}-by-class", name, _decided(_detector(name, head), cast, by_class=True)
    for name in rectify.list_rectifiers():
        rectifier = _with_head(rectify.rectifier_class(name), head)
        rectifier.fit(cast["train"], cast["labels"])
        yield (
            f"rectify-{name}",
            name,
            {"rows": np.asarray(rectifier.transform(cast["queries"][::4]))[:, ::3]},
        )


def _detector(name: str, head: Head) -> Any:
    return _with_head(typica.detector_class(name), head, **SMALL.get(name, {}))


def _with_head(cls: Any, head: Head, **params: Any) -> Any:
    takes = "head" in cls().get_params()
    return cls(**params, **({"head": head} if takes else {}))


def _decided(detector: Any, data: Arrays, by_class: bool = False) -> Arrays:
    queries = data["queries"]
    detector.fit(data["train"], data["labels"])
    provisional = detector.offset_
    try:
        detector.calibrate(data["held_out"], alpha=0.1, by_class=by_class)
    except typica.InputError as error:
        return {"refused": np.array(str(error))}
    verdicts = detector.judge(queries)
    explained: dict[str, Any] = {}
    for row, one in enumerate(detector.explain(queries[-12:-9])):
        explained |= _flat(str(row), one.to_dict())
    numbers = {place: value for place, value in explained.items() if isinstance(value, float)}
    words = {place: value for place, value in explained.items() if place not in numbers}
    ranks = [place for place in numbers if place.endswith((".percentile", ".p_value", ".below"))]
    decided = {name: getattr(verdicts, name) for name in DECIDED}
    decided["provisional"] = np.full(len(queries), provisional)
    found = {
        "decided": np.stack([np.asarray(column, np.float64) for column in decided.values()]),
        "words": np.array(json.dumps([list(explained), words])),
        "ranks": np.array([numbers.pop(place) for place in ranks]),
        "numbers": np.array(list(numbers.values())),
    }
    if verdicts.nearest is not None:
        found["nearest"] = np.asarray(verdicts.nearest)
    return found


def _flat(place: str, value: Any) -> dict[str, Any]:
    """Return an explanation's numbers and words, each under its place."""
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, list | tuple):
        parts = list(enumerate(value))
    else:
        return {place: value.item() if isinstance(value, np.generic) else value}
    found: dict[str, Any] = {}
    for name, item in parts:
        found |= _flat(f"{place}.{name}", item)
    return found


def all_answers(sets: dict[str, Arrays]) -> Iterator[tuple[str, str, str, Arrays]]:
    """Yield key, method, dtype and answers of every case on every set."""
    for place, data in sets.items():
        for dtype in DTYPES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for case, method, found in answers(data, dtype):
                    yield f"{place}/{dtype}/{case}", method, dtype, found


def read(file: Path = FILE) -> tuple[dict[str, Arrays], Arrays]:
    """Return the inputs and the answers that a file keeps."""
    with np.load(file) as stored:
        arrays = dict(stored)
    sets: dict[str, Arrays] = {}
    for name in [name for name in arrays if name.startswith("input/")]:
        _, place, part = name.split("/")
        sets.setdefault(place, {})[part] = arrays.pop(name)
    return sets, arrays


def write(sets: dict[str, Arrays], file: Path) -> None:
    """Write inputs and answers."""
    arrays = {
        f"input/{place}/{part}": array
        for place, data in sets.items()
        for part, array in data.items()
    }
    for key, _, _, found in all_answers(sets):
        arrays |= {f"{key}/{name}": value for name, value in found.items()}
    np.savez_compressed(file, **arrays)
    print(f"{file}: {len(arrays)} arrays, {file.stat().st_size // 1000} kB")


def compare(file: Path) -> int:
    """Print every answer that is not equal to the last digit, and return how many there are."""
    sets, wanted = read(file)
    different = 0
    for key, _, _, found in all_answers(sets):
        for name, value in found.items():
            known = wanted.pop(f"{key}/{name}", None)
            if known is None or not np.array_equal(value, known, equal_nan=value.dtype.kind == "f"):
                different += 1
                print(f"{key}/{name}: {_difference(value, known)}")
    for name in wanted:
        print(f"{name}: is no longer answered")
    print(f"{different} answers differ, {len(wanted)} are missing")
    return different + len(wanted)


def _difference(value: NDArray[Any], known: NDArray[Any] | None) -> str:
    if known is None or value.dtype.kind != "f" or value.shape != known.shape:
        return "differs"
    return f"differs by {np.nanmax(np.abs(value - known)):.1e}"


def real(folder: Path) -> dict[str, Arrays]:
    """Return the real features: every tenth training row, 200 test rows and 200 of SVHN."""
    part = {path.stem: np.load(path, mmap_mode="r") for path in folder.glob("*.npy")}
    queries = np.concatenate([part["test.features"][5000:5200], part["ood.svhn.features"][:200]])
    rows = (
        part["train.features"][::10],
        part["train.labels"][::10],
        part["test.features"][:2000],
        queries,
        part["head.weight"],
        part["head.bias"],
    )
    return {"cifar10": dict(zip(PARTS, map(np.asarray, rows), strict=True))}


def main() -> int:
    """Write or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["write", "compare"])
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--real", type=Path, help="a folder with the real CIFAR-10 features")
    options = parser.parse_args()
    if options.action == "compare":
        return 1 if compare(options.file) else 0
    write(inputs() if options.real is None else real(options.real), options.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
