"""A hundred thousand classes, ten million rows: recall, memory and AUROC as they are stated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.real import REAL

import typica
from typica import KNN

pytest.importorskip("faiss")
PROGRAMS = Path(__file__).parents[2] / "benchmarks" / "scale" / "many.py"


@pytest.mark.real
def test_codes_tell_unknowns_as_the_rows_do():
    folder = REAL / "cifar10-densenet"
    if not folder.is_dir():
        pytest.skip(f"no real features at {folder}")
    train = np.load(folder / "train.features.npy")
    known = np.load(folder / "test.features.npy")[::4]
    detectors = [KNN(k=50).fit(train), KNN(k=50, index="ivfpq").fit(train)]
    assert detectors[1].rows_.nbytes < 34 * 50_000
    for name in ("svhn", "textures", "cifar100"):
        strange = np.load(folder / f"ood.{name}.features.npy")[::4]
        exact, near = (
            typica.evaluate(d.score_samples(known), d.score_samples(strange)).auroc
            for d in detectors
        )
        assert abs(exact - near) < 0.003, name


def measured(*arguments):
    """Run a measurement in a process of its own, so that its memory is its own too."""
    command = [sys.executable, str(PROGRAMS), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("index", "memory"), [("hnsw", 170), ("ivf", 220)])
def test_a_hundred_thousand_classes(index, memory):
    found = measured("classes", "--classes", "100000", "--index", index)
    assert found["recall"] >= 0.99
    assert found["lost_mean"] <= 0.005 and found["too_high"] == 0
    # The index itself, in MB: 102 of float32 directions, and links or lists.
    assert found["index_mb"] <= memory


def test_ten_million_rows_as_codes():
    found = measured("rows", "--rows", "10000000")
    assert found["rows"] == 10_000_000
    # 33 bytes of code and 8 of faiss's own number a row, twice where both are held, and a block.
    assert found["peak_mb"] <= 1500
    assert abs(found["auroc"] - found["auroc_exact"]) < 0.003
