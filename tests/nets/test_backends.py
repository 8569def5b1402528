"""Backends: the same numbers from each, and how one is chosen.

They come in order, several batches at once, and nothing is left running.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.networks import NETWORKS, close, expected, images, network, torch_is_talkative
from helpers.real import REAL
from helpers.watcher import Watcher
from torch import nn

import typica
from typica.nets import (
    Extraction,
    FeatureExtractor,
    GraphExtractor,
    OnnxExtractor,
    Runner,
    _trials,
    make_runner,
    zoo,
)
from typica.nets._trials import largest_difference
from typica.progress import watched_by


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The small CNN as programs, and the ViT for a batch of four."""
    folder = tmp_path_factory.mktemp("programs")
    x = torch.from_numpy(images(4))
    paths = {kind: folder / f"model{kind}" for kind in (".pt", ".pt2", ".onnx", "-fixed.onnx")}
    with torch_is_talkative():
        torch.jit.trace(network("cnn"), x).save(paths[".pt"])
        torch.export.save(torch.export.export(network("vit"), (x,)), paths[".pt2"])
        options = {"input_names": ["x"], "dynamo": False, "verbose": False}
        torch.onnx.export(
            network("cnn"), (x,), paths[".onnx"], dynamic_axes={"x": {0: "n"}}, **options
        )
        torch.onnx.export(network("cnn"), (x,), paths["-fixed.onnx"], **options)
    return paths


def needs(backend: str) -> None:
    module = {"onnx": "onnxruntime", "openvino": "openvino", "mnn": "MNN"}.get(backend)
    if module is not None and importlib.util.find_spec(module) is None:
        pytest.skip(f"needs the extra {backend!r}")


def tolerance(backend: str) -> float:
    return 2e-4 if backend == "mnn" else 1e-5  # MNN approximates exponentials


@pytest.fixture(autouse=True)
def nothing_is_left_running(capfd):
    threads = torch.get_num_threads()
    yield
    left = [thread for thread in threading.enumerate() if thread.name.startswith("typica-runner")]
    assert not left and torch.get_num_threads() == threads
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("backend", ["torch", "onnx", "openvino", "mnn"])
def test_every_backend_gives_the_numbers_of_the_model(backend, name):
    needs(backend)
    model, x = network(name), images(21)
    runner = make_runner(FeatureExtractor(model), backend, sample=x, batch=4, threads=2)
    assert runner.name == backend and runner.batch == 4
    features, logits = expected(model, x)
    found = list(runner([x[:4], x[4:5], x[:0], x[5:16], x[16:]]))
    assert [len(batch.features) for batch in found] == [4, 1, 0, 11, 5]
    assert close(np.concatenate([batch.features for batch in found]), features, tolerance(backend))
    assert close(np.concatenate([batch.logits for batch in found]), logits, tolerance(backend))
    for batch in found:
        assert batch.features.dtype == batch.logits.dtype == np.float32
        assert batch.features is batch.layers["penultimate"]
    fixed = x.astype(np.float64)
    fixed.flags.writeable = False
    [batch] = runner([fixed])
    assert (
        close(batch.features, features, tolerance(backend)) and batch.features.dtype == np.float32
    )
    assert not model.training and not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("backend", ["torch", "onnx", "openvino", "mnn"])
def test_several_layers_and_models_without_a_head(backend):
    needs(backend)
    model, x = network("cnn"), images(8)
    runner = make_runner(
        FeatureExtractor(model, layers=["conv", "bn", "penultimate"]),
        backend,
        sample=x,
        batch=4,
        threads=1,
    )
    [batch] = runner([x])
    with torch.no_grad():
        maps = model.conv(torch.from_numpy(x))
        assert close(batch.layers["conv"], maps.mean((2, 3))) and close(
            batch.layers["bn"], model.bn(maps).mean((2, 3))
        )
    assert batch.features is batch.layers["penultimate"] and close(
        batch.features, expected(model, x)[0]
    )
    headless = FeatureExtractor(nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU()), "1")
    [batch] = make_runner(headless, backend, sample=x, batch=4, threads=1)([x])
    assert batch.logits is None and close(batch.features, headless(x).features)


