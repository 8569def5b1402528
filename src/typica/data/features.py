"""Feature files in, rows out: .npy, .npz, .safetensors, .parquet and .csv.

A file holds one matrix of features, and may hold labels beside it:

| ending       | features                                               | labels                           |
|--------------|--------------------------------------------------------|----------------------------------|
| .npy         | the array, memory-mapped: may be larger than memory    | a file of their own              |
| .npz         | the array `features`, or the only one                  | the array `labels`               |
| .safetensors | the tensor `features`, or the only one                 | the tensor `labels`              |
| .parquet     | the list column `features`, or all numeric columns     | the column `label` or `labels`   |
| .csv         | all columns, with or without a header                  | the column `label` or `labels`   |
| a bank's folder | its features, memory-mapped                         | its labels                       |

A .parquet file that a bank was written to is as good as the bank: it has the head, the classes and
the source.
"""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from typica.bank import Bank, check_source
from typica.errors import FormatError, InputError
from typica.files import atomic_path
from typica.head import Head

LABELS = ("labels", "label")


class Table(NamedTuple):
    """Features (n, m) and the labels that came with them, if any."""

    features: NDArray[Any]
    labels: NDArray[Any] | None


def read_features(
    path: str | Path, source: Mapping[str, Any] | None = None, *, logits: bool = False
) -> Table:
    """Read a matrix of features, and the labels if the file holds them.

    source: what is known of the network that the features should come from; a bank of another one
    is refused. logits: read a bank's logits in place of its features, where it has them, with
    labels that index them; other files hold one matrix anyway.
    """
    bank = _bank_of(path)
    if bank is not None:
        check_source(path, bank.source, source)
    arrays = _read(path)
    labels = next((arrays.pop(name) for name in LABELS if name in arrays), None)
    if bank is not None:
        beside = arrays.pop("logits", None)
        if logits and beside is not None:
            arrays["features"] = beside
        indexing = logits and beside is not None and len(bank.classes or ()) == beside.shape[1]
        if labels is not None and not indexing:
            labels = _named(labels, bank)
    features = arrays.get("features")
    if features is None:
        if len(arrays) != 1:
            found = ", ".join(sorted(arrays)) or "nothing"
            raise FormatError(f"{path}: holds {found}; name the array of features 'features'.")
        features = next(iter(arrays.values()))
    if features.ndim != 2 or not features.size or features.dtype.kind not in "fiub":
        raise FormatError(
            f"{path}: features of shape {features.shape} and type {features.dtype}; "
            "expected numbers of shape (rows, features)."
        )
    if labels is not None and labels.shape != (len(features),):
        raise FormatError(
            f"{path}: labels of shape {labels.shape} for {len(features)} rows; one a row is needed."
        )
    return Table(features, labels)


def read_labels(path: str | Path) -> NDArray[Any]:
    """Read one label a row: a 1-D array, or the labels beside features, or one a line (.csv, .txt)."""
    if Path(path).suffix in (".csv", ".txt"):
        lines = [line.strip() for line in _text(path).splitlines() if line.strip()]
        if lines and lines[0] in LABELS:
            lines = lines[1:]
        whole = all(line.lstrip("-").isdigit() for line in lines)
        labels: NDArray[Any] = np.array([int(line) for line in lines] if whole else lines)
    else:
        arrays = _read(path)
        found = next((arrays[name] for name in LABELS if name in arrays), None)
        labels = next(iter(arrays.values())) if found is None and len(arrays) == 1 else found  # type: ignore[assignment]
        if labels is None:
            raise FormatError(
                f"{path}: holds {', '.join(sorted(arrays))}; name the array of labels 'labels'."
            )
        bank = _bank_of(path)
        if bank is not None:
            labels = _named(labels, bank)
    if labels.ndim != 1 or not labels.size:
        raise FormatError(f"{path}: labels of shape {labels.shape}; expected one a row.")
    return labels


def read_head(path: str | Path) -> Head:
    """Read the head of a bank, or `weight`, `bias` (optional) and `classes` (optional) in a .safetensors or .npz file.

    A checkpoint whose only tensors end in `.weight` and `.bias` (`fc.weight`, `fc.bias`) will do as
    well.
    """
    if Path(path).is_dir():
        head = Bank.open(path).head
        if head is None:
            raise FormatError(
                f"{path}: a bank without a head; pass the head's own file, or write the bank with one."
            )
        return head
    arrays = {name.rpartition(".")[2]: array for name, array in _read(path).items()}
    if "weight" not in arrays:
        raise FormatError(
            f"{path}: holds no 'weight'; a head is weight (classes, features) and maybe bias (classes)."
        )
    return Head(arrays["weight"], arrays.get("bias"), arrays.get("classes"))


