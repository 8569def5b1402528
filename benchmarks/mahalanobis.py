"""Mahalanobis against the products that it cannot do without: two to score, one to fit."""

from __future__ import annotations

import numpy as np
from timing import ratio

from typica import Mahalanobis


def run() -> list[tuple[str, float, float, str]]:
    rng = np.random.default_rng(0)
    M = rng.random((1000, 512), dtype=np.float32)
    P = rng.random((512, 512), dtype=np.float32)
    labels = rng.integers(0, 1000, 50_000)
    Z = M[labels] + rng.normal(size=(50_000, 512)).astype(np.float32)
    detector = Mahalanobis().fit(Z, labels)
    score, _, _ = ratio(lambda: detector.score_samples(Z), lambda: (Z @ P, Z @ M.T))
    fit, _, _ = ratio(lambda: Mahalanobis().fit(Z, labels), lambda: Z.T @ Z)
    return [
        ("Mahalanobis score 50k x 512, 1,000 classes / (Z @ P, Z @ M.T)", score, 1.5, "at most"),
        ("Mahalanobis fit 50k x 512 / Z.T @ Z", fit, 4.0, "at most"),
    ]


if __name__ == "__main__":
    for what, reached, target, direction in run():
        print(f"{what}: {reached:.2f} ({direction} {target})")