@pytest.mark.parametrize("backend", ["torch", "onnx", "openvino", "mnn"])
def test_models_in_double_precision_give_float32(backend):
    needs(backend)
    model, x = network("mlp"), images(8)  # ONNX Runtime convolves in single precision alone
    features, _ = expected(model, x)
    runner = make_runner(FeatureExtractor(model.double()), backend, sample=x, batch=4, threads=1)
    [batch] = runner([x])
    assert batch.features.dtype == np.float32 and close(batch.features, features)


@pytest.mark.parametrize(("kind", "name"), [(".pt", "cnn"), (".pt2", "vit")])
@pytest.mark.parametrize("backend", ["torch", "openvino", "mnn"])
def test_programs(files, kind, name, backend):
    needs(backend)
    x = images(10)
    runner = make_runner(GraphExtractor(files[kind], trust=True), backend, sample=x, threads=1)
    assert runner.batch == (4 if name == "vit" else runner.batch)
    found = np.concatenate([b.features for b in runner([x[:7], x[7:]])])
    assert close(found, expected(network(name), x)[0], tolerance(backend))
    if name == "vit":
        with pytest.raises(
            typica.InputError,
            match="batch=5, but the model takes 4 images at once; leave out batch",
        ):
            make_runner(GraphExtractor(files[kind], trust=True), backend, sample=x, batch=5)


@pytest.mark.parametrize("kind", [".onnx", "-fixed.onnx"])
@pytest.mark.parametrize("backend", ["onnx", "openvino", "mnn"])
def test_onnx_models(files, kind, backend):
    needs("onnx")
    needs(backend)
    x = images(10)
    names = ["penultimate", "x"]
    runner = make_runner(OnnxExtractor(files[kind], layers=names), backend, sample=x, threads=2)
    found = list(runner([x[:7], x[7:]]))
    features, logits = expected(network("cnn"), x)
    assert close(np.concatenate([batch.layers["penultimate"] for batch in found]), features)
    assert close(np.concatenate([batch.features for batch in found]), x.mean((2, 3)))
    assert close(np.concatenate([batch.logits for batch in found]), logits)
    assert runner.batch == 4 or kind == ".onnx"


def test_the_quickest_that_agrees_is_taken(monkeypatch):
    needs("mnn")
    rates = {"torch": 50.0, "onnx": 70.0, "openvino": 90.0, "mnn": 60.0}
    monkeypatch.setattr(_trials.Trials, "_rate", lambda self, runner, trial: rates[runner.name])
    extractor, x = FeatureExtractor(network("cnn")), images(16)
    pytest.importorskip("openvino")
    runner = make_runner(extractor, sample=x, threads=1)
    assert runner.name == "openvino"
    assert [(trial.name, trial.rate, trial.reason) for trial in runner.trials] == [
        ("torch", 50.0, "slower"),
        ("onnx", 70.0, "slower"),
        ("openvino", 90.0, ""),
        ("mnn", 60.0, "slower"),
        ("mnn", 60.0, "slower"),
    ]
    assert [trial.batch for trial in runner.trials if trial.name == "mnn"] == [2, 8]
    assert all(trial.difference < 1e-5 for trial in runner.trials)
    assert "openvino 2x1 90" in runner.describe()
    rates["onnx"] = 100.0
    assert make_runner(extractor, sample=x, threads=1).name == "onnx"
    rates["torch"] = 200.0
    runner = make_runner(extractor, sample=x)
    assert runner.name == "torch" and {(t.name, t.threads) for t in runner.trials} >= {("torch", 1)}


def test_openvino_is_first_used_in_one_thread(monkeypatch):
    """Where its types are made, two threads could wait for each other."""
    needs("openvino")
    from typica.nets.runtimes.openvino import OpenVinoEngine

    used, honest = [], OpenVinoEngine.infer

    def infer(self, pixels):
        used.append(threading.current_thread())
        return honest(self, pixels)

    monkeypatch.setattr(OpenVinoEngine, "infer", infer)
    make_runner(FeatureExtractor(network("cnn")), "openvino", sample=images(16), batch=2, threads=2)
    assert used[0] is threading.main_thread() and used[1] is not used[0]


def ticking(monkeypatch, seconds: float) -> None:
    """Let every look at the clock take so long: what is tried costs the same on any machine."""
    ticks = itertools.count()
    monkeypatch.setattr(_trials, "perf_counter", lambda: seconds * next(ticks))


