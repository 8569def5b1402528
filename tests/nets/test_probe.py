"""A network of code is known by its answer to one image, which banks and detectors keep."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import py_compile
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.shell import run
from helpers.tinynet import write_images
from torch import nn

import typica
from typica.bank import Bank, write_bank
from typica.data import Preprocessing
from typica.errors import FormatError, InputError
from typica.nets import Settings, extract, judge_images, open_model, reopen
from typica.nets._probe import fixed_image
from typica.origin import Origin

MODEL = "net3:make"
PLAIN = Settings("torch", 8, 1)
SOURCE = """
import torch
from torch import nn
from typica.data import Preprocessing
from parts3 import bent


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 12, 3, stride=2)
        self.fc = nn.Linear(12, 3)

    def forward(self, x):
        return self.fc(bent(self.body(x)).mean((2, 3)))


def make(weights=None):
    torch.manual_seed(0)
    return Net(), Preprocessing(8, 8, mean=0.4)
"""
PARTS = "import torch\n\n\ndef bent(x):\n    return torch.relu(x + 0.{})\n"


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Images, in a working folder with a network whose forward pass uses another module."""
    monkeypatch.chdir(tmp_path)
    Path("net3.py").write_text(SOURCE)
    yield write_images(tmp_path / "photos")
    for name in ("net3", "parts3"):
        sys.modules.pop(name, None)


@pytest.fixture(autouse=True)
def parts(photos: Path) -> None:
    write_parts(1)


def write_parts(number: int) -> None:
    """Write the imported module, as a new process would find it, with no bytecode of another."""
    for name in ("net3", "parts3"):
        sys.modules.pop(name, None)
    Path("parts3.py").write_text(PARTS.format(number))
    Path(importlib.util.cache_from_source("parts3.py")).unlink(missing_ok=True)


