"""Tables of features: each step of each format, and the same rows out of all of them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from typica import CTM, Head, write_bank
from typica.data import (
    Features,
    RowWriter,
    find_head,
    has_logits,
    holds_images,
    open_features,
    read_arriving,
    read_features,
    read_grouped,
    read_head,
    read_labelled,
    read_labels,
    read_rows,
)
from typica.data._feature_csv import check_widths, csv_labels, read_csv, split_header
from typica.data._feature_table import label_name
from typica.errors import FormatError, InputError
from typica.kinds import kind_of
from typica.scale import open_tables

ROWS = np.array([[1.0, -2.5], [3.0, 4.0], [0.125, 1e9]])
LABELS = np.array([2, 0, 2])


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "-2", "30"], [1, -2, 30]),
        (["007"], [7]),
        (["1", "cat"], ["1", "cat"]),
        (["--5", "1"], ["--5", "1"]),
        (["²"], ["²"]),
        (["٣"], ["٣"]),
        (["-"], ["-"]),
        ([""], [""]),
        (["1_000"], ["1_000"]),
        (["1.5"], ["1.5"]),
        (["9223372036854775807", "-9223372036854775808"], [2**63 - 1, -(2**63)]),
        (["9223372036854775808"], ["9223372036854775808"]),
        ([], []),
    ],
)
def test_labels_are_numbers_where_all_are(texts, expected):
    labels = csv_labels(texts)
    assert labels.tolist() == expected
    assert labels.dtype.kind == ("U" if expected and isinstance(expected[0], str) else "i")


def test_the_name_of_labels():
    assert label_name(["a", "label"]) == "label"
    assert label_name(["label", "labels"]) == "labels"
    assert label_name(["a"]) is None


def test_a_header_is_told_from_numbers():
    assert split_header([["1", "2"], ["3", "4"]]) == (["0", "1"], [["1", "2"], ["3", "4"]])
    assert split_header([[" a", "b "], ["3", "4"]]) == (["a", "b"], [["3", "4"]])
    assert split_header([["0", "1", "label"]]) == (["0", "1", "label"], [])
    assert split_header([["1", " "], ["3", "4"]])[1] == [["1", " "], ["3", "4"]]
    assert split_header([["nan", "1e3"]]) == (["0", "1"], [["nan", "1e3"]])


def test_the_first_row_of_another_width_is_named():
    check_widths([["1", "2"], ["3", "4"]], 2, Path("a.csv"))
    with pytest.raises(FormatError, match=r"^a\.csv: row 1 has 1 fields instead of 2; fix it\.$"):
        check_widths([["1", "2"], ["3"], []], 2, Path("a.csv"))


@pytest.mark.parametrize(
    ("text", "features", "labels"),
    [
        ("1,2\n3,4\n", [[1, 2], [3, 4]], None),
        ("a,b\n1,2\n\n3,4", [[1, 2], [3, 4]], None),
        ("a,label,b\n1, x ,2\n3,y,4", [[1, 2], [3, 4]], ["x", "y"]),
        ("labels,a\n-1,2\n7,4", [[2], [4]], [-1, 7]),
        ("a,label\n1,²\n2,1", [[1], [2]], ["²", "1"]),
        ("a,a\n1,2\n3,4", [[1, 2], [3, 4]], None),
        ("\ufeffa,b\r\n1,2\r\n", [[1, 2]], None),
        ('a,label\n1,"x, y"', [[1]], ["x, y"]),
    ],
)
def test_csv(tmp_path, text, features, labels):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8", newline="")
    table = read_csv(tmp_path / "a.csv")
    assert table.features.tolist() == features and table.features.dtype == np.float64
    assert (None if table.labels is None else table.labels.tolist()) == labels


def write_all(folder: Path) -> list[Path]:
    """Write the rows in every format that holds labels as well."""
    np.savez(folder / "a.npz", features=ROWS, labels=LABELS)
    save_file({"only": ROWS, "label": LABELS}, folder / "a.safetensors")
    lists = pa.array(ROWS.tolist())
    pq.write_table(pa.table({"features": lists, "label": LABELS}), folder / "a.parquet")
    wide = {"x": ROWS[:, 0], "labels": LABELS, "y": ROWS[:, 1]}
    pq.write_table(pa.table(wide), folder / "wide.parquet")
    lines = [f"{x!r},{label},{y!r}" for (x, y), label in zip(ROWS.tolist(), LABELS, strict=True)]
    (folder / "a.csv").write_text("\n".join(["x,label,y", *lines]))
    write_bank(folder / "a.bank", ROWS, labels=LABELS)
    return sorted(folder.iterdir())


def test_every_format_gives_the_same_table(tmp_path):
    paths = write_all(tmp_path)
    assert len(paths) == 6
    for path in paths:
        for given in (path, str(path)):
            table = read_features(given)
            assert isinstance(table, Features)
            np.testing.assert_array_equal(table.features, ROWS, err_msg=path.name)
            np.testing.assert_array_equal(table.labels, LABELS, err_msg=path.name)
        np.testing.assert_array_equal(read_labels(path), LABELS, err_msg=path.name)


def test_an_ending_in_capitals_is_the_same_ending(tmp_path):
    for path in write_all(tmp_path):
        if path.is_file():
            shouted = path.rename(path.with_suffix(path.suffix.upper()))
            assert not holds_images(shouted)
            np.testing.assert_array_equal(read_features(shouted).features, ROWS)
            np.testing.assert_array_equal(read_labels(shouted), LABELS)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("file,label\na.png,cat\nb.png,dog\n", ["cat", "dog"]),
        ('label\n"cat"\n"dog, small"\n', ["cat", "dog, small"]),
        ("3\n\n1\n", [3, 1]),
        ("cat\ndog", ["cat", "dog"]),
        ("species\n3\n1\n", [3, 1]),
        ("cat\n3\ndog\n", ["cat", "3", "dog"]),
        ("cat\n3\n", ["cat", "3"]),
    ],
)
def test_labels_of_a_csv_are_its_column(tmp_path, text, labels):
    (tmp_path / "a.csv").write_text(text)
    assert read_labels(tmp_path / "a.csv").tolist() == labels


def test_labels_in_plain_text_are_whole_lines(tmp_path):
    (tmp_path / "a.txt").write_text("tench, Tinca\nshark\n")
    assert read_labels(tmp_path / "a.txt").tolist() == ["tench, Tinca", "shark"]


def test_a_first_row_with_an_empty_cell_is_not_lost(tmp_path):
    (tmp_path / "a.csv").write_text("1,,3\n4,5,6\n")
    with pytest.raises(FormatError, match=r"a\.csv: row 0: '' in the column '1' is not a number"):
        read_features(tmp_path / "a.csv")


@pytest.mark.parametrize(("kind", "size"), [("BF16", 8), ("F8_E4M3", 4)])
def test_types_that_numpy_lacks_are_named(tmp_path, kind, size):
    entry = {"dtype": kind, "shape": [2, 2], "data_offsets": [0, size]}
    header = json.dumps({"features": entry}).encode()
    file = tmp_path / "a.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(size))
    with pytest.raises(FormatError, match=f"features is of type {kind}, .*; write it as float32"):
        read_features(file)


def test_a_bank_has_no_columns_to_name(tmp_path):
    write_bank(tmp_path / "a.bank", ROWS)
    for asked in ({"groups": "site"}, {"labels": "site"}):
        with pytest.raises(
            FormatError, match=r"has no column 'site', as its columns have no names; name a file"
        ):
            read_features(tmp_path / "a.bank", **asked)


def write_named(folder: Path) -> list[Path]:
    """Write three named columns, y before x and texts between, as .csv and as .parquet."""
    (folder / "a.csv").write_text("y,kind,x\n2,cat,1\n4,dog,3\n")
    table = {"y": [2.0, 4.0], "kind": ["cat", "dog"], "x": [1.0, 3.0]}
    pq.write_table(pa.table(table), folder / "a.parquet")
    return [folder / "a.csv", folder / "a.parquet"]


def test_columns_are_read_by_their_names(tmp_path):
    for path in write_named(tmp_path):
        with pytest.raises(
            FormatError, match=r"column 'kind' is not .*call it 'label' if it holds"
        ):
            read_features(path)
        found = read_features(path, labels="kind")
        assert found.names == ("y", "x") and found.labels.tolist() == ["cat", "dog"]
        assert found.features.tolist() == [[2, 1], [4, 3]]
        found = read_features(path, columns=["x", "y"])
        assert found.names == ("x", "y") and found.labels is None
        assert found.features.tolist() == [[1, 2], [3, 4]]
        with pytest.raises(FormatError, match=r"has no column 'z', which the detector was fitted"):
            read_features(path, columns=["x", "z"])
        with pytest.raises(FormatError, match=r"has no column 'sort', but y, kind, x; name one of"):
            read_features(path, labels="sort")
        assert read_rows(path, columns=["x"]).tolist() == [[1], [3]]


def test_names_of_columns_ask_nothing_of_files_that_have_none(tmp_path):
    (tmp_path / "a.csv").write_text("1,2\n3,4\n")
    np.save(tmp_path / "a.npy", ROWS)
    pq.write_table(pa.table({"features": ROWS.tolist()}), tmp_path / "a.parquet")
    for name in ("a.csv", "a.npy", "a.parquet"):
        found = read_features(tmp_path / name, columns=["x", "y"])
        assert found.names is None and found.features.shape[1] == 2
    (tmp_path / "twice.csv").write_text("x,x\n1,2\n")
    assert read_features(tmp_path / "twice.csv").names is None
    assert read_features(tmp_path / "twice.csv").features.tolist() == [[1, 2]]


def test_labels_are_a_file_or_a_column(tmp_path):
    np.save(tmp_path / "kind.npy", np.array([5, 6]))
    named = [open_features(path) for path in write_named(tmp_path)]
    for opened in named:
        assert read_labelled(opened, "kind").labels.tolist() == ["cat", "dog"]
        with pytest.raises(InputError, match=r"kinds\.npy: there is no such file"):
            read_labelled(opened, "kinds.npy", columns=["x"])
        beside = read_labelled(opened, tmp_path / "kind.npy", columns=["x"])
        assert beside.labels.tolist() == [5, 6] and beside.features.tolist() == [[1], [3]]
    np.savez(tmp_path / "b.npz", features=ROWS, kind=LABELS)
    assert read_labelled(open_features(tmp_path / "b.npz"), "kind").labels.tolist() == [2, 0, 2]


def test_a_column_comes_before_a_file_or_folder_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = write_named(tmp_path)
    paths += [tmp_path / "a.npz", tmp_path / "a.safetensors"]
    np.savez(paths[2], features=ROWS[:2], kind=np.array(["cat", "dog"]))
    save_file({"features": ROWS[:2], "kind": np.array([1, 2])}, paths[3])
    Path("kind").mkdir()
    Path("other").mkdir()
    for path in paths:
        opened = open_features(path)
        assert read_labelled(opened, "kind").labels.tolist() in (["cat", "dog"], [1, 2])
        with pytest.raises(FormatError, match="has no column 'other'"):
            read_labelled(opened, "other")
    Path("kind").rmdir()
    Path("kind").write_text("5\n6\n")
    for path in paths:
        assert read_grouped(path, "kind")[1].tolist() in (["cat", "dog"], [1, 2])
    tables = open_tables("a.parquet", columns=["x"], labels="kind")
    assert tables.labels is None and tables.columns.labels == "kind"
    with pytest.raises(InputError, match=r"kinds\.npy: there is no such file"):
        open_tables("a.parquet", columns=["x"], labels="kinds.npy")


def test_a_header_alone_is_said_to_have_no_rows(tmp_path):
    (tmp_path / "a.csv").write_text("x,y,label\n")
    with pytest.raises(FormatError, match=r"a\.csv: holds no rows; pass a file with one row per"):
        read_features(tmp_path / "a.csv")


def test_numbers_are_names_where_a_detector_knows_them(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,0\n5,6\n7,8\n")
    assert read_features(path).features.tolist() == [[1, 0], [5, 6], [7, 8]]
    assert read_features(path, columns=["0", "1"]).features.tolist() == [[6, 5], [8, 7]]
    path.write_text("0,1\n5,6\n")
    assert read_features(path, columns=["0", "1"]).features.tolist() == [[5, 6]]
    assert read_features(path, columns=["x", "y"]).features.tolist() == [[0, 1], [5, 6]]
    arriving = list(read_arriving(io.BufferedReader(io.BytesIO(b"1,0\n5,6\n")), ["0", "1"]))
    assert np.concatenate(arriving).tolist() == [[6, 5]]


def test_a_column_without_a_name_is_left_aside_where_names_are_known(tmp_path):
    (tmp_path / "a.csv").write_text(",y,x\n7,1.5,2\n")
    assert read_features(tmp_path / "a.csv", columns=["x", "y"]).features.tolist() == [[2, 1.5]]
    arriving = read_arriving(io.BufferedReader(io.BytesIO(b",y,x\n7,1.5,2\n")), ["x", "y"])
    assert next(arriving).tolist() == [[2, 1.5]]


def test_wide_files_are_read_in_time_that_their_columns_take(tmp_path, monkeypatch):
    names = [f"f{i}" for i in range(300)]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n" + ",".join(["1"] * 300))
    looked = []

    class Name(str):
        def __eq__(self, other):
            looked.append(other)
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    read_features(tmp_path / "a.csv", columns=[Name(name) for name in names])
    assert len(looked) < 10 * len(names)


def test_the_index_of_pandas_is_not_a_feature(tmp_path):
    (tmp_path / "a.csv").write_text(",x,label\n7,1.5,cat\n3,2.5,dog\n")
    with pytest.raises(FormatError, match=r"a\.csv: column 0 has no name, .* with index=False"):
        read_features(tmp_path / "a.csv")
    assert read_labels(tmp_path / "a.csv").tolist() == ["cat", "dog"]
    table = {"x": [1.5, 2.5], "__index_level_0__": [7, 3], "__index_level_x": [0.0, 1.0]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    found = read_features(tmp_path / "a.parquet")
    assert found.features.tolist() == [[1.5, 0.0], [2.5, 1.0]]
    grouped = read_features(tmp_path / "a.parquet", groups="__index_level_0__")
    assert grouped.groups.tolist() == [7, 3]


def test_labels_of_some_rows_have_gaps_and_those_of_none_are_none(tmp_path):
    (tmp_path / "some.csv").write_text("x,label\n1,7\n2, \n3,\n")
    some = pa.table({"x": [1, 2, 3], "label": pa.array([7, None, None])})
    pq.write_table(some, tmp_path / "some.parquet")
    for path in (tmp_path / "some.csv", tmp_path / "some.parquet"):
        found = read_features(path)
        assert found.features.tolist() == [[1], [2], [3]]
        assert found.labels.tolist() == [7, None, None]
        with pytest.raises(FormatError, match=r"some\..*: 2 of 3 rows have no label; write one"):
            read_labels(path)
        with pytest.raises(InputError, match="label None of row 1 is neither an integer nor"):
            CTM().fit(found.features, found.labels)
    empty = pa.table({"x": [1.0], "label": pa.array([None], pa.int64())})
    pq.write_table(empty, tmp_path / "none.parquet")
    assert read_features(tmp_path / "none.parquet").labels is None
    (tmp_path / "none.csv").write_text("x,label\n1,\n2,\n")
    assert read_features(tmp_path / "none.csv").labels is None
    with pytest.raises(FormatError, match=r"none\.csv: holds no labels"):
        read_labels(tmp_path / "none.csv")


def test_groups_of_some_rows_are_refused(tmp_path):
    for site in (["", "north"], ["", ""]):
        text = "x,site\n1,{}\n2,{}\n".format(*site)
        (tmp_path / "a.csv").write_text(text)
        table = pa.table({"x": [1, 2], "site": pa.array([name or None for name in site])})
        pq.write_table(table, tmp_path / "a.parquet")
        for name in ("a.csv", "a.parquet"):
            message = f"{name}: {site.count('')} of 2 rows are empty in the column 'site'; write"
            with pytest.raises(FormatError, match=message):
                read_features(tmp_path / name, groups="site")


def test_features_without_labels_are_said(tmp_path):
    write_bank(tmp_path / "a.bank", ROWS)
    pq.write_table(pa.table({"x": ROWS[:, 0]}), tmp_path / "a.parquet")
    np.savez(tmp_path / "two.npz", a=ROWS, b=ROWS)
    np.save(tmp_path / "a.npy", ROWS)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    for name, message in (
        ("a.bank", ": holds no labels; name the column of labels 'label'"),
        ("a.parquet", ": holds no labels; name the column of labels 'label'"),
        ("two.npz", ": holds a, b; name the array of labels 'labels'"),
        ("a.csv", ": holds no labels; name the column of labels 'label'"),
        ("a.npy", " holds features, not labels; pass one label per row"),
    ):
        with pytest.raises(FormatError, match=f"{name}{message}"):
            read_labels(tmp_path / name)


def test_a_table_cannot_be_changed(tmp_path):
    table = Features(ROWS)
    with pytest.raises(AttributeError):
        table.features = ROWS + 1


def test_a_head_of_files_and_banks(tmp_path):
    head = Head(np.arange(6.0).reshape(3, 2), np.ones(3))
    save_file({"fc.weight": head.weight, "fc.bias": head.bias}, tmp_path / "a.safetensors")
    np.savez(tmp_path / "a.npz", weight=head.weight, bias=head.bias)
    write_bank(tmp_path / "a.bank", ROWS, head=head).to_parquet(tmp_path / "a.parquet")
    for name in ("a.safetensors", "a.npz", "a.bank", "a.parquet"):
        assert read_head(tmp_path / name) == head
    assert find_head(None, tmp_path / "a.parquet") == head
    assert find_head(tmp_path / "a.npz", tmp_path / "absent.npy") == head
    write_bank(tmp_path / "b.bank", ROWS).to_parquet(tmp_path / "b.parquet")
    for name in ("b.bank", "b.parquet"):
        with pytest.raises(FormatError, match=f"{name}: a bank without a head; pass the head's"):
            read_head(tmp_path / name)
        assert find_head(None, tmp_path / name) is None
    np.save(tmp_path / "a.npy", ROWS)
    (tmp_path / "a.csv").write_text("1,2")
    for name in ("a.npy", "a.csv"):
        with pytest.raises(FormatError, match=f"{name} holds features, not a head; pass weight"):
            read_head(tmp_path / name)
    with pytest.raises(InputError, match=r"absent\.npz: there is no such file"):
        read_head(tmp_path / "absent.npz")
    with pytest.raises(InputError, match=r"a\.pt: the ending '\.pt' is unknown"):
        read_head(tmp_path / "a.pt")


@pytest.mark.parametrize(
    ("others", "layers"),
    [
        ({"hidden.weight": np.ones((2, 2)), "hidden.bias": np.ones(2)}, "'fc', 'hidden'"),
        ({"a.weight": np.ones((3, 2))}, "'a', 'fc'"),
        ({"q.bias": np.zeros(3)}, "'fc', 'q'"),
        ({"weight": np.ones((3, 2))}, "'', 'fc'"),
    ],
)
def test_a_head_is_of_one_layer(tmp_path, others, layers):
    arrays = {"fc.weight": np.ones((3, 2)), "fc.bias": np.ones(3)}
    classes = {"classes": np.arange(3)}
    save_file({**arrays, **classes}, tmp_path / "one.safetensors")
    assert len(read_head(tmp_path / "one.safetensors").classes) == 3
    assert kind_of(tmp_path / "one.safetensors") == "holds a head"
    save_file({**arrays, **others}, tmp_path / "two.safetensors")
    np.savez(tmp_path / "two.npz", **arrays, **others)
    for name in ("two.safetensors", "two.npz"):
        message = f"{name}: holds the weights of several layers ({layers}); write the head's weight"
        with pytest.raises(FormatError, match=re.escape(message)):
            read_head(tmp_path / name)
        assert kind_of(tmp_path / name) == "holds a network's weights"


def test_a_banks_class_names_are_the_heads_where_there_are_as_many(tmp_path):
    head = Head(np.ones((2, 2)))
    write_bank(tmp_path / "a", ROWS, head=head, classes=["cat", "dog"])
    write_bank(tmp_path / "b", ROWS, head=head, classes=["cat", "dog", "eel"])
    assert find_head(None, tmp_path / "a").classes.tolist() == ["cat", "dog"]
    assert find_head(None, tmp_path / "b").classes.tolist() == [0, 1]


@pytest.mark.parametrize("name", ["a.bank", "a.parquet"])
def test_logits_in_place_of_features(tmp_path, name):
    logits = np.arange(9.0).reshape(3, 3)
    classes = ["ant", "bee", "cat"]
    bank = write_bank(tmp_path / "a.bank", ROWS, logits=logits, labels=LABELS, classes=classes)
    bank.to_parquet(tmp_path / "a.parquet")
    assert has_logits(tmp_path / name)
    table = read_features(tmp_path / name)
    np.testing.assert_array_equal(table.features, ROWS)
    assert table.labels.tolist() == ["cat", "ant", "cat"]
    table = read_features(tmp_path / name, logits=True)
    np.testing.assert_array_equal(table.features, logits)
    assert table.labels.tolist() == [2, 0, 2]
    assert read_labels(tmp_path / name).tolist() == ["cat", "ant", "cat"]
    few = write_bank(tmp_path / "few.bank", ROWS, logits=ROWS, labels=LABELS, classes=classes)
    assert read_features(few.path, logits=True).labels.tolist() == ["cat", "ant", "cat"]


def test_logits_of_a_parquet_file_that_is_not_a_banks_are_left_alone(tmp_path):
    lists = pa.array(ROWS.tolist())
    ragged = pa.array([[1.0], [1.0, 2.0], []])
    pq.write_table(pa.table({"features": lists, "logits": ragged}), tmp_path / "a.parquet")
    assert not has_logits(tmp_path / "a.parquet")
    np.testing.assert_array_equal(read_features(tmp_path / "a.parquet", logits=True).features, ROWS)


def test_labels_beyond_the_classes_are_damage(tmp_path):
    write_bank(tmp_path / "a", ROWS, labels=LABELS, classes=list("abc")).to_parquet(
        tmp_path / "a.parquet"
    )
    table = pq.read_table(tmp_path / "a.parquet")
    column = table.schema.get_field_index("label")
    altered = table.set_column(column, table.schema.field("label"), [LABELS + 1])
    pq.write_table(altered, tmp_path / "a.parquet")
    with pytest.raises(FormatError, match=r"a\.parquet: labels outside its classes"):
        read_features(tmp_path / "a.parquet")


class Absent:
    """Finds pyarrow missing, wherever it is installed."""

    def find_spec(self, name, *_):
        if name == "pyarrow":
            raise ModuleNotFoundError(name=name)


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    pq.write_table(pa.table({"x": ROWS[:, 0]}), tmp_path / "a.parquet")
    for module in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])
    message = r"pyarrow is not installed; install the extra 'parquet': pip install 'typica\[parq"
    with pytest.raises(InputError, match=message):
        read_features(tmp_path / "a.parquet")
    with pytest.raises(InputError, match=message):
        RowWriter(tmp_path / "b.parquet")
    with pytest.raises(InputError, match=message):
        write_bank(tmp_path / "bank", ROWS).to_parquet(tmp_path / "c.parquet")
    assert not (tmp_path / "c.parquet").exists()


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_rows_are_written_whole_or_not_at_all(tmp_path, ending):
    path = tmp_path / f"rows{ending}"
    with RowWriter(path) as writer:
        writer.write({"row": [0, 1], "name": ["a", "b,c"]})
        writer.write({"row": np.array([2]), "name": np.array(["ü"])})
        assert not path.exists()
    if ending == ".csv":
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    elif ending == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    else:
        rows = pq.read_table(path).to_pylist()
    assert [(int(row["row"]), row["name"]) for row in rows] == [(0, "a"), (1, "b,c"), (2, "ü")]
    before = path.read_bytes()
    with pytest.raises(RuntimeError), RowWriter(path) as writer:
        writer.write({"row": [9]})
        raise RuntimeError
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match=r"x\.txt: the ending '\.txt' is unknown; use \.csv"):
        RowWriter(tmp_path / "x.txt")


def test_a_column_that_is_empty_at_first_has_the_type_of_what_follows(tmp_path):
    path = tmp_path / "rows.parquet"
    with RowWriter(path) as writer:
        writer.write({"row": [0], "p": np.array([None]), "name": [None]})
        writer.write({"row": [1], "p": [1], "name": [None]})
        writer.write({"row": [2], "p": [0.5], "name": ["cat"]})
        writer.write({"row": [3], "p": [None], "name": [None]})
    found = pq.read_table(path).to_pydict()
    expected = {"p": [None, 1, 0.5, None], "name": [None, None, "cat", None]}
    assert found == {"row": [0, 1, 2, 3], **expected}
    with RowWriter(path) as writer:
        writer.write({"row": [0], "p": [None]})
    assert pq.read_table(path).to_pydict() == {"row": [0], "p": [None]}


@pytest.mark.skipif(os.name != "posix", reason="limits of files are POSIX's")
@pytest.mark.parametrize("ending", RowWriter.ENDINGS)
def test_a_disk_that_fills_at_the_end_is_said(tmp_path, ending):
    """The rows are few: they are written when the file is closed."""
    code = (
        "import resource, sys; from typica.data import RowWriter\n"
        "with RowWriter(sys.argv[1]) as writer:\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "    writer.write({'row': range(100)})\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / f"rows{ending}")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert re.search(rf"InputError: .*rows{ending}: the disk is full \(.*\); free some space", last)
    assert list(tmp_path.iterdir()) == []


def test_one_output_for_two_classes_is_the_head_of_both(tmp_path):
    rng = np.random.default_rng(0)
    rows, one = rng.normal(size=(6, 4)), Head(rng.normal(size=(1, 4)))
    labels = (one.logits(rows)[:, 0] > 0).astype(int)
    options = {"labels": labels, "logits": one.logits(rows), "head": one}
    write_bank(tmp_path / "a.bank", rows, classes=["cat", "dog"], **options)
    head = find_head(None, tmp_path / "a.bank")
    assert head.predict(rows).tolist() == np.array(["cat", "dog"])[labels].tolist()
    write_bank(tmp_path / "b.bank", rows, classes=["cat", "dog", "emu"], **options)
    assert len(find_head(None, tmp_path / "b.bank").classes) == 1


def test_a_table_that_is_called_npy_is_not_said_to_be_pickle(tmp_path):
    path = tmp_path / "table.npy"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FormatError, match=r"table\.npy: is not an \.npy file") as raised:
        read_features(path)
    assert "pickle" not in str(raised.value)


@pytest.mark.parametrize("name", ["empty.npy", "empty.npz"])
def test_a_file_without_rows_says_so(tmp_path, name):
    save = np.save if name.endswith("npy") else np.savez
    save(tmp_path / name, np.zeros((0, 64)))
    with pytest.raises(FormatError, match="holds no rows"):
        read_features(tmp_path / name)
