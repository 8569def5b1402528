"""Pipelines: within one another, fitted on banks, and with steps that change once calibrated."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers.data import Data
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import typica
from typica import ASH, CTM, KNN, InputError
from typica.decide import fingerprint
from typica.detectors import final_detector
from typica.export import to_onnx
from typica.origin import Origin


@pytest.fixture
def pipeline(data: Data):
    made = make_pipeline(ASH(percentile=10), CTM()).fit(data.train, data.labels)
    return typica.calibrate(made, data.held_out)


@pytest.fixture
def nested(data: Data):
    made = make_pipeline(StandardScaler(), make_pipeline(ASH(percentile=10), CTM()))
    return typica.calibrate(typica.fit(made, data.train, data.labels), data.held_out)


def test_pipelines_within_pipelines_decide_as_one(nested, data: Data, tmp_path):
    flat = make_pipeline(StandardScaler(), ASH(percentile=10), CTM()).fit(data.train, data.labels)
    typica.calibrate(flat, data.held_out)
    np.testing.assert_array_equal(
        typica.p_values(nested, data.test), typica.p_values(flat, data.test)
    )
    np.testing.assert_array_equal(nested.predict(data.test), flat.predict(data.test))
    assert typica.explain(nested, data.test[:1])[0].nearest is not None
    assert repr(typica.Monitor(nested)).startswith("Monitor: 0 inputs")
    typica.save(nested, tmp_path / "nested.safetensors")
    again = typica.load(tmp_path / "nested.safetensors")
    assert fingerprint(again) == fingerprint(nested) != fingerprint(flat)
    np.testing.assert_array_equal(
        typica.judge(again, data.test).score, typica.judge(flat, data.test).score
    )


def test_pipelines_within_pipelines_are_exported(nested, data: Data, tmp_path):
    ort = pytest.importorskip("onnxruntime", reason="needs the extra 'onnx'")
    to_onnx(nested, path=tmp_path / "nested.onnx")
    rows = data.test.astype(np.float32)
    session = ort.InferenceSession(str(tmp_path / "nested.onnx"))
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {session.get_inputs()[0].name: rows}), strict=True))
    np.testing.assert_allclose(found["score"], typica.judge(nested, rows).score, atol=1e-5)


@pytest.mark.parametrize("made", ["pipeline", "nested"])
def test_a_step_that_changes_voids_the_calibration(made, data: Data, request):
    one = request.getfixturevalue(made)
    other = pickle.loads(pickle.dumps(one))
    before = typica.p_values(one, data.test)
    for estimator in (one, other, copy.deepcopy(one)):
        np.testing.assert_array_equal(typica.p_values(estimator, data.test), before)
        name = next(name for name in estimator.get_params() if name.endswith("ash__percentile"))
        estimator.set_params(**{name: 90})
        with pytest.raises(InputError, match="no calibration scores"):
            typica.p_values(estimator, data.test)
        with pytest.raises(InputError, match="there is no threshold yet"):
            estimator.predict(data.test)
        typica.calibrate(estimator, data.held_out)
        assert estimator.predict(data.test).mean() > 0.5


def test_steps_that_stay_keep_the_calibration(data: Data):
    made = make_pipeline(SimpleImputer(missing_values=np.nan), StandardScaler(), CTM())
    typica.calibrate(made.fit(data.train, data.labels), data.held_out)
    made.set_params(standardscaler__with_mean=True)  # as it was
    for same in (made, pickle.loads(pickle.dumps(made)), copy.copy(made)):
        assert typica.judge(same, data.test).p_value is not None
    assert not hasattr(clone(made)[-1], "calibration_")


def test_set_params_takes_a_stale_calibration_away(data: Data):
    detector = KNN(k=3).fit(data.train).calibrate(data.held_out)
    detector.set_params(k=3)
    assert detector.calibration_.n == len(data.held_out)
    detector.set_params(k=9)
    assert not hasattr(detector, "calibration_")


def test_copies_have_calibrations_of_their_own(data: Data):
    detector = CTM().fit(data.train, data.labels).calibrate(data.held_out[:50])
    copy.copy(detector).partial_calibrate(data.held_out[50:])
    assert detector.calibration_.n == 50


class Bank:
    """What is needed of a bank."""

    def __init__(self, data: Data) -> None:
        self.features, self.labels, self.logits = data.train, np.asarray(data.labels), None
        self.classes = [f"class {i}" for i in range(int(self.labels.max()) + 1)]
        self.origin = Origin("net", "ab", None, "mean", {"crop": 32})


def test_the_steps_of_inner_pipelines_are_part_of_the_fingerprint(nested, data: Data):
    other = copy.deepcopy(nested)
    inner = other.steps[-1][1]
    inner.set_params(ash__percentile=30)
    assert fingerprint(other) != fingerprint(nested)
    typica.calibrate(other, data.held_out, source="elsewhere")
    mine, others = (final_detector(each).calibration_ for each in (nested, other))
    with pytest.raises(InputError, match="not known to be equal"):
        mine.merge(others)


def test_a_pipeline_is_fitted_on_a_bank(data: Data):
    bank = Bank(data)
    made = typica.fit(make_pipeline(ASH(percentile=10), CTM()), bank)
    assert made[-1].origin_ == bank.origin == typica.fit(CTM(), bank).origin_
    assert made[-1].classes_.tolist() == sorted(bank.classes)
    with pytest.raises(InputError, match=r"ASH.fit: got a bank where rows are needed; pass its"):
        make_pipeline(ASH(), CTM()).fit(bank)
    with pytest.raises(InputError, match=r"CTM.partial_fit: got a bank where rows are needed"):
        CTM().partial_fit(bank)


def test_no_rows_behind_a_pipeline_give_no_verdicts(data: Data):
    pipeline = make_pipeline(StandardScaler(), CTM()).fit(data.train, data.labels)
    typica.calibrate(pipeline, data.held_out)
    assert len(typica.judge(pipeline, data.test[:0])) == 0
    assert typica.p_values(pipeline, data.test[:0]).shape == (0,)
    with pytest.raises(InputError):
        typica.calibrate(pipeline, data.test[:0])
