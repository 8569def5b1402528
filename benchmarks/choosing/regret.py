"""Measure `typica choose`: what it says without OOD data against what OOD sets then show.

    python benchmarks/choosing/regret.py FOLDER ... [--images] [--json FILE]
    python benchmarks/choosing/regret.py FILE ...

A folder is what `typica bench --features` reads (`suites.py` makes some); a file is what --json
wrote, so that several runs can be shown as one. Held-out inputs are its
calibration rows, else one half of its test rows. For each folder: Spearman's rank correlation
between the means of `choose` and the mean AUROCs on the OOD sets, the detector that it recommends,
whether it could tell, and the regret: the AUROC of the best detector, known only now, minus that of
the recommended one, in points. Below, what one answer for every folder would have cost.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from typica.bench import Choice, compare, leave_classes_out, make_detectors
from typica.head import Head

ROWS = 10_000  # of the training data, for the fits that the OOD sets judge
SCORED = 3000  # rows of each set
CONSTANTS = 6  # answers that are shown
Arrays = dict[str, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--images", action="store_true", help="take near.*.features.npy as well")
    parser.add_argument("--detectors", help="names with commas between; all if not given")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    names = given.detectors.split(",") if given.detectors else None
    results = {}
    print(f"{'suite':<30} {'rank corr.':>10} {'pick':<22} {'told':<5} {'regret':>7} {'s':>6}")
    for path in given.folders:
        if path.suffix == ".json":
            found = json.loads(path.read_text())["suites"]
        else:
            found = {path.name: measured(path, names, given)}
        for name, result in found.items():
            print(line(name, result), flush=True)
        results |= found
        summary = summarised(results)
        if given.json:  # so far, lest a long run is lost
            content = {"suites": results, "summary": summary}
            given.json.write_text(json.dumps(content, indent=1))
    for name, value in summary.items():
        print(f"{name:<42} {value:6.2f}")


def line(name: str, result: Mapping[str, Any]) -> str:
    told = "yes" if result["told"] else "no"
    figures = f"{result['regret']:>7.2f} {result['seconds']:>6.0f}"
    return f"{name:<30} {result['correlation']:>10.2f} {result['pick']:<22} {told:<5} {figures}"


def measured(folder: Path, names: list[str] | None, given: argparse.Namespace) -> dict[str, Any]:
    """Choose without the OOD sets of a folder, then look at them."""
    arrays = read(folder, given.seed)
    head = None
    if "head.weight" in arrays:
        head = Head(arrays["head.weight"], arrays["head.bias"])
    detectors = make_detectors(names, head)
    near = set_of(arrays, "near") if given.images else {}
    # A corruption that is an OOD set as well would be OOD data.
    near = {name: rows for name, rows in near.items() if f"ood.{name}.features" not in arrays}
    train, labels = arrays["train.features"], arrays["train.labels"]
    began = time.perf_counter()
    choice = leave_classes_out(
        detectors,
        train,
        labels,
        arrays["calibration.features"],
        arrays["calibration.labels"],
        near=near,
        seed=given.seed,
    )
    seconds = time.perf_counter() - began
    kept = np.random.default_rng(given.seed).permutation(len(train))[: given.rows]
    table = compare(
        make_detectors(list(choice.means), head),
        train[kept],
        labels[kept],
        arrays["test.features"][:SCORED],
        {name: rows[:SCORED] for name, rows in set_of(arrays, "ood").items()},
    )
    shown = {}
    for name, row in table.items():
        if row.evaluation is not None:
            shown[name] = 100 * row.evaluation.average["auroc"]
    return judged(choice, shown) | {"seconds": seconds}


def judged(choice: Choice, shown: Mapping[str, float]) -> dict[str, Any]:
    """Return how well a choice did, given the mean AUROC that each detector then had."""
    common = [name for name in choice.means if name in shown]
    said = [choice.means[name] for name in common]
    return {
        "correlation": float(spearmanr(said, [shown[name] for name in common])[0]),
        "pick": choice.best,
        "told": choice.told,
        "regret": max(shown.values()) - shown[choice.best],
        "shown": dict(shown),
        "choice": choice.to_dict(),
    }


def summarised(results: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return mean correlation and regret, and the mean regret of the best constant answers."""
    common = set.intersection(*(set(result["shown"]) for result in results.values()))
    costs = {name: [] for name in common}
    for result in results.values():
        best = max(result["shown"].values())
        for name in common:
            costs[name].append(best - result["shown"][name])
    regrets = [result["regret"] for result in results.values()]
    summary = {
        "mean rank correlation": np.mean([result["correlation"] for result in results.values()]),
        "mean regret of choose": np.mean(regrets),
        "largest regret of choose": np.max(regrets),
    }
    for name in sorted(costs, key=lambda name: np.mean(costs[name]))[:CONSTANTS]:
        summary[f"mean regret of always {name}"] = np.mean(costs[name])
        summary[f"largest regret of always {name}"] = np.max(costs[name])
    return {name: float(value) for name, value in summary.items()}


def read(folder: Path, seed: int) -> Arrays:
    """Return the arrays of a folder by name; half of the test rows are held out if none are."""
    arrays = {path.name.removesuffix(".npy"): np.load(path) for path in folder.glob("*.npy")}
    for name, array in arrays.items():
        if array.dtype == np.float16:
            arrays[name] = array.astype(np.float32)
    if "calibration.features" in arrays:
        return arrays
    order = np.random.default_rng(seed).permutation(len(arrays["test.labels"]))
    halves = np.array_split(order, 2)
    for what in ("features", "labels"):
        rows = arrays[f"test.{what}"]
        arrays[f"calibration.{what}"], arrays[f"test.{what}"] = rows[halves[0]], rows[halves[1]]
    return arrays


def set_of(arrays: Arrays, kind: str) -> Arrays:
    """Return the features of a kind of sets, ood or near, by name."""
    start, end = f"{kind}.", ".features"
    found = [name for name in sorted(arrays) if name.startswith(start) and name.endswith(end)]
    return {name.removeprefix(start).removesuffix(end): arrays[name] for name in found}


if __name__ == "__main__":
    main()
