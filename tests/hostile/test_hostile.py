"""Files made to do harm: each is refused with an input error or read, in seconds and in bounds.

Each file is taken through every door by a process of its own, whose processor time and memory are
limited: a crash, a hang or a bomb ends that process, and is seen by how it ended.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.attack import ATTACK

CHILD = """
import resource, sys, traceback
from pathlib import Path
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
sys.path.insert(0, sys.argv[1])
from helpers.doors import enter
from helpers.memory import peak_kilobytes
import scipy.io, pyarrow.parquet
for name in sys.argv[2:]:
    print(name, flush=True)
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + 20
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
    try:
        enter(Path(name))
    except Exception:
        print("UNCAUGHT", traceback.format_exc().splitlines()[-3:], flush=True)
    grown = peak_kilobytes()
    if grown > 2 << 20:
        print("GREW", grown, flush=True)
        break
print("DONE")
"""


def enter_all(paths: list[Path]) -> str:
    """Take files through the doors in another process; return what it said of them."""
    root = Path(__file__).parents[1]
    run = subprocess.run(
        [sys.executable, "-c", CHILD, str(root), *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{run.stdout}\nexit {run.returncode}\n{run.stderr[-2000:]}"


def hostile_files() -> list[Path]:
    bombs = sorted((ATTACK / "bombs").iterdir())
    refused = []
    for folder in sorted((ATTACK / "refused").iterdir()):
        whole = folder.name.startswith(("bank-", "result-"))
        refused.append(folder if whole else next(folder.iterdir()))
    return [*bombs, *refused]


@pytest.mark.skipif(not ATTACK.exists(), reason=f"the hostile files are not at {ATTACK}")
def test_hostile_files_are_refused_or_read_in_bounds() -> None:
    said = enter_all(hostile_files())
    assert "DONE" in said
    assert "UNCAUGHT" not in said
    assert "GREW" not in said
