"""What a suite's TOML file may hold, and what is wrong with one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from typica.bench._feature_suite import RESERVED
from typica.bench._methods import declared_params, default_params, is_method
from typica.bench.published import PAPER, printed_keys, publications, title_of
from typica.checks import Parameter, count, is_number, optional
from typica.data.sets import list_sets
from typica.detectors import list_detectors
from typica.errors import InputError, closest
from typica.metrics import CONVENTIONS
from typica.nets.image_parameters import (
    ODIN,
    ODIN_EPSILON,
    ODIN_T,
    PERTURB,
    divisor,
    is_per_channel,
    step_size,
)

BUILTIN = ("digits",)
CHOSEN = "grid"  # in place of a parameter that is chosen on training data
CHOOSABLE = {("knn", "k"), ("mahalanobis_layers", "epsilon")}
OF_TRANSFORM = "transform"  # in place of a step's std: what the preprocessing divides by
Params = Mapping[str, Any]  # of a method, by name
# Methods that move the input, with their defaults.
IMAGE_METHODS: Mapping[str, Params] = {
    "odin": {"T": ODIN_T, "epsilon": ODIN_EPSILON, "std": OF_TRANSFORM},
    # The layers are weighed by `images` known images, and copies that mislead the network.
    "mahalanobis_layers": {
        "layers": None,
        "epsilon": 0.0,
        "std": OF_TRANSFORM,
        "misleading": 0.05,
        "images": 1000,
    },
}

Check = Callable[[Any], bool]


def _text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _file_name(value: Any) -> bool:
    return _text(value) and not set(value) & set("/\\") and not value.startswith(".")


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _count(least: int) -> Check:
    return count(least).accepts


def _size(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) == 2 and all(map(_count(1), value))
    return _count(1)(value)


def _table(value: object) -> bool:
    return isinstance(value, dict)


_STD = Parameter(
    lambda std: std == OF_TRANSFORM or (is_per_channel(std) and divisor().accepts(std)),
    f"a positive number, three of them, or {OF_TRANSFORM!r}",
    f"{{name}}={{value!r}} cannot divide a step; pass 1, three numbers, or {OF_TRANSFORM!r}.",
)
_DECLARED: Mapping[str, Mapping[str, Parameter]] = {
    "odin": {**ODIN, "std": _STD},
    "mahalanobis_layers": {
        **PERTURB,
        "std": _STD,
        "misleading": step_size(),
        "images": count(20),
        "layers": optional(
            Parameter(_texts, "a list of texts", "{name}={value!r} is not a list of layers' names.")
        ),
    },
}


_SUITE: dict[str, tuple[Check, str]] = {
    "name": (_file_name, "a text that can be a file's name"),
    **dict.fromkeys(("title", "model", "weights", "layer", "features"), (_text, "a text")),
    "builtin": (lambda value: value in BUILTIN, f"one of {', '.join(BUILTIN)}"),
    **dict.fromkeys(("classes", "layers", "near"), (_texts, "a list of texts")),
    **dict.fromkeys(
        ("transform", "id", "ood", "methods", "protocol", "published"), (_table, "a table")
    ),
}
_TRANSFORM: dict[str, tuple[Check, str]] = {
    "resize": (_size, "a whole number of pixels, or height and width"),
    "crop": (_count(1), "a whole number of pixels"),
    **dict.fromkeys(("mean", "std"), (is_per_channel, "three numbers, or one for all")),
    "mode": (_text, "a text"),
    "interpolation": (_text, "a text"),
    "scale": (is_number, "a number"),
    "exif": (lambda value: isinstance(value, bool), "true or false"),
}
_SOURCE: dict[str, tuple[Check, str]] = dict.fromkeys(
    ("set", "path", "split", "list"), (_text, "a text")
)
_ID: dict[str, tuple[Check, str]] = dict.fromkeys(
    ("train", "test", "calibration"), (_table, "a table")
)
_PROTOCOL: dict[str, tuple[Check, str]] = {
    "tpr": (lambda value: is_number(value) and 0 < value <= 1, "a number above 0 and at most 1"),
    "convention": (lambda value: value in tuple(CONVENTIONS), f"one of {', '.join(CONVENTIONS)}"),
    "subsets": (_count(1), "a whole number of at least 1"),
    "full": (lambda value: isinstance(value, bool), "true or false"),
    "seed": (_count(0), "a whole number of at least 0"),
    "knn_grid": (
        lambda value: isinstance(value, list) and value != [] and all(map(_count(1), value)),
        "a list of whole numbers of at least 1",
    ),
}
_PUBLISHED: dict[str, tuple[Check, str]] = {
    **dict.fromkeys(("model", "id_set"), (_text, "a text")),
    "by": (lambda value: value in tuple(publications()), f"one of {', '.join(publications())}"),
}


class Problems:
    """What is wrong with a file, collected to be said at once; advice: what to do about it."""

    def __init__(self, file: str, advice: str = "fix the file") -> None:
        self.file = file
        self.advice = advice
        self.found: list[str] = []

    def note(self, problem: str) -> None:
        """Add a problem."""
        self.found.append(problem)

    def raise_any(self) -> None:
        """Raise if there are problems, naming all of them."""
        if self.found:
            what = "1 problem" if len(self.found) == 1 else f"{len(self.found)} problems"
            error = InputError(f"{self.file}: {what}; {self.advice}:")
            error.problems = self.found
            raise error

    def unknown(self, key: str, known: Iterable[str], inside: str, what: str = "key") -> None:
        """Note a name that is not known, with the one that was probably meant."""
        self.note(f"{_path(inside, key)}: unknown {what}; {_meant(key, list(known))}")

    def checked(
        self, table: Any, schema: Mapping[str, tuple[Check, str]], name: str
    ) -> dict[str, Any]:
        """Return the entries of a table that are known and of the right type; note the others."""
        if not isinstance(table, dict):
            self.note(f"{name} = {table!r}: expected a table")
            return {}
        good = {}
        for key, value in table.items():
            if key not in schema:
                self.unknown(key, schema, name)
                continue
            is_right, expected = schema[key]
            if is_right(value):
                good[key] = value
            else:
                self.note(f"{_path(name, key)} = {value!r}: expected {expected}")
        return good


def _path(table: str, key: str) -> str:
    return f"{table}.{key}" if table else key


def _meant(name: str, known: Sequence[str]) -> str:
    if not known:
        return "it has none"
    close = closest(name, known, most=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(known))}"


def read_suite(document: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """Return the entries of a suite's document that are right, noting everything that is wrong."""
    values = problems.checked(dict(document), _SUITE, "")
    values["transform"] = problems.checked(values.get("transform", {}), _TRANSFORM, "transform")
    values["protocol"] = problems.checked(values.get("protocol", {}), _PROTOCOL, "protocol")
    values["methods"] = _methods(values.get("methods", {}), problems)
    values["ood"] = _sources(values.get("ood", {}), "ood", problems)
    for key in values["ood"]:
        _check_set_name(key, problems)
    inputs = problems.checked(values.get("id", {}), _ID, "id")
    values["id"] = _sources(inputs, "id", problems)
    if "published" in values:
        values["published"] = _published(values["published"], problems)
    if "builtin" not in document:
        _note_missing(document, values["id"], problems)
    return values


