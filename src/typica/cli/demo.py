"""`typica demo`: the whole story on built-in data."""

from __future__ import annotations

import numpy as np
from rich.columns import Columns
from rich.panel import Panel

from typica.bench import digits
from typica.bench.run import Comparison, accepted, compare_on
from typica.bench.suite import FeatureSuite
from typica.cli.show import console, footnote, percent, write_json
from typica.cli.show import table as show_table
from typica.detectors import Detector

TPR = 0.95


def run(seed: int, json_file: str | None) -> None:
    """Train, fit, calibrate, evaluate, decide; print it all, or write it as JSON."""
    suite = digits.load(seed)
    table = compare_on(suite, tpr=TPR)
    ctm = table["ctm"].detector
    rates = accepted(suite, ctm)
    if json_file != "-":
        _introduce(suite)
        _compare(suite, table)
        _verdicts(suite, ctm, rates)
        _decide(suite, ctm, seed)
        _farewell()
    if json_file is not None:
        results = {
            name: row.evaluation.to_dict()
            for name, row in table.items()
            if row.evaluation is not None
        }
        failed = {name: row.error for name, row in table.items() if row.error}
        document = {
            "suite": suite.name,
            "seed": seed,
            "accuracy": suite.accuracy,
            "results": results,
            "failed": failed,
        }
        write_json(document | {"accepted by ctm": rates}, json_file)


def _introduce(suite: FeatureSuite) -> None:
    names = ", ".join(map(str, suite.classes))
    console.print(
        f"A network has learnt the handwritten digits {names} from {len(suite.train)} images; it names "
        f"{percent(suite.accuracy)} % of {len(suite.test)} new ones correctly. It has never seen another digit, "
        "a photograph or noise. Detectors are fitted on its penultimate features, and their thresholds set "
        f"on {len(suite.calibration)} held-out digits to keep {100 * TPR:g} % of digits it knows.\n"
    )


def _compare(suite: FeatureSuite, table: dict[str, Comparison]) -> None:
    """Print how each detector tells test digits from each OOD set, the best first."""
    done = [row.evaluation for row in table.values() if row.evaluation is not None]
    done.sort(key=lambda evaluation: -evaluation.average["auroc"])
    columns = ["detector", *(name.replace("-", " ") for name in suite.ood), "mean", "FPR ↓"]
    rows = [
        [
            evaluation.detector,
            *(percent(result.auroc) for result in evaluation.ood.values()),
            percent(evaluation.average["auroc"]),
            percent(evaluation.average["fpr"]),
        ]
        for evaluation in done
    ]
    console.print("AUROC ↑ of each detector on what the network has never met", style="bold")
    console.print(show_table("", columns, rows))
    for name, row in table.items():
        if row.error:
            console.print(f"{name}: {row.error}", style="red", markup=False)
    console.print(footnote(next(iter(done[0].ood.values()))), style="dim")


def _verdicts(suite: FeatureSuite, ctm: Detector, rates: dict[str, float]) -> None:
    """Print what share of each set CTM accepts."""
    rows = [["digits it knows (test)", percent(rates["test"]), percent(1 - rates["test"])]]
    for name in suite.ood:
        near = " (near)" if name in suite.near else ""
        rows.append([f"{name}{near}", percent(rates[name]), percent(1 - rates[name])])
    threshold = ctm.calibration_.threshold
    console.print(f"\nWhat CTM decides at its calibrated threshold {threshold:.4f}", style="bold")
    console.print(show_table("", ["inputs", "accepted %", "rejected %"], rows))


def _decide(suite: FeatureSuite, detector: Detector, seed: int) -> None:
    """Show single decisions: per set, the image whose score is the median of its set."""
    pictures = digits.images(seed)
    console.print("Single decisions by CTM, the image of median score from each set:", style="bold")
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
        "  typica fit train.npy --labels labels.npy --calibrate held_out.npy \\\n"
        "    -o ctm.safetensors\n"
        "  typica score ctm.safetensors new.npy\n"
        "  typica evaluate ctm.safetensors --id test.npy --ood svhn=svhn.npy",
        markup=False,
    )
