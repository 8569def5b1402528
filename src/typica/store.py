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
    {"$sklearn": NAME, ...}       a scikit-learn transformer out of a fixed list
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
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

import typica
from typica import plugins
from typica.arrays import AnyArray
from typica.as_json import json_number
from typica.bombs import allowance
from typica.errors import FormatError, InputError, border, by_caller, reason_of
from typica.files import atomic_path, existing, reading
from typica.kinds import kind_of, wrong_kind

FORMAT = 2
_ZEROS = "0" * 64
_PLAIN = (type(None), bool, int, float, str, list, dict, tuple, np.ndarray)
_PASSES = (None, "passthrough")  # steps of a pipeline that do nothing
_WIDEST = 2**24  # features in a row

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
    "kept_rows": "detectors._kept_rows",
    "monitor": "decide",
    "origin": "origin",
    "perceptron": "nets.extractors.dense",
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

State = dict[str, Any]  # what an object is stored as: values by name
Tensors = dict[str, AnyArray]
C = TypeVar("C", bound=type)
Reader = TypeVar("Reader", bound=Callable[[State], Any])


def storable(kind: str) -> Callable[[C], C]:
    """Register a class with `state()` and `from_state(state)` under the name `kind` in files."""

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


@border
def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a detector, or a scikit-learn Pipeline that ends in one, to a safetensors file.

    The file appears whole or not at all: killed at any moment, the old file or the new one is
    there.
    """
    tensors, metadata = _encoded(estimator)
    with atomic_path(path) as temporary:
        try:
            save_file(tensors, temporary, metadata=metadata)
        except SafetensorError as error:  # which has no kind for a disk that is full
            raise InputError(
                f"{path}: cannot be written ({reason_of(error)}); free some space, "
                "or choose another folder."
            ) from None


def to_bytes(value: Any) -> bytes:
    """Return what `save` would write; plain data may be among it, such as a dict of arrays.

    >>> from_bytes(to_bytes({"n": 3, "sums": np.ones(2)}))
    {'n': 3, 'sums': array([1., 1.])}
    """
    tensors, metadata = _encoded(value)
    return bytes(safetensors.numpy.save(tensors, metadata))


def from_bytes(data: bytes) -> Any:
    """Rebuild what `to_bytes` was given. Nothing in it is executed; damaged bytes are refused.

    Unlike `load` it does not try what it has made, which can cost as much as a fit: it is for what
    processes of one job send each other.
    """
    try:
        size = int.from_bytes(data[:8], "little")
        text = json.loads(data[8 : 8 + size])["__metadata__"]["typica"]
        tensors = safetensors.numpy.load(data)
        document = _parse_document(text)
        if document.get("sha256") != _digest(_document_with_digest(text, _ZEROS), tensors):
            raise ValueError("the checksum does not match")
        return _Decoder(tensors, len(data)).value(document["content"])
    except Exception as error:  # of every kind, as in `load`
        raise FormatError(
            f"bytes that make no sense ({reason_of(error)}); pass what `to_bytes` returned."
        ) from error


def _encoded(value: Any) -> tuple[Tensors, dict[str, str]]:
    """Return the tensors and the metadata that a value is stored as."""
    encoder = _Encoder()
    document = {
        "content": encoder.node(value),
        "format": FORMAT,
        "library": typica.__version__,
        "sha256": _ZEROS,
    }
    text = json.dumps(document, sort_keys=True, allow_nan=False)
    # One key alone: safetensors writes several in random order, and equal detectors should make
    # equal files.
    return encoder.tensors, {"typica": _document_with_digest(text, _digest(text, encoder.tensors))}


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of what `save` would store, whatever the version of Typica."""
    encoder = _Encoder()
    content = encoder.node(value)
    return _digest(json.dumps(content, sort_keys=True), encoder.tensors)


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` has written. Nothing in it is executed; a damaged file is refused."""
    document, tensors = read(path)
    try:
        loaded = _Decoder(tensors, Path(path).stat().st_size).value(document["content"])
        _check_parts(loaded)
    except Exception as error:  # of every kind: a file with a right checksum can say anything
        raise FormatError(
            f"{path}: the content makes no sense ({reason_of(error)}); save the detector again."
        ) from error
    return loaded


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Tensors]:
    """Return the checked JSON document and the tensors of a file."""
    path = Path(path)
    if path.is_dir():
        fit = by_caller(
            "fit one on a bank, fit(typica.Bank.open(FOLDER))", "`typica fit` makes one"
        )
        raise wrong_kind(path, "a detector", fit)
    existing(path)
    again = f"pass one that {by_caller('typica.save', '`typica fit`')} wrote"
    if path.suffix.lower() != ".safetensors":
        _check_start(path, again)
    with (
        reading(path, "not a whole safetensors file", "save the detector again"),
        safe_open(path, framework="numpy") as file,
    ):
        text = (file.metadata() or {}).get("typica")
        if text is None:
            raise wrong_kind(path, "a detector", again)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    document = _parse_document(text)
    if document.get("format", 0) > FORMAT:
        raise FormatError(
            f"{path}: written by a newer Typica (format {document['format']}, this one reads up to "
            f"{FORMAT}); upgrade typica."
        )
    digest = document.get("sha256", "")
    if digest != _digest(_document_with_digest(text, _ZEROS), tensors):
        raise FormatError(
            f"{path}: the checksum does not match, the file was altered; save the detector again."
        )
    return document, tensors


def _check_start(path: Path, again: str) -> None:
    """Refuse what is known as another kind of file, unless it begins as safetensors files do."""
    with path.open("rb") as file:
        start = file.read(9)
    if start[8:] != b"{" and kind_of(path) is not None:
        raise wrong_kind(path, "a detector", again)


def _document_with_digest(text: str, digest: str) -> str:
    """Return a stored document with another digest: sorted by its keys, it ends with that."""
    end = '"}'
    return text[: -len(digest + end)] + digest + end


def _parse_document(text: str) -> dict[str, Any]:
    """Return what a detector's file says in its metadata, or nothing for a text that is no JSON."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    typed = isinstance(document.get("format"), int) and isinstance(document.get("sha256"), str)
    return document if typed else {}


def _digest(text: str, tensors: Tensors) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype.str} {tensor.shape}\n".encode())
        digest.update(np.ascontiguousarray(tensor).data)
    return digest.hexdigest()


class _Encoder:
    """Turns objects into nodes, and gathers their arrays as tensors, named by their paths."""

    def __init__(self) -> None:
        self.tensors: Tensors = {}

    def node(self, value: Any, path: str = "") -> Any:  # noqa: PLR0911 (one case per line)
        """Return the node of a value that lies at `path`."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return _float_node(value)
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        if isinstance(value, tuple):
            return {"$tuple": self.node(list(value), path)}
        if isinstance(value, list):
            return [self.node(item, _inside(path, i)) for i, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self.node(item, _inside(path, key)) for key, item in value.items()}
        return self._object(value, path)

    def _array(self, array: AnyArray, path: str) -> dict[str, Any]:
        if array.dtype.kind in "UO" and all(isinstance(item, str) for item in array.flat):
            return {"$strings": array.tolist()}
        name = path or "array"
        # safetensors writes non-contiguous arrays wrongly, and knows little-endian only.
        self.tensors[name] = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        return {"$array": name}

    def _object(self, value: Any, path: str) -> dict[str, Any]:
        kind = getattr(value, "kind", None)
        if isinstance(kind, str) and _KINDS.get(kind) is type(value):
            return {f"${kind}": self.node(value.state(), path)}  # type: ignore[attr-defined]
        name, module = type(value).__name__, type(value).__module__
        if (name, module) == ("Pipeline", "sklearn.pipeline"):
            steps = value.steps
            return {
                "$pipeline": [[step, self.node(part, _inside(path, step))] for step, part in steps]
            }
        if _SKLEARN.get(name) and module.startswith(f"{_SKLEARN[name]}."):
            parts = {"params": value.get_params(deep=False), "state": state_to_store(value)}
            return {"$sklearn": name, **self.node(parts, path)}
        known = ", ".join(key for key, home in _SKLEARN.items() if home)
        raise InputError(
            f"a {name} cannot be stored without pickle; use Typica's own classes, or of "
            f"scikit-learn: {known}."
        )


def _inside(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _float_node(value: float) -> Any:
    plain = json_number(value)
    return plain if isinstance(plain, float) else {"$float": plain}


def _is_stored_name(name: str) -> bool:
    """Tell the attributes that are stored (`mean_`, `n_features_in_`) from private things."""
    return re.fullmatch(r"[a-z][a-z0-9_]*_", name) is not None


class _Decoder:
    """Turns nodes back into objects. size: bytes of the file, which strings may not outgrow."""

    def __init__(self, tensors: Tensors, size: int) -> None:
        self.tensors = tensors
        self._allowed = allowance(size)

    def value(self, node: Any) -> Any:
        """Return what a node stands for."""
        if isinstance(node, list):
            return [self.value(item) for item in node]
        if not isinstance(node, dict):
            return node
        tag = next((key for key in node if key.startswith("$")), None)
        if tag is None:
            return {key: self.value(item) for key, item in node.items()}
        return self._tagged(tag, node)

    def _tagged(self, tag: str, node: dict[str, Any]) -> Any:  # noqa: PLR0911 (one case per line)
        body = node[tag]
        match tag:
            case "$array":
                return self.tensors[body]
            case "$strings":
                return self._strings(body)
            case "$float":
                return float(body)
            case "$tuple":
                return tuple(self.value(body))
            case "$pipeline":
                return self._pipeline(body)
            case "$sklearn":
                params, state = (self.value(node[key]) for key in ("params", "state"))
                return _decode_sklearn(body, params, state)
        return _reader_of(tag[1:])(self.value(body))

    def _strings(self, texts: list[Any]) -> NDArray[np.str_]:
        """Return an array of strings, each of which takes as much room as the longest."""
        flat = np.array(texts, dtype=object).ravel()
        longest = max((len(text) for text in flat), default=0)
        if 4 * longest * len(flat) > self._allowed:
            raise FormatError(
                f"{len(flat):,} strings of up to {longest:,} characters, maybe a bomb"
            )
        return np.array(texts, dtype=np.str_)

    def _pipeline(self, steps: list[Any]) -> Any:
        pipeline = importlib.import_module("sklearn.pipeline").Pipeline
        return pipeline([(name, self.value(part)) for name, part in steps])


def _check_parts(loaded: Any) -> None:
    """Refuse a file of plain data, and let an estimator that was read try its parts."""
    if isinstance(loaded, _PLAIN):
        raise FormatError(f"a {type(loaded).__name__} and not a detector")
    if hasattr(loaded, "try_parts"):
        loaded.try_parts()
    elif hasattr(loaded, "steps"):
        _check_stored_pipeline(loaded)


def _check_stored_pipeline(pipeline: Any) -> None:
    """Refuse a stored file whose Pipeline, as far as it is fitted, cannot take one row."""
    *transformers, last = (step for _, step in pipeline.steps if step not in _PASSES)
    widths = [_width(step) for step in (*transformers, last)]
    width = next((known for known in widths if known is not None), None)
    if width is None:
        return
    from sklearn.exceptions import NotFittedError  # noqa: PLC0415 (loaded with the pipeline)

    row = trial_row(width)
    try:
        for step in transformers:
            row = step.transform(row)
    except (InputError, NotFittedError):
        return
    if not hasattr(last, "try_parts"):
        raise FormatError(f"a pipeline that ends in a {type(last).__name__}")
    last.try_parts()


def _width(step: Any) -> int | None:
    width: int | None = getattr(step, "n_features", None)
    return getattr(step, "n_features_in_", None) if width is None else width


def trial_row(width: int) -> NDArray[np.float32]:
    """Return the row of ones on which a stored estimator is tried when its file is read."""
    if not isinstance(width, int) or not 0 < width <= _WIDEST:
        raise FormatError(f"{width!r} features per row")
    return np.ones((1, width), dtype=np.float32)


def _decode_sklearn(name: str, params: State, state: State) -> Any:
    module = _SKLEARN.get(name)
    if not module:
        raise FormatError(f"unknown transformer {name}")
    if state and "n_features_in_" not in state:
        raise FormatError(f"a {name} that does not say how many features it takes")
    estimator = getattr(importlib.import_module(module), name)(**params)
    restore_state(estimator, state)
    return estimator


def restore_state(estimator: Any, state: State) -> None:
    """Set on an estimator what was stored of it: fitted attributes, and nothing else."""
    for key, value in state.items():
        if not _is_stored_name(key):
            raise FormatError(f"{key!r} is not the name of a fitted attribute")
        setattr(estimator, key, value)


def state_to_store(estimator: Any) -> State:
    """Return what is stored of a fitted estimator: the attributes that end in an underscore."""
    return {key: value for key, value in vars(estimator).items() if _is_stored_name(key)}


def _import_reader(kind: str) -> None:
    """Import the module that reads a stored detector or rectifier of a kind, ours or a plugin's."""
    for floor in _FLOORS:
        if importlib.util.find_spec(f"typica.{floor}.{kind}") is not None:
            importlib.import_module(f"typica.{floor}.{kind}")
        elif kind in plugins.installed(f"typica.{floor}"):
            plugins.load(plugins.installed(f"typica.{floor}")[kind])


def _reader_of(kind: str) -> Callable[[State], Any]:
    """Return what rebuilds a kind, loading the module that registers it."""
    if kind not in _KINDS and kind in _MODULES:
        importlib.import_module(f"typica.{_MODULES[kind]}")
    if not {kind} & {*_KINDS, *_READERS} and re.fullmatch(r"[a-z][a-z0-9_]*", kind):
        _import_reader(kind)
    if kind in _READERS:
        return _READERS[kind]
    if kind not in _KINDS:
        raise FormatError(f"unknown kind {kind!r}")
    rebuild: Callable[[State], Any] = _KINDS[kind].from_state  # type: ignore[attr-defined]
    return rebuild
