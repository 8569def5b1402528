"""Tables of the analysis: kernel, predictions at class means, steps on the weights, motivation."""

from __future__ import annotations

from typica.bench._analysis_record import SHOWN_CURVES, Analysis
from typica.bench._table import Table
from typica.metrics import METRICS

AUROC = METRICS["auroc"]
MOST_CLASSES = 10  # of which the prediction at the mean is shown: the least certain first


def tables(analysis: Analysis) -> list[Table]:
    """Return the tables of an analysis."""
    return [_kernel(analysis), _one_hot(analysis), *_curves(analysis), _motivation(analysis)]


def _kernel(analysis: Analysis) -> Table:
    title = f"(a) Influence kernel of inputs and the mean of their predicted class: {AUROC.label()}"
    forms = analysis.kernel.values()
    table = Table("form", [form.replace("_", "-") for form in analysis.kernel], title)
    for name in analysis.sets:
        table.add(name, [found.auroc[name] for found in forms])
    table.add("rank corr.", [found.rank_correlation for found in forms], "number")
    table.add("max", [found.max for found in forms], "number")
    table.notes = [
        "rank corr.: Spearman's correlation with that cosine over all inputs. The form 'printed' "
        "lacks a square root: it is not a cosine, as it exceeds 1."
    ]
    return table


def _one_hot(analysis: Analysis) -> Table:
    found = analysis.one_hot
    least = sorted(found.classes, key=lambda entry: entry.probability)[:MOST_CLASSES]
    title = "(b) Prediction at each class mean, the least certain first"
    table = Table("class", [str(entry.label) for entry in least], title)
    table.add("1 - p", [1 - entry.probability for entry in least], "number")
    table.add("runner-up", [str(entry.runner_up) for entry in least], "text")
    table.add("entropy", [entry.entropy for entry in least], "number")
    mean, lowest = found.probability["mean"], found.probability["min"]
    table.notes = [
        f"{len(found.classes)} classes: p is {mean:.6f} on average, {lowest:.6f} at the least."
    ]
    return table


def _curves(analysis: Analysis) -> list[Table]:
    titles = {
        "variation": "(c) W steps towards uncertainty at the class means: total variation of "
        "predictions",
        "uncertainty": "(c) The same step: fall of KL(u || p)",
    }
    made = []
    for quantity in SHOWN_CURVES:
        title, curve = titles[quantity], analysis.curves[quantity]
        table = Table("step", [f"{size:g}" for size in curve.x], title)
        for name in ("test", *analysis.sets):
            table.add(name, curve.y[name], "number")
        table.notes = ["Means over the inputs; the step is in lengths of W."]
        made.append(table)
    return made


def _motivation(analysis: Analysis) -> Table:
    found = analysis.motivation
    title = f"(d) {AUROC.label()} of norm, cosine and largest logit alone, the best in bold"
    table = Table("alone", found.auroc, title)
    for name in analysis.sets:
        table.add(name, [by_set[name] for by_set in found.auroc.values()])
        table.mark_best(AUROC.better)
    return table
