"""The files of a data set: one, those that match a pattern, or a folder's, local or remote."""

from __future__ import annotations

import glob
import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from typica.bank import Bank
from typica.data import holds_images
from typica.errors import InputError, reason_of
from typica.extras import need
from typica.files import reading

PARQUET, IPC, IPC_STREAM, CSV = "parquet", "ipc", "ipc stream", "csv"
FORMATS = {  # of the files that a folder of tables consists of
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".arrow": IPC,
    ".feather": IPC,
    ".ipc": IPC,
    ".arrows": IPC_STREAM,
}
_NAMED_FORMATS = {**FORMATS, ".csv": CSV}  # of files that are named: folders hold CSV for much else
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # what engines call the folder of rows without a value
_BROKEN = {
    PARQUET: "not a whole Parquet file",
    CSV: "not a CSV file whose columns each hold values of one kind",
}
_MAGIC = {b"PAR1": PARQUET, b"ARROW1": IPC}  # the first bytes of a file
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(::[a-z]+)?://")
_PATTERN = re.compile(r"[*?\[]")
# What stores call a file's digest, or the time when it was written: the surest first.
_WRITTEN = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "created")
Location = str | os.PathLike[str]


@dataclass(frozen=True)
class File:
    """One file of tables, local or at an address.

    Parameters
    ----------
    path
        Where it is: a path or an address.
    source
        Its path within the data set, which identifies its rows.
    format
        One of the values of `FORMATS`, or CSV.
    constants
        The values in the names of its folders, such as `year=2024/`, by column.
    """

    path: str
    source: str
    format: str
    constants: tuple[tuple[str, str | int], ...] = ()


def is_address(location: object) -> bool:
    """Tell whether a location is an address that fsspec knows (s3://...), and not a path."""
    return isinstance(location, str) and _ADDRESS.match(location) is not None


def is_pattern(location: object) -> bool:
    """Tell whether a path or an address stands for several."""
    text = os.fspath(location) if isinstance(location, os.PathLike) else location
    return isinstance(text, str) and _PATTERN.search(text) is not None


def is_tables(location: Location) -> bool:
    """Tell whether a location is a data set of tables, not a file of features, a bank or images.

    It is one if it is an address, a pattern, an Arrow file, or a folder of tables without images.
    """
    if is_address(location):
        return True
    path = Path(location)
    if path.is_dir():
        return not Bank.is_bank(path) and _holds_tables(path)
    if path.is_file():
        ending = path.suffix.lower()
        return ending in FORMATS and ending != ".parquet"
    return is_pattern(location)


def are_tables(inputs: Sequence[Location], on_error: str = "stop", **asked: Any) -> bool:
    """Tell whether inputs are tables of any size: by what they are, or by options that were given.

    on_error: as `open_tables` takes it. asked: options that are only for tables; None if they were
    not given.
    """
    if any(value is not None for value in asked.values()) or any(map(is_tables, inputs)):
        return True
    return on_error == "skip" and _skips_rows(inputs)


def _skips_rows(inputs: Sequence[Location]) -> bool:
    """Tell whether all inputs are files of tables, whose rows can be skipped, and not of images."""
    endings = {Path(one).suffix.lower() for one in inputs}
    return endings <= _NAMED_FORMATS.keys() and not any(map(holds_images, map(Path, inputs)))


def _holds_tables(folder: Path) -> bool:
    tables = (file for file in folder.rglob("*") if file.suffix.lower() in FORMATS)
    first = next(tables, None)
    if first is None:
        return False
    return FORMATS[first.suffix.lower()] != PARQUET or not holds_images(first)


def reading_table(file: File) -> Any:
    """Name the file in the error if a table in the block cannot be read."""
    what = _BROKEN.get(file.format, "not a whole Arrow file")
    if is_address(file.path):
        what += " that can be reached"
    return reading(file.path, what)


def open_file(path: str) -> Any:
    """Open a local or remote file for Arrow to read."""
    arrow = need("pyarrow", "parquet")
    if not is_address(path):
        return arrow.OSFile(path)
    try:
        return need("fsspec", "scale").open(path, "rb").open()
    except InputError:
        raise
    except Exception as error:  # of every kind, by the package that knows the address
        raise unreachable(path, error) from error


def stamp_of(file: File) -> list[str]:
    """Return a stamp that changes when a table's file, local or remote, is written again.

    It holds the size, and the digest that the store of an address keeps, or else the time.
    """
    with reading_table(file):
        if not is_address(file.path):
            status = Path(file.path).stat()
            return [str(status.st_size), str(status.st_mtime_ns)]
        system, path = need("fsspec", "scale").core.url_to_fs(file.path)
        known = system.info(path)
        return [str(known[key]) for key in ("size", _written(known)) if key in known]


def _written(known: Mapping[str, Any]) -> str:
    """Return the key under which a store keeps a file's digest or time, "" if there is none."""
    return next((key for key in _WRITTEN if known.get(key) is not None), "")


def unreachable(address: str, error: Exception) -> InputError:
    """Return the error of an address that does not answer."""
    return InputError(
        f"{address}: cannot be read ({reason_of(error)}); check the address, the network and your "
        "credentials."
    )


def find_files(data: Location | Sequence[Location]) -> list[File]:
    """Return the files of a data set: a path, a pattern, a folder, an address, or several."""
    if isinstance(data, str | os.PathLike):
        root, paths = _found(os.fspath(data))
    else:
        root, paths = _found_of_all(_as_paths(data))
    return _typed([_file(path, root) for path in paths])


