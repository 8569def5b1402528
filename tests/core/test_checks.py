"""Parameters that are declared: checked, described, and read from the shell."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import typica
from typica import checks
from typica.errors import InputError

METHODS = [typica.detector_class(name) for name in typica.list_detectors()]
METHODS += [typica.rectifier_class(name) for name in typica.list_rectifiers()]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_every_parameter_of_every_method_is_declared(method):
    defaults = {name: p.default for name, p in inspect.signature(method).parameters.items()}
    assert list(method.params) == list(defaults)
    for name, default in defaults.items():
        method.params[name].check(name, default)
        assert method.params[name].describe()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_a_parameter_that_is_not_what_it_may_be_is_refused_by_name(method):
    for name, parameter in method.params.items():
        with pytest.raises(InputError, match=rf"^{name}\b.*; (pass|choose) .*\.$"):
            parameter.check(name, {"a set"})


@pytest.mark.parametrize(
    ("parameter", "good", "bad"),
    [
        (checks.positive(), [1, 0.5, np.float32(2)], [0, -1, np.nan, np.inf, True, "1", None]),
        (checks.percentile(), [0, 100, 99.5, np.int64(3)], [-1, 100.5, np.nan, False, "90", None]),
        (checks.count(), [1, 2**70, np.int8(3)], [0, 1.0, True, "1", None]),
        (checks.count(0), [0, 1], [-1, 0.0, False]),
        (checks.truth(), [True, False, np.True_], [0, 1, "yes", None]),
        (checks.choice("a", None), ["a", None], ["b", 0, ""]),
        (checks.optional(checks.count()), [None, 1], [0, "none"]),
    ],
    ids=lambda case: case.describe() if isinstance(case, checks.Parameter) else "",
)
def test_kinds_of_parameters(parameter, good, bad):
    for value in good:
        parameter.check("it", value)
    for value in bad:
        with pytest.raises(InputError, match=r"^it="):
            parameter.check("it", value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("3.0", 3.0),
        ("1e-4", 1e-4),
        ("true", True),
        ("False", False),
        ("null", None),
        ("None", None),
        ("faiss", "faiss"),
        ('"3"', "3"),
    ],
)
def test_texts_from_the_shell(text, value):
    got = checks.count().parse(text)
    assert got == value and type(got) is type(value)