def test_few_images_are_not_worth_a_trial(monkeypatch):
    ticking(monkeypatch, 0.1)
    monkeypatch.setattr(_trials.Trials, "_rate", lambda self, runner, trial: 50.0)
    extractor, x = FeatureExtractor(network("cnn")), images(16)
    few, many = (make_runner(extractor, sample=x, threads=1, images=n).trials for n in (499, 500))
    assert {trial.name for trial in few} == {"torch"} and {trial.name for trial in many} > {
        "torch",
        "onnx",
    }


def test_a_trial_ends_where_what_is_left_cannot_repay_it(monkeypatch):
    needs("mnn")
    rates = {"torch": 50.0, "onnx": 60.0, "openvino": 70.0, "mnn": 80.0}
    monkeypatch.setattr(_trials.Trials, "_rate", lambda self, runner, trial: rates[runner.name])
    extractor, x = FeatureExtractor(network("cnn")), images(16)
    ticking(monkeypatch, 10.0)  # which a backend of one size looks at four times: it costs 30 s
    cheap = make_runner(extractor, sample=x, threads=1, images=100_000)
    assert {trial.name for trial in cheap.trials} == set(rates) and not cheap.cut_short
    assert cheap.name == "mnn"
    # 1,000 images are 20 s of work, of which 13 can be saved, and to try one took 30.
    dear = make_runner(extractor, sample=x, threads=1, images=1000)
    assert {trial.name for trial in dear.trials} == {"torch"} and dear.cut_short
    # 2,500 are 50 s by torch, worth a trial of 30; by onnx 42 s are left, worth no other.
    between = make_runner(extractor, sample=x, threads=1, images=2500)
    assert {trial.name for trial in between.trials} == {"torch", "onnx"} and between.cut_short


def test_a_backend_that_differs_or_fails_is_left_aside(monkeypatch):
    pytest.importorskip("openvino")
    from typica.nets.runtimes.openvino import OpenVinoEngine

    extractor, x = FeatureExtractor(network("cnn")), images(16)
    honest = OpenVinoEngine.infer
    monkeypatch.setattr(
        _trials.Trials, "_rate", lambda self, runner, trial: 1.0 + (runner.name == "openvino")
    )

    def off(part: str, by: float):
        def infer(self, pixels):
            found = honest(self, pixels)
            if part == "logits":
                return found._replace(logits=found.logits * by)
            return Extraction(
                found.features * by, found.logits, {"penultimate": found.features * by}
            )

        return infer

    for part in ("features", "logits"):
        monkeypatch.setattr(OpenVinoEngine, "infer", off(part, 1.01))
        runner = make_runner(extractor, sample=x, threads=1)
        left = next(trial for trial in runner.trials if trial.name == "openvino")
        assert runner.name != "openvino" and 0.009 < left.difference < 0.011 and left.rate is None
        assert "differ by 1.0e-02 of the largest" in left.reason
        with pytest.raises(
            typica.InputError, match=r"backend 'openvino': features or logits differ .* over 0.001"
        ):
            make_runner(extractor, "openvino", sample=x)
    monkeypatch.setattr(OpenVinoEngine, "infer", off("features", 1.0005))
    assert make_runner(extractor, sample=x, threads=1).name == "openvino"


