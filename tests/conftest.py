"""The fixtures that the tests share."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.data import Data, make_data
from helpers.real import REAL
from hypothesis import settings
from numpy.typing import NDArray

import typica

TOO_LONG = 900  # seconds; no test takes a tenth of that

# An example may take as long as it takes: on a busy machine that says nothing about the code.
settings.register_profile("typica", deadline=None)
settings.load_profile("typica")


@pytest.fixture(scope="session", autouse=True)
def signals_reach_children() -> None:
    """A child inherits that a signal is ignored (nohup, &), but not that it is handled."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that waits for ever."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"no end after {TOO_LONG} seconds"))
    signal.alarm(TOO_LONG)
    try:
        return (yield)
    finally:
        signal.alarm(0)


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a new place for a user's own folders, one after the other; none is made."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def a_new_user(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test agrees to or finds to be quickest is not remembered in the next."""
    home = next(homes)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("TYPICA_HOME", str(home / "cache"))


@pytest.fixture(scope="session")
def data() -> Data:
    return make_data()


@pytest.fixture(params=typica.list_detectors())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """One thread, for small layers on a busy machine.

    Threads that wait for each other cost ten times what they save.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
