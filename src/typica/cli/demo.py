"""`typica demo`: the whole story on built-in data."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.columns import Columns
from rich.panel import Panel

from typica.bench import Comparison, FeatureSuite, accepted, compare_on, digits
from typica.cli._app import new_app
from typica.cli._options import Json
from typica.cli._show import console, failures, footnote, table, write_json
from typica.detectors import Detector
from typica.metrics import METRICS
from typica.written_numbers import percent

TPR = 0.95

app = new_app()


@app.command(epilog="Example: typica demo")
def demo(json_file: Json = None) -> None:
    """Show how detectors tell digits that a network knows from what it has never seen."""
    suite = digits.load()
    compared = compare_on(suite, tpr=TPR)
    ctm = compared["ctm"].detector
    rates = accepted(suite, ctm)
    if json_file != "-":
        _introduce(suite)
        _compare(suite, compared)
        _verdicts(suite, ctm, rates)
        _show_decisions(suite, ctm)
        _farewell()
    if json_file is not None:
        document = _document(suite, compared)
        write_json(document | {"accepted by ctm": rates}, json_file)


def _document(suite: FeatureSuite, compared: dict[str, Comparison]) -> dict[str, Any]:
    results, failed = {}, {}
    for name, row in compared.items():
        if row.evaluation is None:
            failed[name] = row.error
        else:
            results[name] = row.evaluation.to_dict()
    return {"suite": suite.name, "accuracy": suite.accuracy, "results": results, "failed": failed}


def _introduce(suite: FeatureSuite) -> None:
    names = ", ".join(map(str, suite.classes))
    console.print(
        f"A network has learnt the handwritten digits {names} from {len(suite.train)} images; it "
        f"names {percent(suite.accuracy)} % of {len(suite.test)} new ones correctly. It has never "
        "seen another digit, a photograph or noise. Detectors are fitted on its penultimate "
        f"features, and their thresholds set on {len(suite.calibration)} held-out digits to keep "
        f"{100 * TPR:g} % of digits it knows.\n"
    )


def _compare(suite: FeatureSuite, compared: dict[str, Comparison]) -> None:
    """Print for the demo how each detector tells test digits from each OOD set, the best first."""
    done = [row.evaluation for row in compared.values() if row.evaluation is not None]
    done.sort(key=lambda evaluation: -evaluation.average["auroc"])
    sets = [name.replace("-", " ") for name in suite.ood]
    rows = []
    for evaluation in done:
        shares = [result.auroc for result in evaluation.ood.values()]
        shares += [evaluation.average["auroc"], evaluation.average["fpr"]]
        rows.append([_name_in_table(evaluation.detector, compared), *map(percent, shares)])
    auroc, fpr = METRICS["auroc"].label(), METRICS["fpr"].label()
    console.print(f"{auroc} of each detector on what the network has never met", style="bold")
    console.print(table("", ["detector", *sets, "mean", fpr], rows, keep=("mean", fpr)))
    errors = {name: row.error for name, row in compared.items() if row.error}
    for line in failures(errors):
        console.print(line)
    console.print(footnote(next(iter(done[0].ood.values()))))


def _name_in_table(name: str, compared: dict[str, Comparison]) -> str:
    """Return a detector's name in the demo's table; with the number of its neighbours, if any."""
    k = compared[name].detector.get_params(deep=False).get("k")
    return name if k is None else f"{name} (k={k})"


def _verdicts(suite: FeatureSuite, ctm: Detector, rates: dict[str, float]) -> None:
    """Print for the demo what share of each set CTM accepts."""
    rows = [["digits it knows (test)", percent(rates["test"]), percent(1 - rates["test"])]]
    for name in suite.ood:
        near = " (near)" if name in suite.near else ""
        rows.append([f"{name}{near}", percent(rates[name]), percent(1 - rates[name])])
    threshold = ctm.offset_
    console.print(f"\nWhat CTM decides at its calibrated threshold {threshold:.4f}", style="bold")
    console.print(table("", ["inputs", "accepted %", "rejected %"], rows))


def _show_decisions(suite: FeatureSuite, detector: Detector) -> None:
    """Print the demo's single decisions: per set, the image whose score is the set's median."""
    images = digits.images()
    console.print("Single decisions by CTM, the image of median score from each set:", style="bold")
    panels = []
    for name, features in {"test": suite.test, **suite.ood}.items():
        scores = np.asarray(detector.score_samples(features))
        middle = int(np.argsort(scores)[len(scores) // 2])
        answer = detector.explain(features[middle : middle + 1])[0]
        verdict = "[green]typical[/]" if answer.typical else "[red]atypical[/]"
        said = (
            f"{digits.ascii_art(images[name][middle])}\n{verdict}\n"
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
        "  typica evaluate ctm.safetensors test.npy --ood svhn=svhn.npy",
        markup=False,
    )
