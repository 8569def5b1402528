"""The lock on a folder: one process writes there at a time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from typica.errors import InputError

LOCK = ".lock"  # on Windows, where a folder itself has none


def lock_folder(folder: Path, what: str = "writing this bank") -> int:
    """Take the lock on a folder, which dies with its holder, and return the handle that holds it."""
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
    if not is_locked(
        folder, handle
    ):  # removed after it was opened, by one who held the lock until now
        os.close(handle)
        raise busy
    return handle


def check_lock(folder: Path, handle: int) -> None:
    """Refuse if the folder at a path is no longer the one on which `handle` holds the lock."""
    if not is_locked(folder, handle):
        raise InputError(
            f"{folder}: the folder was removed or replaced while this bank was being written; run the command again."
        )


def is_locked(folder: Path, handle: int) -> bool:
    """Tell whether the folder at a path is the one on which `handle` holds the lock."""
    try:
        there = (folder / LOCK if sys.platform == "win32" else folder).stat()
    except OSError:
        return False
    return os.path.samestat(there, os.fstat(handle))
