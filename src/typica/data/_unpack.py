"""Archives out, safely: nothing lands outside the folder, no bombs, and the folder appears when it is whole."""

from __future__ import annotations

import contextlib
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, NamedTuple

from typica.errors import FormatError, InputError
from typica.files import CHUNK
from typica.progress import advance

RATIO = 100  # an archive may grow to this many times its size: images hardly do, bombs do a thousandfold
FLOOR = 1 << 26  # but small ones to this many bytes at least
MEMBERS = 10_000_000


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
    archive, folder = Path(archive), Path(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError(f"{folder}: is there already; move it away, or unpack to another folder.")
    temporary = folder.with_name(f".{folder.name}.unpacking")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        count = _unpack_to(archive, temporary.resolve(), keep)
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        RuntimeError,
    ) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        what = str(error).partition(":\n")[
            0
        ]  # tarfile goes on with a line for each kind that it is not
        raise FormatError(
            f"{archive}: not a whole archive ({what}); delete it and fetch it again."
        ) from None
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, FileNotFoundError) and not archive.exists():
            raise InputError(f"{archive}: there is no such file; check the path.") from None
        raise InputError(
            f"{archive}: cannot be unpacked to {folder} ({error.strerror or error}); make room or choose another one."
        ) from None
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    if not count:
        shutil.rmtree(temporary)
        raise FormatError(
            f"{archive}: holds none of the files that were looked for; fetch it again."
        )
    if folder.exists():
        folder.rmdir()
    temporary.rename(folder)
    return folder


def _unpack_to(archive: Path, root: Path, keep: Callable[[str], bool] | None) -> int:
    """Write the members of an archive below `root` and return how many files there are."""
    allowed = max(FLOOR, RATIO * archive.stat().st_size)
    members = total = count = 0
    links: list[Path] = []
    with _members(archive) as found:
        for member in found:
            members += 1
            total += member.size
            path = _inside(archive, root, member.name)
            if member.kind == "same":
                same = _earlier(archive, root, member)
                total += same.stat().st_size
            if total > allowed or members > MEMBERS:
                raise FormatError(
                    f"{archive}: unpacks to more than {allowed:,} bytes or {MEMBERS:,} members, a bomb; "
                    "unpack it by hand if you trust it."
                )
            if member.kind == "other":
                raise FormatError(
                    f"{archive}: {member.name} is a device or the like; refused, nothing was unpacked."
                )
            if path == root or (
                keep is not None and (member.kind == "folder" or not keep(member.name))
            ):
                continue
            _check_inside(archive, root, path.parent, member.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if member.kind == "folder":
                path.mkdir(exist_ok=True)
                continue
            path.unlink(missing_ok=True)
            if member.kind == "link":
                _check_inside(archive, root, path.parent / member.link, member.name)
                path.symlink_to(member.link)
                links.append(path)
            elif member.kind == "same":
                shutil.copyfile(same, path)
            else:
                _copy(archive, member, path)
            count += 1
    for link in links:  # a later member may have changed where an earlier link leads
        _check_inside(archive, root, link, link.name)
    return count


def _inside(archive: Path, root: Path, name: str) -> Path:
    """Return where a member goes; its name may not lead elsewhere."""
    posix = PurePosixPath(name)
    windows = PureWindowsPath(name)
    if (
        not name
        or "\0" in name
        or posix.is_absolute()
        or windows.drive
        or windows.root
        or ".." in windows.parts
    ):
        raise FormatError(
            f"{archive}: {name!r} leads out of the folder; refused, nothing was unpacked."
        )
    return root.joinpath(*posix.parts)


def _check_inside(archive: Path, root: Path, path: Path, name: str) -> None:
    """Check that a path, with every link on it followed, lies below the root."""
    if not path.resolve().is_relative_to(root):
        raise FormatError(
            f"{archive}: {name} leads out of the folder; refused, nothing was unpacked."
        )


def _earlier(archive: Path, root: Path, member: _Member) -> Path:
    """Return the file that a hard link stands for, which must be unpacked already."""
    path = _inside(archive, root, member.link)
    _check_inside(archive, root, path, member.name)
    if not path.is_file():
        raise FormatError(
            f"{archive}: {member.name} is a link to {member.link}, which is not there; fetch it again."
        )
    return path


def _copy(archive: Path, member: _Member, path: Path) -> None:
    left = member.size
    with member.open() as source, path.open("wb") as target:
        while chunk := source.read(CHUNK):
            left -= len(chunk)
            if left < 0:
                break
            target.write(chunk)
    if left:
        raise FormatError(
            f"{archive}: {member.name} has another size than it says; delete it and fetch it again."
        )


@contextlib.contextmanager
def _members(archive: Path) -> Iterator[Iterator[_Member]]:
    """Open an archive of either kind and yield its members in the order in which they lie in it."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            yield _zip_members(packed)
    else:
        with archive.open("rb") as raw, tarfile.open(fileobj=raw, mode="r:*") as tape:
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
        kind = (
            "file" if info.isfile() else "folder" if info.isdir() else "link" if info.issym() else
            "same" if info.islnk() else "other"
        )  # fmt: skip
        size = info.size if info.isfile() else 0
        yield _Member(info.name, kind, size, partial(_opened, tape, info), info.linkname)
        tape.members = []  # type: ignore[attr-defined] # a million of them would be kept otherwise
        before, after = raw.tell(), before
        advance(before - after)


def _opened(tape: tarfile.TarFile, info: tarfile.TarInfo) -> Any:
    return tape.extractfile(info)
