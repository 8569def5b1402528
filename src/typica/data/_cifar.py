"""CIFAR-10 and CIFAR-100 as their authors publish them: binary, or pickles, which run no code."""

from __future__ import annotations

import io
import pickle
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.bombs import allowance
from typica.data._image_sets import ArrayImages, Images, joined
from typica.errors import FormatError, InputError, a_kind
from typica.files import reading

_ROW = 3 * 32 * 32


class _Form(NamedTuple):
    """The files of a split by pattern, and the file with the names of the classes."""

    train: str
    test: str
    names: str


_FORMS = (
    _Form(r"data_batch_\d+", "test_batch", "batches.meta"),
    _Form(r"data_batch_\d+\.bin", r"test_batch\.bin", "batches.meta.txt"),
    _Form("train", "test", "meta"),
    _Form(r"train\.bin", r"test\.bin", "fine_label_names.txt"),
)


def is_cifar(path: Path) -> bool:
    """Tell by names whether a folder, or a single file, is of CIFAR."""
    return any(_files(path, form) for form in _FORMS)


def open_cifar(path: Path, split: str | None, prefix: str) -> Images:
    """Return the images of a CIFAR folder, or of one of its files."""
    form, files = next((form, files) for form in _FORMS if (files := _files(path, form)))
    if split is not None:
        files = _files_of_split(path, files, form, split)
    names = _class_names(files[0].with_name(form.names))
    parts = []
    for file in files:
        rows, labels = _read_binary(file) if file.suffix == ".bin" else _read_pickle(file)
        images = np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        parts.append(ArrayImages(images, prefix + file.name, labels, names))
    return joined(parts)


def _files(path: Path, form: _Form) -> list[Path]:
    """Return the files of a form: training first, then test."""
    if path.is_file():
        return [path] if _is_single(path, form) else []
    if not (path / form.names).is_file():
        return []
    files = sorted(file for file in path.iterdir() if file.is_file())
    return _named(files, form.train) + _named(files, form.test)


def _is_single(path: Path, form: _Form) -> bool:
    """Tell whether a file is of this form by its name; "train" and "test" alone say too little."""
    telling = path.suffix or "batch" in path.name
    return bool(telling and _named([path], f"{form.train}|{form.test}"))


def _named(files: list[Path], pattern: str) -> list[Path]:
    return [file for file in files if re.fullmatch(pattern, file.name)]


def _files_of_split(path: Path, files: list[Path], form: _Form, split: str) -> list[Path]:
    if split not in ("train", "test"):
        raise InputError(f"{path}: CIFAR has no split {split!r}; choose train or test.")
    chosen = _named(files, {"train": form.train, "test": form.test}[split])
    if not chosen:
        raise InputError(
            f"{path}: the files of the split {split!r} are not there; "
            "fetch them, or leave split out."
        )
    return chosen


def _class_names(path: Path) -> list[str] | None:
    if not path.is_file():
        return None
    if path.suffix == ".txt":
        return path.read_text(encoding="utf-8", errors="replace").split()
    content = _unpickle(path)
    found = content.get("label_names") or content.get("fine_label_names") or []
    return [str(name) for name in found] or None


