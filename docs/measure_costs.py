"""Write docs/measured_costs.csv: what a row costs each detector, and how well it tells strangers.

    python docs/measure_costs.py FOLDER

This is `typica compare` on the features of a folder, as docs/measure_methods.py takes it; the mean
AUROC is over its OOD sets. docs/make_figures.py draws cost against quality of it. Times mean
something only on a machine that does nothing else.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from measure_methods import read_folder

from typica import Head, list_detectors
from typica.bench import compare, make_detectors

TABLE = Path(__file__).with_name("measured_costs.csv")
COLUMNS = ["method", "microseconds", "auroc"]
LEFT_OUT = {"ensemble", "layer_ensemble", "prototypes"}  # as dear and as good as what one puts in


def main(folder: str) -> None:
    """Measure, and write the table by cost."""
    features = read_folder(Path(folder))
    head = Head(features["head.weight"], features["head.bias"])
    names = [name for name in list_detectors() if name not in LEFT_OUT]
    ood = {key.split(".")[1]: rows for key, rows in features.items() if key.startswith("ood.")}
    train, labels = features["train.features"], features["train.labels"]
    compared = compare(make_detectors(names, head), train, labels, features["test.features"], ood)
    lines = []
    for name, row in compared.items():
        if row.evaluation is None:
            print(f"{name}: {row.error}", file=sys.stderr)
            continue
        auroc = 100 * row.evaluation.average["auroc"]
        lines.append((name, f"{row.score_microseconds:.2f}", f"{auroc:.2f}"))
    lines.sort(key=lambda line: float(line[1]))
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([COLUMNS, *lines])
    print(f"{TABLE}: {len(lines)} detectors")


if __name__ == "__main__":
    main(sys.argv[1])