def test_the_probe_is_what_the_network_gives_for_the_fixed_image(photos: Path):
    bank = extract(photos, MODEL, "a.bank", settings=PLAIN)
    model = open_model(MODEL).extractor.model.double()
    image = torch.tensor(fixed_image(8, 8).transpose(2, 0, 1)[None] / 255 - 0.4)
    with torch.no_grad():
        features = torch.relu(model.body(image) + 0.1).mean((2, 3))
        logits = model.fc(features)
    answer = bank.origin.probe
    np.testing.assert_allclose(answer["layer.penultimate"], features[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(answer["logits"], logits[0], rtol=1e-5, atol=1e-6)
    typica.CTM().fit(bank).save("ctm.safetensors")
    assert (
        typica.load("ctm.safetensors").origin_.probe == answer == Bank.open("a.bank").origin.probe
    )
    assert np.ptp(fixed_image(64, 64)) > 200


def test_a_changed_import_is_noticed_by_banks_and_detectors(photos: Path, capsys):
    bank = extract(photos, MODEL, "a.bank", settings=PLAIN)
    detector = typica.CTM().fit(bank)
    detector.save("ctm.safetensors")
    write_parts(2)
    assert open_model(MODEL).identity.weights == bank.identity["weights"]
    with pytest.raises(InputError, match="net3:make has changed: its answer to one fixed image"):
        extract(photos, MODEL, "a.bank", settings=PLAIN)
    with pytest.raises(InputError, match="net3:make has changed"):
        judge_images(detector, photos, model=MODEL)
    error = run(capsys, "score", "ctm.safetensors", str(photos), "--model", MODEL, code=2)
    assert "net3:make has changed" in error and "extract and fit again" in error
    other = extract(photos, MODEL, "b.bank", settings=PLAIN)
    with pytest.raises(InputError, match="net3:make has changed"):
        detector.score_samples(other)
    write_parts(1)
    assert len(judge_images(detector, photos, model=MODEL)) == 60
    assert extract(photos, MODEL, "a.bank", settings=PLAIN).fingerprint() == bank.fingerprint()


def test_behaviour_decides_where_old_bytecode_runs(photos: Path):
    """A module changed within a second to the same length runs from its old bytecode."""
    source = Path("parts3.py")
    bank = extract(photos, MODEL, "a.bank", settings=PLAIN)
    then = source.stat().st_mtime_ns
    py_compile.compile("parts3.py")
    stale = Path(importlib.util.cache_from_source("parts3.py")).read_bytes()
    write_parts(2)
    os.utime(source, ns=(then, then))
    Path(importlib.util.cache_from_source("parts3.py")).write_bytes(stale)
    again = extract(photos, MODEL, "a.bank", settings=PLAIN)  # the old code is what runs
    assert again.fingerprint() == bank.fingerprint()
    write_parts(2)
    with pytest.raises(InputError, match="net3:make has changed"):
        extract(photos, MODEL, "a.bank", settings=PLAIN)


def test_an_edit_that_changes_no_number_is_the_same_network(photos: Path):
    bank = extract(photos, MODEL, "a.bank", settings=PLAIN)
    with Path("net3.py").open("a") as file:
        file.write("\n# edited\n")
    write_parts(1)
    assert extract(photos, MODEL, "a.bank", settings=PLAIN).fingerprint() == bank.fingerprint()


def test_a_bank_in_typicas_home_is_made_anew(photos: Path, capsys, monkeypatch):
    command = ("fit", str(photos), "--model", MODEL, "-o")
    run(capsys, *command, "a.safetensors")
    write_parts(2)
    run(capsys, *command, "b.safetensors")
    run(capsys, *command, "c.safetensors")
    first, second, third = (
        typica.load(f"{name}.safetensors").moments_.means for name in ("a", "b", "c")
    )
    assert not np.allclose(first, second, rtol=1e-2)
    np.testing.assert_array_equal(second, third)


def test_only_code_is_probed(photos: Path):
    assert open_model("densenet-bc-100", "random").origin(Preprocessing(32, 32)).probe is None
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    module.append(nn.Linear(4, 2))
    assert set(open_model(module).origin(Preprocessing(8, 8)).probe) == {
        "layer.penultimate",
        "logits",
    }


def test_a_module_in_memory_that_does_something_else(photos: Path):
    class Net(nn.Sequential):
        power = 1.0

        def forward(self, x):
            return self[1](self[0](x).mean((2, 3)) ** self.power)

    torch.manual_seed(0)
    net = Net(nn.Conv2d(3, 4, 3), nn.Linear(4, 2))
    bank = extract(photos, net, "a.bank", {"resize": 8}, settings=PLAIN)
    detector = typica.CTM().fit(bank)
    assert reopen(detector.origin_, model=net).opened.identity.weights == bank.identity["weights"]
    Net.power = 2.0
    with pytest.raises(InputError, match="Net has changed"):
        reopen(detector.origin_, model=net)


def test_the_probe_settles_no_head(photos: Path):
    opened = open_model(MODEL)
    opened.origin(Preprocessing(8, 8))
    assert not opened.extractor.traced


def test_networks_of_one_size_where_the_transform_says_none(photos: Path):
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 28 * 28, 4), nn.ReLU(), nn.Linear(4, 2))
    assert len(open_model(net).origin(Preprocessing(None)).probe["logits"]) == 2
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 29 * 29, 4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(InputError, match=r"^transform tells no size, .* by resize and crop\.$"):
        open_model(net).origin(Preprocessing(None))
    assert len(open_model(net).origin(Preprocessing(29, 29)).probe["logits"]) == 2


def test_half_precision_answers_in_single(photos: Path):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.ReLU(), nn.Linear(4, 2))
    whole = open_model(net.half().float()).origin(Preprocessing(8, 8)).probe
    half = open_model(net.half()).origin(Preprocessing(8, 8)).probe
    assert half == whole and net[1].weight.dtype == torch.float16