def _read_pickle(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    content = _unpickle(path)
    data, labels = content.get("data"), content.get("fine_labels") or content.get("labels")
    with reading(path, "not a pickle of plain values and arrays", "fetch CIFAR again"):
        rows = data.to_numpy() if isinstance(data, _PickledArray) else None
    if rows is None or rows.ndim != 2 or rows.shape[1] != _ROW:
        raise FormatError(
            f"{path}: holds no array 'data' of uint8 rows of {_ROW}; fetch CIFAR again."
        )
    if not _are_labels(labels, len(rows)):
        raise FormatError(
            f"{path}: holds no list 'labels' or 'fine_labels', one per row; fetch CIFAR again."
        )
    return rows, np.array(labels, dtype=np.int64)


def _are_labels(labels: Any, count: int) -> bool:
    """Tell whether this is a list of `count` whole numbers."""
    if not isinstance(labels, list) or len(labels) != count:
        return False
    return all(type(label) is int for label in labels)


def _read_binary(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    data = np.fromfile(path, dtype=np.uint8)
    is_cifar100 = path.name in ("train.bin", "test.bin")
    before = 2 if is_cifar100 else 1  # bytes before the pixels: the coarse label, then the fine
    if not len(data) or len(data) % (before + _ROW):
        raise FormatError(
            f"{path}: {len(data)} bytes are not a whole number of {before + _ROW}; "
            "fetch CIFAR again."
        )
    records = data.reshape(-1, before + _ROW)
    return records[:, before:], records[:, before - 1].astype(np.int64)


def _unpickle(path: Path) -> dict[str, Any]:
    with reading(path, "not a pickle of plain values and arrays", "fetch CIFAR again"):
        content = _Unpickler(path.read_bytes()).load()
    if not isinstance(content, dict):
        raise FormatError(f"{path}: holds {a_kind(content)} in place of a dict; fetch CIFAR again.")
    return {_text(key): value for key, value in content.items()}


def _text(key: Any) -> str:
    if isinstance(key, bytes):
        return key.decode("latin1")
    return str(key)


class _PickledArray:
    """Stands for a NumPy array while CIFAR is unpickled: nothing else sees what the file says."""

    shape = dtype = fortran = data = None

    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.dtype, self.fortran, self.data = state

    def to_numpy(self) -> NDArray[np.uint8] | None:
        """Return the array if it is one of bytes, row by row or column by column."""
        data = self.data.encode("latin1") if isinstance(self.data, str) else self.data
        of_bytes = isinstance(self.dtype, _PickledDtype) and self.dtype.code == "u1"
        if not of_bytes or not isinstance(data, bytes):
            return None
        flat = np.frombuffer(data, dtype=np.uint8)
        if not isinstance(self.shape, tuple) or int(np.prod(self.shape)) != len(flat):
            return None
        return flat.reshape(self.shape, order="F" if self.fortran else "C")


class _PickledDtype:
    """Stands for the NumPy dtype of a pickled array of CIFAR's."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else code

    def __setstate__(self, state: Any) -> None:
        """Byte order and the like, which bytes do not have."""


def _reconstruct(*_: Any) -> _PickledArray:
    return _PickledArray()


def _from_buffer(data: Any, dtype: Any, shape: Any, order: str, *_: Any) -> _PickledArray:
    array = _PickledArray()
    if order in ("C", "F"):  # K, another order of axes, is not CIFAR's
        array.__setstate__((1, shape, dtype, order == "F", data))
    return array


class _Unpickler(pickle._Unpickler):
    """Python's own unpickler, the one in Python: its memo is a dict, so large indices cost nothing.

    Only what arrays need is let through, and only stand-ins are given a state.
    """

    dispatch = dict(pickle._Unpickler.dispatch)  # noqa: RUF012 (a constant)
    # Python's would make room for as many bytes as the file says.
    dispatch[pickle.BYTEARRAY8[0]] = dispatch[pickle.BINBYTES8[0]]

    _ALLOWED: dict[tuple[str, str], Any] = {  # noqa: RUF012 (a constant)
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy.core.numeric", "_frombuffer"): _from_buffer,
        ("numpy._core.numeric", "_frombuffer"): _from_buffer,
        ("numpy", "ndarray"): _PickledArray,
        ("numpy", "dtype"): _PickledDtype,
    }

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="latin1")
        self._left = allowance(len(data))

    def find_class(self, module: str, name: str) -> Any:
        """Return a stand-in for the few names that a pickled array mentions, and nothing else."""
        if (module, name) == ("_codecs", "encode"):
            return self._encode
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return self._ALLOWED[module, name]

    def _encode(self, text: str, encoding: str = "latin1") -> bytes:
        """Return text as bytes, within a limit: a pickle can ask for one text a thousand times."""
        self._left -= len(text)
        if self._left < 0:
            raise pickle.UnpicklingError("it grows a hundredfold, maybe a bomb")
        return text.encode("latin1")

    def _build(self: Any) -> None:
        """Set the state of a stand-in in CIFAR's pickles, and of nothing else."""
        if not isinstance(self.stack[-2], _PickledArray | _PickledDtype):
            raise pickle.UnpicklingError("it changes something else than an array")
        self.load_build()

    dispatch[pickle.BUILD[0]] = _build
