"""A new user's walk to a verdict, in the shell alone.

It starts from a small network of one's own and folders of grey images. Every refusal on the way is
one that a new user meets, and says what to type next.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.networks import torch_is_talkative
from helpers.shell import run
from PIL import Image
from sklearn.datasets import load_digits

import typica
from typica.bank import Bank
from typica.data import Preprocessing

NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
SOURCE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(256, 32), nn.ReLU(),
        )
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        return self.fc(self.body(x))


def load(weights="net.pth"):
    net = Net()
    net.load_state_dict(torch.load(weights, weights_only=True))
    return net
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """A folder with the network's code, its weights and ONNX file, and images in folders."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "mynet.py").write_text(SOURCE)
    scope: dict = {}
    exec(SOURCE, scope)
    digits = load_digits()
    pixels = (digits.images * (255 / 16)).astype(np.uint8)
    torch.manual_seed(0)
    net = scope["Net"]()
    x, y = torch.tensor(pixels[:1000] / 255, dtype=torch.float32)[:, None], digits.target[:1000]
    optimiser = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(40):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(x), torch.tensor(y)).backward()
        optimiser.step()
    torch.save(net.state_dict(), folder / "net.pth")
    with torch_is_talkative():
        torch.onnx.export(
            net.eval(), (x[:1],), folder / "net.onnx", dynamo=False,
            dynamic_axes={"input": {0: "n"}}, input_names=["input"],
        )  # fmt: skip
    for part, rows in (
        ("train", range(400)),
        ("held_out", range(400, 700)),
        ("test", range(1000, 1200)),
    ):
        for row in rows:
            home = folder / part / NAMES[digits.target[row]]
            home.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels[row]).save(home / f"{row}.png")
    (folder / "dots").mkdir()
    dots = np.random.default_rng(0).random((40, 8, 8)) < 0.15
    for row, pixels in enumerate(255 * dots.astype(np.uint8)):
        Image.fromarray(pixels).save(folder / f"dots/{row}.png")
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> Path:
    for entry in made.iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mynet", raising=False)
    return tmp_path


def test_a_fit_does_not_take_outputs_in_another_order(here: Path, capsys):
    """The folders' names are sorted, eight first, and the network's outputs are not."""
    fit = ("fit", "train", "--model", "mynet:Net", "--weights", "net.pth", "-o", "d.safetensors")
    error = run(capsys, *fit, "--detector", "cw", code=2)
    assert "train: labels and outputs disagree: " in error and "--classes FILE." in error
    assert "if the outputs are zero, one, two, three, four" in error
    assert not Path("d.safetensors").exists()
    run(capsys, *fit, "--detector", "ctm")  # which reads no outputs
    Path("names.txt").write_text("\n".join(NAMES))
    run(capsys, *fit, "--detector", "cw", "--classes", "names.txt")
    assert typica.load("d.safetensors").head.classes.tolist() == NAMES


def test_two_commands_lead_to_a_verdict(here: Path, capsys):
    """No refusal at all for one who types what the help says."""
    fit = (
        "fit",
        "train",
        "--model",
        "mynet:Net",
        "--weights",
        "net.pth",
        "--calibrate",
        "held_out",
    )
    run(capsys, *fit, "-o", "ctm.safetensors")
    out = run(
        capsys,
        "score",
        "ctm.safetensors",
        "dots",
        "test",
        "--json",
        "verdicts.json",
        "--limit",
        "5",
        "--model",
        "mynet:Net",
    )
    assert "of 240 images are atypical" in out
    rows = json.loads(Path("verdicts.json").read_text())["rows"]
    strange = [row["verdict"] == "atypical" for row in rows if row["file"].startswith("dots/")]
    known = [row["verdict"] == "atypical" for row in rows if row["file"].startswith("test/")]
    assert len(strange) == 40 and np.mean(strange) > 0.3 and np.mean(known) < 0.2


def test_every_refusal_says_what_to_type_next(here: Path, capsys):
    """The steps of one who guesses: each message holds what the next command needs."""
    error = run(capsys, "fit", "train", code=2)
    assert "holds images; name the network for them, --model" in error
    error = run(capsys, "fit", "train", "--model", "net.pth", code=2)
    assert "--model FILE:CLASS --weights net.pth" in error
    error = run(capsys, "fit", "train", "--model", "mynet.py", "--weights", "net.pth", code=2)
    named = re.search(r"--model (mynet:\w+)", error)[1]
    assert "it has 'Net', 'load'" in error and named == "mynet:load"
    error = run(capsys, "fit", "train", "--model", "mynet.Net", code=2)
    assert "did you mean mynet:Net?" in error
    run(capsys, "fit", "train", "--model", named, "--weights", "net.pth", "-o", "ctm.safetensors")
    error = run(capsys, "calibrate", "ctm.safetensors", "held_out", code=2)
    model = re.search(r"only if you name it here: (--model \S+)\.\n", error)[1].split()
    run(capsys, "calibrate", "ctm.safetensors", "held_out", *model)
    out = run(capsys, "score", "ctm.safetensors", "dots", *model)
    assert "of 40 images are atypical" in out


