"""Archives unpacked safely: no bombs, nothing outside the folder, which appears when whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, NamedTuple

from typica.bombs import allowance
from typica.data._tar import open_tar_file
from typica.errors import FormatError, InputError, about, reason_of
from typica.files import CHUNK, DELETES_OPEN_FILES, LOCK, existing, lock_folder
from typica.progress import advance

MEMBERS = 10_000_000
_NAME = 40  # characters of the folder's name in that of the one it is unpacked to at first


class _Member(NamedTuple):
    name: str
    kind: str  # "file", "folder", "link" (symbolic), "same" (hard link) or "other"
    size: int
    open: Callable[[], IO[bytes]]
    link: str = ""


def unpack(
    archive: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    keep: Callable[[str], bool] | None = None,
) -> Path:
    """Unpack a .zip, .tar, .tar.gz, .tar.bz2 or .tar.xz archive to a new folder and return it.

    keep: tells from its path in the archive whether a file is wanted; all are if None. The folder
    appears when it is whole: one that was interrupted is unpacked again. Absolute paths, `..`,
    links that lead out of the folder, devices, and archives that grow a hundredfold are refused.
    Bytes of the archive are reported through `typica.progress`.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> with zipfile.ZipFile(root / "a.zip", "w") as file:
    ...     file.writestr("cats/1.txt", "meow")
    >>> (unpack(root / "a.zip", root / "a") / "cats" / "1.txt").read_text()
    'meow'
    """
    archive, folder = existing(archive), Path(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError(f"{folder}: is there already; move it away, or unpack to another folder.")
    with _readable(archive, folder), _own_folder(folder) as temporary:
        _unpack_to(archive, temporary.resolve(), keep)
    return folder


@contextlib.contextmanager
def _own_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder, locked for this run, that becomes `folder` if the block succeeds.

    What an interrupted run has left there is removed.
    """
    temporary = folder.with_name(f".{folder.name[:_NAME]}.unpacking")
    temporary.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as lock:
        lock.callback(os.close, lock_folder(temporary, f"unpacking to {folder}"))
        try:
            _empty(temporary)
            yield temporary
            if folder.exists():
                folder.rmdir()  # another run may have come first: then it is not empty, and stays
            if not DELETES_OPEN_FILES:  # nor moves a folder whose lock is open
                lock.close()
                (temporary / LOCK).unlink()
            temporary.rename(folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != LOCK:
            entry.unlink()


@contextlib.contextmanager
def _readable(archive: Path, folder: Path) -> Iterator[None]:
    """Say what is wrong with an archive, or with the disk, where unpacking fails."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # zipfile, tarfile, zlib and lzma have many kinds
        if not isinstance(error, OSError) or error.errno is None:  # as gzip's own has none
            raise FormatError(
                f"{archive}: not a whole archive ({reason_of(error)}); "
                "delete it and fetch it again."
            ) from error
        raise InputError(
            f"{archive}: cannot be unpacked to {folder} ({error.strerror or error}); "
            "make room or choose another one."
        ) from None


def _unpack_to(archive: Path, root: Path, keep: Callable[[str], bool] | None) -> None:
    """Write the members of an archive below `root`."""
    target = _Target(root, keep, allowed=allowance(archive.stat().st_size))
    with about(str(archive)), _members(archive) as members:
        for member in members:
            target.count(member)
            target.add(member)
        target.check_links()
        if not target.files:
            raise FormatError("holds none of the files that were looked for; fetch it again.")


@dataclass
class _Target:
    """The folder that an archive is unpacked to, and what was unpacked so far."""

    root: Path
    keep: Callable[[str], bool] | None
    allowed: int  # bytes in all
    members: int = 0
    size: int = 0
    files: int = 0
    links: list[Path] = field(default_factory=list)

    def count(self, member: _Member) -> None:
        """Count what a member adds, and refuse a bomb."""
        self.members += 1
        self.size += member.size
        if member.kind == "same":
            self.size += self._earlier(member).stat().st_size
        if self.size > self.allowed or self.members > MEMBERS:
            raise FormatError(
                f"unpacks to more than {self.allowed:,} bytes or {MEMBERS:,} members, a bomb; "
                "unpack it by hand if you trust it."
            )

    def add(self, member: _Member) -> None:
        """Write a member, if it is wanted."""
        path = self._inside(member.name)
        if member.kind == "other":
            raise FormatError(
                f"{member.name} is a device or the like; refused, nothing was unpacked."
            )
        if path == self.root or not self._is_wanted(member):
            return
        self._check_inside(path.parent, member.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if member.kind == "folder":
            path.mkdir(exist_ok=True)
            return
        path.unlink(missing_ok=True)
        self._write(member, path)
        self.files += 1

    def check_links(self) -> None:
        """Check all links again: a later member may have changed where an earlier link leads."""
        for link in self.links:
            self._check_inside(link, link.name)

    def _is_wanted(self, member: _Member) -> bool:
        """Tell whether a member is to be kept; folders are made with what is kept in them."""
        if self.keep is None:
            return True
        return member.kind != "folder" and self.keep(member.name)

    def _write(self, member: _Member, path: Path) -> None:
        if member.kind == "link":
            self._check_inside(path.parent / member.link, member.name)
            path.symlink_to(member.link)
            self.links.append(path)
        elif member.kind == "same":
            shutil.copyfile(self._earlier(member), path)
        else:
            _copy(member, path)

    def _inside(self, name: str) -> Path:
        """Return where a member goes; its name may not lead elsewhere."""
        posix, windows = PurePosixPath(name), PureWindowsPath(name)
        absolute = posix.is_absolute() or windows.drive or windows.root
        if not name or "\0" in name or absolute or ".." in windows.parts:
            raise FormatError(f"{name!r} leads out of the folder; refused, nothing was unpacked.")
        return self.root.joinpath(*posix.parts)

    def _check_inside(self, path: Path, name: str) -> None:
        """Check that a path, with every link on it followed, lies below the root."""
        if not path.resolve().is_relative_to(self.root):
            raise FormatError(f"{name} leads out of the folder; refused, nothing was unpacked.")

    def _earlier(self, member: _Member) -> Path:
        """Return the file that a hard link stands for, which must be unpacked already."""
        path = self._inside(member.link)
        self._check_inside(path, member.name)
        if not path.is_file():
            raise FormatError(
                f"{member.name} is a link to {member.link}, which is not there; fetch it again."
            )
        return path


def _copy(member: _Member, path: Path) -> None:
    left = member.size
    with member.open() as source, path.open("wb") as target:
        while chunk := source.read(CHUNK):
            left -= len(chunk)
            if left < 0:
                break
            target.write(chunk)
    if left:
        raise FormatError(
            f"{member.name} has another size than it says; delete it and fetch it again."
        )


@contextlib.contextmanager
def _members(archive: Path) -> Iterator[Iterator[_Member]]:
    """Open an archive of either kind and yield its members in the order in which they lie in it."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            yield _zip_members(packed)
    else:
        with archive.open("rb") as raw, open_tar_file(archive, "r:*", raw) as tape:
            yield _tar_members(tape, raw)


def _zip_members(packed: zipfile.ZipFile) -> Iterator[_Member]:
    for info in packed.infolist():
        mode = info.external_attr >> 16
        kind = "folder" if info.is_dir() else "file"
        link = ""
        if stat.S_ISLNK(mode) and info.file_size < 4096:
            kind, link = "link", packed.read(info).decode("utf-8", "surrogateescape")
        elif stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            kind = "other"
        yield _Member(info.filename, kind, info.file_size, partial(packed.open, info), link)
        advance(info.compress_size)


def _tar_members(tape: tarfile.TarFile, raw: IO[bytes]) -> Iterator[_Member]:
    before = 0
    for info in tape:
        size = info.size if info.isfile() else 0
        yield _Member(info.name, _kind(info), size, partial(_opened, tape, info), info.linkname)
        tape.members = []  # type: ignore[attr-defined] # a million of them would be kept otherwise
        before, after = raw.tell(), before
        advance(before - after)


def _kind(info: tarfile.TarInfo) -> str:
    kinds = {
        "file": info.isfile(),
        "folder": info.isdir(),
        "link": info.issym(),
        "same": info.islnk(),
    }
    return next((kind for kind, is_it in kinds.items() if is_it), "other")


def _opened(tape: tarfile.TarFile, info: tarfile.TarInfo) -> Any:
    return tape.extractfile(info)
