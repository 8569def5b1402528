"""What this process holds, and held at the most."""

from __future__ import annotations

import ctypes
import resource
from pathlib import Path


def peak_mib() -> float:
    """Return the most memory of this process; getrusage's is that of its parent, if it had more."""
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024


def resident_mb() -> float:
    """Return the memory that this process holds now, in MB, without what malloc keeps for later."""
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6
