"""`typica export`, as a person types it."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from helpers.data import make_data
from helpers.export import rows_of
from helpers.shell import run

import typica
from typica import CTM


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("absent.safetensors", "-o", "x.onnx"), "absent.safetensors"),
        (("ctm.safetensors", "-o", "absent/x.onnx"), "there is no folder absent"),
        (("ctm.safetensors", "-o", "-"), "pass a name"),
        (("rows.npy", "-o", "x.onnx"), "rows.npy"),
        (("ctm.safetensors", "-o", "x.onnx", "--calibration-size", "0"), "calibration-size"),
    ],
    ids=["absent", "no-folder", "pipe", "no-detector", "size"],
)
def test_what_it_refuses(folder, capsys, arguments, words):
    assert words in run(capsys, "export", *arguments, code=2)
    assert not list(folder.glob("*.onnx"))
