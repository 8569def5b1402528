"""Detectors as models of the real MLflow, with its own folder of runs and its own server."""

from __future__ import annotations

import os
import pickletools
import subprocess
import sys
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import typica
import typica.mlflow
from typica import CTM, InputError, Origin
from typica.testing import make_data

pytestmark = pytest.mark.filterwarnings("default")  # MLflow's own
COLUMNS = ["verdict", "score", "p_value", "nearest", "runner_up", "margin", "why"]


@pytest.fixture(params=["files", "sqlite"])
def runs(request, tmp_path, monkeypatch):
    """Both places where MLflow keeps runs on one machine."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    uri = f"file:{tmp_path}/runs" if request.param == "files" else f"sqlite:///{tmp_path}/runs.db"
    mlflow.set_tracking_uri(uri)
    yield tmp_path
    mlflow.set_tracking_uri(None)


def rows() -> np.ndarray:
    data = make_data()
    return np.concatenate([data.test, data.ood]).astype(np.float64)


def ctm() -> CTM:
    data = make_data()
    names = np.array(["ant", "bee", "cat", "dog"])[data.labels]
    return CTM().fit(data.train, names).calibrate(data.held_out)


def same(frame: pd.DataFrame, verdicts: typica.Verdicts) -> bool:
    expected = pd.DataFrame(verdicts.to_dict())
    pd.testing.assert_frame_equal(frame, expected)
    return set(frame["verdict"]) == {"typical", "atypical"}


def test_a_detector_is_logged_loaded_and_registered(runs):
    detector, X = ctm(), rows()
    with mlflow.start_run():
        info = typica.mlflow.log_model(
            detector, "ctm", input_example=X[:3], registered_model_name="guard"
        )
    for uri in (info.model_uri, "models:/guard/1"):
        model = mlflow.pyfunc.load_model(uri)
        assert same(model.predict(X), typica.judge(detector, X))
        loaded = typica.mlflow.load_model(uri)
        assert np.array_equal(loaded.score_samples(X), detector.score_samples(X))


@pytest.fixture
def saved(tmp_path) -> Path:
    typica.mlflow.save_model(ctm(), tmp_path / "model")
    return tmp_path / "model"


def test_rows_of_every_kind(saved):
    model, X = mlflow.pyfunc.load_model(str(saved)), rows()
    for kind in (np.asarray, pd.DataFrame, np.ndarray.tolist, lambda X: X.astype(np.float32)):
        frame = model.predict(kind(X))
        assert list(frame.columns) == COLUMNS
        assert frame["verdict"].tolist() == typica.judge(ctm(), X).verdict.tolist()
    with pytest.raises(mlflow.MlflowException, match="schema"):
        model.predict(X[:, 1:])


def test_the_model_says_what_it_takes_and_gives(saved):
    model = mlflow.models.Model.load(saved)
    assert [column.type.name for column in model.signature.inputs] == ["double"] * rows().shape[1]
    assert model.signature.outputs.input_names() == COLUMNS
    assert model.signature.outputs.required_input_names() == [
        name for name in COLUMNS if name not in ("runner_up", "margin")
    ]
    assert model.metadata["typica"]["detector"] == "ctm"
    assert model.metadata["typica"]["classes"]["names"] == ["ant", "bee", "cat", "dog"]
    assert f"typica[mlflow]=={typica.__version__}" in (saved / "requirements.txt").read_text()
    example = model.load_input_example(str(saved))
    assert np.shape(example) == (1, rows().shape[1])


def test_there_is_no_pickle_in_it(saved):
    files = [path for path in saved.rglob("*") if path.is_file()]
    assert saved / "artifacts" / "detector.safetensors" in files
    for path in files:
        with pytest.raises(Exception, match=r".+"):
            list(pickletools.genops(path.read_bytes()))


def test_the_detector_is_read_without_running_the_models_code(saved):
    (saved / "model.py").write_text("raise SystemExit('executed')")
    assert isinstance(typica.mlflow.load_model(saved), CTM)


def test_a_pipeline_that_was_fitted_on_a_data_frame(tmp_path):
    data = make_data()
    columns = [f"column {i}" for i in range(data.train.shape[1])]
    frame = pd.DataFrame(data.train, columns=columns)
    pipeline = make_pipeline(StandardScaler(), CTM()).fit(frame, data.labels)
    typica.calibrate(pipeline, pd.DataFrame(data.held_out, columns=columns))
    typica.mlflow.save_model(pipeline, tmp_path / "model", metadata={"team": "vision"})
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    X = pd.DataFrame(rows(), columns=columns)
    assert same(model.predict(X), typica.judge(pipeline, X))
    assert same(model.predict(X[columns[::-1]]), typica.judge(pipeline, X))  # in any order
    assert model.metadata.signature.inputs.input_names() == columns
    assert model.metadata.metadata["team"] == "vision"
    assert model.metadata.metadata["typica"]["after"] == ["StandardScaler"]


def test_an_uncalibrated_detector_has_no_p_values(tmp_path):
    data = make_data()
    typica.mlflow.save_model(CTM().fit(data.train, data.labels), tmp_path / "model")
    frame = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(rows())
    assert "p_value" not in frame and "score" in frame


def test_the_network_that_made_the_features_is_noted(tmp_path):
    detector = ctm()
    detector.origin_ = Origin("resnet-50", "5f1c", None, "mean", {"resize": 256, "crop": 224})
    typica.mlflow.save_model(detector, tmp_path / "model")
    noted = mlflow.models.Model.load(tmp_path / "model").metadata["typica"]["origin"]
    assert noted["model"] == "resnet-50" and noted["weights"] == "5f1c"
    assert noted["fingerprint"] == detector.origin_.fingerprint()
    assert typica.mlflow.load_model(tmp_path / "model").origin_ == detector.origin_


def test_what_cannot_be_a_model_is_refused(tmp_path, saved):
    with pytest.raises(NotFittedError, match="fit"):
        typica.mlflow.save_model(CTM(), tmp_path / "unfitted")
    assert not (tmp_path / "unfitted").exists()
    with pytest.raises(InputError, match=r"^save_model: .* exists already; choose another folder"):
        typica.mlflow.save_model(ctm(), saved)
    with pytest.raises(InputError, match="save_model: str is not a detector"):
        typica.mlflow.save_model("ctm.safetensors", tmp_path / "text")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"^load_model: .* holds no artifacts/detector"):
        typica.mlflow.load_model(tmp_path / "empty")


def test_the_shell_of_mlflow_predicts(saved, tmp_path):
    X = rows()
    pd.DataFrame(X).to_csv(tmp_path / "rows.csv", index=False)
    mlflow_shell = [sys.executable, "-m", "mlflow", "models", "predict", "-m", str(saved)]
    options = ["-i", "rows.csv", "-t", "csv", "-o", "out.json", "--env-manager", "local"]
    # It calls `python`, which must be this one.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        mlflow_shell + options,
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    told = pd.read_json(tmp_path / "out.json")["predictions"]
    assert [one["verdict"] for one in told] == typica.judge(ctm(), X).verdict.tolist()
