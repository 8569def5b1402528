"""A file that is looked at again and again, and read anew when another has taken its place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

Stamp = tuple[int, int, int] | None


class Watch:
    """Calls `changed` from a thread of its own whenever the file is another; 0 seconds: never."""

    def __init__(self, path: Path, changed: Callable[[], None], seconds: float) -> None:
        self._path, self._changed, self._seconds = path, changed, seconds
        self._seen = stamp(path)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="typica-watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        if self._seconds > 0:
            self._thread.start()

    def stop(self) -> None:
        """End; a file that is being read is read to its end."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            found = stamp(self._path)
            if found is not None and found != self._seen:
                self._seen = found
                self._changed()


def stamp(path: Path) -> Stamp:
    """Return what tells one file from the next in its place; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
