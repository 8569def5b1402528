"""Every detector as an ONNX file: the same scores, verdicts and classes as in Python."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from helpers.data import Data, make, make_data
from helpers.export import FAR, assert_alike, calibrated, calibrated_pair, rows_of, run, small
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import typica
from typica import CTM, Energy, InputError, Mahalanobis
from typica.export import to_onnx, write_triton
from typica.rectify import ASH, list_rectifiers

DETECTORS = typica.list_detectors()
PAIRS = list(itertools.product(list_rectifiers(), DETECTORS))


@pytest.fixture(scope="module")
def data() -> Data:
    return make_data()


@pytest.mark.parametrize("name", DETECTORS)
def test_every_detector_says_the_same_as_in_python(name, data):
    detector = calibrated(small(name, data), data)
    model = to_onnx(detector)
    onnx.checker.check_model(model, full_check=True)
    assert_alike(detector, model, rows_of(data), FAR.get(name, np.inf))


# Behind some rectifiers the probabilities of these rows are all 1.
@pytest.mark.filterwarnings("ignore:.* calibration scores equal:typica.CalibrationWarning")
@pytest.mark.parametrize(("rectifier", "name"), PAIRS[::13])  # tests/oracles has them all
def test_rectifiers_are_part_of_the_file(rectifier, name, data):
    pipeline = calibrated_pair(rectifier, name, data)
    tied = (rectifier, name) == ("normalise", "lof")
    assert_alike(pipeline, to_onnx(pipeline), rows_of(data), FAR.get(name, np.inf), zero=not tied)


def test_transformers_of_scikit_learn_are_part_of_the_file_too(data):
    pipeline = calibrated(make_pipeline(StandardScaler(), ASH(), CTM()), data)
    assert_alike(pipeline, to_onnx(pipeline), rows_of(data))


@pytest.mark.parametrize("nothing", [None, "passthrough"])
def test_a_step_that_does_nothing_is_left_out(nothing, data):
    pipeline = calibrated(make_pipeline(nothing, StandardScaler(), CTM()), data)
    assert_alike(pipeline, to_onnx(pipeline), rows_of(data))


def test_a_transformer_that_onnx_lacks(data):
    pipeline = calibrated(make_pipeline(FunctionTransformer(np.cbrt), CTM()), data)
    with pytest.raises(InputError, match=r"to_onnx: FunctionTransformer has no counterpart"):
        to_onnx(pipeline)


@pytest.mark.parametrize("name", ["ctm", "energy"])
def test_a_threshold_by_class_is_a_vector(name, data):
    groups = {1: "few", 3: "few"}
    detector = calibrated(make(name, data), data, by_class=True, groups=groups)
    model = to_onnx(detector)
    (threshold,) = model.graph.initializer
    assert threshold.name == "threshold" and list(threshold.dims) == [4]
    assert_alike(detector, model, rows_of(data))
    # 60 scores of the group that two classes share are in the file once.
    held = [node for node in model.graph.node if node.op_type == "Constant"]
    assert max(np.prod(node.attribute[0].t.dims, dtype=int) for node in held) == 121
    limits = np.array([np.inf, -np.inf, -np.inf, -np.inf], dtype=np.float32)
    found = run(model, rows_of(data), threshold=limits)
    assert np.array_equal(found["typical"], found["nearest"] != 0)


def test_the_threshold_may_be_given_with_the_rows(data):
    detector = calibrated(CTM(), data)
    model, rows = to_onnx(detector), rows_of(data)
    scores = detector.score_samples(rows)
    for threshold in (0.5, 0.8, 0.99):
        limit = np.array([threshold], dtype=np.float32)
        typical = run(model, rows, threshold=limit)["typical"]
        assert np.array_equal(typical, scores >= np.float32(threshold))
    assert np.array_equal(run(model, rows)["typical"], detector.predict(rows) > 0)


def test_fewer_calibration_scores_on_request(data):
    detector = calibrated(CTM(), data)
    rows = rows_of(data)
    small, whole = (run(to_onnx(detector, calibration_size=n), rows) for n in (20, None))
    assert np.array_equal(small["typical"], whole["typical"])
    assert set(np.round(small["p_value"] * 21, 9)) <= set(range(1, 22))
    kept = np.sort(detector.calibration_.scores)
    assert abs(small["p_value"] - whole["p_value"]).max() < 0.3 and len(kept) == 120
    assert detector.calibration_.n == len(detector.calibration_.scores)  # it keeps its own
    with pytest.raises(InputError, match="calibration_size=0"):
        to_onnx(detector, calibration_size=0)


def test_what_the_file_says_of_itself(data):
    names = np.array(["ant", "bee", "cat", "d\u00f6g"])
    detector = CTM().fit(data.train, names[data.labels])
    detector.calibrate(data.held_out, alpha="0.07", confidence=0.9)
    facts = {entry.key: entry.value for entry in to_onnx(detector).metadata_props}
    assert json.loads(facts["classes"]) == names.tolist()
    assert float(facts["alpha"]) == 0.07 and float(facts["confidence"]) == 0.9
    assert facts["detector"] == "ctm" and facts["fingerprint"] == detector.fingerprint()
    assert facts["typica"] == typica.__version__
    assert [json.loads(facts[key]) for key in ("calibrated", "by_class")] == [True, False]
    assert json.loads(facts["calibration_scores"]) == 120


def test_names_and_shapes_and_the_size_of_the_graph(data):
    model = to_onnx(calibrated(make("energy", data), data))
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    rows = {key: ["N"] for key in ("score", "p_value", "typical", "nearest", "runner_up")}
    assert shapes == {"features": ["N", 12], "threshold": [1], "logits": ["N", 4], **rows}
    small = to_onnx(CTM().fit(data.train, data.labels))
    done = [node.op_type for node in small.graph.node if node.op_type != "Constant"]
    assert len(done) < 60 and not {"If", "Loop", "Scan"} & set(done)


def test_one_row_alone_and_many_agree(data):
    model, rows = to_onnx(calibrated(make("quorum", data), data)), rows_of(data)
    together = run(model, rows)["score"]
    alone = [run(model, rows[i : i + 1])["score"][0] for i in range(5)]
    np.testing.assert_allclose(alone, together[:5], rtol=1e-5)


def test_what_is_not_known_is_left_out(data):
    bare = to_onnx(Energy(data.head))
    assert [value.name for value in bare.graph.input] == ["features"]
    names = [value.name for value in bare.graph.output]
    assert names == ["logits", "score", "nearest", "runner_up"]
    provisional = to_onnx(Mahalanobis().fit(data.train))
    assert [value.name for value in provisional.graph.output][:2] == ["score", "typical"]


def test_exporting_leaves_the_detector_as_it_was(data, tmp_path):
    detector, rows = calibrated(CTM(), data), rows_of(data)
    before = detector.score_samples(rows)
    first, second = (to_onnx(detector, path=tmp_path / "ctm.onnx") for _ in range(2))
    assert first == second == onnx.load(tmp_path / "ctm.onnx")
    assert np.array_equal(detector.score_samples(rows), before)


def test_a_method_that_looks_at_values_is_told(data):
    class Peeking(CTM):
        def _score_and_match(self, Z):
            return (self._score(Z), None) if Z[0, 0] > 0 else (-self._score(Z), None)

    with pytest.raises(InputError, match=r"to_onnx: its code looks at values"):
        to_onnx(Peeking().fit(data.train, data.labels))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (CTM(), "not fitted"),
        (Energy(), "how many features a row has is not known"),
        (StandardScaler(), "is not a detector"),
        (make_pipeline(StandardScaler(), CTM()), "not fitted"),
    ],
    ids=["unfitted", "width", "no-detector", "pipeline"],
)
def test_what_cannot_be_exported(estimator, message):
    with pytest.raises(ValueError, match=message):
        to_onnx(estimator)


def test_a_file_runs_without_typica(data, tmp_path):
    to_onnx(calibrated(CTM(), data), path=tmp_path / "ctm.onnx")
    np.save(tmp_path / "rows.npy", rows_of(data))
    code = """
