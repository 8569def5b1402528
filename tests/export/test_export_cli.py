"""`typica export`, as a person types it."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from helpers.data import make_data
from helpers.export import rows_of
from helpers.shell import run
from PIL import Image

import typica
from typica import CTM


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnxruntime.set_default_logger_severity(3)
    data = make_data()
    names = np.array(["ant", "bee", "cat", "dog"])[data.labels]
    CTM().fit(data.train, names).calibrate(data.held_out).save("ctm.safetensors")
    np.save("rows.npy", rows_of(data))
    return tmp_path


def test_a_detector_becomes_a_file_that_agrees_with_score(folder, capsys):
    said = run(capsys, "export", "ctm.safetensors", "-o", "ctm.onnx")
    assert "wrote ctm.onnx" in said
    for word in ("features", "threshold", "score", "p_value", "typical", "nearest", "runner_up"):
        assert word in said
    onnx.checker.check_model("ctm.onnx", full_check=True)
    session = onnxruntime.InferenceSession("ctm.onnx")
    rows = np.load("rows.npy")
    score, p_value, typical = session.run(["score", "p_value", "typical"], {"features": rows})
    wanted = typica.load("ctm.safetensors").judge(rows)
    np.testing.assert_allclose(score, wanted.score, atol=1e-5)
    apart = abs(wanted.score - wanted.threshold) > 1e-6
    assert np.array_equal(typical[apart], wanted.typical[apart])
    assert abs(p_value - wanted.p_value).max() <= 2 / 121


def test_json_tells_what_goes_in_and_what_comes_out(folder, capsys):
    told = json.loads(run(capsys, "export", "ctm.safetensors", "-o", "ctm.onnx", "--json", "-"))
    assert told["file"] == "ctm.onnx"
    assert told["inputs"]["features"] == {"type": "float32", "shape": ["N", 12]}
    assert told["outputs"]["typical"] == {"type": "bool", "shape": ["N"]}
    assert json.loads(told["metadata"]["classes"]) == ["ant", "bee", "cat", "dog"]


def test_a_smaller_file_on_request(folder, capsys):
    run(capsys, "export", "ctm.safetensors", "-o", "ctm.onnx", "--calibration-size", "10")
    facts = {entry.key: entry.value for entry in onnx.load("ctm.onnx").metadata_props}
    assert facts["calibration_scores"] == "10"


def test_an_entry_for_triton(folder, capsys):
    said = run(
        capsys, "export", "ctm.safetensors", "-o", "ctm.onnx", "--triton", "models/typical_digits"
    )
    assert "models/typical_digits" in said
    entry = folder / "models" / "typical_digits"
    assert (entry / "1" / "model.onnx").read_bytes() == (folder / "ctm.onnx").read_bytes()
    assert (
        (entry / "config.pbtxt").read_text()
        == """\
name: "typical_digits"
backend: "onnxruntime"
max_batch_size: 64
input [
  { name: "features" data_type: TYPE_FP32 dims: [12] }
]
output [
  { name: "score" data_type: TYPE_FP32 dims: [ 1 ] reshape: { shape: [ ] } },
  { name: "p_value" data_type: TYPE_FP64 dims: [ 1 ] reshape: { shape: [ ] } },
  { name: "typical" data_type: TYPE_BOOL dims: [ 1 ] reshape: { shape: [ ] } },
  { name: "nearest" data_type: TYPE_INT64 dims: [ 1 ] reshape: { shape: [ ] } },
  { name: "runner_up" data_type: TYPE_INT64 dims: [ 1 ] reshape: { shape: [ ] } }
]
dynamic_batching { }
"""
    )


def test_images_in_with_the_network_that_the_detector_remembers(folder, capsys):
    """From folders of images to one file that takes pixels, and agrees with `score`."""
    rng = np.random.default_rng(0)
    for name, shade in (("dark", 40), ("light", 200)):
        (folder / "train" / name).mkdir(parents=True)
        for i in range(20):
            pixels = np.clip(rng.normal(shade, 30, (32, 32, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / "train" / name / f"{i}.png")
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(), torch.nn.Linear(8, 2),
    )  # fmt: skip
    with pytest.warns(DeprecationWarning):
        torch.onnx.export(
            network, (torch.zeros(2, 3, 32, 32),), "net.onnx", dynamo=False,
            input_names=["x"], dynamic_axes={"x": {0: "n"}},
        )  # fmt: skip
    run(capsys, "extract", "train", "--model", "net.onnx", "-o", "train.bank")
    run(capsys, "fit", "train.bank", "-o", "guard.safetensors")
    run(capsys, "export", "guard.safetensors", "--model", "net.onnx", "--uint8", "-o", "guard.onnx")
    onnx.checker.check_model("guard.onnx", full_check=True)
    files = sorted((folder / "train").rglob("*.png"))
    pixels = np.stack([np.asarray(Image.open(file)) for file in files])
    score, logits = onnxruntime.InferenceSession("guard.onnx").run(
        ["score", "logits"], {"images": pixels}
    )
    wanted = typica.nets.judge_images(typica.load("guard.safetensors"), "train")
    np.testing.assert_allclose(score, wanted.score, atol=1e-5)
    assert logits.shape == (40, 2)
    other = run(
        capsys, "export", "guard.safetensors", "--model", "resnet-18-cifar", "--weights", "random",
        "-o", "x.onnx", code=2,
    )  # fmt: skip
    assert "other weights than the detector was fitted with" in " ".join(other.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("absent.safetensors", "-o", "x.onnx"), "absent.safetensors"),
        (("ctm.safetensors", "-o", "absent/x.onnx"), "there is no folder absent"),
        (("ctm.safetensors", "-o", "-"), "pass a name"),
        (("rows.npy", "-o", "x.onnx"), "rows.npy"),
        (("ctm.safetensors", "-o", "x.onnx", "--calibration-size", "0"), "calibration-size"),
        (("ctm.safetensors", "-o", "x.onnx", "--uint8"), "name the network"),
        (("ctm.safetensors", "-o", "x.onnx", "--model", "absent.onnx"), "no such file"),
        (("ctm.safetensors", "-o", "x.onnx", "--triton", "rows.npy"), "is a file"),
    ],
    ids=["absent", "no-folder", "pipe", "no-detector", "size", "uint8", "no-model", "triton"],
)
def test_what_it_refuses(folder, capsys, arguments, words):
    assert words in run(capsys, "export", *arguments, code=2)
    assert not list(folder.glob("*.onnx"))
