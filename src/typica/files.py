"""Files: written whole or not at all, one writer at a time, known by their digests.

What differs between systems about files (locks, owners, modes, syncing a folder) is only in this
module; what differs about processes and processors is in `machine`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import platform
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from typica.errors import FormatError, InputError, reason_of
from typica.machine import is_running

CHUNK = 1 << 18  # bytes that are read at a time
# The errors of a disk, a quota or a file that is full.
FULL = tuple(getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG") if hasattr(errno, name))
LOCK = ".lock"  # on Windows, where a folder itself has none
DELETES_OPEN_FILES = os.name != "nt"
_NAME = 40  # bytes of a file's name in that of its temporary one, which has to be short enough
_ENDING = 20  # and the longest ending
_DAY = 24 * 60 * 60  # seconds
_OURS: set[str] = set()  # temporary files that this process is writing


def home() -> Path:
    """Return the folder for the files that Typica keeps, such as data sets and banks.

    That is $TYPICA_HOME, else $XDG_CACHE_HOME/typica, else ~/.cache/typica.
    """
    own = os.environ.get("TYPICA_HOME")
    if own:
        return Path(own).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches).expanduser() / "typica"


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which replaces it if the block succeeds.

    The file keeps the mode of the one that it replaces; where `path` is a link, the link stays and
    the file that it leads to is replaced. What killed processes have left behind is removed.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with atomic_path(target) as temporary:
    ...     _ = temporary.write_text("1 2 3")
    >>> target.read_text()
    '1 2 3'
    """
    named = Path(path)
    try:
        target = Path(os.path.realpath(named)) if named.is_symlink() else named
        if target.is_dir():
            raise InputError(f"{named}: is a folder; pass the name of a file in it.")
        replaced = _stat(target)
        temporary = _begin(target)
        # The mode of the file that is replaced, else what the user's umask allows.
        mode = stat.S_IMODE((replaced or temporary.stat()).st_mode)
    except OSError as error:
        raise InputError(
            f"{named}: cannot write there ({error.strerror}); choose another folder."
        ) from None
    try:
        yield temporary
        temporary.chmod(mode)  # safetensors replaces our file by a private one
        _sync(temporary)
        temporary.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        if error.errno in FULL:
            raise disk_full(named, error) from None
        raise
    finally:
        temporary.unlink(missing_ok=True)
        _OURS.discard(temporary.name)


def _stat(path: Path) -> os.stat_result | None:
    with contextlib.suppress(FileNotFoundError):
        return path.stat()
    return None


def _begin(target: Path) -> Path:
    """Make a temporary file beside another, and remove those that killed processes have left.

    Those of other files go when they are a day old: containers can share a folder and the host's
    name, and do not see each other's processes.
    """
    start = target.name.encode(errors="surrogateescape")[:_NAME].decode(errors="ignore")
    ending = target.suffix if len(target.suffix) <= _ENDING else ""
    host = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
    pattern = re.compile(rf"(?s)\.(.+)\.{host}-(\d+)-[0-9a-f]{{8}}(\.[^.]*)?")
    for entry in os.scandir(target.parent):
        found = pattern.fullmatch(entry.name)
        if not found or entry.name in _OURS or is_running(int(found[2])):
            continue
        with contextlib.suppress(FileNotFoundError):
            old = time.time() - entry.stat().st_mtime > _DAY
            if old or (found[1], found[3] or "") == (start, ending):
                Path(entry.path).unlink()
    name = f".{start}.{host}-{os.getpid()}-{secrets.token_hex(4)}{ending}"
    # Made by us alone, with the mode that the user's umask leaves.
    os.close(os.open(target.with_name(name), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))
    _OURS.add(name)
    return target.with_name(name)


