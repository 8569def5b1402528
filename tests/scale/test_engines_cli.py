"""Engines without one: what is missing or does not answer is told in one line, before any work."""

from __future__ import annotations

import importlib.util
import socket

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.data import Data
from helpers.shell import run

import typica
from typica import CTM, InputError, scale
from typica.scale import _batches, _worker_jobs

find_spec = importlib.util.find_spec


@pytest.fixture
def folder(data: Data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train").mkdir()
    rows = pa.table({"features": data.train.tolist(), "label": data.labels})
    pq.write_table(rows, "train/0.parquet", row_group_size=50)
    CTM().fit(data.train, data.labels).calibrate(data.held_out).save("ctm.safetensors")
    np.save("rows.npy", data.train)
    monkeypatch.setattr(_batches, "read_batch", None)  # nothing is read
    return tmp_path


@pytest.fixture
def without(monkeypatch):
    """Let no engine be installed."""

    def found(name, *rest):
        return None if name in scale.ENGINES.values() else find_spec(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", found)


COMMANDS = {
    "fit": "fit train -o new.safetensors",
    "calibrate": "calibrate ctm.safetensors train",
    "score": "score ctm.safetensors train -o verdicts",
}


@pytest.mark.parametrize("engine", scale.ENGINES)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_engine_that_is_not_installed(folder, without, capsys, engine, command):
    error = run(capsys, *COMMANDS[command].split(), "--engine", engine, code=2)
    package = scale.ENGINES[engine]
    told = f"error: {package} is not installed; install the extra '{engine}': pip install"
    assert error.startswith(told) and error.count("\n") == 1
    assert not (folder / "verdicts").exists() and not (folder / "new.safetensors").exists()


@pytest.mark.parametrize("engine", scale.ENGINES)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_address_that_does_not_answer(folder, capsys, monkeypatch, engine, command):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: True)
    with socket.socket() as taken:  # nobody listens at a port that is only taken
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        address = f"{'tcp' if engine == 'dask' else engine}://127.0.0.1:{port}"
        where = ["--engine", engine, "--address", address]
        error = run(capsys, *COMMANDS[command].split(), *where, code=2)
    told = f"error: --address {address}: does not answer (Connection refused); check the address"
    assert error.startswith(told) and error.count("\n") == 1


ERRORS = {
    "fit train --engine flink": "flink",
    "fit train --address tcp://x:1": (
        "error: --address tcp://x:1: of which engine? Pass --engine NAME"
    ),
    "score ctm.safetensors train --address x:1": "error: --address x:1: of which engine?",
    "calibrate ctm.safetensors train --address x:1": "error: --address x:1: of which engine?",
    "fit absent --engine dask": "error: absent: there is no such file or folder; check the path.",
    "fit train --engine dask --features vector": (
        "error: train/0.parquet: there is no column 'vector'"
    ),
    "fit train --engine dask --model m.onnx": "error: --model is for images, and these are tables",
    "score ctm.safetensors rows.npy --engine dask": "error: rows.npy: neither Parquet, Arrow",
    "score ctm.safetensors train --engine dask --fdr 0.1": (
        "error: --fdr 0.1: needs all rows at once"
    ),
}


@pytest.mark.parametrize("command", ERRORS)
def test_bad_input_is_told_before_a_cluster_starts(folder, capsys, monkeypatch, command):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: True)
    monkeypatch.setattr(scale.dask, "connect", lambda address: None)  # which cannot be opened
    error = run(capsys, *command.split(), code=2)
    assert ERRORS[command] in error
    assert error.count("\n") == 1 or "flink" in command


def test_objects_of_this_process_are_for_this_process():
    rows = pa.table({"features": np.eye(4).tolist()})
    with pytest.raises(InputError, match="Table is an object of this process, and the workers"):
        scale.fit(CTM(), rows, engine=Here())
    fitted = CTM().fit(np.eye(20), range(20))
    with pytest.raises(InputError, match="Table is an object of this process"):
        scale.score(fitted, rows, engine=Here(), features="features")
    with pytest.raises(InputError, match="fit: engine='flink': choose one of dask, ray, spark"):
        scale.fit(CTM(), rows, engine="flink")


class Here:
    """A cluster that is this process: what is sent is bytes, and so is what comes back."""

    def map(self, work, tasks):
        assert all(isinstance(task, bytes) for task in tasks)
        return map(work, tasks)

    def reduce(self, work, merge, tasks):
        states = [merge([work(task)]) for task in tasks]
        assert all(isinstance(state, bytes) for state in states)
        return merge(states)


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    Z = (rng.random((300, 4)) + 3 * np.eye(3, 4)[y]).astype(np.float32)
    folder = tmp_path / "data"
    folder.mkdir()
    for number, some in enumerate(np.array_split(np.arange(300), 4)):
        part = pa.table({"id": some, "features": Z[some].tolist(), "label": y[some]})
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=20)
    return folder


