"""Ctrl-C answers within seconds, even while a library computes and does not listen.

Python raises KeyboardInterrupt between two of its own steps, and a nearest-neighbour search or an
eigenproblem is one step, however long it takes. The process is then ended without it: files are
written whole or not at all, so nothing is lost.
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

PATIENCE = 2.0  # seconds of processor time that Python has to react to a Ctrl-C
GLANCE = 0.05  # seconds between two looks at that time
SHOW_CURSOR = "\x1b[?25h"


@contextlib.contextmanager
def answered_soon() -> Iterator[None]:
    """Within the block, end the process at Ctrl-C if Python itself does not react soon."""
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
    """Tell whether the main thread reacted to the Ctrl-C before much more was computed."""
    end = time.process_time() + PATIENCE
    while not heard.wait(GLANCE):
        if time.process_time() > end:
            return False
    return True
