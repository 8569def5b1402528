"""The processes of the MNN backend: they agree, fail with a message, and are never left behind."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.networks import close, expected, images, network, torch_is_talkative
from helpers.shell import started
from torch import nn

import typica
from typica.nets import FeatureExtractor, OnnxExtractor, Runner, make_runner, zoo
from typica.nets.runtimes import mnn as _mnn

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("MNN") is None, reason="needs the extra 'mnn'"
)


def pids(runner: Runner) -> list[int]:
    idle = runner._engine._idle
    processes = [idle.get() for _ in range(runner.jobs)]
    for process in processes:
        idle.put(process)
    return [process._process.pid for process in processes]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return True
    return state == "Z"


def until(condition) -> None:
    while not condition():
        time.sleep(0.05)


def a_runner() -> Runner:
    return make_runner(
        FeatureExtractor(network("cnn")), "mnn", sample=images(16), batch=4, threads=2
    )


@pytest.mark.parametrize("name", ["wideresnet-40-2", "resnet-18-cifar"])
def test_networks_of_many_small_convolutions_agree(name):
    torch.manual_seed(0)
    extractor = FeatureExtractor(zoo.load(name, weights=None))
    x = np.random.default_rng(0).normal(size=(16, 3, 32, 32)).astype(np.float32)
    runner = make_runner(extractor, "mnn", sample=x, batch=8, threads=1)
    [found] = runner([x])
    reference = extractor(x)
    assert close(found.features, reference.features, 1e-4) and close(
        found.logits, reference.logits, 1e-4
    )


def test_processes_end_with_the_runner():
    runner = a_runner()
    before = pids(runner)
    list(runner([images(9)]))
    assert (
        set(pids(runner)) == set(before) and len(set(before)) == 2
    )  # they are kept from one call to the next
    del runner
    gc.collect()
    assert all(gone(pid) for pid in before)


def test_more_threads_than_processes(monkeypatch):
    monkeypatch.setattr(_mnn, "_MOST", 2)
    model, x = network("cnn"), images(10)
    for threads, jobs in ((1, 1), (2, 2), (3, 1), (4, 2)):
        runner = make_runner(FeatureExtractor(model), "mnn", sample=x, batch=4, threads=threads)
        assert runner.jobs == jobs and runner.settings["threads"] == threads
        [found] = runner([x])
        assert close(found.features, expected(model, x)[0])


def test_a_process_that_was_killed_is_an_error():
    runner = a_runner()
    for pid in pids(runner):
        os.kill(pid, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(
            typica.InputError, match="a process of MNN ended with -9; run again, or choose another"
        ):
            list(runner([images(4)]))


def test_what_mnn_cannot_convert_or_run_is_an_error(tmp_path, monkeypatch):
    foreign = tmp_path / "foreign.onnx"
    foreign.write_bytes(b"no model")
    with pytest.raises(RuntimeError, match=r"MNN: .*Convert error"):
        _mnn._convert(foreign, tmp_path / "model.mnn")
    honest = _mnn._command
    monkeypatch.setattr(
        _mnn, "_command", lambda task: honest({**task, "outputs": ["no such output"]})
    )
    with pytest.raises(
        typica.InputError,
        match=r"the model does not convert .*MNN does not run the model, and ended",
    ):
        make_runner(FeatureExtractor(network("cnn")), "mnn", sample=images(16), batch=4, threads=2)


def test_a_model_that_takes_bytes(tmp_path):
    class Bytes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(192, 3)

        def forward(self, x):
            return self.fc(x.float().flatten(1) / 255)

    x = np.random.default_rng(0).integers(0, 256, (16, 3, 8, 8), dtype=np.uint8)
    with torch_is_talkative():
        torch.onnx.export(
            Bytes(), (torch.from_numpy(x[:4]),), tmp_path / "m.onnx", dynamo=False, verbose=False
        )
    with pytest.raises(
        typica.InputError, match="backend 'mnn' runs models that take float32, not uint8"
    ):
        make_runner(OnnxExtractor(tmp_path / "m.onnx"), "mnn", sample=x)


SCRIPT = """
import sys
sys.path[:0] = {folders!r}
from helpers.networks import images
from test_mnn import a_runner, pids

runner = a_runner()
try:
    print(*pids(runner), flush=True)
    sys.stdin.read()
except KeyboardInterrupt:
    print(len(list(runner([images(8)]))[0].features), flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_ctrl_c_is_for_the_parent_and_its_death_ends_them():
    script = SCRIPT.format(folders=[str(Path(__file__).parents[i]) for i in (0, 1)])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", script]
    with started(command, text=True, start_new_session=True, **pipes) as parent:
        children = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(children) == 2 and not any(gone(pid) for pid in children)
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.stdout.readline() == "8\n"
        parent.kill()
        until(lambda: all(gone(pid) for pid in children))
