"""Engines from the shell: local clusters start, stop, are interrupted, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers.engines import NAMES, pieces, some_rows, write_pieces

import typica

ENGINES = ["dask", "ray", "spark"]
MARK = "TYPICA_TEST_MARK"
END = 120  # seconds in which everything is gone, on a busy machine


@pytest.fixture
def folder(tmp_path):
    Z, codes = some_rows(0, 400)
    write_pieces(tmp_path / "train", pieces(Z, NAMES[codes], [50, 51, 300]))
    held, codes = some_rows(1, 200)
    write_pieces(tmp_path / "held", pieces(held, NAMES[codes], [100]))
    return tmp_path


def started(folder: Path, command: list[str], **variables: str):
    """Start a command whose processes can be found by a mark, whatever they become."""
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, MARK: mark, **variables},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, mark


def marked(mark: str) -> list[str]:
    """Return the commands that run with a mark in their environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}" in (place / "environ").read_bytes().decode(errors="replace"):
                found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def assert_nothing_is_left(mark: str) -> None:
    end = time.monotonic() + END
    while marked(mark) and time.monotonic() < end:
        time.sleep(0.2)
    assert marked(mark) == []


def run(folder: Path, *command: str, code: int = 0):
    process, mark = started(folder, ["-c", "from typica.cli import main; main()", *command])
    out, error = process.communicate(timeout=20 * END)
    assert process.returncode == code, out + error
    assert "Traceback" not in error
    assert_nothing_is_left(mark)
    return out, error


@pytest.mark.parametrize("engine", ENGINES)
def test_the_three_commands_on_a_cluster_that_starts_and_stops(folder, engine):
    where = ["--features", "features", "--engine", engine]
    many = ["--calibrate", "held", "-o", "many.safetensors"]
    out, _ = run(folder, "fit", "train", *where, *many)
    assert "fitted on 400 rows" in " ".join(out.split())
    run(
        folder,
        "fit",
        "train",
        "--features",
        "features",
        "--calibrate",
        "held",
        "-o",
        "one.safetensors",
    )
    one, other = (typica.load(folder / f"{name}.safetensors") for name in ("one", "many"))
    Z, _ = some_rows(2, 50)
    np.testing.assert_allclose(other.score_samples(Z), one.score_samples(Z), rtol=1e-5)
    assert other.threshold_ == pytest.approx(one.threshold_, rel=1e-6)
    run(folder, "calibrate", "many.safetensors", "held", *where, "--alpha", "0.2")
    assert float(typica.load(folder / "many.safetensors").calibration_.levels.alpha) == 0.2
    ids = ["--id-column", "id"]
    out, error = run(folder, "score", "one.safetensors", "train", *where, *ids, "-o", "there")
    assert error == "wrote there\n" and "of 400 rows are atypical" in out
    run(folder, "score", "one.safetensors", "train", "--features", "features", *ids, "-o", "here")
    assert pq.read_table(folder / "there").equals(pq.read_table(folder / "here"))
    out, _ = run(folder, "score", "one.safetensors", "train", *where, "--limit", "3")
    assert "the 3 strangest of 400 are shown" in out


@pytest.mark.parametrize("engine", ENGINES)
def test_a_bad_row_is_one_line(folder, engine):
    Z, codes = some_rows(0, 100)
    Z[60, 2] = np.nan
    write_pieces(folder / "bad", pieces(Z, codes, [50]))
    where = ["--features", "features", "--engine", engine, "-o", "bad.safetensors"]
    _, error = run(folder, "fit", "bad", *where, code=2)
    lines = [line for line in error.splitlines() if not line.startswith(("no labels", "threshold"))]
    assert len(lines) == 1, error
    told = f"error: {folder}/bad/001.parquet: row 10 of the features holds NaN or infinity"
    assert lines[0].startswith(told)


@pytest.mark.parametrize("engine", ENGINES)
def test_ctrl_c_ends_the_cluster(folder, engine):
    flag = folder / "at-work"
    code = "from helpers.engines import shell; shell()"
    command = ["-c", code, "fit", "train", "--features", "features", "--engine", engine]
    process, mark = started(folder, command, TYPICA_WAITS_AT=str(flag))
    while not flag.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=2 * END)
    assert process.returncode == 130, error
    assert "Traceback" not in error
    assert_nothing_is_left(mark)
    assert not (folder / "train.safetensors").exists()


ADDRESSES = {"dask": "tcp://127.0.0.1:{}", "ray": "127.0.0.1:{}", "spark": "spark://127.0.0.1:{}"}


@pytest.mark.parametrize("engine", ENGINES)
def test_an_address_that_does_not_answer_is_one_line(folder, engine):
    where = ["--engine", engine, "--address", ADDRESSES[engine].format(1)]
    _, error = run(folder, "fit", "train", "--features", "features", *where, code=2)
    told = f"error: --address {where[-1]}: does not answer (Connection refused); check"
    assert error.startswith(told) and error.count("\n") == 1


def test_a_local_master_of_spark_starts_this_python(folder, monkeypatch):
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", os.pathsep.join(["/usr/bin", "/bin"]))  # whose python3 is another
    where = ["--engine", "spark", "--address", "local[2]"]
    out, _ = run(folder, "fit", "train", "--features", "features", *where, "-o", "a.safetensors")
    assert "fitted on 400 rows" in " ".join(out.split())


CONNECTED = """
from pyspark.sql import SparkSession
import typica
from typica.scale import spark as on_spark

session = SparkSession.builder.remote("local[2]").getOrCreate()
one = typica.scale.fit(typica.CTM(), "train", features="features")
files = on_spark.fit(typica.CTM(), "train", session=session, features="features")
frame = session.read.parquet("train/*.parquet")
rows = on_spark.fit(typica.CTM(), frame, "label", features="features")
for many in (files, rows):
    assert abs(many.moments_.means - one.moments_.means).max() < 1e-5
judged = on_spark.score(one, frame, features="features", ids="id").collect()
assert sorted(row.id for row in judged) == list(range(400))
session.stop()
print("done")
"""


def test_spark_connect(folder):
    pytest.importorskip("grpc_status")
    pytest.importorskip("zstandard")
    process, mark = started(folder, ["-W", "ignore", "-c", CONNECTED])
    out, error = process.communicate(timeout=5 * END)
    assert process.returncode == 0 and out == "done\n", out + error
    assert_nothing_is_left(mark)


def test_a_cluster_that_runs_already(folder, dask):
    address = dask.scheduler.address
    where = ["--engine", "dask", "--address", address]
    out, _ = run(folder, "fit", "train", "--features", "features", *where, "-o", "a.safetensors")
    assert "fitted on 400 rows" in " ".join(out.split())
    assert len(dask.scheduler_info()["workers"]) == 2


def test_a_host_that_is_no_scheduler_is_told(folder):
    import socketserver
    import threading

    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.server_address[1]}"
        where = ["--engine", "dask", "--address", address]
        _, error = run(folder, "fit", "train", "--features", "features", *where, code=2)
        server.shutdown()
    assert error.startswith(f"error: --address {address}: does not answer (")
    assert error.count("\n") == 1
