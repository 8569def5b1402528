"""Measure what KNN loses by keeping a sample of very many rows: AUROC, memory, time, as JSON."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import typica

Floats = NDArray[Any]
SEARCHED = 300  # of each kind, against ten million rows: exact search takes as long as all the rest
BLOCK = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    print(json.dumps(many_rows(**vars(parser.parse_args())), indent=1))


def unit(rows: Floats) -> Floats:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def timed(work: Any) -> float:
    """Return the processor time of the second run: the first may still move arrays."""
    work()
    start = time.process_time()
    work()
    return time.process_time() - start


def blocks(rows: int, features: int) -> Iterator[Floats]:
    """Yield rows of 1,000 classes on 16 axes, as a stream that nobody keeps."""
    shape = np.random.default_rng(1)
    centres = 2 * shape.standard_normal((1000, 16))
    axes = shape.standard_normal((16, features))
    for number, start in enumerate(range(0, rows, BLOCK)):
        rng = np.random.default_rng([2, number])
        n = min(BLOCK, rows - start)
        latent = centres[rng.integers(1000, size=n)] + rng.standard_normal((n, 16))
        yield (latent @ axes + rng.standard_normal((n, features))).astype(np.float32)


def many_rows(rows: int, features: int, sizes: list[int]) -> dict[str, Any]:
    """Keep samples of very many rows, and compare with exact search over all of them."""
    k = 50
    known = next(blocks(SEARCHED, features)) + 0.1
    rng = np.random.default_rng(3)
    strange = 4 * rng.standard_normal((SEARCHED, features)).astype(np.float32)
    strange += known[rng.permutation(SEARCHED)]
    exact = exact_scores(np.concatenate([known, strange]), rows, features, k)
    samples = []
    for size in sizes:
        step = -(-rows // size)
        # Copies: what a slice is of would stay.
        sample = np.concatenate([block[::step].copy() for block in blocks(rows, features)])
        samples += [of_sample(known, strange, sample, nearest) for nearest in (k, 1)]
    return {
        "rows": rows,
        "features": features,
        "auroc_exact": typica.evaluate(exact[:SEARCHED], exact[SEARCHED:]).auroc,
        "samples": samples,
    }


def of_sample(known: Floats, strange: Floats, sample: Floats, k: int) -> dict[str, Any]:
    """Measure KNN on a sample."""
    detector = typica.KNN(k=k).fit(sample)
    scores = [detector.score_samples(queries) for queries in (known, strange)]
    return {
        "kept": len(sample),
        "k": k,
        "mb": round(sample.nbytes / 1e6),
        "us_a_query": round(1e6 * timed(lambda: detector.score_samples(known)) / SEARCHED),
        "auroc": typica.evaluate(*scores).auroc,
    }


def exact_scores(queries: Floats, rows: int, features: int, k: int) -> Floats:
    """Return minus the distance to the k-th nearest row, from all products."""
    U = unit(queries)
    best = np.full((len(U), k), -np.inf, dtype=np.float32)
    for block in blocks(rows, features):
        products = U @ unit(block).T
        top = np.partition(products, -k, axis=1)[:, -k:]
        best = np.partition(np.concatenate([best, top], axis=1), -k, axis=1)[:, -k:]
    return -np.sqrt(np.maximum(2 - 2 * best.min(axis=1), 0))


if __name__ == "__main__":
    main()