class Odd(nn.Module):
    """What no converter can follow: a detour through NumPy."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(192, 3)

    def forward(self, x):
        return self.fc(torch.from_numpy(np.sin(x.numpy())).flatten(1))


def test_a_model_that_does_not_convert(monkeypatch):
    pytest.importorskip("openvino")

    def refuse(*_args, **_options):
        raise RuntimeError("an operation is unknown\nand more")

    monkeypatch.setattr("openvino.convert_model", refuse)
    extractor, x = FeatureExtractor(network("cnn")), images(16)
    with pytest.raises(
        typica.InputError,
        match=r"'openvino': the model does not convert \(RuntimeError: an operation is unknown\)",
    ):
        make_runner(extractor, "openvino", sample=x)
    runner = make_runner(extractor, sample=x, threads=1, batch=4)
    left = next(trial for trial in runner.trials if trial.name == "openvino")
    assert runner.name != "openvino" and "does not convert" in left.reason and left.rate is None
    assert "left aside: openvino" in runner.describe()
    odd = FeatureExtractor(Odd())
    runner = make_runner(
        odd, sample=x, threads=1, batch=4
    )  # what is baked into a trace differs on other images
    assert runner.name == "torch"
    [batch] = runner([x[:4]])
    assert torch.equal(torch.from_numpy(batch.features), odd(x[:4]).features)


def test_a_missing_extra_is_named_or_noted(monkeypatch):
    import sys

    extractor, x = FeatureExtractor(network("cnn")), images(8)
    for module, extra in (("openvino", "openvino"), ("MNN", "mnn")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(
            typica.InputError,
            match=rf"{module} is not installed; .* pip install 'typica\[{extra}\]'",
        ):
            make_runner(extractor, extra, sample=x)
        runner = make_runner(extractor, sample=x, threads=1, batch=4)
        assert (
            f"pip install 'typica[{extra}]'"
            in next(t for t in runner.trials if t.name == extra).reason
        )


@pytest.mark.parametrize("backend", ["torch", "onnx", "openvino", "mnn"])
def test_the_settings_make_the_same_runner_again_bit_for_bit(backend):
    needs(backend)
    extractor, x = FeatureExtractor(network("vit")), images(30)
    first = make_runner(extractor, backend, sample=x[:16], batch=6, threads=2)
    settings = json.loads(json.dumps(first.settings))
    assert settings["versions"]["numpy"] == np.__version__ and len(settings["versions"]) == 2
    pinned = {key: settings[key] for key in ("batch", "threads", "device", "autocast")}
    again = make_runner(
        FeatureExtractor(network("vit")), settings["backend"], sample=x[8:], **pinned
    )
    assert again.settings == first.settings and again.trials[0].rate is None

    def parts(runner: Runner) -> list[np.ndarray]:
        return [
            batch.features for batch in runner(x[start : start + 6] for start in range(0, 30, 6))
        ]

    for a, b, c in zip(parts(first), parts(again), parts(first), strict=True):
        assert np.array_equal(a, b) and np.array_equal(a, c)


class Slow:
    """An engine that takes its time, and counts."""

    batch, threads, jobs, pads, versions = 2, 1, 3, False, {}

    def __init__(self) -> None:
        self.at_once, self.most, self.ran, self.closed = 0, 0, 0, 0
        self.lock = threading.Lock()
        self.wait: Callable[[], object] = lambda: None

    def infer(self, pixels):
        with self.lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        self.wait()
        time.sleep(0.002 * (1 + int(pixels[0, 0]) % 3))
        if pixels[0, 0] == 13:
            raise ValueError("unlucky")
        with self.lock:
            self.at_once -= 1
            self.ran += 1
        return Extraction(pixels, None, {"penultimate": pixels})

    def close(self):
        self.closed += 1


def slow() -> tuple[Slow, Runner]:
    engine = Slow()
    empty = np.zeros((1, 1), dtype=np.float32)
    return engine, Runner("slow", engine, Extraction(empty, None, {"penultimate": empty}), (1,))


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)[:, None]


def test_results_come_in_order_while_input_is_taken_ahead():
    engine, runner = slow()
    meet = threading.Barrier(engine.jobs)

    def all_at_once() -> None:
        if engine.ran == 0:
            meet.wait()

    engine.wait = all_at_once  # one job at a time would wait for ever
    taken: list[int] = []

    def batches():
        for i in range(40):
            taken.append(i)
            yield column(100 + i, 0)

    for i, batch in enumerate(runner(batches())):
        assert batch.features[0, 0] == 100 + i
        assert len(taken) <= i + 2 + 2 * engine.jobs  # lazily
        if i == 0:
            ahead = len(taken)
    assert ahead > 1 and engine.most == engine.jobs and engine.at_once == 0 and engine.closed == 1


def test_decoding_and_inference_overlap():
    engine, runner = slow()
    second = threading.Event()
    engine.wait = second.wait  # the first is run while the second is made, or for ever

    def batches():
        for i in range(20):
            if i == 1:
                while not engine.at_once:
                    time.sleep(0.001)
                second.set()
            yield column(104 + 3 * i, 0)

    assert len(list(runner(batches()))) == 20


def test_long_batches_are_cut_and_joined():
    engine, runner = slow()
    [batch] = runner([column(*range(20, 27))])
    assert batch.features[:, 0].tolist() == list(range(20, 27)) and engine.ran == 4
    assert [b.features.shape for b in runner([column()[:0].reshape(0, 1)])] == [(0, 1)]
    assert list(runner([])) == []


def test_failures_and_early_ends_leave_nothing_running():
    engine, runner = slow()
    with pytest.raises(ValueError, match="unlucky"):
        list(runner(column(i, 0) for i in range(30)))
    assert engine.closed == 1 and engine.ran < 30
    engine.ran = 0
    with pytest.raises(ValueError, match="unlucky"):
        list(runner([column(13, *range(200, 299))]))
    assert engine.ran < 40  # of the 50 pieces, those that had not begun are given up

    def broken():
        yield column(1, 0)
        raise OSError("an image is gone")

    with pytest.raises(OSError, match="an image is gone"):
        list(runner(broken()))
    results = runner(column(100 + i, 0) for i in range(100))
    next(results)
    results.close()
    assert engine.closed == 4 and engine.at_once <= 2  # those that failed were never taken off
    for bad in (np.zeros((2, 2), dtype=np.float32), [[1.0]]):
        with pytest.raises(typica.InputError, match=r"a batch of .*; pass arrays \(n, 1\)"):
            list(runner([bad]))


def test_threads_are_put_back_even_for_threads_that_start_later():
    before = torch.get_num_threads()
    runner = make_runner(
        FeatureExtractor(network("cnn")), "torch", sample=images(4), batch=4, threads=before + 1
    )
    list(runner([images(4)] * 3))
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert seen == [before]


def test_autocast_is_torchs_own():
    extractor, x = FeatureExtractor(network("cnn")), images(16)
    runner = make_runner(extractor, sample=x, threads=1, batch=8, autocast=True)
    assert runner.name == "torch" and runner.settings["autocast"] is True
    assert {trial.reason for trial in runner.trials if trial.name != "torch"} == {
        "runs on the CPU in single precision"
    }
    [batch] = runner([x])
    assert batch.features.dtype == np.float32 and close(batch.features, extractor(x).features, 2e-2)
    assert not np.array_equal(batch.features, extractor(x).features)
    with pytest.raises(
        typica.InputError, match="backend 'onnx' runs on the CPU in single precision"
    ):
        make_runner(extractor, "onnx", sample=x, autocast=True)


class Mixing(nn.Module):
    """Takes the mean of a batch off each of its rows."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x + x.mean(0))


