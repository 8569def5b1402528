"""`typica demo`: the whole story on built-in data."""

from __future__ import annotations

import numpy as np
from rich.columns import Columns
from rich.panel import Panel

from typica.bench import digits
from typica.bench.run import evaluate_detector, fitted_detectors, kept_and_rejected
from typica.bench.suite import FeatureSuite
from typica.cli.show import console, footnote, percent, table, write_json
from typica.detectors import Detector
from typica.metrics import Evaluation

TPR = 0.95


def run(seed: int, json_file: str | None) -> None:
    """Train, fit, calibrate, evaluate, decide; print it all, or write it as JSON."""
    suite = digits.load(seed)
    detectors = fitted_detectors(suite, tpr=TPR)
    evaluations = {name: evaluate_detector(suite, detector, TPR) for name, detector in detectors.items()}
    rates = {name: kept_and_rejected(suite, detector) for name, detector in detectors.items()}
    if json_file != "-":
        _introduce(suite)
        console.print(_results(suite, evaluations))
        console.print(footnote(next(iter(evaluations["ctm"].ood.values()))), style="dim")
        console.print()
        console.print(_verdicts(suite, detectors["ctm"], rates["ctm"]))
        _decide(suite, detectors["ctm"], seed)
        _farewell()
    if json_file is not None:
        results = {name: evaluation.to_dict() | {"accepted": rates[name]} for name, evaluation in evaluations.items()}
        write_json({"suite": suite.name, "seed": seed, "accuracy": suite.accuracy, "results": results}, json_file)


def _introduce(suite: FeatureSuite) -> None:
    names = ", ".join(map(str, suite.classes))
    console.print(
        f"A network has learnt the handwritten digits {names} from {len(suite.train)} pictures; it names "
        f"{percent(suite.accuracy)} % of {len(suite.test)} new ones correctly. It has never seen another digit, "
        "a photograph or noise. Detectors are fitted on its penultimate features, and their thresholds set "
        f"on {len(suite.calibration)} held-out digits to keep {100 * TPR:g} % of digits it knows.\n"
    )


def _results(suite: FeatureSuite, evaluations: dict[str, Evaluation]) -> object:
    columns = ["detector", *(f"{name}" for name in suite.ood), "mean", "FPR ↓"]
    ranked = sorted(evaluations.items(), key=lambda item: -item[1].average["auroc"])
    rows = [
        [
            name,
            *(percent(result.auroc) for result in evaluation.ood.values()),
            percent(evaluation.average["auroc"]),
            percent(evaluation.average["fpr"]),
        ]
        for name, evaluation in ranked
    ]
    made = table("AUROC ↑ of each detector on what the network has never met", columns, rows)
    for column in made.columns[1:]:
        column.no_wrap, column.overflow = False, "fold"
    return made


def _verdicts(suite: FeatureSuite, detector: Detector, rates: dict[str, float]) -> object:
    rows = [["digits it knows (test)", percent(rates["test"]), percent(1 - rates["test"])]]
    for name in suite.ood:
        near = " (near)" if name in suite.near else ""
        rows.append([f"{name}{near}", percent(rates[name]), percent(1 - rates[name])])
    title = f"What CTM decides at its calibrated threshold {detector.calibration_.threshold:.4f}"
    return table(title, ["inputs", "accepted %", "rejected %"], rows)


def _decide(suite: FeatureSuite, detector: Detector, seed: int) -> None:
    """Show single decisions: per set, the picture whose score is the median of its set."""
    pictures = digits.images(seed)
    console.print("Single decisions by CTM, the picture of median score from each set:", style="bold")
    panels = []
    for name, features in {"test": suite.test, **suite.ood}.items():
        scores = np.asarray(detector.score_samples(features))
        middle = int(np.argsort(scores)[len(scores) // 2])
        answer = detector.explain(features[middle : middle + 1])[0]
        verdict = "[green]typical[/]" if answer.typical else "[red]NOT typical[/]"
        said = (
            f"{digits.ascii_art(pictures[name][middle])}\n{verdict}\n"
            f"score {answer.score:.4f}\npercentile {answer.percentile:.1f}\n"
            f"nearest {answer.nearest} ({answer.similarity:.3f})\n"
            f"then {answer.runner_up} ({answer.runner_up_similarity:.3f})"
        )
        panels.append(Panel(said, title=name, width=24))
    console.print(Columns(panels))


def _farewell() -> None:
    console.print(
        "\nOn features of your own:\n"
        "  typica fit train.npy --labels labels.npy -o ctm.safetensors --calibrate held_out.npy\n"
        "  typica score ctm.safetensors new.npy\n"
        "  typica evaluate ctm.safetensors --id test.npy --ood svhn=svhn.npy",
        markup=False,
    )
