"""Where tables lie: files, patterns, folders, addresses, Arrow files and objects."""

from __future__ import annotations

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import typica
from typica import CTM, scale

RNG = np.random.default_rng(0)
Y = np.arange(120) % 3
Z = (RNG.random((120, 5)) + 2 * np.eye(3, 5)[Y]).astype(np.float32)
WHOLE = CTM().fit(Z, Y)


def some(rows=slice(None)):
    column = pa.FixedSizeListArray.from_arrays(pa.array(Z[rows].ravel()), 5)
    return pa.table({"id": np.arange(120)[rows], "vector": column, "label": Y[rows]})


@pytest.fixture
def folder(tmp_path):
    for name, rows in (("a/1", slice(0, 50)), ("a/2", slice(50, 90)), ("b/3", slice(90, 120))):
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(some(rows), path, row_group_size=20)
    return tmp_path


def check(data, **options):
    """Fit, calibrate and score; all as on one machine."""
    fitted = scale.fit(CTM(), data, **options)
    assert fitted.classes_.tolist() == [0, 1, 2]
    np.testing.assert_allclose(fitted.score_samples(Z), WHOLE.score_samples(Z), rtol=1e-6)
    scale.calibrate(fitted, data)
    assert fitted.calibration_.n == 120
    found = scale.score(fitted, data, ids="id").read_all()
    assert found["id"].to_pylist() == list(range(120))
    np.testing.assert_allclose(found["score"], WHOLE.score_samples(Z), rtol=1e-6)
    return fitted


def sources(data):
    return [file.source for file in scale.find_files(data)]


def test_files_are_known_by_their_path_within_the_data_set(folder, monkeypatch):
    monkeypatch.chdir(folder)
    every = ["a/1.parquet", "a/2.parquet", "b/3.parquet"]
    for data in (
        folder,
        str(folder),
        ".",
        f"{folder}/*/*.parquet",
        "./*/*.parquet",
        "**/*.parquet",
    ):
        assert sources(data) == every, data
    assert sources([folder / name for name in every]) == every
    assert sources([folder / "a", folder / "b"]) == every
    assert sources("a") == sources("a/*.parquet") == ["1.parquet", "2.parquet"]
    assert sources("a/1.parquet") == ["1.parquet"]
    for hidden in ("_SUCCESS", ".part.parquet", "_temporary/0.parquet", "a/notes.txt"):
        (folder / hidden).parent.mkdir(exist_ok=True)
        (folder / hidden).touch()
    assert sources(folder) == every


def test_calibrations_are_the_same_wherever_the_folder_is_named_from(folder, monkeypatch):
    monkeypatch.chdir(folder)
    found = set()
    for data in (folder, "*/*.parquet", [folder / "a", folder / "b" / "3.parquet"]):
        detector = scale.calibrate(CTM().fit(Z, Y), data)
        found.add(typica.store.fingerprint(detector.calibration_))
    assert len(found) == 1


def test_a_folder_a_pattern_and_a_file(folder):
    check(folder)
    check(f"{folder}/*/?.parquet", features="vector", labels="label")
    pq.write_table(some(), folder / "one")  # whose name does not tell
    check(folder / "one")


def test_what_is_hidden_is_told_within_the_folder_alone(folder, tmp_path, monkeypatch):
    inner = tmp_path / "_tmp" / ".cache"
    inner.mkdir(parents=True)
    for name in ("a", "b"):
        (folder / name).rename(inner / name)
    (inner / ".hidden").mkdir()
    pq.write_table(some(), inner / ".hidden" / "4.parquet")
    monkeypatch.chdir(tmp_path)
    every = ["a/1.parquet", "a/2.parquet", "b/3.parquet"]
    for data in ("_tmp/.cache", "./_tmp/.cache", inner, f"{inner}/", f"file://{inner}"):
        assert sources(data) == every
    monkeypatch.chdir(inner)
    assert sources(".") == every