def test_a_network_that_mixes_a_batch_is_run_one_by_one():
    rows = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    extractor = FeatureExtractor(Mixing())
    with pytest.raises(typica.InputError, match=r"in batches of 8 instead of 16; .*, batch=1"):
        make_runner(extractor, "torch", sample=rows, batch=8, threads=1)
    runner = make_runner(extractor, "torch", sample=rows, batch=1, threads=1)
    [found] = runner([rows])
    assert close(found.features, 2 * rows)


def test_the_number_of_threads_is_put_back_to_what_it_was_before_the_run():
    x, before = images(4), torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        extractor = FeatureExtractor(network("cnn"))
        runner = make_runner(extractor, "torch", sample=x, batch=4, threads=1)
        for threads in (1, 3):
            torch.set_num_threads(threads)
            list(runner([x]))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_wrong_arguments(files):
    extractor, x = FeatureExtractor(network("cnn")), images(4)
    with pytest.raises(
        typica.InputError,
        match=r"backend 'jax' cannot run this model; choose auto, torch, compile, onnx",
    ):
        make_runner(extractor, "jax", sample=x)
    for name in ("batch", "threads"):
        with pytest.raises(typica.InputError, match=f"{name}=0; pass 1 or more"):
            make_runner(extractor, "torch", sample=x, **{name: 0})
        for wrong in ("8", 2.5):
            with pytest.raises(typica.InputError, match=f"{name}={wrong!r}; pass 1 or more"):
                make_runner(extractor, "torch", sample=x, **{name: wrong})
    for bad in (x[:0], [1.0], x[0, 0, 0]):
        with pytest.raises(typica.InputError, match="pass some images as an array"):
            make_runner(extractor, sample=bad)
    with pytest.raises(typica.InputError, match="got CNN; pass a FeatureExtractor"):
        make_runner(network("cnn"), sample=x)
    needs("onnx")
    with pytest.raises(
        typica.InputError,
        match="backend 'torch' cannot run this model; choose auto, onnx, openvino, mnn",
    ):
        make_runner(OnnxExtractor(files[".onnx"]), "torch", sample=x)
    with pytest.raises(typica.InputError, match="ONNX models run on the CPU here"):
        make_runner(OnnxExtractor(files[".onnx"]), sample=x, device="cuda")