import sys, numpy, onnxruntime
session = onnxruntime.InferenceSession("ctm.onnx")
rows = numpy.load("rows.npy")
print(int(session.run(["typical"], {"features": rows})[0].sum()))
assert not {"typica", "torch", "onnx"} & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    expected = calibrated(CTM(), data).judge(rows_of(data)).typical.sum()
    assert int(done.stdout) == expected


def test_an_entry_for_triton_is_a_folder(data, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("not a folder")
    with pytest.raises(
        InputError, match=r"taken: cannot make a folder there \(.*\); choose another"
    ):
        write_triton(to_onnx(calibrated(CTM(), data)), taken)


@pytest.mark.parametrize("name", ["ctm", "knn", "ensemble", "lof"])
def test_openvino_says_the_same(name, data):
    openvino = pytest.importorskip("openvino", reason="the extra openvino is not installed")
    detector, rows = calibrated(make(name, data), data), rows_of(data)
    model = to_onnx(detector)
    core = openvino.Core()
    compiled = core.compile_model(
        core.read_model(model.SerializeToString()),
        "CPU",
        {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"},
    )
    found, wanted = compiled({"features": rows}), run(model, rows)
    np.testing.assert_allclose(
        found["score"], wanted["score"], rtol=0, atol=1e-5 * abs(wanted["score"]).max()
    )
    assert np.array_equal(found["typical"].astype(bool), wanted["typical"])


@pytest.mark.parametrize("package", ["onnx", "spox"])
def test_a_missing_package_is_named_with_its_extra(package, data, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"{package} is not installed; .* 'typica\[onnx\]'"):
        to_onnx(calibrated(CTM(), data))
