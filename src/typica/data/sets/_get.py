"""The benchmark sets: how they get to this machine.

    get_set("svhn")          # fetch it, if it is not there, and return what open_images takes
    find_set("svhn")         # the same without fetching; None if it is not there

A set lies in ROOT/NAME; what is fetched passes through ROOT/downloads/NAME. A set that was
downloaded by hand is found as well: its archive in ROOT/downloads/NAME, or its unpacked folder in
ROOT/NAME or in ROOT.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from typica.data._unpack import unpack
from typica.data.sets._digests import Digests, file_digests, mismatch
from typica.data.sets._download import download, remote_size
from typica.data.sets._find import benchmark_set, find_set, how_to_get
from typica.data.sets._idx import idx_to_npz
from typica.data.sets._table import BenchmarkSet, SetFile
from typica.errors import FormatError, InputError, border
from typica.files import atomic_path, home, lock_folder
from typica.progress import is_watched, note, work


@border
def get_set(name: str, root: str | os.PathLike[str] | None = None) -> Path:
    """Return the path to pass to `open_images` for a set, fetched if it is not there.

    If it is interrupted, the next call resumes it. Files are checked against their published
    checksums; where there is none, that of the first download is recorded, and later downloads are
    checked against it.
    Archives that were downloaded are removed once they are unpacked. Each step and its bytes are
    reported through `typica.progress`.
    """
    wanted = benchmark_set(name)
    root = home() if root is None else Path(root)
    found = find_set(name, root)
    if found is not None:
        return found
    folder, downloads = root / name, root / "downloads" / name
    if not wanted.files:
        raise InputError(f"set {name!r}: it has no public address; {how_to_get(name, root)}.")
    try:
        downloads.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(downloads, f"getting the set {name!r}")
    except OSError as error:
        raise InputError(
            f"{downloads}: cannot write there ({error.strerror}); choose another folder."
        ) from None
    try:
        ours = [file for file in wanted.files if _fetched(name, file, downloads)]
        _put_in_place(wanted, downloads, folder)
        for file in ours:
            (downloads / file.name).unlink(missing_ok=True)
    finally:
        os.close(lock)
    found = find_set(name, root)
    if found is None:
        raise FormatError(
            f"{folder}: unpacked, but {wanted.needs} is not in it; "
            f"see {wanted.page} for what changed."
        )
    return found


@contextlib.contextmanager
def _step(name: str, what: str, size: int | None) -> Iterator[None]:
    """Say what is done for a set, and show its progress in bytes."""
    note(f"{name}: {what} ({size_text(size)})")
    with work(what, size):
        yield


def size_text(size: int | None) -> str:
    """Return the size of a set in bytes as people say it.

    >>> size_text(170_498_071), size_text(4542), size_text(None)
    ('170 MB', '5 kB', '?')
    """
    if size is None:
        return "?"
    for unit, step in (("GB", 10**9), ("MB", 10**6)):
        if size >= step:
            return f"{size / step:.3g} {unit}"
    return f"{size / 1000:.0f} kB"


def _fetched(name: str, file: SetFile, downloads: Path) -> bool:
    """Make sure that a file is there and right; tell whether it had to be downloaded."""
    path, record = downloads / file.name, downloads / f"{file.name}.sha256"
    digests = file.digests
    if not any(digests) and record.is_file():
        digests = Digests(record.read_text(encoding="ascii").strip())
    if path.is_file():
        wrong = mismatch(digests, file_digests(path))
        if wrong is not None:
            raise FormatError(f"{path}: has {wrong}; delete it and run the same command again.")
        return False
    size = file.size
    if size is None and is_watched():
        size = remote_size(file.addresses)
    with _step(name, f"downloading {file.name}", size):
        sha256 = download(file.addresses, path, digests=digests, size=file.size)
    with atomic_path(record) as temporary:
        temporary.write_text(f"{sha256}\n", encoding="ascii")
    return True


def _put_in_place(wanted: BenchmarkSet, downloads: Path, folder: Path) -> None:
    """Make the set's folder of its files, whole or not at all."""
    if wanted.kind == "archive":
        _unpack_set(wanted, downloads, folder)
        return
    temporary = folder.with_name(f".{folder.name}.unpacking")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        if wanted.kind == "idx":
            idx_to_npz(downloads, temporary)
        else:
            for file in wanted.files:
                shutil.copyfile(downloads / file.name, temporary / file.name)
        folder.mkdir(exist_ok=True)
        for made in temporary.iterdir():
            made.replace(folder / made.name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _unpack_set(wanted: BenchmarkSet, downloads: Path, folder: Path) -> None:
    """Unpack a set's archive: all of it, or the files that its list names."""
    archive = downloads / next(file.name for file in wanted.files if file.name != wanted.only)
    with _step(wanted.name, f"unpacking {archive.name}", archive.stat().st_size):
        if wanted.only is None:
            unpack(archive, folder)
        else:
            listed = set((downloads / wanted.only).read_text(encoding="utf-8").split())
            unpack(archive, folder, keep=lambda name: name.rpartition("/")[2] in listed)
