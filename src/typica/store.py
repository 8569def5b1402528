"""Detectors on disk: one safetensors file, no pickle, checksummed, written whole or not at all.

Format 2. The arrays are the tensors of the file. Its metadata holds one string, `typica`, a JSON
document: {"content": NODE, "format": 2, "library": VERSION, "sha256": DIGEST}. The digest is taken
over that text, with zeros where the digest stands, and over all tensors (names, dtypes, shapes,
bytes). A NODE is a JSON scalar, a list or a dict of nodes, or one of

    {"$array": NAME}              the tensor of that name
    {"$strings": [...]}           an array of strings
    {"$float": "inf"}             a float that JSON lacks: inf, -inf or nan
    {"$tuple": [...]}             a tuple
    {"$KIND": NODE}               a class that registered under KIND: head, moments, ctm ...
    {"$sklearn": NAME, ...}       a scikit-learn transformer out of a fixed list, with its params and state
    {"$pipeline": [[NAME, NODE], ...]}

Loading looks kinds up in that registry and sets data; nothing in a file can name code to run.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

import typica
from typica.errors import FormatError, InputError
from typica.exact import json_number
from typica.files import atomic_path

FORMAT = 2
_ZEROS = "0" * 64

_KINDS: dict[str, type] = {}
_READERS: dict[
    str, Callable[[dict[str, Any]], Any]
] = {}  # of kinds that are read, but no longer written
# Where a kind that is not registered yet may live, in a module of its name.
_FLOORS = ("detectors", "rectify")
_MODULES = {  # kinds whose module has another name or floor
    "calibrated_scores": "calibration",
    "calibration": "calibration.format_1",
    "conformal_detector": "decide._format_1",
    "grouped_scores": "calibration.format_1",
    "monitor": "decide",
    "origin": "origin",
    "score_sample": "calibration",
    "score_set": "calibration.format_1",
}
_SKLEARN = {
    "FunctionTransformer": None,  # holds code: refused with a reason
    "MaxAbsScaler": "sklearn.preprocessing",
    "MinMaxScaler": "sklearn.preprocessing",
    "Normalizer": "sklearn.preprocessing",
    "PCA": "sklearn.decomposition",
    "RobustScaler": "sklearn.preprocessing",
    "StandardScaler": "sklearn.preprocessing",
    "TruncatedSVD": "sklearn.decomposition",
}

C = TypeVar("C", bound=type)
Reader = TypeVar("Reader", bound=Callable[[dict[str, Any]], Any])


def storable(kind: str) -> Callable[[C], C]:
    """Register a class with methods `state()` and `from_state(state)` under the name `kind` in files."""

    def register(cls: C) -> C:
        _KINDS[kind] = cls
        cls.kind = kind  # type: ignore[attr-defined]
        return cls

    return register


def readable(kind: str) -> Callable[[Reader], Reader]:
    """Register a function that makes something of the state of a kind that is no longer written."""

    def register(reader: Reader) -> Reader:
        _READERS[kind] = reader
        return reader

    return register


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a detector, or a scikit-learn Pipeline that ends in one, to a safetensors file.

    The file appears whole or not at all: killed at any moment, the old file or the new one is
    there.
    """
    tensors: dict[str, NDArray[Any]] = {}
    content = _encode(estimator, "", tensors)
    document = {
        "content": content,
        "format": FORMAT,
        "library": typica.__version__,
        "sha256": _ZEROS,
    }
    text = json.dumps(document, sort_keys=True, allow_nan=False)
    # One key alone: safetensors writes several in random order, and equal detectors should make
    # equal files.
    metadata = {"typica": _with_digest(text, _digest(text, tensors))}
    with atomic_path(path) as temporary:
        save_file(tensors, temporary, metadata=metadata)


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of what `save` would store of `value`: equal for equal content, whatever the version."""
    tensors: dict[str, NDArray[Any]] = {}
    content = _encode(value, "", tensors)
    return _digest(json.dumps(content, sort_keys=True), tensors)


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` has written. Nothing in the file is executed; a damaged or foreign file is refused."""
    document, tensors = read(path)
    try:
        return _decode(document["content"], tensors)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FormatError(
            f"{path}: the content makes no sense ({error}); save the detector again."
        ) from error


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the checked JSON document and the tensors of a file."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; check the path.")
    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get("typica")
            if text is None:
                raise FormatError(
                    f"{path}: not a Typica file; pass one that typica.save or `typica fit` wrote."
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError) as error:
        raise FormatError(
            f"{path}: not a whole safetensors file ({error}); save the detector again."
        ) from None
    document = _parse(text)
    if document.get("format", 0) > FORMAT:
        raise FormatError(
            f"{path}: written by a newer Typica (format {document['format']}, this one reads up to {FORMAT}); "
            "upgrade typica."
        )
    digest = document.get("sha256", "")
    if digest != _digest(_with_digest(text, _ZEROS), tensors):
        raise FormatError(
            f"{path}: the checksum does not match, the file was altered; save the detector again."
        )
    return document, tensors


def _with_digest(text: str, digest: str) -> str:
    """Return a document with another digest: sorted by its keys, it ends with that."""
    end = '"}'
    return text[: -len(digest + end)] + digest + end


def _parse(text: str) -> dict[str, Any]:
    """Return the document, or an empty one for a text that is none."""
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    types = {"format": int, "sha256": str}
    if not isinstance(document, dict) or not all(
        isinstance(document.get(k), t) for k, t in types.items()
    ):
        return {}
    return document


