"""Methods of a suite by their names: a detector, or rectifiers before one, `react+energy`.

Parameters of a chain are named as scikit-learn's Pipelines name them: `react__percentile`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.pipeline import make_pipeline

from typica.checks import Parameter
from typica.detectors import detector_class, list_detectors, takes_head, wants_head
from typica.head import Head
from typica.rectify import list_rectifiers, rectifier_class

JOINT = "+"


def is_method(name: str) -> bool:
    """Tell whether a suite may have a method of this name: a detector, or rectifiers before one.

    >>> is_method("energy"), is_method("react+energy"), is_method("energy+react")
    (True, True, False)
    """
    *before, last = name.split(JOINT)
    return last in list_detectors() and set(before) <= set(list_rectifiers())


def default_params(name: str) -> dict[str, Any]:
    """Return the parameters of a suite's method with their defaults; a suite gives no head.

    >>> default_params("knn")["k"], default_params("react+energy")
    (50, {'react__percentile': 90, 'energy__temperature': 1.0})
    """
    found: dict[str, Any] = {}
    for prefix, step in _steps(name).items():
        params: dict[str, Any] = step().get_params(deep=False)
        params.pop("head", None)
        found |= {prefix + key: value for key, value in params.items()}
    return found


def declared_params(name: str) -> dict[str, Parameter]:
    """Return what each parameter of a suite's method may be, those of rectifiers before it too."""
    found: dict[str, Parameter] = {}
    for prefix, step in _steps(name).items():
        found |= {prefix + key: parameter for key, parameter in step.params.items()}
    return found


def needs_head(name: str) -> bool:
    """Tell whether a method of a suite needs a head to read features.

    >>> needs_head("ctm"), needs_head("react+ctm"), needs_head("react+energy")
    (False, False, True)
    """
    *before, last = _steps(name).values()
    return any(step.tags.needs_head for step in before) or wants_head(last())


def make_method(name: str, params: Mapping[str, Any], head: Head | None) -> Any:
    """Make a suite's method, a detector or a Pipeline that ends in one, unfitted, with its head.

    >>> make_method("react+energy", {"react__percentile": 95}, None)[0]
    ReAct(percentile=95)
    """
    made = []
    for prefix, step in _steps(name).items():
        own = {key.removeprefix(prefix): params[key] for key in params if key.startswith(prefix)}
        part = step(**own)
        if part.tags.needs_head or (not hasattr(part, "transform") and takes_head(part)):
            part.set_params(head=head)
        if part.tags.gives == "logits":
            head = None  # the next step reads the logits
        made.append(part)
    return made[0] if len(made) == 1 else make_pipeline(*made)


def _steps(name: str) -> dict[str, Any]:
    """Return the classes of the steps that a benchmark's method has, by their names."""
    *before, last = name.split(JOINT)
    if not before:
        return {"": detector_class(last)}
    steps: dict[str, Any] = {f"{part}__": rectifier_class(part) for part in before}
    return steps | {f"{last}__": detector_class(last)}
