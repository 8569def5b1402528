"""Measure very many classes, or rows, in a process of its own: recall, memory, time, as JSON."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from memory import peak_mib, resident_mb
from numpy.typing import NDArray

import typica
from typica.detectors._index import DirectionIndex

Floats = NDArray[Any]
QUERIES = 1000
SEARCHED = 300  # of each kind, against ten million rows: exact search takes as long as all the rest
BLOCK = 100_000


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    classes = commands.add_parser("classes")
    classes.add_argument("--classes", type=int, default=100_000)
    classes.add_argument("--features", type=int, default=256)
    classes.add_argument("--index", default="hnsw")
    rows = commands.add_parser("rows")
    rows.add_argument("--rows", type=int, default=10_000_000)
    rows.add_argument("--features", type=int, default=64)
    given = vars(parser.parse_args())
    measure = {"classes": many_classes, "rows": many_rows}[given.pop("command")]
    print(json.dumps(measure(**given)))


def unit(rows: Floats) -> Floats:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def many_classes(classes: int, features: int, index: str) -> dict[str, Any]:
    """Search class means in families of about 100, as faces and products are."""
    rng = np.random.default_rng(0)
    families = unit(np.maximum(rng.standard_normal((classes // 100, features)), 0))
    spread = 0.6 / features**0.5
    noise = spread * rng.standard_normal((classes, features))
    means = unit(np.maximum(families[rng.integers(len(families), size=classes)] + noise, 0))
    own = rng.integers(classes, size=QUERIES)
    moved = 0.9 / features**0.5 * rng.standard_normal((QUERIES, features))
    known = unit(means[own] + moved).astype(np.float32)
    strange = np.maximum(rng.standard_normal((QUERIES, features)), 0).astype(np.float32)
    names = np.arange(classes)
    every = typica.CTM().partial_fit(means, names)
    nearest, best = every.classify(known), every.score_samples(strange)
    exact = times(every, known)
    del every

    before, start = resident_mb(), time.process_time()
    built = DirectionIndex(means, index)
    built_in, held = time.process_time() - start, resident_mb() - before
    del built

    detector = typica.CTM(index=index).partial_fit(means, names)
    found, scores = detector.classify(known), detector.score_samples(strange)
    indexed = times(detector, known)
    return {
        "classes": classes,
        "features": features,
        "index": index,
        "cosine_to_own": round(float(np.mean(np.vecdot(known, means[own]))), 3),
        "recall": float(np.mean(found == nearest)),
        "recall_strange": float(np.mean(np.isclose(scores, best, atol=1e-6))),
        "lost_mean": float(np.mean(best - scores)),
        "lost_most": float(np.max(best - scores)),
        "too_high": int(np.sum(scores > best + 1e-5)),
        "build_cpu_s": round(built_in, 1),
        "index_mb": round(held),
        "exact_us_a_row": round(1e6 * exact[0] / QUERIES),
        "index_us_a_row": round(1e6 * indexed[0] / QUERIES),
        "exact_us_alone": round(1e6 * exact[1]),
        "index_us_alone": round(1e6 * indexed[1]),
    }


def times(detector: typica.CTM, rows: Floats) -> tuple[float, float]:
    """Return the processor time of many rows at once, and of one by itself."""
    return (
        timed(lambda: detector.score_samples(rows)),
        timed(lambda: detector.score_samples(rows[:1])),
    )


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


def many_rows(rows: int, features: int) -> dict[str, Any]:
    """Keep ten million rows as codes, and compare with exact search over the same stream."""
    k = 50
    known = next(blocks(SEARCHED, features)) + 0.1
    rng = np.random.default_rng(3)
    strange = 4 * rng.standard_normal((SEARCHED, features)).astype(np.float32)
    strange += known[rng.permutation(SEARCHED)]
    start = time.process_time()
    # Copies: what a slice is of would stay.
    sample = np.concatenate([block[::13].copy() for block in blocks(rows, features)])
    detector = typica.KNN(k=k, index="ivfpq").train_index(sample, n=rows)
    del sample
    trained = time.process_time() - start
    for block in blocks(rows, features):
        detector.partial_fit(block)
    coded = time.process_time() - start - trained
    scores = [detector.score_samples(queries) for queries in (known, strange)]
    peak = peak_mib() * 2**20 / 1e6
    search = timed(lambda: detector.score_samples(known)) / SEARCHED
    exact = exact_scores(np.concatenate([known, strange]), rows, features, k)
    return {
        "rows": len(detector.rows_),
        "features": features,
        "cells": detector.quantiser_.cells,
        "bytes_a_row": detector.rows_.shape[1],
        "train_cpu_s": round(trained, 1),
        "code_cpu_s": round(coded, 1),
        "us_a_query": round(1e6 * search),
        "peak_mb": round(peak),
        "auroc": typica.evaluate(*scores).auroc,
        "auroc_exact": typica.evaluate(exact[:SEARCHED], exact[SEARCHED:]).auroc,
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
