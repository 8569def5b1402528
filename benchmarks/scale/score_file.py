"""`typica score -o` of one large file: its CPU against the bare product, and its memory.

    python benchmarks/scale/score_file.py --gigabytes 5 --classes 1000

writes rows of 512 numbers in float32 to a temporary folder, as .npy and as Parquet, scores both by
CTM to a Parquet file of verdicts, and removes the folder. CPU is that of whole processes, user and
system, less that of one that only imports: the bare one multiplies the mapped rows with the class
means, block by block. Memory is what a process has of its own at its peak: pages of the mapped file
are the system's, and are not counted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from typica import CTM

SHELL = Path(sys.executable).parent / "typica"
WIDTH, BLOCK = 512, 50_000
LIMIT = 3.0  # of the bare product's CPU
SAME_MEMORY = 1.1  # of what scoring the .npy takes
BARE = """
import sys
import numpy as np
means = np.load(sys.argv[2])
Z = np.load(sys.argv[1], mmap_mode="r")
for start in range(0, len(Z), 5000):
    Z[start : start + 5000] @ means.T
"""


class Cost(NamedTuple):
    """What a process took: seconds of CPU, and MiB of its own at the peak."""

    cpu: float
    mib: float


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="typica-score-", dir=asked.folder) as folder:
        rows = int(asked.gigabytes * 1e9 / 4 / WIDTH)
        write(Path(folder), rows, asked.classes)
        return report(Path(folder), rows, asked.classes)


def write(folder: Path, rows: int, classes: int) -> None:
    """Write a detector, its means, and the same rows as .npy and as Parquet."""
    rng = np.random.default_rng(0)
    means = rng.standard_normal((classes, WIDTH), dtype=np.float32)
    held = means[np.arange(20 * classes) % classes]
    held = held + rng.standard_normal(held.shape, dtype=np.float32)
    detector = CTM().fit(held, np.arange(len(held)) % classes).calibrate(2 * held)
    detector.save(folder / "ctm.safetensors")
    np.save(folder / "means.npy", means)
    file = np.lib.format.open_memmap(folder / "rows.npy", "w+", np.float32, (rows, WIDTH))
    kind = pa.schema([("embedding", pa.list_(pa.float32()))])
    with pq.ParquetWriter(folder / "rows.parquet", kind, use_dictionary=False) as writer:
        for start in range(0, rows, BLOCK):
            block = rng.standard_normal((min(BLOCK, rows - start), WIDTH), dtype=np.float32)
            block += means[rng.integers(classes, size=len(block))]
            file[start : start + BLOCK] = block
            offsets = np.arange(len(block) + 1, dtype=np.int32) * WIDTH
            column = pa.ListArray.from_arrays(offsets, block.ravel())
            writer.write_table(pa.table({"embedding": column}, kind))
    file.flush()


def report(folder: Path, rows: int, classes: int) -> int:
    """Print both ratios; return how many are missed."""
    score = [str(SHELL), "score", "ctm.safetensors"]
    start = run([str(SHELL), "score", "--help"], folder)
    bare_start = run([sys.executable, "-c", "import numpy"], folder)
    bare = run([sys.executable, "-c", BARE, "rows.npy", "means.npy"], folder)
    array = run([*score, "rows.npy", "-o", "array.parquet"], folder)
    columns = ["--features", "embedding", "-o", "table.parquet"]
    table = run([*score, "rows.parquet", *columns], folder)
    ours, theirs = array.cpu - start.cpu, bare.cpu - bare_start.cpu
    size = f"{rows:,} x {WIDTH}, {classes:,} classes"
    missed = 0
    for what, reached, limit in (
        (f"score -o of .npy, {size}, CPU ({ours:.0f} s) / bare product", ours / theirs, LIMIT),
        (
            f"memory to score Parquet ({table.mib:.0f} MiB) / .npy ({array.mib:.0f} MiB)",
            table.mib / array.mib,
            SAME_MEMORY,
        ),
    ):
        good = reached <= limit
        missed += not good
        mark = "ok" if good else "MISSED"
        print(f"{what:<74} {reached:6.2f}  at most {limit:g}  {mark}", flush=True)
    return missed


def run(command: list[str], folder: Path) -> Cost:
    """Run a command in the folder, and return what it took."""
    before = os.times()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    own = [0.0]
    watcher = threading.Thread(target=watch, args=(process, own))
    watcher.start()
    if process.wait():
        raise SystemExit(f"{command} failed")
    watcher.join()
    after = os.times()
    user, system = (
        after.children_user - before.children_user,
        after.children_system - before.children_system,
    )
    return Cost(user + system, own[0])


def watch(process: subprocess.Popen[bytes], own: list[float]) -> None:
    """Note the most anonymous memory that a process had, fifty times a second."""
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        try:
            lines = status.read_text().splitlines()
        except OSError:
            return
        for line in lines:
            if line.startswith("RssAnon:"):
                own[0] = max(own[0], int(line.split()[1]) / 1024)
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main() > 0)
