"""Mahalanobis against what it cannot do without.

To score: two products. To fit, with a threshold: the product of the rows, the axes of the
covariance in float64, and the scores of 2,048 rows.
"""

from __future__ import annotations

import numpy as np
from timing import ratio

from typica import Mahalanobis


def run() -> list[tuple[str, float, float, str]]:
    Z, M, labels = data(1000)
    P = np.random.default_rng(1).random((512, 512), dtype=np.float32)
    detector = Mahalanobis().fit(Z, labels)
    times, _, _ = ratio(lambda: detector.score_samples(Z), lambda: (Z @ P, Z @ M.T))
    rows = [
        ("Mahalanobis score 50k x 512, 1,000 classes / (Z @ P, Z @ M.T)", times, 1.5, "at most")
    ]
    return rows + [fit(n_classes) for n_classes in (10, 1000)]


def fit(n_classes: int) -> tuple[str, float, float, str]:
    """Compare the whole fit, with the scores of its provisional threshold."""
    Z, M, labels = data(n_classes)
    T, P = Z[:2048], np.random.default_rng(1).random((512, 512), dtype=np.float32)
    times, _, _ = ratio(
        lambda: Mahalanobis().fit(Z, labels).offset_,
        lambda: (np.linalg.eigh((Z.T @ Z).astype(np.float64)), T @ P, T @ M.T),
    )
    what = f"Mahalanobis fit 50k x 512, {n_classes:,} classes / product, eigh, scores"
    return what, times, 2.0, "at most"


def data(n_classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    M = rng.random((n_classes, 512), dtype=np.float32)
    labels = rng.integers(n_classes, size=50_000)
    return M[labels] + rng.standard_normal((50_000, 512), dtype=np.float32), M, labels


if __name__ == "__main__":
    for what, reached, target, direction in run():
        print(f"{what}: {reached:.2f} ({direction} {target})")
