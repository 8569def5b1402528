"""P-values and decisions against one search of the same scores; what a monitor takes."""

from __future__ import annotations

import statistics
from time import process_time

import numpy as np
from timing import ratio

from typica.calibration import Calibration
from typica.decide import Monitor

SCORES = 1_000_000
CALIBRATION = 50_000
BATCH = 1000


def run() -> list[tuple[str, float, float, str]]:
    rng = np.random.default_rng(0)
    scores, ordered = rng.normal(size=SCORES), np.sort(rng.normal(size=CALIBRATION))
    calibration = Calibration().add(ordered)

    def search() -> None:
        np.searchsorted(ordered, scores, side="right")

    def decide() -> None:
        _ = scores >= calibration.offsets(scores, None)

    p_values, _, _ = ratio(lambda: calibration.p_values(scores, None), search)
    decisions, _, _ = ratio(decide, search)
    return [
        ("p-values of 1M scores against 50k / np.searchsorted", p_values, 1.5, "at most"),
        ("decisions on 1M scores against 50k / np.searchsorted", decisions, 1.5, "at most"),
        (
            "monitor, million updates a second in batches of 1,000",
            million_updates_a_second(ordered),
            1.0,
            "at least",
        ),
    ]


def million_updates_a_second(calibration: np.ndarray) -> float:
    """Return the median over five runs of 200 batches, in seconds of this one thread."""
    rng = np.random.default_rng(1)
    batches = rng.normal(size=(200, BATCH))
    monitor = Monitor(calibration)
    speeds = []
    for _ in range(5):
        start = process_time()
        for batch in batches:
            monitor.update(batch)
        speeds.append(batches.size / (process_time() - start) / 1e6)
    return statistics.median(speeds)


if __name__ == "__main__":
    for what, reached, target, direction in run():
        print(f"{what}: {reached:.2f} ({direction} {target:g})")