def find_head(path: str | Path | None, features: str | Path) -> Head | None:
    """Read the head from its file, or, where none is given, from the bank that the features are; None without either.

    A bank's class names are the head's own where there are as many.
    """
    if path is not None:
        return read_head(path)
    bank = _bank_of(features)
    if bank is None:
        return None
    head = bank.head
    if head is None or bank.classes is None or len(bank.classes) != len(head.classes):
        return head
    return Head(head.weight, head.bias, bank.classes)


def source_of(path: str | Path) -> dict[str, Any] | None:
    """Return what a bank knows of the network that made it; None for other files."""
    bank = _bank_of(path)
    return None if bank is None else bank.source


def has_logits(path: str | Path) -> bool:
    """Tell whether a path is a bank that has logits beside its features."""
    bank = _bank_of(path)
    return bank is not None and "logits" in bank._manifest.columns


def _bank_of(path: str | Path) -> Bank | None:
    """Return the bank at a path, or what a .parquet file says of its own; None for other files."""
    if Bank.is_bank(path):
        return Bank.open(path)
    if Path(path).suffix != ".parquet" or not Path(path).is_file():
        return None
    from typica.bank._parquet import parquet_bank  # noqa: PLC0415 (which needs an extra, and this module)

    return parquet_bank(Path(path))


def parquet_columns(path: str | Path) -> list[str]:
    """Return the names of a .parquet file's columns."""
    names: list[str] = _pyarrow("pyarrow.parquet").read_schema(path).names
    return names


def _read(path: str | Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file or a bank by name; an .npy file's array is called 'features'."""
    path = Path(path)
    if path.is_dir():
        return _read_bank(path)
    if path.suffix not in _READERS:
        raise InputError(
            f"{path}: the ending {path.suffix!r} is unknown; use one of {', '.join(_READERS)}."
        )
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; check the path.")
    return _READERS[path.suffix](path)


def _read_bank(path: Path) -> dict[str, NDArray[Any]]:
    bank = Bank.open(path)
    arrays = {"features": bank.features, "logits": bank.logits, "labels": bank.labels}
    return {name: array for name, array in arrays.items() if array is not None}


def _named(labels: NDArray[Any], bank: Bank) -> NDArray[Any]:
    """Return a bank's labels as the names of its classes, where it has any."""
    if bank.classes is None or labels.dtype.kind not in "iu":
        return labels
    if not 0 <= labels.min() <= labels.max() < len(bank.classes):
        raise FormatError(
            f"{bank.path}: labels that none of its classes has, the bank is damaged; write it again."
        )
    names: NDArray[Any] = np.array(bank.classes)[labels]
    return names


def _read_npy(path: Path) -> dict[str, NDArray[Any]]:
    try:
        return {"features": np.load(path, mmap_mode="r", allow_pickle=False)}
    except (ValueError, EOFError, OSError) as error:
        raise FormatError(
            f"{path}: not a whole .npy file of numbers or strings ({error}); write it again."
        ) from None


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except Exception as error:  # zipfile, zlib and NumPy raise many kinds for a damaged archive
        raise FormatError(
            f"{path}: not a whole .npz file of numbers or strings ({error}); write it again."
        ) from None


def _read_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError, TypeError) as error:
        raise FormatError(
            f"{path}: not a whole .safetensors file ({error}); write it again."
        ) from None


def _read_parquet(path: Path) -> dict[str, NDArray[Any]]:
    pyarrow, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise FormatError(f"{path}: not a whole .parquet file ({error}); write it again.") from None
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    labels = {
        name: columns.pop(name).to_numpy(zero_copy_only=False) for name in LABELS if name in columns
    }
    labels = {
        name: column.astype(np.str_) if column.dtype == object else column
        for name, column in labels.items()
    }
    if "features" in columns:
        of_bank = "logits" in columns and _bank_of(path) is not None
        wanted = ["features", "logits"] if of_bank else ["features"]
        return {name: _matrix(columns[name], name, path) for name in wanted} | labels
    numeric = [column.to_numpy(zero_copy_only=False) for column in columns.values()]
    if not numeric or any(column.dtype.kind not in "fiub" for column in numeric):
        raise FormatError(
            f"{path}: needs a list column 'features', or numeric columns and maybe a 'label'."
        )
    return {"features": np.column_stack(numeric), **labels}


