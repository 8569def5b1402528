"""Files made to do harm: each is refused with an input error or read, in seconds and in bounds.

`files.tar.xz` holds bombs, and one file for each failure that mutated files once found. Each is
taken through every door by a process of its own, whose processor time and memory are limited: a
crash, a hang or a bomb ends that process, and is seen by how it ended.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from itertools import pairwise
from pathlib import Path

import pytest

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


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the hostile files to a folder."""
    folder = tmp_path_factory.mktemp("hostile")
    with tarfile.open(Path(__file__).with_name("files.tar.xz")) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                path = folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.read())
    return folder


def test_hostile_files_are_refused_or_read_in_bounds(hostile: Path) -> None:
    paths = sorted((hostile / "bombs").iterdir())
    for folder in sorted([*(hostile / "refused").iterdir(), *(hostile / "refused2").iterdir()]):
        whole = folder.name.startswith(("bank-", "result-"))
        paths.append(folder if whole else next(folder.iterdir()))
    root = Path(__file__).parents[1]
    run = subprocess.run(
        [sys.executable, "-c", CHILD, str(root), *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = run.stdout.splitlines()
    said = pairwise(lines)  # of each file, the line after its name
    found = [(name, line) for name, line in said if line.startswith(("UNCAUGHT", "GREW"))]
    assert found == []
    assert lines[-1] == "DONE", f"{lines[-1]} ended the process: {run.stderr[-2000:]}"