@pytest.mark.parametrize("model", ["mynet:load", "net.onnx"])
def test_a_bank_by_hand_and_the_order_of_the_classes(here: Path, capsys, model: str):
    weights = () if model == "net.onnx" else ("--weights", "net.pth")
    named = () if model == "net.onnx" else ("--model", model)
    asked = ("extract", "train", "--model", model, *weights, "-o", "train.bank")
    with pytest.raises(SystemExit):  # that is how a command ends
        typica.cli.main([*asked])
    notes = " ".join(capsys.readouterr().err.split())
    assert '"resize": 8, "crop": 8' in notes and '"mode": "L"' in notes
    assert "e.g. --transform '{" in notes
    assert Bank.open("train.bank").origin.transform == Preprocessing(8, 8, mode="L").to_dict()
    order = re.search(r"if the outputs are (.*?); name them", notes)[1]
    assert order.split(", ") == NAMES and "--classes FILE of `typica extract` (--fresh" in notes
    Path("classes.txt").write_text("\n".join(order.split(", ")))
    error = run(capsys, *asked, "--classes", "classes.txt", code=2)
    assert re.search(r"data is [0-9a-f]{16}\.\.\. there and [0-9a-f]{16}\.\.\. here", error)
    assert "choose another folder, or begin again, --fresh." in error
    run(capsys, *asked, "--classes", "classes.txt", "--fresh")
    bank = Bank.open("train.bank")
    assert bank.accuracy > 0.9 and bank.classes == NAMES
    run(
        capsys,
        "fit",
        "train.bank",
        "-o",
        "msp.safetensors",
        "--detector",
        "msp",
        "--calibrate",
        "held_out",
        *named,
    )
    out = run(capsys, "evaluate", "msp.safetensors", "test", "--ood", "dots=dots", *named)
    assert "200 ID inputs" in out
    choice = json.loads(
        run(
            capsys,
            "choose",
            "train.bank",
            "--held-out",
            "held_out",
            "--detectors",
            "ctm,msp",
            *named,
            "--json",
            "-",
        )
    )
    assert set(choice["auroc"]) == {"ctm", "msp"}


def test_a_detector_that_knows_no_network_takes_one(here: Path, capsys):
    run(capsys, "extract", "train", "--model", "net.onnx", "-o", "train.bank")
    bank = Bank.open("train.bank")
    typica.CTM().fit(np.array(bank.features), np.array(bank.labels)).save("plain.safetensors")
    error = run(capsys, "score", "plain.safetensors", "dots", code=2)
    assert "remembers no model; name the one that made them, --model and --transform" in error
    model = ("--model", "net.onnx", "--transform", '{"mode": "L"}')
    plain = run(capsys, "score", "plain.safetensors", "dots", *model, "--json", "-")
    run(capsys, "fit", "train.bank", "-o", "ctm.safetensors")
    own = run(capsys, "score", "ctm.safetensors", "dots", "--json", "-")
    scores = [[row["score"] for row in json.loads(text)["rows"]] for text in (plain, own)]
    assert np.array_equal(*scores)
    # What it was calibrated with it remembers.
    run(capsys, "calibrate", "plain.safetensors", "held_out", *model)
    run(capsys, "score", "plain.safetensors", "dots")
    error = run(
        capsys, "score", "plain.safetensors", "dots", "--transform", '{"mean": 0.5}', code=2
    )
    assert "was fitted with the transform" in error and "leave --transform out" in error
    error = run(capsys, "calibrate", "plain.safetensors", "dots", "train.bank", code=2)
    assert "features (train.bank) and images (dots) cannot be read together" in error


def test_code_that_lies_elsewhere_is_not_called_changed(
    here: Path, tmp_path: Path, capsys, monkeypatch
):
    run(
        capsys,
        "fit",
        "train",
        "--model",
        "mynet:Net",
        "--weights",
        "net.pth",
        "-o",
        "a.safetensors",
    )
    detector, images = str(Path("a.safetensors").resolve()), str(Path("dots").resolve())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.delitem(sys.modules, "mynet")
    error = run(capsys, "score", detector, images, "--model", "mynet:Net", code=2)
    assert "there is no module 'mynet'; pass package.module:function of one" in error


def test_every_command_names_the_function(here: Path, capsys):
    run(capsys, "extract", "train", "--model", "mynet:Net", "--weights", "net.pth", "-o", "a.bank")
    run(capsys, "fit", "a.bank", "-o", "ctm.safetensors")
    asked = ("--model", "mynet:Net")
    for command in (
        ("score", "ctm.safetensors", "dots"),
        ("calibrate", "ctm.safetensors", "held_out"),
    ):
        sys.modules.pop("mynet", None)
        error = run(capsys, *command, code=2)
        assert "its network is the function mynet:Net, whose code runs only if you name it" in error
        assert error.strip().endswith("--model mynet:Net.") and "mynet" not in sys.modules
        run(capsys, *command, *asked)
    shutil.copy("net.pth", "other.pth")
    torch.save({**torch.load("net.pth"), "fc.bias": torch.ones(10)}, "other.pth")
    error = run(
        capsys, "score", "ctm.safetensors", "dots", *asked, "--weights", "other.pth", code=2
    )
    assert "other.pth holds other weights than the detector was fitted with" in error
