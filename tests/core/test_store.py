"""Files: whole, checked, harmless, and readable for ever."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.data import Data
from helpers.shell import started
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)

import typica
from typica import CTM, CW, InputError, store
from typica.detectors import Detector, Tags, final_detector
from typica.store import _registered
from typica.store._decoder import Decoder
from typica.store._encoder import Encoder

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def saved(data: Data, tmp_path: Path) -> Path:
    path = tmp_path / "ctm.safetensors"
    CTM(data.head).fit(data.train, data.labels).calibrate(data.held_out).save(path)
    return path


def metadata_of(path):
    with safe_open(path, framework="numpy") as file:
        return dict(file.metadata()), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def test_format_is_as_documented(saved):
    """Read without typica, by the documentation alone, checksum included."""
    metadata, tensors = metadata_of(saved)
    document = json.loads(metadata["typica"])
    assert document["format"] == 2 and document["library"] == typica.__version__
    assert list(document["content"]) == ["$ctm"]
    digest = hashlib.sha256(metadata["typica"].replace(document["sha256"], "0" * 64).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype.str} {tensor.shape}\n".encode() + tensor.tobytes())
    assert document["sha256"] == digest.hexdigest()


def test_content_that_looks_like_an_empty_checksum_is_kept(data: Data, tmp_path: Path):
    names = np.array(["0" * 64, "0" * 65, *(f"c{i}" for i in range(2, data.labels.max() + 1))])
    detector = CTM().fit(data.train, names[data.labels])
    detector.save(tmp_path / "d.safetensors")
    assert typica.load(tmp_path / "d.safetensors").classes_.tolist() == detector.classes_.tolist()


@pytest.mark.parametrize("kind", ["head", "moments", "calibrated_scores"])
def test_what_detectors_are_made_of_loads_in_a_process_that_knows_nothing_yet(kind, tmp_path: Path):
    moments = typica.Moments()
    moments.add(np.eye(2), [0, 1])
    things = [typica.Head(np.eye(2)), moments, typica.Calibration().add(np.arange(99.0))]
    path = tmp_path / "thing.safetensors"
    store.save(next(thing for thing in things if thing.kind == kind), path)
    code = f"import typica; print(typica.load({str(path)!r}).kind)"
    loaded = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert loaded.stdout.decode().strip() == kind


@pytest.fixture
def capitals():
    """A detector whose fitted attribute has a capital letter; known to files for one test alone."""

    @store.storable("capitals")
    class Capitals(Detector):
        tags = Tags()

        def _learn(self, Z, labels):
            self.W_ = Z.mean(axis=0)

        def _score(self, Z):
            return -((Z - self.W_) ** 2).sum(axis=1)

    yield Capitals
    del _registered._KINDS["capitals"]


def test_fitted_attributes_with_capitals_are_stored_and_tell_fits_apart(capitals, data, tmp_path):
    detector = capitals().fit(data.train)
    detector.save(tmp_path / "d.safetensors")
    loaded = typica.load(tmp_path / "d.safetensors")
    np.testing.assert_array_equal(loaded.W_, detector.W_)
    assert loaded.fingerprint() == detector.fingerprint()
    assert capitals().fit(data.train + 5).fingerprint() != detector.fingerprint()


def golden(pattern: str) -> list[Path]:
    """Stored files, each with what it answered when it was written."""
    return sorted(path.with_suffix("") for path in GOLDEN.glob(f"{pattern}.safetensors"))


def opened(path: Path):
    return typica.load(path.with_suffix(".safetensors")), json.loads(
        path.with_suffix(".json").read_text()
    )


@pytest.mark.parametrize(
    "path", [path for path in golden("*") if "monitor" not in path.name], ids=lambda path: path.name
)
def test_golden_files_load(path):
    """Scores written down when the file was, in numbers that no code of ours computes here."""
    estimator, wanted = opened(path)
    rows = np.array(wanted["rows"])
    np.testing.assert_allclose(estimator.score_samples(rows), wanted["scores"], rtol=0, atol=1e-12)
    assert estimator.predict(rows).tolist() == wanted["verdicts"]
    detector = final_detector(estimator)
    assert type(detector) is CTM
    if "p_values" in wanted:
        p = typica.p_values(estimator, rows)
        np.testing.assert_allclose(p, wanted["p_values"], rtol=1e-12)
    if "offset" in wanted:
        assert detector.offset_ == wanted["offset"]
    if "percentiles" in wanted:
        found = detector.calibration_.percentiles(np.array(wanted["scores"]))
        np.testing.assert_allclose(found, wanted["percentiles"], atol=1e-9)
    if "summary" in wanted:
        found = detector.calibration_.to_dict()
        for key in ("n", "by_class", "alpha", "confidence"):
            assert found[key] == wanted["summary"][key]
        for group, entry in wanted["summary"]["groups"].items():
            assert {key: found["groups"][group][key] for key in ("n", "k", "threshold")} == {
                key: entry[key] for key in ("n", "k", "threshold")
            }
    assert hasattr(detector, "calibration_") is (
        "training" not in path.name and "source" not in path.name
    )


@pytest.mark.parametrize("path", golden("monitor*"), ids=lambda path: path.name)
def test_golden_monitors_go_on_as_they_did(path):
    monitor, wanted = opened(path)
    assert monitor.to_dict() == wanted["before"]
    if "more" in wanted:
        monitor.observe(np.array(wanted["more"]))
    else:
        monitor.update(np.arange(30.0) / -10)
    found, after = monitor.to_dict(), wanted["after"]
    for key in ("wealth", "largest_wealth"):
        assert found.pop(key) == pytest.approx(after.pop(key), rel=1e-9)
    # Its interval comes from SciPy, whose versions differ in the last bit.
    assert found.pop("rejected") == pytest.approx(after.pop("rejected"), rel=1e-12)
    assert found == after


def test_every_truncation_is_refused(saved, tmp_path):
    content = saved.read_bytes()
    bad = tmp_path / "bad.safetensors"
    for length in [0, 1, 7, 8, 9, 100, len(content) // 2, len(content) - 1]:
        bad.write_bytes(content[:length])
        with pytest.raises(
            typica.FormatError, match=r"bad.safetensors: not a whole safetensors file"
        ):
            typica.load(bad)


def test_every_altered_byte_is_noticed(saved, tmp_path):
    content = bytearray(saved.read_bytes())
    bad = tmp_path / "bad.safetensors"
    rng = np.random.default_rng(0)
    for position in [*range(8), *rng.integers(8, len(content), 150).tolist(), len(content) - 1]:
        altered = bytearray(content)
        altered[position] ^= 1 << int(rng.integers(8))
        bad.write_bytes(altered)
        with pytest.raises(typica.FormatError):
            typica.load(bad)


def test_altered_json_with_the_old_checksum_is_noticed(saved, tmp_path):
    metadata, tensors = metadata_of(saved)
    metadata["typica"] = metadata["typica"].replace('"alpha": "1/20"', '"alpha": "1/30"')
    save_file(tensors, tmp_path / "bad.safetensors", metadata=metadata)
    with pytest.raises(typica.FormatError, match="the checksum does not match"):
        typica.load(tmp_path / "bad.safetensors")


def write_with_checksum(path, document, tensors):
    text = json.dumps(document | {"sha256": "0" * 64})
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(
            f"\n{name} {tensors[name].dtype.str} {tensors[name].shape}\n".encode()
            + tensors[name].tobytes()
        )
    save_file(tensors, path, metadata={"typica": text.replace("0" * 64, digest.hexdigest())})


@pytest.mark.parametrize("number", [0, 1, 99])
def test_another_format_is_refused(tmp_path, number):
    path = tmp_path / "other.safetensors"
    write_with_checksum(path, {"format": number, "library": "9.0", "anything": 1}, {})
    with pytest.raises(typica.FormatError, match=f"format {number}, and this Typica reads format"):
        typica.load(path)


@pytest.mark.parametrize(
    "content",
    [
        {"$os": {"system": "true"}},
        {"$subprocess.run": {}},
        {"$../../evil": {}},
        {"$base": {}},
        {"$sklearn": "FunctionTransformer", "params": {}, "state": {}},
        {"$sklearn": "Pipeline", "params": {}, "state": {}},
        {"$array": "missing"},
        {"$ctm": {"params": {"evil": 1}, "fitted": {}}},
        {"$ctm": {"params": {}, "fitted": {"fit": 1}}},
        {"$ctm": {"params": {}, "fitted": {"__class__": 1}}},
        {"$ctm": 3},
        {"$head": {"weight": 3}},
        None,
    ],
)
def test_content_that_makes_no_sense_is_refused(tmp_path, content):
    path = tmp_path / "odd.safetensors"
    document = (
        {"format": store.FORMAT, "library": "0", "content": content}
        if content
        else {"format": store.FORMAT, "library": "0"}
    )
    write_with_checksum(path, document, {})
    with pytest.raises(typica.FormatError, match="the content makes no sense"):
        typica.load(path)


def test_foreign_files_are_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "executed"),))

    foreign = tmp_path / "foreign.safetensors"
    for content in (
        pickle.dumps(Evil()),
        b"",
        b"\x93NUMPY",
        b"\xff" * 100,
        struct.pack("<Q", 2**60) + b"{}",
    ):
        foreign.write_bytes(content)
        with pytest.raises(typica.FormatError, match="not a whole safetensors file"):
            typica.load(foreign)
    assert not (tmp_path / "executed").exists()
    save_file({"weight": np.ones(3)}, foreign)
    with pytest.raises(
        typica.FormatError, match=r"holds a head, not a detector; pass one that typica\.save"
    ):
        typica.load(foreign)
    with pytest.raises(typica.InputError, match="there is no such file"):
        typica.load(tmp_path / "absent.safetensors")
    with pytest.raises(typica.InputError, match="is a folder"):
        typica.load(tmp_path)


def test_a_format_that_is_no_number_is_refused(tmp_path):
    for text in (
        "[]",
        "{}",
        '{"format": "1", "sha256": ""}',
        '{"format": 2, "sha256": ""}',
        "no json",
    ):
        save_file({}, tmp_path / "x.safetensors", metadata={"typica": text})
        with pytest.raises(typica.FormatError, match="checksum does not match"):
            typica.load(tmp_path / "x.safetensors")


def test_values_of_every_kind_round_trip():
    values = {
        "none": None, "true": True, "int": 3, "float": 0.1, "inf": -np.inf, "text": "é",
        "tuple": (1, (2.5, "x")), "list": [1, [np.inf]],
        "array": np.arange(6.0).reshape(2, 3).T, "big": np.arange(3, dtype=">f4"),
        "strings": np.array(["a", "longer"]), "scalar": np.float32(0.5),
        "empty": np.zeros((0, 3)), "zero-d": np.array(3.0),
    }  # fmt: skip
    encoder = Encoder()
    back = Decoder(encoder.tensors, 0).value(json.loads(json.dumps(encoder.node(values))))
    assert list(back) == list(values)
    for key, value in values.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(back[key], value)
            assert back[key].dtype.newbyteorder("=") == value.dtype.newbyteorder("=")
        else:
            assert back[key] == value and type(back[key]) is type(value if key != "scalar" else 0.5)


def test_non_contiguous_arrays_are_read_back_as_they_were(data: Data, tmp_path):
    weight = np.asfortranarray(np.arange(24.0).reshape(2, 12) + 1)
    CW(typica.Head(weight)).save(tmp_path / "cw.safetensors")
    np.testing.assert_array_equal(typica.load(tmp_path / "cw.safetensors").head.weight, weight)


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler()], [MaxAbsScaler()], [MinMaxScaler()], [RobustScaler()], [Normalizer()],
        [PCA(5, whiten=True)], [TruncatedSVD(4)], ["passthrough"],
        [StandardScaler(), PCA(0.9), Normalizer()],
    ],
    ids=str,
)  # fmt: skip
def test_pipelines_of_scikit_learns_transformers_are_stored(data: Data, tmp_path, steps):
    pipeline = Pipeline(
        [*((f"step{i}", step) for i, step in enumerate(steps)), ("detector", CTM())]
    )
    pipeline.fit(data.train, data.labels)
    typica.calibrate(pipeline, data.held_out)
    typica.save(pipeline, tmp_path / "pipeline.safetensors")
    loaded = typica.load(tmp_path / "pipeline.safetensors")
    assert [name for name, _ in loaded.steps] == [name for name, _ in pipeline.steps]
    # To rounding: PCA's components come back in another memory layout.
    np.testing.assert_allclose(
        loaded.score_samples(data.test), pipeline.score_samples(data.test), rtol=1e-13
    )
    np.testing.assert_array_equal(loaded.predict(data.test), pipeline.predict(data.test))


def test_a_loaded_detector_goes_on_learning(data: Data, tmp_path):
    for i in range(2):
        CTM().fit(data.train[i::2], data.labels[i::2]).save(tmp_path / f"{i}.safetensors")
    merged = typica.load(tmp_path / "0.safetensors").merge(typica.load(tmp_path / "1.safetensors"))
    whole = CTM().fit(data.train, data.labels)
    np.testing.assert_allclose(
        merged.score_samples(data.test), whole.score_samples(data.test), atol=1e-12
    )


def test_files_of_equal_detectors_are_equal(data: Data, tmp_path):
    for name in ("a", "b"):
        CTM().fit(data.train, data.labels).save(tmp_path / f"{name}.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_a_failed_write_leaves_the_old_file(data: Data, tmp_path, monkeypatch):
    path = tmp_path / "ctm.safetensors"
    detector = CTM().fit(data.train, data.labels)
    detector.save(path)
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("typica.store._file.save_file", full)
    with pytest.raises(typica.InputError, match=r"ctm\.safetensors: the disk is full \(No space"):
        detector.save(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    with pytest.raises(typica.InputError, match="cannot write there"):
        detector.save(tmp_path / "absent" / "ctm.safetensors")


@pytest.mark.skipif(os.name != "posix", reason="permission bits are POSIX's")
def test_files_have_ordinary_permissions(saved):
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o666 & ~mask


SAVE_FOR_EVER = """
import sys, numpy as np
from typica import CTM
rows, labels = np.random.default_rng(0).random((400, 500)), np.arange(400) % 40
detectors = [CTM().fit(rows * scale, labels) for scale in (1.0, 2.0)]
while True:
    for detector in detectors:
        detector.save(sys.argv[1])
