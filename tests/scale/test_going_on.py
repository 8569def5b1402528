"""Verdicts in a folder: each file whole or absent, and killed work goes on."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.shell import run

import typica
from typica import CTM, InputError, scale
from typica.files import lock_folder
from typica.scale import _batches, _judge, _verdict_shards

FILES = 8


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    Z, y = rng.random((800, 6)).astype(np.float32), np.arange(800) % 4
    Z[np.arange(800), y] += 2
    folder = tmp_path / "data"
    folder.mkdir()
    for number, chosen in enumerate(np.split(np.arange(800), FILES)):
        column = pa.FixedSizeListArray.from_arrays(pa.array(Z[chosen].ravel()), 6)
        pq.write_table(pa.table({"id": chosen, "features": column}), folder / f"{number}.parquet")
    CTM().fit(Z, y).calibrate(2 * Z[::3]).save(tmp_path / "ctm.safetensors")
    return tmp_path


def names_in(folder):
    return sorted(path.name for path in Path(folder).iterdir())


KILLED = """
import os, signal, sys
import typica
from typica.scale import _judge
judged = _judge.Judge.__call__
def killing(self, batch):
    if batch.source == "5.parquet":  # its file of verdicts has been begun
        os.kill(os.getpid(), signal.SIGKILL)
    return judged(self, batch)