@contextlib.contextmanager
def reading(
    path: str | os.PathLike[str], what: str, advice: str = "write it again"
) -> Iterator[None]:
    """Say that a file is at fault, by its path, if whatever reads it fails on its content.

    Other libraries raise nearly every kind of error for damaged files. An input error already says
    enough, and a full disk is not the file's fault.

    >>> with reading("rows.csv", "not a table", "write it again"):
    ...     [][0]
    Traceback (most recent call last):
    typica.errors.FormatError: rows.csv: not a table (list index out of range); write it again.
    """
    try:
        yield
    except (InputError, Warning):
        raise
    except MemoryError:
        raise FormatError(
            f"{path}: {what}, or larger than the memory; {advice}, or in parts."
        ) from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise disk_full(path, error) from None
        raise FormatError(f"{path}: {what} ({reason_of(error)}); {advice}.") from error


def disk_full(path: str | os.PathLike[str], error: OSError) -> InputError:
    """Return the error for a path that could not be written because the disk is full."""
    return InputError(
        f"{path}: the disk is full ({error.strerror}); free some space and run it again."
    )


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system can do that."""
    if os.name == "posix":
        _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Tell whether two paths lead to the same existing file or folder."""
    try:
        return Path(one).samefile(other)
    except (OSError, ValueError):  # one of the two does not exist, or is not a path
        return False


def check_not_input(target: str | os.PathLike[str], *inputs: str | os.PathLike[str]) -> None:
    """Refuse a path to write that leads to the same file as one of `inputs`."""
    if any(is_same_file(target, path) for path in inputs):
        raise InputError(f"{target}: is read here, and would be replaced; choose another name.")


def existing(path: str | os.PathLike[str], advice: str = "check the path") -> Path:
    """Return the path of a file, which must exist."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; {advice}.")
    return path


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file in UTF-8."""
    try:
        return existing(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError(f"{path}: not a text file in UTF-8; write it again.") from None


def printable(path: str | os.PathLike[str]) -> str:
    r"""Return a path as text that any UTF-8 file can hold, whatever bytes are in it.

    >>> printable("caf\udce9.png")
    'caf\\udce9.png'
    """
    return os.fspath(path).encode("utf-8", "backslashreplace").decode()


def sha256(*files: Path) -> str:
    """Return the SHA-256 of a file, or of several, one after the other."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while block := file.read(CHUNK):
                digest.update(block)
    return digest.hexdigest()


def file_lines(file: io.BufferedReader | io.BytesIO, most: int) -> Iterator[list[str]]:
    r"""Read an open file of text: yield its lines, without their ends, up to `most` at a time.

    What has arrived is yielded at once, without waiting for a slow pipe to fill a buffer.

    >>> import io
    >>> list(file_lines(io.BytesIO(b"a\nb\nc"), 2))
    [['a', 'b'], ['c']]
    """
    rest = b""
    while piece := file.read1(CHUNK):
        *whole, rest = (rest + piece).split(b"\n")
        for start in range(0, len(whole), most):
            yield _texts(whole[start : start + most])
    if rest:
        yield _texts([rest])


def _texts(lines: list[bytes]) -> list[str]:
    try:
        return [line.decode() for line in lines]
    except UnicodeDecodeError:
        raise InputError("not a text in UTF-8; write it again.") from None


def lock_folder(folder: Path, what: str = "writing there") -> int:
    """Take the lock on a folder, which dies with its holder; return the handle that holds it."""
    busy = InputError(
        f"{folder}: another process is {what}; wait until it has ended, or choose another folder."
    )
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415 (Windows only)

        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            os.close(handle)
            raise busy from None
        return handle
    import fcntl  # noqa: PLC0415 (POSIX only)

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise busy from None
    except OSError:  # a file system without locks
        pass
    # It may have been removed after it was opened, by a process that held the lock until now.
    if not is_locked(folder, handle):
        os.close(handle)
        raise busy
    return handle


def check_lock(folder: Path, handle: int) -> None:
    """Refuse if the folder at a path is no longer the one on which `handle` holds the lock."""
    if not is_locked(folder, handle):
        raise InputError(
            f"{folder}: the folder was removed or replaced while it was being written; "
            "run the command again."
        )


def is_locked(folder: Path, handle: int) -> bool:
    """Tell whether the folder at a path is the one on which `handle` holds the lock."""
    try:
        there = (folder / LOCK if sys.platform == "win32" else folder).stat()
    except OSError:
        return False
    return os.path.samestat(there, os.fstat(handle))
