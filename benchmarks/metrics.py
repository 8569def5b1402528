"""All metrics of 1M ID and 1M OOD scores, against one sort of the 2M."""

import numpy as np
from timing import ratio

from typica.metrics import evaluate

N = 1_000_000


def run() -> list[tuple[str, float, float, str]]:
    rng = np.random.default_rng(0)
    id_scores, ood_scores = rng.normal(1, 1, N), rng.normal(0, 1, N)
    rows = []
    for what, decimals in (("distinct scores", None), ("scores of 3 decimals", 3)):
        ours, theirs = (
            s if decimals is None else s.round(decimals) for s in (id_scores, ood_scores)
        )
        both = np.concatenate([ours, theirs])
        measured, _, _ = ratio(
            lambda ours=ours, theirs=theirs: evaluate(ours, theirs), lambda both=both: np.sort(both)
        )
        rows.append(
            (
                f"all metrics of 1M + 1M float64 {what}, in np.sort of the 2M",
                measured,
                2.5,
                "at most",
            )
        )
    return rows


if __name__ == "__main__":
    for what, measured, target, direction in run():
        print(f"{what}: {measured:.2f} ({direction} {target:g})")
