"""Ctrl-C answers within seconds, even while a library computes and does not listen.

Python raises KeyboardInterrupt between two of its own steps, and a nearest-neighbour search or an
eigenproblem is one step, however long it takes. Who has asked to stop is then let go without it:
files are written whole or not at all, so that ending there loses nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import NoReturn

from typica.cli._exits import INTERRUPTED

PATIENCE = 2.0  # seconds of processor time, in which Python's own steps take up a Ctrl-C
GLANCE = 0.05  # seconds between two looks at it
SHOW_CURSOR = "\x1b[?25h"


@contextlib.contextmanager
def answered_soon() -> Iterator[None]:
    """End the process where Ctrl-C does not come through by itself, within the block."""
    on_main_thread = threading.current_thread() is threading.main_thread()
    if not on_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    heard = threading.Event()

    def raise_interrupt(*_: object) -> NoReturn:
        heard.set()
        raise KeyboardInterrupt

    told, tells = socket.socketpair()
    tells.setblocking(False)
    with told, tells:
        before = signal.set_wakeup_fd(tells.fileno())
        signal.signal(signal.SIGINT, raise_interrupt)
        watcher = threading.Thread(target=_watch, args=(told, heard), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.set_wakeup_fd(before)
            tells.close()  # which ends the watcher
            watcher.join()


def _watch(told: socket.socket, heard: threading.Event) -> None:
    """Wait for a Ctrl-C, and end the process unless it is heard in time."""
    while received := told.recv(1):
        if received[0] == signal.SIGINT and not _heard_in_time(heard):
            if sys.stderr.isatty():
                sys.stderr.write(SHOW_CURSOR)
                sys.stderr.flush()
            os._exit(INTERRUPTED)


def _heard_in_time(heard: threading.Event) -> bool:
    """Tell whether the main thread took up the Ctrl-C before much more was computed."""
    end = time.process_time() + PATIENCE
    while not heard.wait(GLANCE):
        if time.process_time() > end:
            return False
    return True
