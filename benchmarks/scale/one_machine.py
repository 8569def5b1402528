"""Tables of any size on one machine: speed against pyarrow's reading alone, and memory.

    python benchmarks/scale/one_machine.py --rows 10000000 --folder /tmp/rows

writes rows x 512 numbers in float32 as Parquet, if they are not there, and measures each of fit,
calibrate and score in a process of its own, in turn with the same process that only reads. Speeds
are of bytes of features. The folder is left there; --remove removes it. `--record
docs/measured_one_machine.csv` keeps what was measured for docs/make_scale_costs.py.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from memory import peak_mib

from typica import CTM
from typica.scale import calibrate, fit, score

WIDTH, CLASSES, GROUP = 512, 100, 50_000
FILE = 250_000  # rows
TIMES = 3
FASTEST = 0.7  # of reading alone
MEMORY = 1024  # MiB


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", choices=sorted(WORK))
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--remove", action="store_true")
    parser.add_argument("--work", choices=("fit", "calibrate", "score"), action="append")
    parser.add_argument("--record", type=Path, help="a table, whose lines of other sizes stay")
    asked = parser.parse_args()
    if asked.only is not None:
        print(json.dumps(measured(asked.only, asked.folder)))
        return 0
    folder = asked.folder or Path(tempfile.gettempdir()) / f"typica-rows-{asked.rows}"
    write_rows(folder, asked.rows)
    missed = 0
    for name in asked.work or ("fit", "calibrate", "score"):
        found = compared(name, folder, asked.times)
        missed += report(name, asked.rows, found)
        if asked.record is not None:
            record(asked.record, name, asked.rows, found)
    if asked.remove:
        shutil.rmtree(folder)
    return missed


def write_rows(folder: Path, rows: int) -> None:
    """Write rows about 100 class means, as lists in Parquet."""
    if len(list(folder.glob("*.parquet"))) * FILE >= rows:
        return
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    means = rng.standard_normal((CLASSES, WIDTH), dtype=np.float32)
    offsets = np.arange(FILE + 1, dtype=np.int32) * WIDTH
    for number in range(-(-rows // FILE)):
        labels = rng.integers(CLASSES, size=FILE)
        Z = rng.standard_normal((FILE, WIDTH), dtype=np.float32)
        Z += means[labels]
        column = pa.ListArray.from_arrays(offsets, Z.ravel())
        ids = np.arange(number * FILE, (number + 1) * FILE)
        table = pa.table({"id": ids, "embedding": column, "label": labels})
        # What networks give does not repeat itself: a dictionary would be tried in vain.
        file = folder / f"part-{number:05d}.parquet"
        pq.write_table(table, file, row_group_size=GROUP, use_dictionary=["label"])


class Compared(NamedTuple):
    """Medians of seconds, of speeds beside reading alone, and the largest memory in MiB."""

    seconds: float
    ratio: float
    mib: float


def compared(name: str, folder: Path, times: int) -> Compared:
    """Measure one of the three, in turn with reading alone."""
    ratios, sizes, seconds = [], [], []
    for _ in range(times):
        alone, done = run("read", folder), run(name, folder)
        ratios.append(alone["seconds"] / done["seconds"])
        sizes.append(done["mib"])
        seconds.append(done["seconds"])
    return Compared(statistics.median(seconds), statistics.median(ratios), max(sizes))


def report(name: str, rows: int, found: Compared) -> int:
    """Print how fast and how large it is; return how many of the two limits are missed."""
    took = found.seconds
    speed = f"{rows / took:,.0f} rows/s, {4e-6 * WIDTH * rows / took:,.0f} MB/s"
    print(f"{name} {rows:,} x {WIDTH}: {took:.1f} s, {speed}", flush=True)
    fast, small = found.ratio >= FASTEST, found.mib <= MEMORY
    missed = 0
    for what, reached, good in (
        (f"{name}, speed / pyarrow reading alone, at least {FASTEST}", found.ratio, fast),
        (f"{name}, peak memory in MiB, at most {MEMORY}", found.mib, small),
    ):
        print(f"{what:<74} {reached:8.2f}  {'ok' if good else 'MISSED'}", flush=True)
        missed += not good
    return missed


def record(path: Path, name: str, rows: int, found: Compared) -> None:
    """Write what was found into a table, in the place of what was there."""
    lines = []
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))[1:]
    kept = [line for line in lines if line[:2] != [str(rows), name]]
    figures = f"{found.seconds:.2f}", f"{found.ratio:.2f}", f"{found.mib:.0f}"
    kept.append([str(rows), name, *figures])
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["rows", "what", *Compared._fields])
        writer.writerows(sorted(kept, key=lambda line: int(line[0])))


def run(name: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--only", name, "--folder", str(folder)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))


def measured(name: str, folder: Path) -> dict[str, Any]:
    """Do one of the three, and return what it took; what is imported does not count."""
    ready = WORK[name](folder)
    start, before = time.perf_counter(), time.process_time()
    ready()
    took, busy = time.perf_counter() - start, time.process_time() - before
    return {"seconds": took, "cpu": busy, "mib": peak_mib()}


def reading(folder: Path) -> Any:
    """Read features and labels with pyarrow alone, batch by batch."""

    def read() -> None:
        for path in sorted(folder.glob("*.parquet")):
            file = pq.ParquetFile(path, pre_buffer=False, buffer_size=2**20)
            for _ in file.iter_batches(2**14, columns=["embedding", "label"]):
                pass

    return read


def scanning(folder: Path) -> Any:
    """Read the same with pyarrow's scanner of data sets, on all cores."""

    def read() -> None:
        for _ in ds.dataset(folder).to_batches(columns=["embedding", "label"]):
            pass

    return read


def fitting(folder: Path) -> Any:
    return lambda: fit(CTM(), folder, features="embedding", labels="label")


def calibrating(folder: Path) -> Any:
    detector = fitted(folder)
    return lambda: calibrate(detector, folder, features="embedding")


def scoring(folder: Path) -> Any:
    detector = fitted(folder)
    detector = calibrate(detector, first(folder), features="embedding")
    output = Path(tempfile.mkdtemp(dir=folder.parent))

    def run_score() -> None:
        score(detector, folder, output / "verdicts", features="embedding", ids="id")
        shutil.rmtree(output)

    return run_score


def fitted(folder: Path) -> Any:
    """Fit on the first file alone."""
    return fit(CTM(), first(folder), features="embedding", labels="label")


def first(folder: Path) -> Path:
    return min(folder.glob("*.parquet"))


WORK = {
    "calibrate": calibrating,
    "fit": fitting,
    "read": reading,
    "scan": scanning,
    "score": scoring,
}

if __name__ == "__main__":
    sys.exit(main() > 0)
