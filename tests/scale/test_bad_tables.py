"""Bad tables: one line each, with file and row, before work starts where it can be known."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from typica import CTM, KNN, Head, InputError, Mahalanobis, ViM, scale
from typica.scale import _batches, _fit
from typica.store import to_bytes

RNG = np.random.default_rng(0)
Z = RNG.random((90, 4)).astype(np.float32) + 1
Y = np.arange(90) % 3


def lists(rows):
    return pa.array(rows, pa.list_(pa.float32()))


def write(folder, *tables):
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=10)
    return folder


def plain(rows=slice(None), **columns):
    made = {"features": lists(Z[rows].tolist()), "label": pa.array(Y[rows])}
    return pa.table({**made, **columns})


@pytest.fixture
def three(tmp_path):
    return write(tmp_path, plain(slice(0, 30)), plain(slice(30, 60)), plain(slice(60, 90)))


def nothing_is_read(monkeypatch):
    monkeypatch.setattr(_batches, "read_batch", None)


def refused(match, folder, detector=None, **options):
    with pytest.raises(InputError, match=match) as error:
        scale.fit(detector or CTM(), folder, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "denied"])
def test_an_unreadable_file_in_the_middle_is_known_before_any_work(three, damage, monkeypatch):
    nothing_is_read(monkeypatch)
    middle = three / "1.parquet"
    whole = middle.read_bytes()
    if damage == "denied":
        middle.unlink()
        middle.symlink_to(three / "gone.parquet")
        found = refused(r"1.parquet: ", [three / "0.parquet", middle])
        assert "there is no such file" in found
        return
    middle.write_bytes({"cut": whole[:-20], "garbage": b"PAR1 is not all", "empty": b""}[damage])
    refused(r"1.parquet: not a whole Parquet file \(.*\); write it again", three)


def test_a_page_that_is_damaged_inside_is_told_with_its_file(three):
    middle = three / "1.parquet"
    content = bytearray(middle.read_bytes())
    content[4:200] = bytes(196)
    middle.write_bytes(content)
    refused(r"1.parquet: not a whole Parquet file", three)


def test_a_file_of_another_width_or_type_is_known_before_any_work(tmp_path, monkeypatch):
    nothing_is_read(monkeypatch)
    fixed = [pa.FixedSizeListArray.from_arrays(pa.array(Z[:30, :m].ravel()), m) for m in (4, 3)]
    write(tmp_path, *(pa.table({"features": column}) for column in fixed))
    refused(r"1.parquet: 3 features per row instead of 4; pass rows of one layer", tmp_path)
    write(tmp_path, plain(slice(0, 30)), plain(slice(0, 30)).rename_columns(["features", "kind"]))
    refused(r"1.parquet: there is no column 'label', only features, kind", tmp_path)
    texts = plain(slice(0, 30)).set_column(0, "features", pa.array([["a"]] * 30))
    write(tmp_path, plain(slice(0, 30)), texts)
    refused(r"1.parquet: the column 'features' is of list<.*string>; features are lists", tmp_path)
    write(tmp_path, plain(slice(0, 30)), plain(slice(0, 30), label=pa.array([0.5] * 30)))
    refused(r"1.parquet: the column 'label' is of double; labels are integers or", tmp_path)


def test_a_head_of_another_width_is_known_before_any_work(tmp_path, monkeypatch):
    nothing_is_read(monkeypatch)
    column = pa.FixedSizeListArray.from_arrays(pa.array(Z.ravel()), 4)
    write(tmp_path, pa.table({"features": column}))
    refused(r"0.parquet: 4 features per row instead of 5", tmp_path, ViM(Head(np.eye(3, 5))))


ROWS = {
    "NaN": ([1, 2, np.nan, 4], r"row 7 of the features holds NaN or infinity"),
    "infinity": ([1, 2, np.inf, 4], r"row 7 of the features holds NaN or infinity"),
    "a gap": ([1, 2, None, 4], r"row 7 of the column 'features' is empty; fill it in"),
    "no row": (None, r"row 7 of the column 'features' is empty; fill it in or leave it out"),
    "a short row": ([1, 2], r"row 7 of the column 'features' has 2 numbers and row 0 has 4"),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("detector", [CTM(), KNN(k=2, subsample=20), Mahalanobis()], ids=repr)
def test_a_bad_row_is_named_by_its_file_and_row_once(three, name, detector):
    bad, message = ROWS[name]
    rows = Z[30:60].tolist()
    rows[7] = bad
    write(
        three, plain(slice(0, 30)), plain(slice(30, 60), features=lists(rows)), plain(slice(60, 90))
    )
    found = refused(rf"{three}/1.parquet: {message}", three, detector)
    assert found.count("row 7") == 1
    fitted = CTM().fit(Z, Y)
    with pytest.raises(InputError, match=rf"{three}/1.parquet: {message}"):
        scale.calibrate(fitted, three)
    with pytest.raises(InputError, match=rf"{three}/1.parquet: {message}"):
        scale.score(fitted, three, three / "verdicts")
    assert not (three / "verdicts" / "part-00001.parquet").exists()


def test_a_row_that_is_not_there_is_told_of_columns(tmp_path):
    columns = {f"f{i}": pa.array(Z[:, i]) for i in range(4)}
    columns["f2"] = pa.array([*Z[:40, 2].tolist(), None, *Z[41:, 2].tolist()])
    write(tmp_path, pa.table(columns))
    refused(r"0.parquet: row 40 of the column 'f2' is empty", tmp_path, columns=["f*"])


def test_a_row_of_a_stream_is_told_by_its_number():
    rows = Z.tolist()
    rows[55][0] = np.nan
    refused(r"fit: row 55 of the features holds NaN", pa.table({"features": lists(rows)}))


def test_labels_that_are_missing_or_of_two_kinds(three):
    labels = pa.array([None if i == 12 else 0 for i in range(30)])
    write(three, plain(slice(0, 30)), plain(slice(30, 60), label=labels))
    refused(r"1.parquet: row 12 of the column 'label' is empty", three)
    write(three, plain(slice(0, 30)), plain(slice(30, 60), label=pa.array(["a"] * 30)))
    refused(r"1.parquet, rows 0 to 29: labels are strings after integers", three)
    refused(
        r"89 labels for 90 rows; one per row",
        write(three, plain(slice(0, 90))).joinpath("0.parquet"),
        labels=Y[1:],
    )


def test_what_is_no_data_set(tmp_path, monkeypatch):
    nothing_is_read(monkeypatch)
    refused(r"fit: .*absent: there is no such file or folder", tmp_path / "absent")
    refused(r"holds no file of .parquet, .pq, .arrow", tmp_path)
    refused(r"got int; pass a path, a pattern, a folder, an address, or an object with __arrow", 3)
    refused(r"no files; pass at least one", [])
    file = write(tmp_path, plain()) / "0.parquet"
    refused(r"0.parquet: is named twice; name each file once", [file, file])
    refused(
        r"2 columns of lists \(features, other\)|no column of lists",
        write(tmp_path, pa.table({"x": [1]})),
    )
    refused(r"columns 'f0': pass a list of names", tmp_path, columns="f0")
    two = pa.table({"a": lists([[1.0]]), "b": lists([[1.0]])})
    refused(r"2 columns of lists \(a, b\); pass features=COLUMN", write(tmp_path, two))
    refused(r"sample 0: pass a number of rows", write(tmp_path, plain()), sample=0)


ASKED = {
    "no columns": ({"columns": []}, r"columns \[\]: pass a list of names"),
    "a number of columns": ({"columns": [1]}, r"columns \[1\]: pass a list of names"),
    "columns by a number": ({"columns": 2}, r"columns 2: pass a list of names"),
    "features by a number": ({"features": 5}, r"features=5: pass the name of a column"),
    "labels by a number": ({"labels": 5}, r"labels=5: pass a column, or one label per row"),
    "a truth value": ({"sample": True}, r"sample True: pass a number of rows of 1 or more"),
    "no engine": ({"engine": 5}, r"engine=5: choose one of dask, ray, spark"),
    "a list of engines": ({"engine": ["dask"]}, r"engine=\['dask'\]: choose one of dask, ray"),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_cannot_be_asked_of_tables(name, three, monkeypatch):
    nothing_is_read(monkeypatch)
    options, message = ASKED[name]
    refused(message, three, **options)


@pytest.mark.parametrize("data", [(Z, Y), Z.tolist(), b"abc"], ids=["arrays", "lists", "bytes"])
def test_what_is_no_list_of_files(data):
    message = r"(ndarray|list|bytes) is not a file; pass paths, patterns, folders or addresses"
    refused(message, data)


def test_columns_that_files_do_not_have_or_have_twice(tmp_path, monkeypatch):
    nothing_is_read(monkeypatch)
    folder = tmp_path / "year=2024"
    folder.mkdir()
    write(folder, plain(f0=pa.array(Z[:, 0])))
    message = (
        r"0.parquet: the column 'year' comes from the names of folders; features are in the files"
    )
    refused(message, tmp_path, features="year")
    refused(message, tmp_path, columns=["f0", "year"])
    twice = pa.Table.from_arrays([lists(Z.tolist())] * 2, names=["features", "features"])
    refused(r"there are several columns 'features'; give each a name of its own", twice)


def test_ids_of_two_types(tmp_path, monkeypatch):
    numbers, texts = pa.array(range(90)), pa.array([f"x{i}" for i in range(90)])
    write(tmp_path, plain(id=texts), plain(id=numbers))
    fitted = CTM().fit(Z, Y)
    found = scale.score(fitted, tmp_path, ids="id").read_all()["id"].to_pylist()
    assert found == [*texts.to_pylist(), *map(str, range(90))]
    write(tmp_path, plain(id=numbers), plain(id=pa.array(np.arange(90) + 0.5)))
    with pytest.raises(InputError, match=r"1.parquet.*'id' is of double, and not all of it is"):
        scale.score(fitted, tmp_path, ids="id").read_all()
    nothing_is_read(monkeypatch)
    write(tmp_path, plain(id=numbers), plain(id=texts))
    with pytest.raises(InputError, match=r"1.parquet: the column 'id' is of string, and of int64"):
        scale.score(fitted, tmp_path, ids="id")


def test_bytes_of_something_else(tmp_path):
    sent = to_bytes(CTM().fit(Z, Y))
    with pytest.raises(InputError, match="these are not the bytes of a Learner"):
        scale.Learner.from_bytes(sent)
    with pytest.raises(InputError, match="these are not the bytes of a Calibrator"):
        scale.Calibrator.from_bytes(sent)
    for merge in (scale.merge_learnt, scale.merge_calibrated):
        with pytest.raises(InputError, match="there is nothing to merge; pass at least one"):
            merge([])


def test_what_engines_cannot_do_is_known_before_they_are_asked():
    fitted = CTM().fit(Z, Y).calibrate(2 * Z)
    with pytest.raises(InputError, match="udf: only='atypical': a function has a value for each"):
        scale.spark.udf(fitted, only="atypical")
    with pytest.raises(InputError, match="score: ids='score': verdicts have a column of that name"):
        scale.dask.score(fitted, None, ids="score")


def test_addresses_that_do_not_answer(monkeypatch):
    refused(
        r"nowhere://x/\*.parquet: cannot be read \(.*[Pp]rotocol.*\); check the address",
        "nowhere://x/*.parquet",
    )
    refused(
        r"memory://absent.parquet: there is no such file; check the address",
        "memory://absent.parquet",
    )
    monkeypatch.setitem(sys.modules, "fsspec", None)
    refused(r"fsspec is not installed; install the extra 'scale'", "memory://x.parquet")


def test_a_stream_that_ends_is_not_read_twice():
    table = pa.table({"features": lists(Z.tolist())})
    vim = ViM(Head(np.eye(3, 4)), dim=2)
    assert scale.fit(vim, table).alpha_ > 0
    reader = table.to_reader()
    refused(r"ViM reads the rows twice, and this stream can be read once; pass files", reader, vim)


def test_rows_that_the_memory_does_not_hold_are_refused_before_any_work(three, monkeypatch):
    nothing_is_read(monkeypatch)
    monkeypatch.setattr(_fit, "free_memory", lambda: 1000)
    columns = {f"f{i}": pa.array(Z[:, i]) for i in range(4)}
    write(three, pa.table(columns))
    file = three / "0.parquet"
    refused(
        r"KNN keeps all 90 rows, 0.0 GB, and 0.0 GB of memory are free; pass sample=100000",
        file,
        KNN(k=2),
        columns=["f*"],
    )


def test_no_rows_at_all(tmp_path):
    refused(r"there are no training rows; pass some", write(tmp_path, plain(slice(0, 0))))
    fitted = CTM().fit(Z, Y)
    with pytest.raises(InputError, match="calibrate: there are no held-out rows; pass some"):
        scale.calibrate(fitted, tmp_path)
    assert scale.score(fitted, tmp_path, tmp_path / "verdicts")[:2] == (0, 0)


def test_a_detector_must_decide_before_levels_and_verdicts_are_asked_for(three):
    fitted = CTM().partial_fit(Z, Y)
    for options in ({"alpha": 0.1}, {"only": "atypical"}):
        with pytest.raises(InputError, match=r"there (are no calibration scores|is no threshold)"):
            scale.score(fitted, three, **options)
    with pytest.raises(InputError, match=r"only='odd': choose one of typical, atypical"):
        scale.score(fitted, three, only="odd")
    write(three, plain(score=pa.array(Y)))
    with pytest.raises(InputError, match=r"ids='score': verdicts have a column of that name"):
        scale.score(fitted, three / "0.parquet", ids="score")


@pytest.mark.parametrize("first", ["0.5,1,2", "0.5,,1e3", "3,1,2"])
def test_a_csv_file_without_a_header(first, tmp_path):
    (tmp_path / "x.csv").write_text(f"{first}\n1,2,3\n")
    with pytest.raises(InputError, match=r"x\.csv: has no header, so that its first row would be"):
        scale.open_tables(tmp_path / "x.csv", columns=["*"])


def test_a_csv_file_whose_columns_are_numbered(tmp_path):
    (tmp_path / "x.csv").write_text("0,1\n0.5,2\n")
    [batch] = scale.open_tables(tmp_path / "x.csv", columns=["*"]).batches()
    assert batch.features.tolist() == [[0.5, 2]]


def test_two_columns_of_ids(tmp_path):
    (tmp_path / "x.csv").write_text("id,id,f0\na,b,1\n")
    with pytest.raises(InputError, match=r"x\.csv: there are several columns 'id'; give each"):
        scale.open_tables(tmp_path / "x.csv", columns=["f0"], ids="id")


def test_a_label_that_is_missing_in_a_csv_file(tmp_path):
    (tmp_path / "x.csv").write_text("f0,label\n1,cat\n2,\n")
    opened = scale.open_tables(tmp_path / "x.csv", columns=["f0"], find_labels=True)
    with pytest.raises(InputError, match=r"x\.csv: row 1 of the column 'label' is empty"):
        list(opened.batches())
