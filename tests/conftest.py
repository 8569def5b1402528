"""What the tests share: data with classes, a head that fits them, every detector, and the real features."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import typica
from typica.cli import main
from typica.cli.show import console

# Where the real CIFAR-10 features lie, if they are there: beside the project, or where this
# variable says.
REAL = Path(os.environ.get("TYPICA_REAL", Path(__file__).parents[2] / "shared" / "real"))


class Data(NamedTuple):
    """Features of `C` classes as a ReLU network makes them, a head that classifies them, and strangers."""

    train: NDArray[np.float64]
    labels: NDArray[np.int64]
    held_out: NDArray[np.float64]
    test: NDArray[np.float64]
    ood: NDArray[np.float64]
    head: typica.Head


def make_data(n: int = 240, m: int = 12, C: int = 4, seed: int = 0) -> Data:
    """Rows of class k lie around a direction of its own; the strangers lie where no class does."""
    rng = np.random.default_rng(seed)
    directions = np.eye(C, m) * 4 + rng.random((C, m))
    labels = np.arange(n) % C

    def rows(count: int) -> NDArray[np.float64]:
        return np.maximum(
            directions[np.arange(count) % C] + rng.normal(scale=0.6, size=(count, m)), 0
        )

    ood = np.maximum(rng.normal(size=(n // 2, m)) + 2 * np.eye(1, m, m - 1), 0)
    return Data(rows(n), labels, rows(n // 2), rows(n // 2), ood, typica.Head(directions))


@pytest.fixture(scope="session")
def data() -> Data:
    return make_data()


def make(name: str, data: Data) -> typica.Detector:
    """Make an unfitted detector by its name, with a head if it needs one and parameters that suit small data."""
    cls = typica.detector_class(name)
    params: dict[str, object] = dict(SMALL.get(name, {}))
    if cls.tags.needs_head or cls.tags.reads == "logits":
        params["head"] = data.head
    return cls(**params)


SMALL: dict[str, dict[str, object]] = {
    "isolation_forest": {"trees": 30},
    "knn": {"k": 3},
    "nnguide": {"k": 3, "subsample": None},
}


def fitted(name: str, data: Data) -> typica.Detector:
    return make(name, data).fit(data.train, data.labels)


@pytest.fixture(params=typica.list_detectors())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Run a command as a person types it on 80 columns; return what it printed, or its errors if it failed."""
    console.width = 80
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    captured = capsys.readouterr()
    assert stop.value.code == code, captured.out + captured.err
    assert "Traceback" not in captured.err
    return captured.err if code in (1, 2) else captured.out


@pytest.fixture(scope="session")
def real() -> dict[str, NDArray[np.float32]]:
    """The real features by file name without .npy; the test is skipped where they are absent."""
    folder = REAL / "cifar10-densenet"
    if not folder.is_dir():
        pytest.skip(f"the real CIFAR-10 features are not at {folder} (TYPICA_REAL says where)")
    arrays = {
        path.name.removesuffix(".npy"): np.load(path, mmap_mode="r")
        for path in folder.glob("*.npy")
    }
    return {
        key: a.astype(np.float32) if a.dtype == np.float16 else np.asarray(a)
        for key, a in arrays.items()
    }


@pytest.fixture
def checkpoint() -> Path:
    """The real DenseNet's weights; the test is skipped where they are absent."""
    path = REAL / "checkpoints" / "densenet-bc-100-cifar10.pth.tar"
    if not path.is_file():
        pytest.skip(f"the real checkpoint is not at {path} (TYPICA_REAL says where)")
    return path


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small layers on a busy machine: threads that wait for each other cost ten times what they save."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
