"""Where features come from: kept whole in files and banks, compared by what makes features."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from typica import CTM, store
from typica.bank import write_bank
from typica.errors import FormatError, InputError
from typica.origin import Origin

TRANSFORM = {"resize": 40, "crop": 32, "mean": [0.5, 0.5, 0.5], "exif": True}
ORIGIN = Origin("mine:net", "ab12", "block3", "mean", TRANSFORM, head="fc")


def test_is_json_and_back() -> None:
    assert Origin.from_dict(json.loads(json.dumps(ORIGIN.to_dict()))) == ORIGIN


def test_is_stored_and_read_where_nothing_has_imported_it(tmp_path) -> None:
    path = tmp_path / "origin.safetensors"
    store.save(ORIGIN, path)
    assert store.load(path) == ORIGIN
    code = f"from typica import store; print(store.load({str(path)!r}).model)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "mine:net\n"


@pytest.mark.parametrize("layer", [None, "penultimate", ["block2", "penultimate"]])
def test_the_input_of_the_head_has_one_name(layer) -> None:
    assert Origin("net", "ab", layer, "mean", TRANSFORM).layer is None


def test_of_several_layers_the_last_gives_the_features() -> None:
    assert Origin("net", "ab", ["block2", "block3"], "mean", TRANSFORM).layer == "block3"


def test_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ORIGIN.model = "other"


@pytest.mark.parametrize("change", [lambda t: t.update(resize=1), lambda t: t.pop("resize")])
def test_its_transform_cannot_be_changed_either(change) -> None:
    origin = Origin("net", "5f1c", None, "mean", {"resize": 32})
    for shared in (origin, copy.deepcopy(origin), pickle.loads(pickle.dumps(origin))):
        with pytest.raises(TypeError, match="an origin cannot be changed"):
            change(shared.transform)
        assert shared == origin
    change(origin.to_dict()["transform"])  # which is a copy
    assert origin.transform == {"resize": 32}


def test_a_moved_file_is_the_same_network() -> None:
    moved = dataclasses.replace(ORIGIN, model_file="/a/net.onnx", weights_file="/b/net.pth")
    assert moved.fingerprint() == ORIGIN.fingerprint()
    ORIGIN.check_same(moved)


CHANGES = {
    "model": "other:net",
    "weights": "cd34",
    "layer": None,
    "reduce": "max",
    "transform": {**TRANSFORM, "exif": False},
    "head": None,
}


@pytest.mark.parametrize("key", CHANGES)
def test_another_network_is_refused_by_what_differs(key) -> None:
    other = dataclasses.replace(ORIGIN, **{key: CHANGES[key]})
    assert other.fingerprint() != ORIGIN.fingerprint()
    with pytest.raises(InputError, match=f"features of another network, {key} "):
        ORIGIN.check_same(other)


def test_what_is_unknown_cannot_be_compared() -> None:
    ORIGIN.check_same(None)


def test_values_that_lack_a_part_are_refused() -> None:
    values = ORIGIN.to_dict()
    del values["reduce"], values["transform"]
    assert not Origin.known_in(values)
    with pytest.raises(FormatError, match="without reduce, transform"):
        Origin.from_dict(values)


def test_a_bank_knows_its_origin(tmp_path) -> None:
    identity = {**ORIGIN.to_dict(), "data": "what the images are is not part of it"}
    bank = write_bank(tmp_path / "a", np.eye(3), identity=identity)
    assert bank.origin == ORIGIN
    assert write_bank(tmp_path / "b", np.eye(3)).origin is None


def test_a_detectors_fingerprint_is_the_same_wherever_its_network_lies() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 3))
    fitted = []
    for place in ("/here/net.pth", "/there/net.pth", None):
        detector = CTM().fit(rows, np.arange(40) % 2)
        detector.origin_ = dataclasses.replace(ORIGIN, weights_file=place)
        fitted.append(detector.fingerprint())
        assert detector.origin_.weights_file == place
    assert len(set(fitted)) == 1
    detector.origin_ = dataclasses.replace(ORIGIN, weights="77aa")
    assert detector.fingerprint() not in fitted


def test_no_setting_of_a_transform_can_be_changed():
    origin = Origin("net", "ab", None, "mean", {"mean": [0.5, 0.5, 0.5], "crop": 32})
    assert origin.transform == {"mean": [0.5, 0.5, 0.5], "crop": 32}
    for change in (
        lambda: origin.transform["mean"].append(1),
        lambda: origin.transform.update(crop=1),
        lambda: origin.transform["mean"].__setitem__(0, 1),
    ):
        with pytest.raises(TypeError, match="an origin cannot be changed"):
            change()
    given = origin.to_dict()
    given["transform"]["mean"].append(1)  # its own
    assert pickle.loads(pickle.dumps(origin)) == copy.deepcopy(origin) == origin
    assert origin.transform["mean"] == [0.5, 0.5, 0.5]
