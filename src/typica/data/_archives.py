"""Images in zip and tar archives, read where they lie: no file is ever written under a name from an archive."""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
import tempfile
import threading
import weakref
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from typica.data._decode import MAX_BYTES, ImageError, printable
from typica.data._folders import Found, arrange, is_hidden, is_picture
from typica.data._image_sets import PackedImages
from typica.errors import FormatError

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


def open_zip(path: Path, split: str | None, prefix: str) -> PackedImages:
    """Return the images in a zip archive."""
    try:
        archive = zipfile.ZipFile(path)  # closes itself when it is no longer referred to
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise FormatError(f"{path}: not a whole zip archive ({error}); fetch it again.") from None
    members = archive.infolist()
    lock = threading.Lock()

    def read(k: int) -> bytes:
        name = f"{prefix}{printable(members[k].filename)}"
        _check_size(members[k].file_size, name)
        try:
            with lock:
                return archive.read(members[k])
        except (
            Exception
        ) as error:  # zipfile, zlib and lzma raise many kinds for damage and for lack of a password
            raise ImageError(
                f"{name}: cannot be read from the archive ({error}); make the archive again."
            ) from None

    return _packed(path, split, prefix, [(m.filename, not m.is_dir()) for m in members], read)


def open_tar(path: Path, split: str | None, prefix: str) -> PackedImages:
    """Return the images in a tar archive; those of a compressed one are kept in a nameless temporary file."""
    with contextlib.ExitStack() as on_failure:
        try:
            members, places, file = _index(path)
        except Exception as error:  # tarfile, zlib and lzma raise many kinds for a damaged archive
            raise FormatError(
                f"{path}: not a whole tar archive ({error}); fetch it again."
            ) from None
        on_failure.callback(file.close)
        lock = threading.Lock()

        def read(k: int) -> bytes:
            name = f"{prefix}{printable(members[k].name)}"
            offset, size = places[k]
            _check_size(size, name)
            with lock:
                file.seek(offset)
                data = file.read(size)
            if len(data) != size:
                raise ImageError(f"{name}: cut short in the archive; fetch the archive again.")
            return data

        images = _packed(path, split, prefix, [_entry(member) for member in members], read)
        on_failure.pop_all()
    weakref.finalize(images, file.close)
    return images


def _entry(member: tarfile.TarInfo) -> tuple[str, bool]:
    return (
        (f"{member.name}/", False)
        if member.isdir()
        else (member.name, member.isreg() and not member.issparse())
    )


def _index(path: Path) -> tuple[list[tarfile.TarInfo], list[tuple[int, int]], IO[bytes]]:
    """Return a tar's members, where their bytes lie as (offset, size), and the file in which they do."""
    try:
        with tarfile.open(path, "r:", errors="surrogateescape") as archive:
            members = archive.getmembers()
    except tarfile.ReadError:  # compressed, or no archive at all
        spool = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the set)
        try:
            return *_spool(path, spool), spool
        except BaseException:
            spool.close()
            raise
    return members, [(member.offset_data, member.size) for member in members], path.open("rb")


def _spool(path: Path, file: IO[bytes]) -> tuple[list[tarfile.TarInfo], list[tuple[int, int]]]:
    """Write the images of a compressed tar one after another; return all members, with their places in the file."""
    members, places = [], []
    with tarfile.open(path, "r|*", errors="surrogateescape") as archive:
        for member in archive:
            start = file.tell()
            if member.isreg() and is_picture(member.name) and member.size <= MAX_BYTES:
                content = archive.extractfile(member)
                if content is not None:
                    shutil.copyfileobj(content, file)
            members.append(member)
            places.append((start, member.size))
    return members, places


def _packed(
    path: Path,
    split: str | None,
    prefix: str,
    entries: Sequence[tuple[str, bool]],
    read: Callable[[int], bytes],
) -> PackedImages:
    """Arrange members, given as (name, is a plain file), below the folders that all images share."""
    pictures: list[tuple[str, int]] = []
    folders: set[str] = set()
    ignored: list[str] = []
    for k, (name, is_file) in enumerate(entries):
        clean = name.removeprefix("./")
        odd = clean.startswith("/") or ".." in clean.split("/") or "\\" in clean
        if is_file and is_picture(clean) and not odd and not is_hidden(clean):
            pictures.append((clean, k))
        elif is_file or not name.endswith("/"):
            ignored.append(clean)
        elif not odd and not is_hidden(clean.strip("/")):
            folders.add(clean.rstrip("/"))
    shared = (
        os.path.commonpath([name.rpartition("/")[0] for name, _ in pictures]) if pictures else ""
    )
    cut = len(shared) + 1 if shared else 0
    found = Found(
        [name[cut:] for name, _ in pictures],
        [folder[cut:] for folder in folders if folder.startswith(shared) and len(folder) > cut],
        ignored,
    )
    layout = arrange(found, split, str(path))
    keys = [pictures[row][0] for row in layout.rows]
    members = [pictures[row][1] for row in layout.rows]
    return PackedImages(
        str(path),
        lambda i: read(members[i]),
        [prefix + printable(key) for key in keys],
        [printable(key) for key in keys],
        labels=layout.labels,
        classes=layout.classes,
        ignored=[prefix + printable(name) for name in ignored],
    )


def _check_size(size: int, name: str) -> None:
    if size > MAX_BYTES:
        raise ImageError(f"{name}: {size:,} bytes, more than {MAX_BYTES:,}; make it smaller.")
