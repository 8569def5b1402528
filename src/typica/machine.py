"""What this machine has: processors that may be used, and memory that is free."""

from __future__ import annotations

import os
from pathlib import Path


def cores() -> int:
    """Return how many processors this process may use, where the system tells, or all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_memory() -> int | None:
    """Return how many bytes of memory are free or can be made so, where the system tells."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return 1024 * int(value.split()[0])
    return None
