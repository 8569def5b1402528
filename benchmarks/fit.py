"""The fit of class means and of scatter against their limits: one pass, one product."""

from __future__ import annotations

import numpy as np
from timing import ratio

from typica import CTM
from typica.moments import Moments


def run() -> list[tuple[str, float, float, str]]:
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((500_000, 512), dtype=np.float32)
    Z += 1  # so that class means have a direction
    labels = rng.integers(1000, size=len(Z))
    times, _, _ = ratio(lambda: Moments().add(Z, labels), lambda: Z.sum(axis=0))
    rows = [("class means of 500k x 512, 1,000 classes / Z.sum(axis=0)", times, 2.5, "at most")]
    times, _, _ = ratio(lambda: CTM().fit(Z, labels).offset_, lambda: Z.sum(axis=0))
    rows.append(
        (
            "CTM fit 500k x 512, 1,000 classes, with its threshold / Z.sum(axis=0)",
            times,
            1.7,
            "at most",
        )
    )
    return rows + [scatter(Z[:50_000], labels[:50_000] % n_classes) for n_classes in (10, 1000)]


def scatter(Z: np.ndarray, labels: np.ndarray) -> tuple[str, float, float, str]:
    """Compare gathering the scatter in float64 with the bare product in float32."""
    times, _, _ = ratio(lambda: Moments(scatter=True).add(Z, labels), lambda: Z.T @ Z)
    return f"scatter of 50k x 512, {labels.max() + 1:,} classes / Z.T @ Z", times, 4.0, "at most"


if __name__ == "__main__":
    for what, reached, target, direction in run():
        print(f"{what}: {reached:.2f} ({direction} {target})")