def _as_paths(locations: Any) -> list[str]:
    """Return several locations as texts; refuse what is not a location."""
    paths = []
    for location in [locations] if isinstance(locations, bytes) else locations:
        if not isinstance(location, str | os.PathLike):
            kind = type(location).__name__
            raise InputError(f"{kind} is not a file; pass paths, patterns, folders or addresses.")
        paths.append(os.fspath(location))
    return paths


def _typed(files: list[File]) -> list[File]:
    """Return files with constants as whole numbers, for columns whose values all are."""
    texts: dict[str, set[str]] = {}
    for file in files:
        for name, value in file.constants:
            texts.setdefault(name, set()).add(str(value))
    whole = {name for name, values in texts.items() if all(map(_is_whole, values - {NO_VALUE}))}
    if not whole:
        return files
    typed = []
    for file in files:
        values = [(name, _as_number(value, name in whole)) for name, value in file.constants]
        typed.append(replace(file, constants=tuple(values)))
    return typed


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(text)) == text


def _as_number(value: str | int, whole: bool) -> str | int:
    return int(value) if whole and value != NO_VALUE else value


def _found_of_all(locations: list[str]) -> tuple[str, list[str]]:
    if not locations:
        raise InputError("no files; pass at least one.")
    roots: list[str] = []
    paths: list[str] = []
    for location in locations:
        root, found = _found(location)
        roots.append(root)
        paths += found
    _check_named_once(paths)
    return _common_root(roots), paths


def _check_named_once(paths: list[str]) -> None:
    seen: set[str] = set()
    for path in paths:
        if path in seen:
            raise InputError(f"{path}: is named twice; name each file once.")
        seen.add(path)


def _common_root(roots: list[str]) -> str:
    """Return the folder, local or remote, that holds the files of all the tables."""
    if len(set(roots)) == 1:
        return roots[0]
    if any(map(is_address, roots)):
        return posixpath.commonprefix(roots).rpartition("/")[0]
    return os.path.commonpath([os.path.abspath(root) for root in roots])  # noqa: PTH100


def _found(location: str) -> tuple[str, list[str]]:
    """Return the folder that names are relative to, and the sorted paths of the files."""
    return _found_away(location) if is_address(location) else _found_here(location)


def _found_here(location: str) -> tuple[str, list[str]]:
    path = Path(location)
    if path.is_dir():
        paths = [str(file) for file in path.rglob("*") if file.is_file()]
        return location, _tables(paths, location, location)
    if path.is_file():
        return str(path.parent), [location]
    if not is_pattern(location):
        raise InputError(f"{location}: there is no such file or folder; check the path.")
    names = glob.glob(location, recursive=True)  # noqa: PTH207 (the pattern may have a root)
    paths = [name for name in names if Path(name).is_file()]
    if not paths:
        raise InputError(f"{location}: no file matches; check the pattern.")
    return fixed_part(location), sorted(paths)


def _found_away(address: str) -> tuple[str, list[str]]:
    fsspec = need("fsspec", "scale")
    try:
        system, path = fsspec.core.url_to_fs(address)
        if is_pattern(address):
            root, paths = fixed_part(path), sorted(system.glob(path))
        elif system.isdir(path):
            root, paths = path, _tables(system.find(path), path, address)
        elif system.isfile(path):
            root, paths = posixpath.dirname(path), [path]
        else:
            paths = []
    except InputError:
        raise
    except Exception as error:  # of every kind, by the package that knows the address
        raise unreachable(address, error) from error
    if not paths:
        raise InputError(f"{address}: there is no such file; check the address.")
    return str(system.unstrip_protocol(root)), [str(system.unstrip_protocol(p)) for p in paths]


def fixed_part(pattern: str) -> str:
    """Return the folder before the first part of a path that stands for several names.

    >>> fixed_part("data/*/part-*.parquet"), fixed_part("*.parquet")
    ('data', '.')
    """
    before = pattern[: _PATTERN.search(pattern).start()]  # type: ignore[union-attr]
    return os.path.dirname(before) or "."  # noqa: PTH120 (addresses, too)


def _tables(paths: list[str], root: str, folder: str) -> list[str]:
    """Return the sorted paths of the tables in a folder; names that begin with _ or . are not.

    root: the folder as the paths have it, without the beginning of an address.
    """
    tables = [path for path in paths if _ending(path) in FORMATS and not _is_hidden(path, root)]
    if not tables:
        raise InputError(
            f"{folder}: holds no file of {', '.join(FORMATS)}; check the folder, or name CSV files "
            "by a pattern."
        )
    return sorted(tables)


def _is_hidden(path: str, root: str) -> bool:
    """Tell whether a name within the root begins with _ or . and holds no `column=value`."""
    inner = _within(path, root).split("/")
    return any(name.startswith(("_", ".")) and "=" not in name for name in inner)


def _ending(path: str) -> str:
    return posixpath.splitext(path)[1].lower()


def _file(path: str, root: str) -> File:
    source = _within(path, root)
    folders = source.split("/")[:-1]
    pairs = [folder.split("=", 1) for folder in folders if "=" in folder]
    constants = tuple((name, unquote(value)) for name, value in pairs)
    return File(path, source, _NAMED_FORMATS.get(_ending(path)) or _by_content(path), constants)


def _within(path: str, root: str) -> str:
    """Return the path of a table's file within its data set, with / on every system."""
    if is_address(path):
        return path.removeprefix(root).lstrip("/")
    return Path(os.path.relpath(path, root)).as_posix()


def _by_content(path: str) -> str:
    """Return the format of a file whose name does not say."""
    try:
        with open_file(path) as file:
            start = file.read(6)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({reason_of(error)}); check the file.") from None
    found = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
    if found is None:
        known = ", ".join(_NAMED_FORMATS)
        raise InputError(f"{path}: neither Parquet, Arrow nor CSV; pass files of {known}.")
    return found
