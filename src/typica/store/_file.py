"""Files of detectors: written whole or not at all, and checked when they are read."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

import typica
from typica.errors import FormatError, InputError, border, by_caller, reason_of
from typica.files import atomic_path, existing, reading
from typica.kinds import kind_of, wrong_kind
from typica.store._decoder import Decoder
from typica.store._encoder import Encoder, Tensors
from typica.store._try_parts import PLAIN, check_parts

FORMAT = 2
_ZEROS = "0" * 64


@border
def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a detector, or a scikit-learn Pipeline that ends in one, to a safetensors file.

    The file appears whole or not at all: killed at any moment, the old file or the new one is
    there.
    """
    if isinstance(estimator, PLAIN):
        raise InputError(
            f"{type(estimator).__name__} is not a detector; pass a detector or a Pipeline that "
            "ends in one."
        )
    tensors, metadata = _encoded(estimator)
    with atomic_path(path) as temporary:
        try:
            save_file(tensors, temporary, metadata=metadata)
        except SafetensorError as error:  # it has no error of its own for a full disk
            raise InputError(
                f"{path}: cannot be written ({reason_of(error)}); free some space, "
                "or choose another folder."
            ) from None


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` has written. Nothing in it is executed; a damaged file is refused."""
    document, tensors = read(path)
    try:
        loaded = Decoder(tensors, Path(path).stat().st_size).value(document["content"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the row that parts are tried on has no names
            check_parts(loaded)
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
    if document.get("format", FORMAT) != FORMAT:
        raise FormatError(
            f"{path}: it has format {document['format']}, and this Typica reads format "
            f"{FORMAT}; save it again, or install the Typica that wrote it."
        )
    digest = document.get("sha256", "")
    if digest != _digest(_document_with_digest(text, _ZEROS), tensors):
        raise FormatError(
            f"{path}: the checksum does not match, the file was altered; save the detector again."
        )
    return document, tensors


@border
def to_bytes(value: Any) -> bytes:
    """Return what `save` would write; takes plain data too, such as a dict of arrays.

    >>> from_bytes(to_bytes({"n": 3, "sums": np.ones(2)}))
    {'n': 3, 'sums': array([1., 1.])}
    """
    tensors, metadata = _encoded(value)
    return bytes(safetensors.numpy.save(tensors, metadata))


@border
def from_bytes(data: bytes) -> Any:
    """Rebuild what `to_bytes` was given. Nothing in it is executed; damaged bytes are refused.

    Unlike `load` it does not try what it has made, which can cost as much as a fit: it is for
    messages between the processes of one job.
    """
    try:
        size = int.from_bytes(data[:8], "little")
        text = json.loads(data[8 : 8 + size])["__metadata__"]["typica"]
        tensors = safetensors.numpy.load(data)
        document = _parse_document(text)
        if document.get("sha256") != _digest(_document_with_digest(text, _ZEROS), tensors):
            raise ValueError("the checksum does not match")
        return Decoder(tensors, len(data)).value(document["content"])
    except Exception as error:  # of every kind, as in `load`
        raise FormatError(
            f"bytes that make no sense ({reason_of(error)}); pass what `to_bytes` returned."
        ) from error


@border
def fingerprint(value: Any) -> str:
    """Return the SHA-256 of what `save` would store, whatever the version of Typica."""
    encoder = Encoder()
    content = encoder.node(value)
    return _digest(json.dumps(content, sort_keys=True), encoder.tensors)


def _encoded(value: Any) -> tuple[Tensors, dict[str, str]]:
    """Return the tensors and the metadata that a value is stored as."""
    encoder = Encoder()
    document = {
        "content": encoder.node(value),
        "format": FORMAT,
        "library": typica.__version__,
        "sha256": _ZEROS,
    }
    text = json.dumps(document, sort_keys=True, allow_nan=False)
    # Only one key: safetensors writes several in random order, and equal detectors should make
    # equal files.
    return encoder.tensors, {"typica": _document_with_digest(text, _digest(text, encoder.tensors))}


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
    """Return what a detector's file says in its metadata, {} if the text is not JSON."""
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
