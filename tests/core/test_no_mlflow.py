"""Where MLflow is not installed; what it does where it is, is tested in tests/oracles."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import typica
from typica import CTM, MSP, InputError


@pytest.mark.parametrize("call", ["log_model", "save_model", "load_model"])
def test_the_extra_is_named(call, monkeypatch, tmp_path):
    for name in [module for module in sys.modules if module.partition(".")[0] == "mlflow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    arguments = {"log_model": (typica.CTM(), "ctm"), "save_model": (typica.CTM(), tmp_path / "x")}
    with pytest.raises(InputError, match=rf"^{call}: mlflow is not .* pip install 'typica\[mlflow"):
        getattr(typica.mlflow, call)(*arguments.get(call, ("models:/ctm/1",)))


@pytest.fixture
def stand_in(monkeypatch):
    """Stand in for MLflow as far as a model is logged: it gives back what it is given."""
    parts = {
        "mlflow.pyfunc": SimpleNamespace(log_model=lambda **given: given),
        "mlflow.models": SimpleNamespace(ModelSignature=lambda *columns: columns),
        "mlflow.types": SimpleNamespace(Schema=list, ColSpec=lambda *column, **how: column),
    }
    for name, part in {"mlflow": SimpleNamespace(), **parts}.items():
        monkeypatch.setitem(sys.modules, name, part)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"pip_requirements": ["typica"]},
        {"extra_pip_requirements": ["boto3"]},
        {"conda_env": {"dependencies": ["python"]}},
    ],
    ids=["none", "pip", "extra", "conda"],
)
def test_requirements_are_added_where_none_are_given(given, stand_in):
    detector = CTM().fit(np.eye(4).repeat(5, 0), np.arange(20) // 5)
    sent = typica.mlflow.log_model(detector, "ctm", **given)
    named = {key: sent[key] for key in sent if "requirements" in key or key == "conda_env"}
    assert named == (given or {"pip_requirements": [f"typica[mlflow]=={typica.__version__}"]})


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (CTM(), "this CTM is not fitted yet; call fit first"),
        (make_pipeline(StandardScaler(), CTM()), "this StandardScaler is not fitted yet"),
        (MSP(), "how many features a row has is not known yet; fit it first"),
    ],
    ids=["detector", "pipeline", "logits"],
)
def test_what_is_not_fitted_is_refused_in_our_words(estimator, message, stand_in):
    with pytest.raises(InputError, match=f"^log_model: {message}"):
        typica.mlflow.log_model(estimator, "x")