"""


def test_killed_at_any_moment_a_whole_file_is_there(tmp_path):
    rng = np.random.default_rng(0)
    for trial in range(5):
        path = tmp_path / f"{trial}.safetensors"
        with started([sys.executable, "-c", SAVE_FOR_EVER, path]) as process:
            while not path.exists():
                assert process.poll() is None
                time.sleep(0.001)
            time.sleep(float(rng.uniform(0, 0.05)))
        assert typica.load(path).means_.shape == (40, 500)


def test_a_folder_is_named_for_what_it_is(tmp_path, data):
    typica.write_bank(tmp_path / "x.bank", data.train)
    with pytest.raises(typica.InputError, match=r"x\.bank is a bank, not a detector; .*Bank\.open"):
        typica.load(tmp_path / "x.bank")


@pytest.mark.parametrize("plain", [3, [1, 2], {"a": 1}, np.ones(2), None, "ctm"])
def test_what_is_not_a_detector_is_not_written(plain, tmp_path):
    with pytest.raises(InputError, match="is not a detector; pass a detector or a Pipeline"):
        typica.save(plain, tmp_path / "x.safetensors")
    assert not list(tmp_path.iterdir())


def test_what_was_fitted_on_a_data_frame_loads_without_a_word(data: Data, tmp_path: Path):
    """Warnings are errors in these tests, as they are in many."""
    frame = pd.DataFrame(data.train, columns=[f"unit_{i}" for i in range(data.train.shape[1])])
    detector = CTM().fit(frame, data.labels)
    detector.save(tmp_path / "named.safetensors")
    pipeline = make_pipeline(StandardScaler(), CTM()).fit(frame, data.labels)
    typica.save(pipeline, tmp_path / "pipeline.safetensors")
    for name in ("named", "pipeline"):
        loaded = typica.load(tmp_path / f"{name}.safetensors")
        assert loaded.score_samples(frame).shape == (len(frame),)


def test_a_classifier_with_a_detector_inside_says_what_to_save(data: Data, tmp_path: Path):
    model = typica.OpenSetClassifier(LogisticRegression(max_iter=500), CTM(), held_out=0.5)
    model.fit(data.train, data.labels)
    with pytest.raises(
        InputError, match=r"OpenSetClassifier cannot be stored .* save its detector_"
    ):
        typica.save(model, tmp_path / "model.safetensors")
    typica.save(model.detector_, tmp_path / "model.safetensors")
