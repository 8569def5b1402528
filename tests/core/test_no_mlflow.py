"""Where MLflow is not installed; what it does where it is, is tested in tests/oracles."""

from __future__ import annotations

import sys

import pytest

import typica
from typica import InputError


@pytest.mark.parametrize("call", ["log_model", "save_model", "load_model"])
def test_the_extra_is_named(call, monkeypatch, tmp_path):
    for name in [module for module in sys.modules if module.partition(".")[0] == "mlflow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    arguments = {"log_model": (typica.CTM(), "ctm"), "save_model": (typica.CTM(), tmp_path / "x")}
    with pytest.raises(InputError, match=rf"^{call}: mlflow is not .* pip install 'typica\[mlflow"):
        getattr(typica.mlflow, call)(*arguments.get(call, ("models:/ctm/1",)))
