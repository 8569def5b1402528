"""Quorum against what it stands on.

To fit: Mahalanobis's fit, and the axes of a covariance for each of its five folds. To score: four
products.
"""

from __future__ import annotations

import numpy as np
from timing import ratio

from typica import Head, Mahalanobis, Quorum

Row = tuple[str, float, float, str]


def run() -> list[Row]:
    return [fit(342, 10, 1.75), fit(512, 1000, 3.4), score(342, 10), score(512, 1000)]


def fit(m: int, n_classes: int, limit: float) -> Row:
    """Compare whole fits, each with the scores of its provisional threshold."""
    Z, M, labels = data(m, n_classes)
    head, scatter = Head(M), (Z.T @ Z).astype(np.float64)
    times, _, _ = ratio(
        lambda: Quorum(head).fit(Z, labels).offset_,
        lambda: (
            Mahalanobis().fit(Z, labels).offset_,
            [np.linalg.eigh(scatter) for _ in range(5)],
        ),
        repeats=5,
    )
    what = f"Quorum fit 50k x {m}, {n_classes:,} classes / Mahalanobis's and 5 eigh"
    return what, times, limit, "at most"


def score(m: int, n_classes: int) -> Row:
    Z, M, labels = data(m, n_classes)
    A = np.random.default_rng(1).random((m, m), dtype=np.float32)
    detector = Quorum(Head(M)).fit(Z, labels)
    times, _, _ = ratio(
        lambda: detector.score_samples(Z), lambda: (Z @ A @ M.T, Z @ M.T, Z @ M.T), repeats=5
    )
    what = f"Quorum score 50k x {m}, {n_classes:,} classes / its four products"
    return what, times, 1.5, "at most"


def data(m: int, n_classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    M = rng.random((n_classes, m), dtype=np.float32)
    labels = rng.integers(n_classes, size=50_000)
    return M[labels] + rng.standard_normal((50_000, m), dtype=np.float32), M, labels


if __name__ == "__main__":
    for what, reached, target, direction in run():
        print(f"{what}: {reached:.2f} ({direction} {target})")
