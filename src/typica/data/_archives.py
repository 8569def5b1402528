"""Images in zip and tar archives, read in place: no name in one becomes the name of a file."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tarfile
import tempfile
import threading
import weakref
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

from typica.bombs import allowance
from typica.data._decode import MAX_BYTES, ImageError
from typica.data._folder_classes import SPLIT_FOLDERS, Found, arrange
from typica.data._folders import is_hidden
from typica.data._image_sets import PackedImages
from typica.data._tar import open_tar_file
from typica.errors import FormatError, about
from typica.files import printable, reading
from typica.kinds import named_as_image

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


def open_zip(path: Path, split: str | None, prefix: str) -> PackedImages:
    """Return the images in a zip archive."""
    with reading(path, "not a whole zip archive", "fetch it again"):
        archive = zipfile.ZipFile(path)  # closes itself when it is no longer referred to
    members = archive.infolist()
    lock = threading.Lock()

    def read(k: int) -> bytes:
        name = f"{prefix}{printable(members[k].filename)}"
        _check_size(members[k].file_size, name, allowance(members[k].compress_size))
        try:
            with lock:
                return archive.read(members[k])
        except Exception as error:  # of many kinds: for damage, and for lack of a password
            raise ImageError(
                f"{name}: cannot be read from the archive ({error}); make the archive again."
            ) from None

    entries = [_Entry(member.filename, not member.is_dir()) for member in members]
    return _packed(path, split, prefix, entries, read)


def open_tar(path: Path, split: str | None, prefix: str) -> PackedImages:
    """Return the images in a tar archive.

    Those of a compressed one are kept in a nameless temporary file.
    """
    with contextlib.ExitStack() as on_failure:
        with reading(path, "not a whole tar archive", "fetch it again"):
            tape = _index(path)
        on_failure.callback(tape.file.close)
        lock = threading.Lock()

        def read(k: int) -> bytes:
            name = f"{prefix}{printable(tape.members[k].name)}"
            size = tape.members[k].size
            _check_size(size, name)
            with lock:
                tape.file.seek(tape.offsets[k])
                data = tape.file.read(size)
            if len(data) != size:
                raise ImageError(f"{name}: cut short in the archive; fetch the archive again.")
            return data

        images = _packed(path, split, prefix, [_entry(member) for member in tape.members], read)
        on_failure.pop_all()
    weakref.finalize(read, tape.file.close)  # which the copies of a set share
    return images


class _Entry(NamedTuple):
    """A member of an archive; the names of folders end in "/", and links are not files."""

    name: str
    is_file: bool


def _entry(member: tarfile.TarInfo) -> _Entry:
    if member.isdir():
        return _Entry(f"{member.name}/", False)
    return _Entry(member.name, member.isreg() and not member.issparse())


class _Tape(NamedTuple):
    """The members of a tar, the file in which their bytes lie, and where in it they begin."""

    members: list[tarfile.TarInfo]
    offsets: list[int]
    file: IO[bytes]


def _index(path: Path) -> _Tape:
    """Find the members of a tar; a compressed one is spooled to a temporary file."""
    try:
        with open_tar_file(path, "r:") as archive:
            members = archive.getmembers()
    except tarfile.ReadError:  # compressed, or not an archive at all
        spool = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the set)
        try:
            return _spool(path, spool)
        except BaseException:
            spool.close()
            raise
    return _Tape(members, [member.offset_data for member in members], path.open("rb"))


def _spool(path: Path, file: IO[bytes]) -> _Tape:
    """Write the images of a compressed tar to a file, one after another."""
    tape = _Tape([], [], file)
    allowed = allowance(path.stat().st_size)
    with open_tar_file(path, "r|*") as archive:
        for member in archive:
            tape.members.append(member)
            tape.offsets.append(file.tell())
            if member.isreg() and named_as_image(member.name) and member.size <= MAX_BYTES:
                content = archive.extractfile(member)
                if content is not None:
                    shutil.copyfileobj(content, file)
            if file.tell() > allowed:
                raise FormatError(
                    f"{path}: unpacks to more than {allowed:,} bytes, maybe a bomb; "
                    "unpack it by hand if you trust it."
                )
    return tape


@dataclass(frozen=True)
class _Contents:
    """What an archive holds: images by name, with their place among the members, and the rest."""

    images: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    folders: set[str] = field(default_factory=set)
    ignored: list[str] = field(default_factory=list)


def _packed(
    path: Path,
    split: str | None,
    prefix: str,
    entries: Sequence[_Entry],
    read: Callable[[int], bytes],
) -> PackedImages:
    """Arrange the members of an archive below the folders that all images share."""
    contents = _sorted_out(entries)
    with about(str(path)):
        layout = arrange(_below_shared(contents, split), split)
    names = [printable(contents.images[row]) for row in layout.rows]
    places = [contents.places[row] for row in layout.rows]
    return PackedImages(
        str(path),
        lambda i: read(places[i]),
        [prefix + name for name in names],
        names,
        labels=layout.labels,
        classes=layout.classes,
        ignored=[prefix + printable(name) for name in contents.ignored],
    )


def _sorted_out(entries: Sequence[_Entry]) -> _Contents:
    """Tell images, folders and the rest apart; what leads elsewhere, or is hidden, is left out."""
    contents = _Contents()
    for place, entry in enumerate(entries):
        name = entry.name.removeprefix("./")
        is_folder = not entry.is_file and entry.name.endswith("/")
        usable = not _leads_elsewhere(name) and not is_hidden(name.strip("/"))
        if is_folder:
            if usable:
                contents.folders.add(name.rstrip("/"))
        elif entry.is_file and usable and named_as_image(name):
            contents.images.append(name)
            contents.places.append(place)
        else:
            contents.ignored.append(name)
    return contents


def _leads_elsewhere(name: str) -> bool:
    return name.startswith("/") or ".." in name.split("/") or "\\" in name


def _below_shared(contents: _Contents, split: str | None) -> Found:
    """Return the paths relative to the innermost folder that holds all images.

    Where a split is asked for, that folder is neither the folder of a split nor inside one.
    """
    if not contents.images:
        return Found([], sorted(contents.folders), contents.ignored)
    shared = os.path.commonpath([name.rpartition("/")[0] for name in contents.images])
    if split is not None:
        above = itertools.takewhile(lambda part: part not in SPLIT_FOLDERS, shared.split("/"))
        shared = "/".join(above)
    start = f"{shared}/" if shared else ""
    within = [name for name in contents.folders if name.startswith(start) and name != start]
    return Found(
        [name.removeprefix(start) for name in contents.images],
        [name.removeprefix(start) for name in within],
        contents.ignored,
    )


def _check_size(size: int, name: str, allowed: int = MAX_BYTES) -> None:
    most = min(allowed, MAX_BYTES)
    if not 0 <= size <= most:
        raise ImageError(f"{name}: {size:,} bytes, more than {most:,}; make it smaller.")
