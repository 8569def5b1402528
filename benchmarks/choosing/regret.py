"""Measure `typica choose`: what it says without OOD data against what OOD sets then show.

    python benchmarks/choosing/regret.py FOLDER ... [--images] [--json FILE]
    python benchmarks/choosing/regret.py FILE ...

A folder is what `typica bench --features` reads (`suites.py` makes some); a file is what --json
wrote, so that several runs can be shown as one. Held-out inputs are its
calibration rows, else one half of its test rows. For each folder: Spearman's rank correlation
between the means of `choose` and the mean AUROCs on the OOD sets, the detector that it recommends,
whether it could tell, and the regret: the AUROC of the best detector, known only now, minus that of
the recommended one, in points. Below, what other ways would have cost: to take the first of the
list, or its first single method (not Quorum, nor Ensemble), or the first where classes are left out
one by one and nothing else; and one answer for every folder.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from typica.bench import Choice, compare, leave_classes_out, make_detectors
from typica.head import Head

ROWS = 10_000  # of the training data, for the fits that the OOD sets judge
SCORED = 3000  # rows of each set
CONSTANTS = 6  # answers that are shown
JOINT = ("quorum", "ensemble")  # detectors that are several in one
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
        print(f"{name:<66} {value:6.2f}")


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
    return {
        "correlation": rank_correlation(choice.means, shown),
        "pick": choice.best,
        "told": choice.told,
        "regret": max(shown.values()) - shown[choice.best],
        "shown": dict(shown),
        "choice": choice.to_dict(),
    }


def rank_correlation(said: Mapping[str, float], shown: Mapping[str, float]) -> float:
    names = [name for name in said if name in shown]
    return float(spearmanr([said[name] for name in names], [shown[name] for name in names])[0])


def summarised(results: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return means over the folders: of correlation and regret, and what other ways would cost."""
    every = list(results.values())
    summary = {"mean rank correlation": np.mean([result["correlation"] for result in every])}
    alone = [rank_correlation(of_classes(result), result["shown"]) for result in every]
    summary["mean rank correlation of classes one by one"] = np.mean(alone)
    ways = {"choose": [result["regret"] for result in every]}
    ways["the first of its list"] = [cost(of_kinds(result), result["shown"]) for result in every]
    singles = [without(JOINT, result) for result in every]
    ways["its first single method"] = [cost(of_kinds(one), one["shown"]) for one in singles]
    ways["classes one by one"] = [cost(of_classes(result), result["shown"]) for result in every]
    ways |= constants(every)
    for name, costs in constants(singles).items():
        ways[f"{name}, among single methods"] = costs
    for name, costs in ways.items():
        summary[f"mean regret of {name}"] = np.mean(costs)
        summary[f"largest regret of {name}"] = np.max(costs)
    return {name: float(value) for name, value in summary.items()}


def constants(results: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return the regrets of the constant answers that cost least, by name."""
    common = set.intersection(*(set(result["shown"]) for result in results))
    costs = {}
    for name in common:
        shown = [result["shown"] for result in results]
        costs[f"always {name}"] = [max(aurocs.values()) - aurocs[name] for aurocs in shown]
    cheapest = sorted(costs, key=lambda name: np.mean(costs[name]))
    return {name: costs[name] for name in cheapest[:CONSTANTS]}


def without(names: Sequence[str], result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result as if some detectors had not been there."""
    shown = {name: auroc for name, auroc in result["shown"].items() if name not in names}
    return {"shown": shown, "choice": result["choice"]}


def of_kinds(result: Mapping[str, Any]) -> Mapping[str, float]:
    return result["choice"]["mean_auroc"]


def of_classes(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the mean AUROC with classes left out one by one."""
    aurocs = result["choice"]["auroc"]
    return {name: float(np.mean(list(by_class.values()))) for name, by_class in aurocs.items()}


def cost(said: Mapping[str, float], shown: Mapping[str, float]) -> float:
    """Return the regret of the first by what was said, of those that were shown."""
    first = max(shown, key=lambda name: said[name])
    return max(shown.values()) - shown[first]


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
