"""A file that is watched, and read again when another has taken its place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from typica.serve._logs import log
from typica.serve._metrics import RELOADS
from typica.serve._served import Network, Served, read_served
from typica.serve._verdict_tensors import known_outputs

Stamp = tuple[int, int, int] | None


class Watch:
    """Calls `changed` from a thread of its own when a served file changes; 0 seconds: never."""

    def __init__(self, path: Path, changed: Callable[[], None], seconds: float) -> None:
        self._path, self._changed, self._seconds = path, changed, seconds
        self._seen = served_stamp(path)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="typica-watch", daemon=True)

    def start(self) -> None:
        """Start watching the served file."""
        if self._seconds > 0:
            self._thread.start()

    def stop(self) -> None:
        """Stop watching; a served file that is being read is read to its end."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            found = served_stamp(self._path)
            if found is not None and found != self._seen:
                self._seen = found
                self._changed()


def reread(name: str, before: Served, network: Network) -> Served | None:
    """Read a detector's file again; None if it is broken or the same, so that nothing changes."""
    try:
        served = read_served(name, before.path, network, before)
        known_outputs(served)
    except Exception as error:  # of any kind: the previous detector stays
        RELOADS.labels(name, "failed").inc()
        log("reload failed", level="error", model=name, reason=str(error))
        return None
    return None if served.digest == before.digest else served


def served_stamp(path: Path) -> Stamp:
    """Return what distinguishes a served file from the next in its place; None if it is gone."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
