"""Why a number of ours differs from the published one: what is known about it, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from typica.bench._measures import Measures, Numbers
from typica.bench._record import Record
from typica.bench._table import tone
from typica.bench.published import canonical, publications
from typica.data.sets import SETS
from typica.metrics import METRICS, rate_interval


def reasons(record: Record, method: str) -> list[str]:
    """Return what is known about the differences of a method's numbers from the published ones.

    What the printed row was made with, which OOD sets are incomplete here, and whether other inputs
    of the same kind would give the published number.
    """
    known = publications().get(record.published_by)
    said = [known.made_with[method]] if known is not None and method in known.made_with else []
    parts = list(_in_part(record, record.in_common))
    if parts:
        said.append(f"Not all of what {record.publisher} measured is here: {', '.join(parts)}.")
    if method in record.rows:
        said += _sampling(record, method)
    return [*said, *_weights(said)]


def experiment_reasons(record: Record, row: str) -> list[str]:
    """Return what is known about the differences in a row of `ablation` or `layers`."""
    said = []
    printed = record.published.get(row)
    of = 0 if printed is None else printed.of
    if of > len(record.in_common):
        sets = ", ".join(record.in_common) or "none of them"
        said.append(f"The printed mean covers the paper's {of} OOD sets, ours {sets}.")
    accuracy, n = record.accuracy.get(row), record.n.get("test", 0)
    if accuracy is not None and n:
        low, high = rate_interval(round(accuracy * n), n)
        said.append(
            f"Accuracy on {n:,} test inputs: other ones would give {100 * low:.2f} to "
            f"{100 * high:.2f} %."
        )
    return [*said, *_weights(said)]


def _in_part(record: Record, sets: Sequence[str]) -> Iterator[str]:
    """Say which OOD sets have fewer inputs here than there are."""
    for name in sets:
        known = SETS.get(canonical(name))
        n = record.n.get(name, 0)
        if known is not None and 0 < n < known.images:
            yield f"{name} ({n:,} of {known.images:,} images)"


def _sampling(record: Record, method: str) -> Iterator[str]:
    """For each number that differs a lot, say whether other inputs might give the published one."""
    if method not in record.published:
        return
    printed, sets = record.published[method], record.in_common
    for part in record.compared:
        yield from _far(record, "mean", record.means(method, part), printed.mean(part))
    for name in sets if len(sets) > 1 else ():
        yield from _far(record, name, record.rows[method].on(name), printed.on(name))


def _far(record: Record, what: str, ours: Measures, theirs: Numbers) -> Iterator[str]:
    for name in ("fpr", "auroc"):
        if name not in ours or name not in theirs:
            continue
        measure = ours[name]
        if measure.interval is None or tone(measure.value - theirs[name]) != "far":
            continue
        low, high = measure.interval
        where = "within" if low <= theirs[name] <= high else "outside"
        yield (
            f"{METRICS[name].title(record.protocol.tpr)}, {what}: {100 * measure.value:.2f}; other "
            f"inputs of the same kind would give {100 * low:.2f} to {100 * high:.2f} (95 %). The "
            f"published {100 * theirs[name]:.2f} lies {where}."
        )


def _weights(said: Sequence[str]) -> list[str]:
    """Say what may still differ, if nothing else is known."""
    if said:
        return []
    return ["The weights: they are from another training, unless they are the paper's own."]