def test_a_cluster_does_what_one_machine_does(rows, tmp_path):
    one = scale.fit(CTM(), rows)
    many = scale.fit(CTM(), rows, engine=Here())
    assert many.training_offset_ == pytest.approx(one.training_offset_, rel=1e-6)
    scale.calibrate(one, rows, alpha=0.1)
    scale.calibrate(many, rows, alpha=0.1, engine=Here())
    assert many.threshold_ == pytest.approx(one.threshold_, rel=1e-6)
    here = scale.score(one, rows, tmp_path / "here", ids="id")
    there = scale.score(one, rows, tmp_path / "there", ids="id", engine=Here())
    assert here[:2] == there[:2]
    assert pq.read_table(tmp_path / "here").equals(pq.read_table(tmp_path / "there"))
    (tmp_path / "there" / "part-00001.parquet").unlink()
    assert scale.score(one, rows, tmp_path / "there", ids="id", engine=Here()) == there
    assert scale.score(one, rows, tmp_path / "there", ids="id", engine=Here()) == there
    scale.score(one, rows, tmp_path / "there.csv", ids="id", engine=Here())
    assert (tmp_path / "there.csv").read_text().count("\n") == 301
    streamed = scale.score(one, rows, ids="id", engine=Here(), only="atypical").read_all()
    assert len(streamed) == here.rejected


def test_a_cluster_skips_the_same_rows(rows, tmp_path):
    table = pq.read_table(rows / "1.parquet")
    bad = [None if place % 7 == 0 else row.as_py() for place, row in enumerate(table["features"])]
    pq.write_table(table.set_column(1, "features", pa.array(bad)), rows / "1.parquet")
    one, many = (scale.fit_counted(CTM(), rows, on_error="skip", engine=e) for e in (None, Here()))
    assert one.n == many.n == 300 - 11
    for found, engine in ((one, None), (many, Here())):
        scale.calibrate(found.detector, rows, alpha=0.1, on_error="skip", engine=engine)
    assert many.detector.threshold_ == pytest.approx(one.detector.threshold_, rel=1e-6)
    here = scale.score(one.detector, rows, tmp_path / "here", on_error="skip")
    there = scale.score(one.detector, rows, tmp_path / "there", on_error="skip", engine=Here())
    assert here[:2] == there[:2] and here.skipped == there.skipped == 11
    assert pq.read_table(tmp_path / "here").equals(pq.read_table(tmp_path / "there"))


def test_what_is_open_is_taken_as_it_is(rows):
    tables = scale.open_tables(rows, features="features", labels="label", part_bytes=1)
    assert len(tables.parts) == 16
    many = scale.fit(CTM(), tables, engine=Here())
    assert many.training_offset_ == pytest.approx(scale.fit(CTM(), rows).training_offset_, rel=1e-6)
    assert scale.open_tables(tables) is tables
    with pytest.raises(InputError, match="these tables are open already; pass their columns"):
        scale.fit(CTM(), tables, features="features")
    with pytest.raises(InputError, match="2 features per row instead of 5"):
        flat = scale.open_tables(rows, columns=["id", "label"])
        scale.calibrate(CTM().fit(np.ones((20, 5))), flat)


def test_a_late_cluster_is_opened_by_its_first_work_and_closed_once(monkeypatch, rows):
    import contextlib

    told = []

    @contextlib.contextmanager
    def connect(address):
        told.append(("opened", address))
        try:
            yield Here()
        finally:
            told.append("closed")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: True)
    monkeypatch.setattr(scale.ray, "connect", connect)
    with scale.open_engine("ray", "auto") as cluster:
        assert told == []
        scale.fit(CTM(), rows, engine=cluster)
        scale.fit(CTM(), rows, engine=cluster)
    assert told == [("opened", "auto"), "closed"]
    with pytest.raises(InputError, match="there is no column 'x'"):
        scale.fit(CTM(), rows, features="x", engine="ray")
    assert len(told) == 2


def test_outcomes_carry_what_is_wrong():
    def bad():
        raise InputError("row 3 is bad; fix it.")

    good = _worker_jobs.attempt(lambda: b"fine")
    wrong = _worker_jobs.attempt(bad)
    assert good.value() == b"fine"
    assert _worker_jobs.merge_outcomes(b"".join, [good, good]) == (b"finefine", None)
    with pytest.raises(InputError, match=r"^row 3 is bad; fix it.$"):
        _worker_jobs.merge_outcomes(b"".join, [good, wrong]).value()
    assert typica.InputError is InputError


@pytest.mark.parametrize("module", [scale.dask, scale.ray, scale.spark])
def test_a_library_call_names_the_extra(module, monkeypatch):
    import importlib as library

    real = library.import_module

    def absent(name, *rest):
        package = name.partition(".")[0]
        if package in ("dask", "distributed", "ray", "pyspark"):
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return real(name, *rest)

    monkeypatch.setattr("typica.extras.importlib.import_module", absent)
    for ask in (
        lambda: module.fit(CTM(), "x"),
        lambda: module.calibrate(CTM(), "x"),
        lambda: module.score(CTM(), "x"),
    ):
        with pytest.raises(InputError, match=r"is not installed; install the extra '(dask|ray|sp)"):
            ask()