def _matrix(column: Any, name: str, path: Path) -> NDArray[Any]:
    lengths = np.unique(np.asarray(column.value_lengths()))
    if column.null_count or len(lengths) != 1:
        raise FormatError(
            f"{path}: rows of the column {name!r} differ in length; write rows of one length."
        )
    values: NDArray[Any] = column.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(column), -1)


def _read_csv(path: Path) -> dict[str, NDArray[Any]]:
    rows = list(csv.reader(_text(path).splitlines()))
    rows = [row for row in rows if row]
    if not rows:
        raise FormatError(f"{path}: the file is empty; expected one line a row.")
    header = None if all(map(_is_number, rows[0])) else [name.strip() for name in rows.pop(0)]
    columns = header or [str(i) for i in range(len(rows[0]) if rows else 0)]
    uneven = next((i for i, row in enumerate(rows) if len(row) != len(columns)), None)
    if uneven is not None:
        raise FormatError(
            f"{path}: row {uneven} has {len(rows[uneven])} fields instead of {len(columns)}; mend it."
        )
    label = next((columns.index(name) for name in LABELS if name in columns), None)
    try:
        features = np.array(
            [[float(x) for i, x in enumerate(row) if i != label] for row in rows], dtype=np.float64
        )
    except ValueError as error:
        raise FormatError(f"{path}: {error}; all columns but 'label' must be numbers.") from None
    if label is None:
        return {"features": features}
    names = [row[label].strip() for row in rows]
    whole = all(name.lstrip("-").isdigit() for name in names)
    return {
        "features": features,
        "labels": np.array([int(name) for name in names] if whole else names),
    }


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text(path: str | Path) -> str:
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; check the path.")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError(f"{path}: not a text file in UTF-8; write it again.") from None


def _pyarrow(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(
            "Parquet files need the extra 'parquet': pip install 'typica[parquet]'."
        ) from None


_READERS: dict[str, Callable[[Path], dict[str, NDArray[Any]]]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    ".parquet": _read_parquet,
    ".csv": _read_csv,
}
ENDINGS = tuple(_READERS)


class RowWriter:
    """Write rows, a chunk of columns at a time, to .csv, .jsonl or .parquet; the file appears when all is done.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rows.csv"
    >>> with RowWriter(path) as writer:
    ...     writer.write({"row": [0, 1], "score": [0.5, 0.25]})
    >>> print(path.read_text())
    row,score
    0,0.5
    1,0.25
    <BLANKLINE>
    """

    ENDINGS = (".csv", ".jsonl", ".parquet")

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.suffix not in self.ENDINGS:
            raise InputError(
                f"{path}: the ending {self.path.suffix!r} is unknown; use {', '.join(self.ENDINGS)}."
            )
        if self.path.suffix == ".parquet":
            _pyarrow("pyarrow.parquet")
        self._atomic: AbstractContextManager[Path] = atomic_path(self.path)
        self._file: IO[str] | None = None
        self._parquet: Any = None

    def __enter__(self) -> RowWriter:
        self._temporary = self._atomic.__enter__()
        if self.path.suffix != ".parquet":
            self._file = self._temporary.open("w", encoding="utf-8", newline="")
        self._started = False
        return self

    def write(self, columns: Mapping[str, Iterable[Any]]) -> None:
        """Append rows given as columns of equal length; the names must be the same in every call."""
        values = {name: np.asarray(column).tolist() for name, column in columns.items()}
        if self._file is None:
            self._write_parquet(values)
        elif self.path.suffix == ".csv":
            writer = csv.writer(self._file, lineterminator="\n")
            if not self._started:
                writer.writerow(values)
            writer.writerows(zip(*values.values(), strict=True))
        else:
            for row in zip(*values.values(), strict=True):
                self._file.write(json.dumps(dict(zip(values, row, strict=True))) + "\n")
        self._started = True

    def _write_parquet(self, values: dict[str, list[Any]]) -> None:
        table = _pyarrow("pyarrow").table(values)
        if self._parquet is None:
            self._parquet = _pyarrow("pyarrow.parquet").ParquetWriter(self._temporary, table.schema)
        self._parquet.write_table(table)

    def __exit__(self, *exception: Any) -> bool | None:
        for stream in (self._file, self._parquet):
            if stream is not None:
                stream.close()
        return self._atomic.__exit__(*exception)