def test_addresses(folder):
    memory = fsspec.filesystem("memory")
    for path in sorted(folder.rglob("*.parquet")):
        memory.pipe_file(f"/set/{path.relative_to(folder)}", path.read_bytes())
    at = check("memory://set")
    assert sources("memory://set") == sources(folder) == sources("memory://set/*/*.parquet")
    check("memory://set/**/*.parquet")
    here = scale.calibrate(CTM().fit(Z, Y), folder)
    assert at.calibration_.samples["all"].n == here.calibration_.samples["all"].n
    done = scale.score(at, "memory://set", "memory://out", ids="id")
    assert done.n == 120 and sources("memory://out") == [f"part-0000{i}.parquet" for i in range(3)]
    check(f"file://{folder}")


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_arrow_files(tmp_path, compression):
    for number, rows in enumerate((slice(0, 50), slice(50, 120))):
        pyarrow.feather.write_feather(
            some(rows), tmp_path / f"{number}.arrow", compression, chunksize=17
        )
    tables = scale.open_tables(tmp_path)
    assert [part.rows for part in tables.parts] == [50, 70]
    check(tmp_path)
    file = tmp_path / "s.arrows"
    with pa.OSFile(str(file), "wb") as out, pa.ipc.new_stream(out, some().schema) as writer:
        writer.write_table(some(), max_chunksize=11)
    check(file)


def test_labels_of_a_file_of_their_own(folder, tmp_path):
    np.save(tmp_path / "labels.npy", Y[::-1].copy())
    fitted = scale.fit(CTM(), folder, labels=str(tmp_path / "labels.npy"))
    expected = CTM().fit(Z, Y[::-1])
    np.testing.assert_allclose(fitted.score_samples(Z), expected.score_samples(Z), rtol=1e-6)
    tables = scale.open_tables(folder, labels=Y[::-1], part_bytes=1)
    plan = scale.Learner(CTM()).to_bytes()
    states = [scale.learn_part(plan, p, tables.columns, tables.labels_of(p)) for p in tables.parts]
    merged = scale.Learner.from_bytes(scale.merge_learnt(states)).finish()
    np.testing.assert_allclose(merged.score_samples(Z), expected.score_samples(Z), rtol=1e-6)


def test_objects_of_arrow():
    table = some()
    check(table)
    batches = table.to_batches(max_chunksize=13)
    check(pa.Table.from_batches(batches))

    class Capsule:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    check(Capsule())
    reader = pa.RecordBatchReader.from_batches(table.schema, batches)
    fitted = scale.fit(CTM(), reader)
    np.testing.assert_allclose(fitted.score_samples(Z), WHOLE.score_samples(Z), rtol=1e-6)


def test_objects_of_arrow_go_to_a_folder_but_do_not_go_on_there(tmp_path):
    assert scale.score(WHOLE, some(), tmp_path / "verdicts", ids="id").n == 120
    assert len(pq.read_table(tmp_path / "verdicts")) == 120
    with pytest.raises(typica.InputError, match="holds verdicts, and a stream is not continued"):
        scale.score(WHOLE, some(), tmp_path / "verdicts", ids="id")


def test_tensors_of_fixed_shape_and_views():
    storage = pa.FixedSizeListArray.from_arrays(pa.array(Z.ravel()), 5)
    tensor = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [5]), storage)
    table = some().set_column(1, "vector", tensor)
    check(table)
    sliced = pa.concat_tables([some(), some()]).slice(120)
    check(sliced)


def test_what_is_a_data_set_of_tables(folder, tmp_path):
    for data in (folder, f"{folder}/*/*.parquet", "s3://bucket/x", tmp_path / "a"):
        assert scale.is_tables(data), data
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "cat.png").touch()
    pq.write_table(pa.table({"image": [b"x"], "label": [0]}), tmp_path / "images" / "x.parquet")
    np.save(tmp_path / "x.npy", Z)
    for data in (tmp_path / "x.npy", folder / "a" / "1.parquet", tmp_path / "images", "absent.npy"):
        assert not scale.is_tables(data), data