@pytest.mark.parametrize("device", ["nonsense", "meta", "cuda", "cuda:99", 0.5])
def test_devices_that_are_not_there(files, device):
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is one")
    x = images(4)
    for extractor in (FeatureExtractor(network("cnn")), GraphExtractor(files[".pt2"], trust=True)):
        with pytest.raises(
            typica.InputError,
            match=rf"^make_runner: device='{device}' cannot be used here \(.+\); "
            "pass another, such",
        ):
            make_runner(extractor, "torch", sample=x, device=device)
    assert (
        make_runner(
            FeatureExtractor(network("cnn")), "torch", sample=x, batch=2, device="cpu"
        ).batch
        == 2
    )


def test_differences():
    def of(features, logits=None):
        features = np.array(features, dtype=np.float32)
        return Extraction(
            features,
            None if logits is None else np.array(logits, dtype=np.float32),
            {"a": features},
        )

    assert largest_difference(of([[1, 2]]), of([[1, 2]])) == 0
    assert largest_difference(of([[1, 2.5]]), of([[1, 2]])) == 0.25
    assert largest_difference(of([[1]], [[4]]), of([[1]], [[8]])) == 0.5
    assert largest_difference(of([[np.nan, 1]]), of([[np.nan, 1]])) == 0
    for wrong in (of([[np.nan, 1]]), of([[1]]), of([[1, 2]], [[1]])):
        assert largest_difference(wrong, of([[1, 2]])) == np.inf
    assert largest_difference(of([[1]]), of([[0]])) == 1.0


def test_the_compiled_backend(monkeypatch):
    """What is compiled is checked without the compiler, which takes minutes on a busy machine."""
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda module: compiled.append(module) or module)
    for name in ("cnn", "vit"):
        x = images(10)
        runner = make_runner(
            FeatureExtractor(network(name)), "compile", sample=x, batch=4, threads=1
        )
        assert close(
            np.concatenate([b.features for b in runner([x])]), expected(network(name), x)[0]
        )
    assert len(compiled) == 2


@pytest.mark.real
@pytest.mark.parametrize("backend", ["openvino", "mnn"])
def test_the_stored_features_of_the_real_network(backend, checkpoint, real):
    needs(backend)
    with np.load(REAL / "images" / "cifar10-test-2000.npz") as file:
        photos, index = (
            file["images"][:50],
            file["index"][:50] if "index" in file else np.arange(50),
        )
    x = zoo.transform("densenet-bc-100")(photos)
    extractor = FeatureExtractor(zoo.load("densenet-bc-100", checkpoint))
    runner = make_runner(extractor, backend, sample=x, batch=8, threads=1)
    features = np.concatenate([batch.features for batch in runner([x])])
    assert close(features, real["test.features"][index], 1e-3)


def test_a_banks_backend_that_cannot_run_is_replaced_aloud(monkeypatch):
    from typica.bench._changed_images import _runner

    extractor, x = FeatureExtractor(network("cnn")), images(16)
    bank = SimpleNamespace(settings={"backend": "torch", "batch": 4, "threads": 1})
    watcher = Watcher()
    with watched_by(watcher):
        runner = _runner(extractor, bank, None, x)
    assert (runner.name, runner.batch) == ("torch", 4) and not watcher.notes
    monkeypatch.setattr(
        _trials.Trials, "_rate", lambda self, runner, trial: 1.0 + (runner.name == "torch")
    )
    bank.settings["backend"] = "abacus"
    with watched_by(watcher):
        assert _runner(extractor, bank, None, x).name == "torch"
    (said,) = [text for text in watcher.notes if "the bank's backend cannot run here" in text]
    assert "another one is taken" in said and "abacus" in said