_judge.Judge.__call__ = killing
from typica.cli import main
main(sys.argv[1:])
"""


def test_work_that_was_killed_goes_on(data, capsys, monkeypatch):
    monkeypatch.chdir(data)
    arguments = ["score", "ctm.safetensors", "data", "--id-column", "id", "-o", "verdicts"]
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], capture_output=True, check=False
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    there = sorted(path.name for path in Path("verdicts").glob("part-*"))
    assert there == [f"part-{i:05d}.parquet" for i in range(5)]
    assert len(names_in("verdicts")) == 5 + 1 + 1  # what is known of it, and what was begun
    before = {name: Path("verdicts", name).stat().st_mtime_ns for name in there}
    out = run(capsys, *arguments)
    after = {name: Path("verdicts", name).stat().st_mtime_ns for name in there}
    assert before == after
    run(capsys, *arguments[:-1], "whole")
    assert pq.read_table("verdicts").equals(pq.read_table("whole"))
    assert pq.read_table("verdicts")["id"].to_pylist() == list(range(800))
    assert names_in("verdicts") == names_in("whole")
    rejected = pq.read_table("whole")["verdict"].to_pylist().count("atypical")
    assert f"{rejected} of 800 rows are atypical" in out
    assert f"{rejected} of 800 rows are atypical" in run(capsys, *arguments)  # all is there


def test_a_file_that_was_cut_off_away_is_written_again(data, monkeypatch):
    monkeypatch.chdir(data)
    detector = typica.load("ctm.safetensors")
    done = scale.score(detector, "data", "memory://verdicts")
    system = fsspec.filesystem("memory")
    whole = system.cat_file("/verdicts/part-00003.parquet")
    system.pipe_file("/verdicts/part-00003.parquet", whole[:100])
    assert scale.score(detector, "data", "memory://verdicts") == done
    assert system.cat_file("/verdicts/part-00003.parquet") == whole
    assert len(system.ls("/verdicts")) == FILES + 1
    assert done.n == 800


@pytest.mark.parametrize("where", ["memory://stopped", "file://{}/stopped", "{}/stopped"])
def test_work_that_was_stopped_leaves_no_file_that_looks_whole(where, data, monkeypatch):
    """A part of several batches is stopped in the third, as by Ctrl-C."""
    monkeypatch.chdir(data)
    monkeypatch.setattr(_batches, "BATCH_BYTES", 20 * 6 * 4)
    judged, calls = _judge.Judge.__call__, []

    def stopping(self, batch):
        calls.append(batch)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return judged(self, batch)

    detector, output = typica.load("ctm.safetensors"), where.format(data)
    with monkeypatch.context() as patch:
        patch.setattr(_judge.Judge, "__call__", stopping)
        with pytest.raises(KeyboardInterrupt):
            scale.score(detector, "data", output)
    system, path = fsspec.core.url_to_fs(output)
    assert [Path(name).name for name in system.find(path)] == ["_typica.json"]
    assert scale.score(detector, "data", output).n == 800
    assert scale.open_tables(output, columns=["score"]).rows == 800


def test_counts_are_the_same_when_all_is_there(data, monkeypatch):
    monkeypatch.chdir(data)
    detector = typica.load("ctm.safetensors")
    for only in (None, "typical", "atypical"):
        done = scale.score(detector, "data", f"verdicts-{only}", only=only)
        assert done.n == 800 and done.rejected > 0
        assert scale.score(detector, "data", f"verdicts-{only}", only=only) == done
    table = pq.read_table("data")
    with pa.OSFile("rows.arrows", "wb") as out, pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    whole = scale.score(detector, "rows.arrows", "stream")
    assert whole[:2] == done[:2] == scale.score(detector, "rows.arrows", "stream")[:2]


def test_files_of_an_older_version_are_counted_by_their_rows(data, monkeypatch):
    monkeypatch.chdir(data)
    detector = typica.load("ctm.safetensors")
    done = scale.score(detector, "data", "verdicts")
    for path in Path("verdicts").glob("part-*"):
        table = pq.read_table(path)
        pq.write_table(table.replace_schema_metadata(), path)
    assert scale.score(detector, "data", "verdicts") == done


def test_a_judge_of_no_rows_rejects_none(data):
    judge = scale.Judge(typica.load(data / "ctm.safetensors"))
    judge(scale.Batch(-np.ones((5, 6))))
    assert judge.rejected == 5
    judge(scale.Batch(np.ones((0, 6))))
    assert judge.rejected == 0


@pytest.mark.parametrize("where", ["{}/other", "file://{}/other", "memory://other"])
def test_other_rows_in_files_of_the_same_name_are_other_data(where, data, monkeypatch):
    monkeypatch.chdir(data)
    detector, place = typica.load("ctm.safetensors"), where.format(data)
    system, path = fsspec.core.url_to_fs(place)
    system.makedirs(path, exist_ok=True)
    contents = [Path("data", f"{number}.parquet").read_bytes() for number in (0, 1)]
    system.pipe_file(f"{path}/rows.parquet", contents[0])
    done = scale.score(detector, f"{place}/rows.parquet", "verdicts")
    assert scale.score(detector, f"{place}/rows.parquet", "verdicts") == done
    system.pipe_file(f"{path}/rows.parquet", contents[1])
    if system.protocol != "memory":
        os.utime(Path(path, "rows.parquet"), ns=(1, 1))  # however coarse its clock is
    with pytest.raises(InputError, match="verdicts: holds verdicts on other data in rows"):
        scale.score(detector, f"{place}/rows.parquet", "verdicts")


def test_rows_are_not_overwritten_by_the_verdicts_on_them(data, monkeypatch):
    monkeypatch.chdir(data)
    before = Path("data/3.parquet").read_bytes()
    Path("link.parquet").symlink_to("data/3.parquet")
    for output in ("data/3.parquet", "link.parquet"):
        with pytest.raises(InputError, match=rf"{output}: is read here, and would be replaced"):
            scale.score(typica.load("ctm.safetensors"), "data", output)
    assert Path("data/3.parquet").read_bytes() == before


def test_other_work_does_not_go_on_there(data, monkeypatch):
    monkeypatch.chdir(data)
    detector = typica.load("ctm.safetensors")
    scale.score(detector, "data", "verdicts")
    asked = {
        "levels": lambda: scale.score(detector, "data", "verdicts", alpha=0.2),
        "columns": lambda: scale.score(detector, "data", "verdicts", ids="id"),
        "rows": lambda: scale.score(detector, "data", "verdicts", only="atypical"),
    }
    for key, ask in asked.items():
        with pytest.raises(
            InputError, match=f"verdicts: holds verdicts with another {key}; choose a"
        ):
            ask()
    with pytest.raises(InputError, match=r"verdicts on 6\.parquet, 7\.parquet, not among these;"):
        scale.score(detector, "data/[0-5].parquet", "verdicts")
    other = typica.load("ctm.safetensors").calibrate(np.random.default_rng(1).random((100, 6)))
    with pytest.raises(InputError, match="verdicts: holds verdicts with another calibration"):
        scale.score(other, "data", "verdicts")
    with pytest.raises(
        InputError, match=r"verdicts: holds verdicts with another (calibration|detector)"
    ):
        scale.score(CTM().fit(np.eye(6).repeat(20, 0), np.arange(120) % 6), "data", "verdicts")


@pytest.mark.parametrize("where", ["verdicts", "memory://changed"])
def test_verdicts_on_files_that_have_not_changed_stay(data, monkeypatch, where):
    monkeypatch.chdir(data)
    detector = typica.load("ctm.safetensors")
    scale.score(detector, "data", where, ids="id")
    turned = pq.read_table("data/3.parquet").take(list(range(99, -1, -1)))
    pq.write_table(turned, "data/3.parquet")
    os.utime("data/3.parquet", ns=(1, 1))  # however coarse its clock is
    pq.write_table(turned, "data/9.parquet")
    judged, seen = _judge.Judge.__call__, []

    def watching(self, batch):
        seen.append(batch.source)
        return judged(self, batch)

    notes: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(_judge.Judge, "__call__", watching)
        patch.setattr(_verdict_shards, "note", notes.append)
        done = scale.score(detector, "data", where, ids="id")
    assert seen == ["3.parquet", "9.parquet"] and done.n == 900
    assert notes == [f"{where}: has changed or is new, and is judged: 3.parquet, 9.parquet"]
    system, path = fsspec.core.url_to_fs(where)
    tables = [pq.read_table(system.open(p)) for p in sorted(system.glob(f"{path}/part-*"))]
    found = pa.concat_tables(tables)
    whole = scale.score(detector, "data", ids="id").read_all()
    assert found.equals(whole.cast(found.schema))


def test_two_do_not_write_to_one_folder(data, monkeypatch):
    monkeypatch.chdir(data)
    Path("verdicts").mkdir()
    handle = lock_folder(Path("verdicts"))
    with pytest.raises(
        InputError, match="verdicts: another process is writing verdicts there; wait"
    ):
        scale.score(typica.load("ctm.safetensors"), "data", "verdicts")
    os.close(handle)


def test_a_disk_that_is_full_leaves_nothing_half_written(data, monkeypatch):
    monkeypatch.chdir(data)
    written = pq.ParquetWriter.write_batch

    def full(self, batch, *args):
        if batch["file"][0].as_py() == "3.parquet":
            raise OSError(errno.ENOSPC, "No space left on device")
        written(self, batch, *args)

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", full)
    with pytest.raises(InputError, match=r"part-00003.parquet: the disk is full"):
        scale.score(typica.load("ctm.safetensors"), "data", "verdicts")
    assert names_in("verdicts") == ["_typica.json", *(f"part-{i:05d}.parquet" for i in range(3))]
