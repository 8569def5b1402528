"""Exact KNN against faiss and scikit-learn: 10,000 queries, 50,000 rows of 342 float32, k = 50.

`network` has the spectrum of the CIFAR-10 features of a DenseNet: ten class means hold 79 % of the
variance, the rest falls by a factor e every 16 axes. `isotropic` varies alike along all axes, which
is the worst case.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from timing import ratio

from typica import KNN

K, WIDTH = 50, 342
Maker = Callable[[int, np.random.Generator], NDArray[np.float32]]


def network() -> Maker:
    rng = np.random.default_rng(0)
    axes, _ = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))
    means = rng.normal(size=(10, WIDTH))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    decay = np.exp(-np.arange(WIDTH) / 32)
    decay *= np.sqrt(0.21 / 0.79 / np.sum(decay**2))

    def make(n: int, rng: np.random.Generator) -> NDArray[np.float32]:
        rows = means[rng.integers(0, 10, n)] + (rng.normal(size=(n, WIDTH)) * decay) @ axes
        return np.asarray(rows, dtype=np.float32)

    return make


def isotropic(n: int, rng: np.random.Generator) -> NDArray[np.float32]:
    return rng.random((n, WIDTH), dtype=np.float32)


def rivals(
    bank: NDArray[np.float32], units: NDArray[np.float32]
) -> dict[str, Callable[[], NDArray[np.float32]]]:
    """Return functions that give the distances to the k-th neighbours, of unit rows."""
    brute = NearestNeighbors(n_neighbors=K, algorithm="brute").fit(bank)
    known = {"scikit-learn brute": lambda: brute.kneighbors(units)[0][:, -1]}
    if find_spec("faiss") is not None:
        import faiss  # noqa: PLC0415 (an extra)

        flat = faiss.IndexFlatL2(WIDTH)
        flat.add(bank)
        known["faiss IndexFlatL2"] = lambda: np.sqrt(flat.search(units, K)[0][:, -1])
    return known


def speedups(make: Maker, names: list[str]) -> dict[str, float]:
    rng = np.random.default_rng(1)
    train, test = make(50_000, rng), make(10_000, rng)
    detector = KNN(K).fit(train)
    units = test / np.linalg.norm(test, axis=1, keepdims=True)
    found = {}
    for name, rival in rivals(detector.rows_, units).items():
        if name in names:
            if not np.allclose(-detector.score_samples(test), rival(), atol=1e-5):
                raise SystemExit(f"KNN and {name} give different answers")
            found[name], _, _ = ratio(rival, lambda: detector.score_samples(test), repeats=5)
    return found


def run() -> list[tuple[str, float, float, str]]:
    rows = [
        (f"KNN 10k x 50k x 342, k=50: times as fast as {name}", times, 1.5, "at least")
        for name, times in speedups(network(), ["faiss IndexFlatL2", "scikit-learn brute"]).items()
    ]
    worst = speedups(isotropic, ["faiss IndexFlatL2"])
    rows += [
        (f"the same, isotropic features: as {name}", times, 1.0, "at least")
        for name, times in worst.items()
    ]
    return rows


if __name__ == "__main__":
    for what, reached, target, direction in run():
        print(f"{what}: {reached:.2f} ({direction} {target:g})")
