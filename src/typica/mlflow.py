"""Detectors as MLflow models: logged, registered, loaded and served like any other.

    import typica.mlflow

    info = typica.mlflow.log_model(detector, name="ctm", input_example=test[:5])
    mlflow.pyfunc.load_model(info.model_uri).predict(test)   # verdicts, as a DataFrame
    typica.mlflow.load_model(info.model_uri)                 # the detector itself

The model holds the detector's own file and four lines of code that hand it to the installed Typica:
no pickle. Needs the extra `mlflow`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import typica
from typica.decide import describe, fingerprint, judge, load_detector
from typica.detectors import Estimator, check_fitted, final_detector, is_pipeline, known_width
from typica.errors import InputError, border
from typica.extras import need
from typica.store import save

ARTIFACT = "detector"
_EXTRA = "mlflow"
_FILE = f"{ARTIFACT}.safetensors"
_REQUIREMENTS = ("pip_requirements", "extra_pip_requirements", "conda_env")  # of MLflow's options
_CODE = '''"""What MLflow runs to load this model: Typica reads the detector beside it."""

import mlflow
import typica.mlflow

mlflow.models.set_model(typica.mlflow.python_model())
'''


@border
def log_model(estimator: Estimator, name: str | None = None, **options: Any) -> Any:
    """Log a fitted detector, or a Pipeline that ends in one, to the active run of MLflow.

    Signature, requirements and an input example (of ones) are made if none are given. What
    `typica info` shows is added to the metadata, with the fingerprint of the network whose features
    the detector was fitted on.

    Parameters
    ----------
    estimator
        A fitted detector or Pipeline.
    name
        As `mlflow.pyfunc.log_model` takes it.
    options
        Those of `mlflow.pyfunc.log_model`: `registered_model_name`, `input_example`, `metadata`,
        `pip_requirements` and so on.

    Returns
    -------
    info
        MLflow's `ModelInfo`, whose `model_uri` says where the model is.
    """
    pyfunc = need("mlflow.pyfunc", _EXTRA)
    with _parts(estimator, options) as parts:
        return pyfunc.log_model(name=name, **parts)


@border
def save_model(estimator: Estimator, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a fitted detector as an MLflow model, to a folder that does not exist yet.

    options: those of `mlflow.pyfunc.save_model`.
    """
    pyfunc = need("mlflow.pyfunc", _EXTRA)
    if Path(path).exists():
        raise InputError(f"{path} exists already; choose another folder, or remove it.")
    with _parts(estimator, options) as parts:
        pyfunc.save_model(path=os.fspath(path), **parts)


@border
def load_model(model_uri: str | os.PathLike[str]) -> Any:
    """Return the detector of an MLflow model; nothing in the model is executed.

    model_uri: where it is, as MLflow has it (`runs:/...`, `models:/...`) or a folder.
    """
    artifacts = need("mlflow.artifacts", _EXTRA)
    with tempfile.TemporaryDirectory() as folder:
        found = artifacts.download_artifacts(os.fspath(model_uri), dst_path=folder)
        file = Path(found, "artifacts", _FILE)
        if not file.exists():
            raise InputError(
                f"{model_uri} holds no artifacts/{_FILE}; pass a model that log_model or "
                "save_model of typica.mlflow wrote."
            )
        return load_detector(file)


def python_model() -> Any:
    """Return what MLflow calls to load and to predict; the code in a model calls this."""
    pyfunc, pandas = need("mlflow.pyfunc", _EXTRA), need("pandas", _EXTRA)

    class DetectorModel(pyfunc.PythonModel):  # type: ignore[misc, name-defined]
        """A detector whose predictions are verdicts."""

        def load_context(self, context: Any) -> None:
            """Read the detector's file."""
            self.detector = load_detector(context.artifacts[ARTIFACT])

        def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
            """Return the verdicts on rows as a DataFrame."""
            return judge(self.detector, model_input).to_pandas()

        # What MLflow turns rows into by the signature; it warns about a type it does not know.
        predict.__annotations__["model_input"] = pandas.DataFrame

    return DetectorModel()


@contextmanager
def _parts(estimator: Estimator, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what `mlflow.pyfunc` makes a model from; the files last as long as the block."""
    final_detector(estimator)
    check_fitted(estimator)
    metadata = {"typica": _metadata(estimator)} | (options.get("metadata") or {})
    example = options.get("input_example")
    if example is None:
        example = _example(estimator)
    parts = {
        "signature": _signature(estimator, example),
        **_requirements(options),
        **options,
        "input_example": example,
        "metadata": metadata,
    }
    with tempfile.TemporaryDirectory() as folder:
        code, file = Path(folder, "model.py"), Path(folder, _FILE)
        code.write_text(_CODE, encoding="utf-8")
        save(estimator, file)
        yield {"python_model": str(code), "artifacts": {ARTIFACT: str(file)}, **parts}


def _requirements(options: dict[str, Any]) -> dict[str, Any]:
    """Return the requirements of the model; none if others are given, as MLflow takes only one."""
    if any(options.get(name) is not None for name in _REQUIREMENTS):
        return {}
    return {"pip_requirements": [f"typica[{_EXTRA}]=={typica.__version__}"]}


def _metadata(estimator: Estimator) -> dict[str, Any]:
    """Return what is known about the detector, and about the network whose features it judges."""
    known = describe(estimator) | {"fingerprint": fingerprint(estimator)}
    origin = getattr(final_detector(estimator), "origin_", None)
    if origin is not None:
        known["origin"]["fingerprint"] = origin.fingerprint()
    return known


def _example(estimator: Estimator) -> Any:
    """Return the example that MLflow shows: a row of ones, named if the fit was on a data frame."""
    first = estimator.steps[0][1] if is_pipeline(estimator) else estimator
    names = getattr(first, "feature_names_in_", None)
    row = np.ones((1, known_width(estimator)), dtype=np.float32)
    return row if names is None else need("pandas", _EXTRA).DataFrame(row, columns=names)


def _signature(estimator: Estimator, example: Any) -> Any:
    """Return the columns of the rows, numbers of any kind, and those of the verdicts."""
    models, types = need("mlflow.models", _EXTRA), need("mlflow.types", _EXTRA)
    verdicts = judge(estimator, example).to_pandas()
    names = getattr(example, "columns", [None] * np.shape(example)[1])
    return models.ModelSignature(
        types.Schema([types.ColSpec("double", name) for name in names]),
        types.Schema([_column(types, name, values) for name, values in verdicts.items()]),
    )


def _column(types: Any, name: str, values: Any) -> Any:
    """Return what MLflow calls a column of verdicts; only some have a runner-up."""
    kind = {"f": "double", "i": "long"}.get(values.dtype.kind, "string")
    return types.ColSpec(kind, name, required=name not in ("runner_up", "margin"))
