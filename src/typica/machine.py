"""What this machine has, and what some systems have: processors, memory, processes, signals."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn


def cores() -> int:
    """Return how many processors this process may use, if the system says, else all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_memory() -> int | None:
    """Return how many bytes of memory are free or can be freed, if the system says."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return 1024 * int(value.split()[0])
    return None


def processor() -> str:
    """Return the name of the processor's model, if the system says."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def is_running(process: int) -> bool:
    """Tell whether another process of this machine has this number; if in doubt, yes."""
    if process == os.getpid():  # in a container, numbers are used again
        return False
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's
        return True
    return True


@contextlib.contextmanager
def exit_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block by SystemExit, so that it can save its work.

    After the first one, others are ignored until the block ends. A signal that is already ignored,
    as by nohup, stays ignored.
    """
    names = ("SIGTERM", "SIGHUP")  # not every system has both
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    heard = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        heard = []

    def leave(number: int, _: object) -> NoReturn:
        for other in heard:
            signal.signal(other, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for number in heard:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def unheard_interrupts() -> Iterator[None]:
    """Shield processes that are started in the block from Ctrl-C: this one ends them in order.

    A Ctrl-C during the block takes effect when it ends.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker  # noqa: PLC0415 (costs time, and few need it)

    resource_tracker.ensure_running()  # Python's own, whose start would let Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)  # an engine may have set its own
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