def test_a_network_that_draws_random_numbers_is_the_same_network(photos: Path):
    class Net(nn.Linear):
        def forward(self, x):
            return nn.functional.dropout(super().forward(x.flatten(1)))

    opened = [open_model(net) for net in [Net(192, 4)] * 2]
    before = torch.get_rng_state()
    first, second = (one.origin(Preprocessing(8, 8)).probe for one in opened)
    assert first == second and torch.equal(torch.get_rng_state(), before)


def test_half_precision_that_cannot_be_left_answers_as_it_is(photos: Path):
    class Net(nn.Linear):
        def forward(self, x):
            return super().forward(x.flatten(1).half())

    assert len(open_model(Net(192, 4).half()).origin(Preprocessing(8, 8)).probe["logits"]) == 4


@pytest.mark.parametrize("newer", [True, False])
def test_a_gpu_rounds_nothing_to_tf32_meanwhile(photos: Path, monkeypatch, newer):
    """Whether the older or the newer setting of PyTorch says so; both are as they were then."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    if not hasattr(matmul, "fp32_precision"):
        pytest.skip("a setting of PyTorch 2.9 and newer")
    parts = [(matmul, "fp32_precision"), (cudnn.conv, "fp32_precision")]
    seen = []

    class Net(nn.Linear):
        def forward(self, x):
            seen.append([getattr(*part) for part in parts])
            return super().forward(x.flatten(1))

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    before = [getattr(*part) for part in parts]
    if newer:
        matmul.fp32_precision = "tf32"
    try:
        given = [getattr(*part) for part in parts]
        open_model(Net(192, 4)).origin(Preprocessing(8, 8))
        assert [getattr(*part) for part in parts] == given
    finally:
        for part, value in zip(parts, before, strict=True):
            setattr(*part, value)
    assert seen == [["ieee", "ieee"]]


def test_layers_that_both_have_are_compared(photos: Path):
    net = open_model(MODEL, layers=["body", "penultimate"])
    origin = net.origin(Preprocessing(8, 8, mean=0.4))
    assert set(origin.probe) == {"layer.body", "layer.penultimate", "logits"}
    origin.check_answer({"layer.penultimate": origin.probe["layer.penultimate"]})
    with pytest.raises(InputError, match="has changed"):
        origin.check_answer({"layer.body": [1 + x for x in origin.probe["layer.body"]]})
    with pytest.raises(InputError, match="has changed"):
        origin.check_answer({"logits": [*origin.probe["logits"], 0.0]})


@pytest.mark.parametrize("probe", [[], {"logits": 3}, {"logits": ["a"]}, {"logits": [[1.0]]}, "x"])
def test_a_forged_probe_is_refused(probe, tmp_path):
    known = {"model": "a:b", "weights": "w", "layer": None, "reduce": "mean", "transform": {}}
    with pytest.raises(FormatError, match="probe"):
        Origin.from_dict({**known, "probe": probe})
    bank = write_bank(tmp_path / "forged", np.eye(3), identity={**known, "probe": probe})
    with pytest.raises(FormatError):
        _ = bank.origin


def test_a_probe_is_outside_the_fingerprint_and_is_not_shown(photos: Path, capsys):
    origin = extract(photos, MODEL, "a.bank", settings=PLAIN).origin
    moved = {name: [x * (1 + 1e-6) for x in row] for name, row in origin.probe.items()}
    other = dataclasses.replace(origin, probe=moved)
    assert other != origin and other.fingerprint() == origin.fingerprint()
    origin.check_same(other)
    assert Origin.from_dict(json.loads(json.dumps(origin.to_dict()))).probe == origin.probe
    run(capsys, "fit", "a.bank", "-o", "ctm.safetensors")
    assert "probe" not in run(capsys, "info", "ctm.safetensors")
    assert "probe" not in run(capsys, "info", "ctm.safetensors", "--json", "-")
    with pytest.raises(TypeError, match="cannot be changed"):
        origin.probe["logits"][0] = 1.0
