"""CTM's scoring against the bare product with the class means; its memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
from timing import ratio

from typica import CTM


def run() -> list[tuple[str, float, float, str]]:
    rng = np.random.default_rng(0)
    M = rng.random((1000, 512), dtype=np.float32)
    Z = rng.random((50_000, 512), dtype=np.float32)
    detector = CTM().fit(np.repeat(M, 2, axis=0), np.repeat(np.arange(1000), 2))
    times, _, _ = ratio(lambda: detector.score_samples(Z), lambda: Z @ M.T)
    return [
        ("CTM score 50k x 512, 1,000 classes / Z @ M.T", times, 1.10, "at most"),
        ("memory to score a million rows of 64, MiB", memory(), 64, "at most"),
    ]


def memory() -> float:
    """Return the peak of what scoring a million rows allocates, in MiB."""
    rng = np.random.default_rng(0)
    Z = rng.random((1_000_000, 64), dtype=np.float32)
    detector = CTM().fit(Z[:2000], np.arange(2000) % 1000)
    tracemalloc.start()
    detector.score_samples(Z)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 2**20


if __name__ == "__main__":
    for what, reached, target, direction in run():
        print(f"{what}: {reached:.2f} ({direction} {target})")
