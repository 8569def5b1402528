"""Engines on this machine: rows per second, what the drivers add, and the time of the merge tree.

    python benchmarks/scale/engines.py --rows 1000000 --remove

writes three sizes of rows x 512 numbers in float32 as Parquet, and fits and scores them with CTM on
one machine, then on Dask, Ray and Spark with 1 and with 2 workers. Clusters are up and have done
some work before anything is measured; each time is the least of a few, and of more of what is
short: all sizes are measured for about as long.

Bare maps are what one would write by hand on the same engine, by its own map and without Typica,
over the same parts: each is read by pyarrow alone ("reads"), or read and summed by class with one
product of SciPy ("sums"); nothing comes back. What the drivers add is told as a ratio to the
latter. `--record docs/measured_scale.csv` keeps the times for docs/make_scale_costs.py.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import logging
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_array

from typica import CTM, scale
from typica.scale import _worker_jobs

WIDTH, CLASSES = 512, 100
GROUP = 25_000  # rows of a row group, 51 MB
FILE = 100_000  # rows of a file, 205 MB: a part, as parts are by default
TIMES = 3
TASKS = 64  # that do nothing
MOST = 1.3  # times a bare map that sums
ENGINES = ("dask", "ray", "spark")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "typica-rows")
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--engine", choices=("none", *ENGINES), action="append")
    parser.add_argument("--workers", type=int, action="append")
    parser.add_argument("--only", help="one measurement, in this process")
    parser.add_argument("--record", type=Path, help="a table of all times, whose other lines stay")
    parser.add_argument("--remove", action="store_true")
    asked = parser.parse_args()
    sizes = [asked.rows // 4, asked.rows // 2, asked.rows]
    if asked.only is not None:
        engine, _, workers = asked.only.partition(":")
        print(json.dumps(measured(engine, int(workers or 1), sizes, asked.folder, asked.times)))
        return 0
    for rows in sizes:
        write_rows(asked.folder / str(rows), rows)
    missed = 0
    for engine in asked.engine or ("none", *ENGINES):
        for workers in (1,) if engine == "none" else asked.workers or (1, 2):
            missed += report(engine, workers, sizes, asked)
    if asked.remove:
        shutil.rmtree(asked.folder)
    return missed


def write_rows(folder: Path, rows: int) -> None:
    """Write rows about 100 class means, as lists in Parquet, in files of a part each."""
    if folder.exists():
        return
    begun = folder.with_name(f"{folder.name}.begun")
    begun.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    means = rng.standard_normal((CLASSES, WIDTH), dtype=np.float32)
    for number, first in enumerate(range(0, rows, FILE)):
        count = min(FILE, rows - first)
        labels = rng.integers(CLASSES, size=count)
        Z = rng.standard_normal((count, WIDTH), dtype=np.float32)
        Z += means[labels]
        offsets = np.arange(count + 1, dtype=np.int32) * WIDTH
        column = pa.ListArray.from_arrays(offsets, Z.ravel())
        ids = np.arange(first, first + count)
        table = pa.table({"id": ids, "embedding": column, "label": labels})
        file = begun / f"part-{number:05d}.parquet"
        pq.write_table(table, file, row_group_size=GROUP, use_dictionary=["label"])
    begun.rename(folder)


def report(engine: str, workers: int, sizes: list[int], asked: Any) -> int:
    """Measure an engine in a process of its own, and print; return how many limits are missed."""
    command = [sys.executable, __file__, "--only", f"{engine}:{workers}", "--rows", str(asked.rows)]
    command += ["--folder", str(asked.folder), "--times", str(asked.times)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found = json.loads(done.stdout.splitlines()[-1])
    if asked.record is not None:
        record(asked.record, engine, workers, found)
    missed = 0
    name = "one machine" if engine == "none" else f"{engine}, {workers} workers"
    up, task = found["0"]["up"], 1000 * found["0"]["task"]
    told = f"up in {up:.1f} s, {task:.1f} ms for a task that does nothing"
    print(f"{name}: {told}", flush=True)
    for rows in sizes:
        times = found[str(rows)]
        for what in ("fit", "score"):
            speed = (
                f"{rows / times[what]:10,.0f} rows/s {4e-6 * WIDTH * rows / times[what]:7,.0f} MB/s"
            )
            print(f"  {what:<6} {rows:>9,} x {WIDTH}: {times[what]:7.2f} s {speed}", flush=True)
        if engine != "none":
            ratio, reads = times["fit"] / times["sums"], times["fit"] / times["reads"]
            good = ratio <= MOST or rows < sizes[-1]
            told = f"fit / bare map that sums, at most {MOST} at the largest size"
            print(f"  {told:<60} {ratio:6.2f}  {'ok' if good else 'MISSED'}")
            print(f"  {'fit / bare map that only reads':<60} {reads:6.2f}", flush=True)
            missed += not good
    return missed


def record(path: Path, engine: str, workers: int, found: dict[str, Any]) -> None:
    """Write the times of an engine into a table, in the place of those that were there."""
    lines = []
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))[1:]
    kept = [line for line in lines if line[:2] != [engine, str(workers)]]
    for rows, times in found.items():
        kept += [[engine, str(workers), rows, what, f"{took:.4f}"] for what, took in times.items()]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["engine", "workers", "rows", "what", "seconds"])
        writer.writerows(kept)


def measured(
    engine: str, workers: int, sizes: list[int], folder: Path, times: int
) -> dict[str, Any]:
    """Return seconds by size and kind of work; what starts a cluster is told by itself."""
    start = time.perf_counter()
    with cluster_of(engine, workers) as cluster:
        up = time.perf_counter() - start
        warm(cluster, folder / str(sizes[0]))
        found: dict[str, Any] = {"0": {"up": up, "task": task_seconds(cluster)}}
        for rows in sizes:
            found[str(rows)] = times_of(cluster, folder / str(rows), times * sizes[-1] // rows)
    return found


@contextlib.contextmanager
def cluster_of(engine: str, workers: int) -> Iterator[Any]:
    if engine == "none":
        yield None
    elif engine == "dask":
        from distributed import Client  # noqa: PLC0415 (one engine a process)

        from typica.scale.dask import DaskCluster  # noqa: PLC0415 (one engine a process)

        quiet = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
        with Client(n_workers=workers, threads_per_worker=1, **quiet) as client:
            yield DaskCluster(client)
    elif engine == "ray":
        import ray  # noqa: PLC0415 (one engine a process)

        from typica.scale.ray import RayCluster  # noqa: PLC0415 (one engine a process)

        how = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
        ray.init("local", num_cpus=workers, **how)
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        yield RayCluster()
        ray.shutdown()
    else:
        with scale.spark.connect(f"local[{workers},4]") as cluster:
            yield cluster


def warm(cluster: Any, folder: Path) -> None:
    """Let workers import what they need, and files come into memory."""
    for _ in range(2):
        times_of(cluster, folder, 1)


def task_seconds(cluster: Any) -> float:
    """Return what a task costs that does nothing, its share of the tree included."""
    if cluster is None:
        return 0.0
    tasks = [b""] * TASKS
    return min(timed(lambda: cluster.reduce(nothing, nothing_of, tasks)) for _ in range(2)) / TASKS


def nothing(task: bytes) -> bytes:
    return task


def nothing_of(states: Iterable[bytes]) -> bytes:
    return b"".join(states)


def times_of(cluster: Any, folder: Path, times: int) -> dict[str, float]:
    tables = scale.open_tables(folder, features="embedding", labels="label")
    rows = scale.open_tables(folder, features="embedding", ids="id")
    detector = scale.fit(CTM(), folder / "part-00000.parquet", features="embedding", labels="label")
    scale.calibrate(detector, folder / "part-00000.parquet", features="embedding")
    work = {
        "fit": lambda: scale.fit(CTM(), tables, engine=cluster),
        "score": lambda: scored(detector, rows, folder, cluster),
    }
    if cluster is not None:
        tasks = [_worker_jobs.pack_part(tables, part) for part in tables.parts]
        work["reads"] = lambda: bare_map(cluster, reads, tasks)
        work["sums"] = lambda: bare_map(cluster, sums, tasks)
    found: dict[str, float] = {}
    for _ in range(times):
        for name, run in work.items():
            found[name] = min(found.get(name, np.inf), timed(run))
    return found


def scored(detector: Any, rows: Any, folder: Path, cluster: Any) -> None:
    output = folder.with_name(f"{folder.name}.verdicts")
    scale.score(detector, rows, output, engine=cluster)
    shutil.rmtree(output)


def timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def bare_map(cluster: Any, work: Callable[[bytes], bytes], tasks: list[bytes]) -> None:
    """Do work on all tasks by the engine's own map."""
    if hasattr(cluster, "client"):
        cluster.client.gather(cluster.client.map(work, tasks, pure=False))
    elif hasattr(cluster, "session"):
        context = cluster.session.sparkContext
        context.parallelize(tasks, len(tasks)).map(work).collect()
    else:
        import ray  # noqa: PLC0415 (one engine a process)

        items = ray.data.from_items(tasks, override_num_blocks=len(tasks))
        items.map(lambda row: {"item": work(row["item"])}).materialize()


def records(task: bytes) -> Iterator[Any]:
    """Yield the record batches of a part, by pyarrow alone."""
    part, _ = _worker_jobs.unpack_part(task)
    file = pq.ParquetFile(part.file.path, pre_buffer=False, buffer_size=2**20)
    groups = range(*part.groups)
    yield from file.iter_batches(2**14, row_groups=groups, columns=["embedding", "label"])


def reads(task: bytes) -> bytes:
    for _ in records(task):
        pass
    return b""


def sums(task: bytes) -> bytes:
    total = np.zeros((CLASSES, WIDTH))
    for record in records(task):
        labels = record.column("label").to_numpy()
        Z = record.column("embedding").flatten().to_numpy().reshape(-1, WIDTH)
        ones = np.ones(len(Z), np.float32)
        chosen = csr_array((ones, labels, np.arange(len(Z) + 1)), shape=(len(Z), CLASSES))
        total += chosen.T @ Z
    return b""


if __name__ == "__main__":
    sys.exit(main() > 0)