def _check_set_name(key: str, problems: Problems) -> None:
    if not _file_name(key):
        problems.note(f"ood.{key}: give it a name that can be a file's")
    if key in RESERVED:
        problems.note(f"ood.{key}: the name is reserved; choose another")


def _note_missing(
    document: Mapping[str, Any], inputs: Mapping[str, Any], problems: Problems
) -> None:
    """Note what a suite that is not built in must have and this one lacks."""
    of_features = "features" in document
    for key in ("methods",) if of_features else ("model", "id", "ood", "methods"):
        if key not in document:
            problems.note(f"{key}: missing; every suite that is not built in has one")
    if of_features or "id" not in document:
        return
    for key in sorted({"train", "test"} - set(inputs) - _bad(document["id"])):
        problems.note(f"id.{key}: missing; detectors are fitted on train and judged on test")


def _bad(table: Any) -> set[str]:
    """Return the keys of a table that have been complained about for their type."""
    if not isinstance(table, dict):
        return {"train", "test"}
    return {key for key, value in table.items() if not _table(value)}


def _sources(table: Mapping[str, Any], name: str, problems: Problems) -> dict[str, dict[str, Any]]:
    return {key: _source(entry, f"{name}.{key}", problems) for key, entry in table.items()}


def _source(entry: Any, name: str, problems: Problems) -> dict[str, Any]:
    before = len(problems.found)
    good = problems.checked(entry, _SOURCE, name)
    if len(problems.found) == before and ("set" in good) == ("path" in good):
        problems.note(
            f"{name}: give either set = (a benchmark set) or path = (images, arrays or a bank)"
        )
    if "list" in good and ("path" not in good or "split" in good):
        problems.note(f"{name}.list: needs path = (the folder of its images), and no split")
    if "set" in good and good["set"] not in list_sets():
        found = good["set"]
        problems.note(
            f"{name}.set = {found!r}: unknown benchmark set; {_meant(found, list_sets())}"
        )
    return good


def _methods(table: Mapping[str, Any], problems: Problems) -> dict[str, dict[str, Any]]:
    methods = {}
    for name, params in table.items():
        if not is_known(name):
            known = [*list_detectors(), *IMAGE_METHODS]
            problems.unknown(name, known, "methods", "method")
            continue
        if not isinstance(params, dict):
            problems.note(f"methods.{name} = {params!r}: expected a table of its parameters")
            continue
        methods[name] = params
        _check_params(name, params, problems)
    return methods


def _check_params(name: str, params: Params, problems: Problems) -> None:
    """Note parameters that the method does not have, or that do not fit its declarations."""
    takes = method_params(name)
    declared = _DECLARED[name] if name in IMAGE_METHODS else declared_params(name)
    for key, value in params.items():
        if key not in takes:
            problems.unknown(key, takes, f"methods.{name}", "parameter")
        elif key in declared and not (value == CHOSEN and (name, key) in CHOOSABLE):
            try:
                declared[key].check(key, value)
            except InputError as error:
                problems.note(f"methods.{name}: {error.args[0]}")


def is_known(name: str) -> bool:
    """Tell whether a suite may name this method.

    >>> is_known("odin"), is_known("ash+energy"), is_known("ash")
    (True, True, False)
    """
    return name in IMAGE_METHODS or is_method(name)


def method_params(name: str) -> dict[str, Any]:
    """Return the parameters that a suite may give a method, with their defaults; it gives no head.

    >>> method_params("knn")["k"]
    50
    """
    if name in IMAGE_METHODS:
        return dict(IMAGE_METHODS[name])
    return default_params(name)


def _published(table: Any, problems: Problems) -> dict[str, str]:
    good = problems.checked(table, _PUBLISHED, "published")
    absent = sorted({"model", "id_set"} - set(table))
    for key in absent:
        problems.note(f"published.{key}: missing")
    by = good.get("by", PAPER)
    printed = printed_keys(by)
    if {"model", "id_set"} <= set(good) and (good["model"], good["id_set"]) not in printed:
        known = "; ".join(f"{model}, {id_set}" for model, id_set in sorted(printed))
        wanted = f"{good['model']}, {good['id_set']}"
        problems.note(f"published: {title_of(by)} has no table of {wanted}; it has {known}")
    return good