def _digest(text: str, tensors: dict[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype.str} {tensor.shape}\n".encode())
        digest.update(np.ascontiguousarray(tensor).data)
    return digest.hexdigest()


def _encode(value: Any, path: str, tensors: dict[str, NDArray[Any]]) -> Any:  # noqa: PLR0911 (one case a line)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        plain = json_number(value)
        return plain if isinstance(plain, float) else {"$float": plain}
    if isinstance(value, np.generic):
        return _encode(value.item(), path, tensors)
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "UO" and all(isinstance(item, str) for item in value.flat):
            return {"$strings": value.tolist()}
        name = path or "array"
        # safetensors writes non-contiguous arrays wrongly, and knows little-endian only.
        tensors[name] = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        return {"$array": name}
    if isinstance(value, tuple):
        return {"$tuple": _encode(list(value), path, tensors)}
    if isinstance(value, list):
        return [_encode(item, f"{path}.{i}".lstrip("."), tensors) for i, item in enumerate(value)]
    if isinstance(value, dict):
        return {
            key: _encode(item, f"{path}.{key}".lstrip("."), tensors) for key, item in value.items()
        }
    kind = getattr(value, "kind", None)
    if isinstance(kind, str) and _KINDS.get(kind) is type(value):
        return {f"${kind}": _encode(value.state(), path, tensors)}  # type: ignore[attr-defined]
    return _encode_sklearn(value, path, tensors)


def _encode_sklearn(value: Any, path: str, tensors: dict[str, NDArray[Any]]) -> Any:
    name = type(value).__name__
    if name == "Pipeline" and type(value).__module__ == "sklearn.pipeline":
        steps = [
            [step, _encode(part, f"{path}.{step}".lstrip("."), tensors)]
            for step, part in value.steps
        ]
        return {"$pipeline": steps}
    if _SKLEARN.get(name) and type(value).__module__.startswith(f"{_SKLEARN[name]}."):
        parts = {"params": value.get_params(deep=False), "state": fitted_state(value)}
        return {"$sklearn": name, **_encode(parts, path, tensors)}
    known = ", ".join(key for key, module in _SKLEARN.items() if module)
    raise InputError(
        f"save: a {name} cannot be stored without pickle; use Typica's own classes, or of scikit-learn: {known}."
    )


def _is_fitted_name(name: str) -> bool:
    """Tell scikit-learn's fitted attributes (`mean_`, `n_features_in_`) from parameters and private things."""
    return re.fullmatch(r"[a-z][a-z0-9_]*_", name) is not None


def _decode(node: Any, tensors: dict[str, NDArray[Any]]) -> Any:  # noqa: PLR0911 (one case a line)
    if isinstance(node, list):
        return [_decode(item, tensors) for item in node]
    if not isinstance(node, dict):
        return node
    tag = next((key for key in node if key.startswith("$")), None)
    if tag is None:
        return {key: _decode(item, tensors) for key, item in node.items()}
    body = node[tag]
    match tag:
        case "$array":
            return tensors[body]
        case "$strings":
            return np.array(body, dtype=np.str_)
        case "$float":
            return float(body)
        case "$tuple":
            return tuple(_decode(body, tensors))
        case "$pipeline":
            pipeline = importlib.import_module("sklearn.pipeline").Pipeline
            return pipeline([(name, _decode(part, tensors)) for name, part in body])
        case "$sklearn":
            return _decode_sklearn(
                body, _decode(node["params"], tensors), _decode(node["state"], tensors)
            )
    return _reader_of(tag[1:])(_decode(body, tensors))


def _decode_sklearn(name: str, params: dict[str, Any], state: dict[str, Any]) -> Any:
    module = _SKLEARN.get(name)
    if not module:
        raise FormatError(f"unknown transformer {name}")
    estimator = getattr(importlib.import_module(module), name)(**params)
    set_state(estimator, state)
    return estimator


def set_state(estimator: Any, state: dict[str, Any]) -> None:
    """Set fitted attributes on an estimator, and nothing but fitted attributes."""
    for key, value in state.items():
        if not _is_fitted_name(key):
            raise FormatError(f"{key!r} is not the name of a fitted attribute")
        setattr(estimator, key, value)


def fitted_state(estimator: Any) -> dict[str, Any]:
    """Return the fitted attributes of an estimator, by scikit-learn's trailing underscore."""
    return {key: value for key, value in vars(estimator).items() if _is_fitted_name(key)}


def _reader_of(kind: str) -> Callable[[dict[str, Any]], Any]:
    """Return what rebuilds a kind, loading the module that registers it."""
    if kind not in _KINDS and kind in _MODULES:
        importlib.import_module(f"typica.{_MODULES[kind]}")
    if not {kind} & {*_KINDS, *_READERS} and re.fullmatch(r"[a-z][a-z0-9_]*", kind):
        for floor in _FLOORS:
            if importlib.util.find_spec(f"typica.{floor}.{kind}") is not None:
                importlib.import_module(f"typica.{floor}.{kind}")
    if kind in _READERS:
        return _READERS[kind]
    if kind not in _KINDS:
        raise FormatError(f"unknown kind {kind!r}")
    rebuild: Callable[[dict[str, Any]], Any] = _KINDS[kind].from_state  # type: ignore[attr-defined]
    return rebuild
