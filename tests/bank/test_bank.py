"""Banks: what goes in comes out, and damage is named.

Interrupted anywhere, they end the same to the byte.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from helpers.shell import ENDS, started
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import typica
from typica import Bank, Head, write_bank
from typica.bank import BankWriter, read_notes, remove_bank
from typica.bank._files import HEADER, Growing, npy_header
from typica.bank._manifest import Manifest, Shard
from typica.data import has_logits, read_features, read_head, read_labels, read_origin
from typica.errors import FormatError, InputError
from typica.origin import Origin
from typica.progress import listening

HEAD = Head(np.arange(12.0, dtype=np.float32).reshape(2, 6))
ODD_NAMES = ["plain.png", "", "Größe/猫.png", os.fsdecode(b"caf\xe9.png"), "a\nb\0c"]


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def rows(n: int, m: int = 6, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(n, m)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished bank of four shards."""
    with BankWriter(
        tmp_path / "bank", {"model": "net"}, settings={"batch": 5}, shard_rows=5
    ) as writer:
        for start in range(0, 20, 5):
            part = rows(5, seed=start)
            columns = {
                "features": part,
                "logits": part[:, :2],
                "labels": np.arange(5) % 2,
                "layer.a/b": part[:, :3],
            }
            writer.write(columns, ODD_NAMES, source_rows=5)
        writer.finish(HEAD, ["cat", "dog"])
    return tmp_path / "bank"


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    features, logits, labels = rows(10), rows(10, 2, seed=1), np.arange(10) % 3
    names = ODD_NAMES * 2
    identity = {"model": "net", "transform": {"size": 32, "mean": [0.5, 0.25]}}
    bank = write_bank(
        tmp_path / "b", features, logits=logits, labels=labels, names=names, head=HEAD,
        classes=["a", "b", "c"], identity=identity,
    )  # fmt: skip
    assert len(bank) == 10
    assert bank.identity == identity
    assert isinstance(bank.features, np.memmap)
    np.testing.assert_array_equal(bank.features, features)
    np.testing.assert_array_equal(bank.logits, logits)
    np.testing.assert_array_equal(bank.labels, labels)
    assert bank.labels is not None
    assert bank.labels.dtype == np.int64
    assert bank.names is not None
    assert list(bank.names) == names
    assert bank.names[-1] == names[-1]
    assert bank.names[3:5] == names[3:5]
    with pytest.raises(IndexError):
        bank.names[10]
    assert bank.head == HEAD
    assert bank.classes == ["a", "b", "c"]
    assert bank.skipped == []
    bank.verify()
    assert repr(bank) == "Bank(10 rows, 6 features, labels, logits, names, head)"
    for name in ("features", "logits", "labels"):
        np.testing.assert_array_equal(np.load(tmp_path / "b" / f"{name}.npy"), getattr(bank, name))


def test_a_bare_bank_and_its_absent_columns(tmp_path: Path) -> None:
    bank = write_bank(tmp_path / "deep" / "er", rows(3))
    assert (bank.logits, bank.labels, bank.names, bank.head, bank.classes, bank.layers) == (
        None,
    ) * 5 + ({},)
    assert typica.Bank is Bank


def test_layers_and_skipped_rows(folder: Path, tmp_path: Path) -> None:
    bank = Bank.open(folder)
    np.testing.assert_array_equal(bank.layers["a/b"][5:10], rows(5, seed=5)[:, :3])
    with BankWriter(tmp_path / "s", {}, shard_rows=2) as writer:
        writer.write({}, None, 3, [("x", "truncated"), ("y", "empty"), ("\udce9", "odd")])
        writer.write({"features": rows(2)}, ["a", "b"], 2)
        writer.write({"features": rows(0)}, [], 2, [("z", "gone"), ("w", "gone")])
        assert writer.done == 7
        bank = writer.finish()
    assert bank.skipped == [
        ("x", "truncated"),
        ("y", "empty"),
        ("\udce9", "odd"),
        ("z", "gone"),
        ("w", "gone"),
    ]
    assert len(bank) == 2
    bank.verify()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.dtype(">f4"), np.int32])
def test_types_are_kept(tmp_path: Path, dtype: Any) -> None:
    features = (rows(4) * 100).astype(dtype)
    bank = write_bank(tmp_path / "b", features, logits=rows(4, 2))
    expected = (
        np.dtype(dtype).newbyteorder("=") if np.dtype(dtype).kind == "f" else np.dtype(np.float32)
    )
    assert bank.features.dtype == expected
    np.testing.assert_array_equal(bank.features, features)
    assert bank.logits is not None
    assert bank.logits.dtype == (np.float64 if expected == np.float64 else np.float32)


def test_float16_is_for_features_and_layers_and_refuses_what_does_not_fit(tmp_path: Path) -> None:
    with BankWriter(tmp_path / "b", {}, dtype="float16") as writer:
        with pytest.raises(
            InputError, match=r"features holds 70000, beyond float16; use dtype='float32'"
        ):
            writer.write({"features": np.array([[1.0, 70000.0]])})
        fine = np.array([[1.0, np.inf, np.nan]], np.float32)
        writer.write(
            {"features": fine, "logits": fine * 2, "layer.x": fine, "labels": np.array([1])}
        )
        bank = writer.finish()
    assert (bank.features.dtype, bank.layers["x"].dtype) == (np.float16, np.float16)
    assert bank.logits is not None
    assert bank.logits.dtype == np.float32
    with (
        BankWriter(tmp_path / "c", {}) as writer,
        pytest.raises(InputError, match="use dtype='float64'"),
    ):
        writer.write({"features": np.array([[1e300]])})


def test_labels_may_be_strings(tmp_path: Path) -> None:
    labels = ["cat", "dog", "élan"]
    bank = write_bank(tmp_path / "b", rows(3), labels=labels)
    assert bank.labels is not None
    assert bank.labels.tolist() == labels
    with BankWriter(tmp_path / "c", {}) as writer:
        writer.write({"features": rows(1), "labels": np.array(["cattle"])})
        writer.write({"features": rows(1), "labels": np.array(["cat"], dtype=object)})
        with pytest.raises(
            InputError,
            match=r"labels of up to 8 characters after 6 .* pass them as dtype '<U8' from",
        ):
            writer.write({"features": rows(1), "labels": np.array(["caterers"])})
        found = writer.finish().labels
    assert found is not None
    assert found.tolist() == ["cattle", "cat"]
    many = np.array(["cat"] * 4096 + ["elephant"], dtype=object)
    found = write_bank(tmp_path / "d", rows(4097, 1), labels=many).labels
    assert found is not None
    assert found.tolist() == many.tolist()


@pytest.mark.parametrize(
    ("columns", "names", "message"),
    [
        ({"logits": rows(2)}, None, "no column 'features' among logits; pass it"),
        ({"features": rows(2), "logits": rows(3)}, None, "columns of different length"),
        ({"features": rows(2), "colour": rows(2)}, None, "'colour' is not a column of a bank"),
        ({"features": rows(2), "layer.": rows(2)}, None, "'layer.' is not a column of a bank"),
        ({"features": np.arange(3.0)}, None, r"features of shape \(3,\)"),
        ({"features": np.float64(3)}, None, r"features of shape \(\)"),
        ({"features": np.array([["a"]])}, None, "type <U1; pass numbers"),
        (
            {"features": rows(2), "labels": rows(2)},
            None,
            r"labels of shape \(2, 6\); pass one per row",
        ),
        (
            {"features": rows(2), "labels": np.array([0.5, 1])},
            None,
            "labels of type float64; pass integers or strings",
        ),
        (
            {"features": rows(1), "labels": np.array([2**63 + 5], np.uint64)},
            None,
            r"a label of 9223372036854775813; pass integers below 2\*\*63",
        ),
        ({"features": rows(2)}, ["a"], "1 name for 2 rows"),
        ({"features": rows(2)}, ["a", "\ud800"], "a name cannot be stored"),
        ({"features": rows(2)}, ["a", 1], "a name cannot be stored"),
    ],
)
def test_a_bad_batch_is_refused_and_does_no_harm(
    tmp_path: Path, columns: Any, names: Any, message: str
) -> None:
    with BankWriter(tmp_path / "b", {}) as writer:
        with pytest.raises(InputError, match=message):
            writer.write(columns, names)
        writer.write({"features": rows(2)}, ["a", "b"])
        for wrong, its_names, what in (
            (
                {"features": rows(2), "logits": rows(2)},
                ["a", "b"],
                "the columns features, logits after features",
            ),
            ({"features": rows(2, 5)}, ["a", "b"], "width 5 after float32 and 6"),
            ({"features": rows(2)}, None, "some batches have names and others none"),
        ):
            with pytest.raises(InputError, match=what):
                writer.write(wrong, its_names)
        with pytest.raises(InputError, match="2 rows from source_rows=1"):
            writer.write({"features": rows(2)}, ["a", "b"], 1)
        bank = writer.finish()
    assert len(bank) == 2
    bank.verify()


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="dtype='int8' is not one of float16"):
        BankWriter(tmp_path / "b", {}, dtype="int8")
    with pytest.raises(InputError, match="shard_rows=0"):
        BankWriter(tmp_path / "b", {}, shard_rows=0)
    for value in (float("nan"), object(), {1, 2}):
        with pytest.raises(
            InputError, match=r"identity cannot be stored .*; pass a dict of JSON values"
        ):
            BankWriter(tmp_path / "b", {"x": value})
    with pytest.raises(InputError, match="labels of length 3 for 2 rows of features"):
        write_bank(tmp_path / "b", rows(2), labels=[1, 2, 3])
    with pytest.raises(InputError, match="names of length 1 for 2 rows of features"):
        write_bank(tmp_path / "b", rows(2), names=["a"])
    for bad in (np.arange(3.0), rows(0), 3.0):
        with pytest.raises(InputError, match="write_bank: features of shape"):
            write_bank(tmp_path / "b", bad)
    with pytest.raises(InputError, match="a head for 6 features, the bank has 4"):
        write_bank(tmp_path / "c", rows(2, 4), head=HEAD)
    for labels in ([0, 2], [0, -1]):
        with pytest.raises(
            InputError, match=r"labels from .* for 2 class names; pass a name for each"
        ):
            write_bank(tmp_path / f"d{labels[1]}", rows(2), labels=labels, classes=["a", "b"])
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write a bank there"):
        BankWriter(tmp_path / "file", {})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(InputError, match=r"the folder holds other files \(thesis.tex ...\)"):
        BankWriter(tmp_path / "other", {})
    assert (tmp_path / "other" / "thesis.tex").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": None}, r"features of shape \(\); pass rows"),
        ({"labels": 5}, r"labels of shape \(\); pass one per row"),
        ({"logits": 5}, r"logits of shape \(\); pass one per row"),
        ({"names": 5}, "names is an int; pass one string per row"),
        ({"names": "ab"}, "names is a str; pass one string per row"),
        ({"head": np.eye(6)}, r"head is an ndarray; pass typica\.Head\(weight, bias\)"),
        ({"classes": 5}, "classes is an int; pass a list of names"),
        ({"classes": "cat"}, "classes is a str; pass a list of names"),
        ({"classes": ["crane", "maillot", "crane"]}, "the class 'crane' comes twice; give each"),
        ({"logits": np.ones((2, 7)), "head": HEAD}, "7 logits per row for a head of 2 classes"),
        ({"logits": np.full((2, 2), 1e39)}, "logits holds 1e.39, .* takes from the features"),
    ],
)
def test_arguments_that_do_not_go_together(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=f"^write_bank: {message}"):
        write_bank(tmp_path / "b", **{"features": rows(2), **arguments})
    assert not (tmp_path / "b").exists()


def test_a_finished_bank_has_a_head_and_distinct_classes(tmp_path: Path) -> None:
    with BankWriter(tmp_path / "b", {}) as writer:
        writer.write({"features": rows(2)})
        with pytest.raises(InputError, match="b: the class 'a' comes twice"):
            writer.finish(classes=["a", "b", "a"])
        with pytest.raises(InputError, match="b: head is an ndarray"):
            writer.finish(np.eye(6))  # type: ignore[arg-type]
        assert writer.finish(classes=["a", "b"]).classes == ["a", "b"]


def test_counts_are_integers_of_any_kind(tmp_path: Path) -> None:
    for bad in (1e3, "x", True):
        with pytest.raises(InputError, match=f"shard_rows={bad!r}; pass a number of rows"):
            BankWriter(tmp_path / "b", {}, shard_rows=bad)  # type: ignore[arg-type]
    four = np.dtype("float32")
    with BankWriter(tmp_path / "b", {}, dtype=four, shard_rows=np.int64(1)) as writer:  # type: ignore[arg-type]
        with pytest.raises(
            InputError, match=r"2 rows from source_rows=2\.0; pass an integer of at least as many"
        ):
            writer.write({"features": rows(2)}, source_rows=2.0)  # type: ignore[arg-type]
        writer.write({"features": rows(2)}, source_rows=np.int64(3))  # type: ignore[arg-type]
        assert writer.done == 3
        assert len(writer.finish()) == 2


def test_numbers_for_which_no_type_has_room(tmp_path: Path) -> None:
    huge = np.finfo(np.longdouble).max
    if huge == np.finfo(np.float64).max:
        pytest.skip("long doubles are doubles here")
    with (
        BankWriter(tmp_path / "b", {}, dtype="float64") as writer,
        pytest.raises(InputError, match="features holds numbers beyond float64; scale them down"),
    ):
        writer.write({"features": np.array([[huge]])})


def test_accuracy_is_told_where_labels_index_the_logits(tmp_path: Path) -> None:
    logits = np.eye(3)[[0, 1, 2, 0]]
    right = write_bank(tmp_path / "a", rows(4), logits=logits, labels=[0, 1, 2, 1])
    assert right.accuracy == 0.75
    for number, labels in enumerate(([10, 20, 30, 10], [0, 1, 3, 0], [0, 1, -1, 0])):
        others = write_bank(tmp_path / f"b{number}", rows(4), logits=logits, labels=labels)
        assert others.accuracy is None


def test_an_empty_bank_says_why(tmp_path: Path) -> None:
    with BankWriter(tmp_path / "b", {}) as writer:
        writer.write({}, None, 2, [("a.png", "truncated"), ("b.png", "empty")])
        with pytest.raises(
            InputError, match=r"no row was written, 2 were skipped; the first, a.png: truncated"
        ):
            writer.finish()


def test_another_identity_is_refused_by_name(tmp_path: Path) -> None:
    identity = {"model": "a", "transform": {"size": 32}}
    with BankWriter(tmp_path / "b", identity) as writer:
        writer.write({"features": rows(2)})
    for other, message in (
        ({**identity, "model": "b"}, "model is 'a' there and 'b' here"),
        ({**identity, "transform": {"size": 64}}, "transform.size is 32 there and 64 here"),
        ({"model": "a"}, "transform is .* there and None here"),
    ):
        with pytest.raises(InputError, match=message):
            BankWriter(tmp_path / "b", other)
    with pytest.raises(InputError, match="dtype is 'float32' there and 'float16' here"):
        BankWriter(tmp_path / "b", identity, dtype="float16")
    BankWriter(tmp_path / "b", identity).close()


def test_a_finished_bank_is_not_written_again(folder: Path) -> None:
    before = contents(folder)
    with BankWriter(folder, {"model": "net"}, settings={"batch": 99}, shard_rows=3) as writer:
        assert writer.complete
        assert writer.done == 20
        assert writer.settings == {"batch": 5}
        with pytest.raises(InputError, match=r"the bank is complete; open it with Bank.open"):
            writer.write({"features": rows(2)})
        assert len(writer.finish()) == 20
    assert contents(folder) == before


def test_write_bank_never_returns_other_data(tmp_path: Path) -> None:
    first = write_bank(tmp_path / "b", rows(3), identity={"a": 1})
    assert (
        write_bank(tmp_path / "b", rows(3), identity={"a": 1}).fingerprint() == first.fingerprint()
    )
    for other in (rows(3, seed=1), rows(3).astype(np.float16).astype(np.float32)):
        with pytest.raises(InputError, match="holds a bank of other data"):
            write_bank(tmp_path / "b", other, identity={"a": 1})
    with pytest.raises(InputError, match="holds a bank of other data"):
        write_bank(tmp_path / "b", rows(3), head=HEAD, identity={"a": 1})


def test_two_writers_do_not_mix(tmp_path: Path) -> None:
    with (
        BankWriter(tmp_path / "b", {}),
        pytest.raises(InputError, match="another process is writing this bank"),
    ):
        BankWriter(tmp_path / "b", {})
    BankWriter(tmp_path / "b", {}).close()


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    writer = BankWriter(tmp_path / "b", {})
    writer.close()
    with pytest.raises(InputError, match="the bank's writer is closed; make a new BankWriter"):
        writer.write({"features": rows(2)})


def failing(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    "error", [InputError("bad"), OSError("bad"), KeyboardInterrupt()], ids=repr
)
def test_what_fails_before_the_first_shard_leaves_nothing(
    tmp_path: Path, error: BaseException
) -> None:
    with pytest.raises(type(error)):
        BankWriter(tmp_path / "a" / "b", {}, settings=lambda: failing(error))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    with pytest.raises(type(error)), BankWriter(tmp_path / "mine", {}, shard_rows=9) as writer:
        writer.write({"features": rows(2), "layer.a": rows(2)}, ["a", "b"])
        raise error
    if isinstance(error, Exception):
        assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]  # it was there before
    else:  # the settings, which may have taken long to find, are kept for the next run
        assert (tmp_path / "mine" / "manifest.json").exists()


def test_what_fails_later_or_in_anothers_folder_stays(tmp_path: Path, folder: Path) -> None:
    with (
        pytest.raises(OSError, match="bad"),
        BankWriter(tmp_path / "b", {}, shard_rows=2) as writer,
    ):
        writer.write({"features": rows(2)})
        raise OSError("bad")
    with pytest.raises(OSError, match="bad"), BankWriter(tmp_path / "b", {}) as writer:
        assert writer.done == 2
        raise OSError("bad")
    assert (tmp_path / "b" / "features.npy").exists()
    BankWriter(tmp_path / "begun", {}).close()
    with pytest.raises(OSError, match="bad"), BankWriter(tmp_path / "begun", {}):
        raise OSError("bad")
    assert (tmp_path / "begun" / "manifest.json").exists()
    with (
        pytest.raises(InputError, match="was removed or replaced"),
        BankWriter(tmp_path / "c", {}) as writer,
    ):
        (tmp_path / "c").rename(tmp_path / "moved")
        shutil.copytree(folder, tmp_path / "c")
        writer.write({"features": rows(2)})
    assert contents(tmp_path / "c") == contents(folder)
    with pytest.raises(OSError, match="bad"), BankWriter(tmp_path / "d" / "e", {}):
        (tmp_path / "d" / "e" / "thesis.tex").touch()
        raise OSError("bad")
    assert [path.name for path in (tmp_path / "d" / "e").iterdir()] == ["thesis.tex"]


def test_the_first_runs_settings_and_shards_are_kept(tmp_path: Path) -> None:
    with BankWriter(tmp_path / "b", {}, settings={"batch": 2}, shard_rows=2) as writer:
        for _ in range(3):
            writer.write({"features": rows(1)})
    with BankWriter(tmp_path / "b", {}, settings={"batch": 8}, shard_rows=100) as writer:
        assert writer.settings == {"batch": 2}
        assert writer.done == 2
        for _ in range(4):
            writer.write({"features": rows(1)})
        bank = writer.finish()
    shards = json.loads((tmp_path / "b" / "manifest.json").read_text())["shards"]
    assert [(shard["start"], shard["stop"]) for shard in shards] == [(0, 2), (2, 4), (4, 6)]
    assert bank.settings == {"batch": 2}


def test_shards_grow_with_the_bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typica.bank._writer._OF_DONE", 2)
    with BankWriter(tmp_path / "b", {}, shard_rows=2) as writer:
        for _ in range(23):
            writer.write({"features": rows(1)})
    with BankWriter(tmp_path / "b", {}, shard_rows=2) as writer:
        assert writer.done == 19
        for _ in range(5):
            writer.write({"features": rows(1)})
        writer.finish()
    shards = json.loads((tmp_path / "b" / "manifest.json").read_text())["shards"]
    assert [shard["stop"] for shard in shards] == [
        2,
        4,
        6,
        9,
        13,
        19,
        24,
    ]  # each at least half of what was done


def test_what_was_not_made_safe_is_cut(tmp_path: Path) -> None:
    with BankWriter(tmp_path / "b", {}, shard_rows=4) as writer:
        writer.write({}, None, 4, [("a", "bad")] * 4)
        writer.write({"features": rows(4)}, ["long name"] * 4)
        writer.write({"features": rows(3)}, ["lost"] * 3)
    with BankWriter(tmp_path / "b", {}) as writer:
        assert writer.done == 8
        bank = writer.finish()
    assert len(bank) == 4
    bank.verify()
    with BankWriter(tmp_path / "c", {}, shard_rows=4) as writer:
        writer.write({}, None, 4, [("a", "bad")] * 4)
    with BankWriter(tmp_path / "c", {}) as writer:
        assert writer.done == 4


def test_data_is_on_the_disk_before_the_manifest_counts_it(tmp_path: Path) -> None:
    log: list[str] = []
    replace, fsync = Path.replace, os.fsync

    def note_sync(handle: int) -> None:
        log.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        fsync(handle)

    def note_replace(self: Path, target: Path) -> Path:
        log.append(f"to {target.name}")
        return replace(self, target)

    if not Path("/proc/self/fd").exists():
        pytest.skip("finds the names of files through /proc")
    with BankWriter(tmp_path / "b", {}, shard_rows=2) as writer:
        with mock.patch("os.fsync", note_sync), mock.patch.object(Path, "replace", note_replace):
            writer.write({"features": rows(2), "labels": np.arange(2)}, ["a", "b"])
        assert sorted(log[:4]) == ["features.npy", "labels.npy", "names.bin", "names.offsets.npy"]
        assert log[4:] == ["manifest.json.new", "to manifest.json", "b"]


class Interrupt(BaseException):
    """Stands for Ctrl-C or a kill in the middle of a write."""


@contextlib.contextmanager
def interrupted_at(step: int | None) -> Iterator[None]:
    """Interrupt at the step-th touch of the disk, half-way through if it is an append.

    Files need not be synced.
    """
    left = [step]

    def tick() -> None:
        if left[0] is not None:
            left[0] -= 1
            if left[0] < 0:
                raise Interrupt

    append, replace = Growing._append, Path.replace

    def half(self: Growing, data: Any) -> None:
        try:
            tick()
        except Interrupt:
            append(self, bytes(memoryview(data))[: len(data) // 2])
            raise
        append(self, data)

    def move(self: Path, target: Path) -> Path:
        tick()
        moved = replace(self, target)
        tick()
        return moved

    patches = (
        mock.patch("os.fsync", lambda handle: tick()),
        mock.patch.object(Growing, "_append", half),
        mock.patch.object(Path, "replace", move),
    )
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


def write_batches(
    path: Path, batches: list[tuple[int, int]], shard_rows: int, stop: int | None
) -> None:
    """Write batches of (rows, skipped), from where the bank stands, interrupted at a step."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(Interrupt))
        stack.enter_context(interrupted_at(stop))
        with BankWriter(
            path, {"n": len(batches)}, shard_rows=shard_rows, dtype="float16"
        ) as writer:
            begin = 0
            for kept, lost in batches:
                start, begin = begin, begin + kept + lost
                if start < writer.done or writer.complete:
                    continue
                part = rows(kept, seed=start)
                columns = (
                    {"features": part, "labels": np.arange(kept), "layer.x": part[:, :2]}
                    if kept
                    else {}
                )
                names = [ODD_NAMES[(start + i) % 5] for i in range(kept)]
                writer.write(
                    columns, names, kept + lost, [(f"{start}.{i}", "bad") for i in range(lost)]
                )
            writer.finish(HEAD, list("abcde"))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=8),
    st.integers(1, 9),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_interrupted_anywhere_it_ends_the_same(
    batches: Any, shard_rows: int, stops: list[int]
) -> None:
    batches = [*batches, (3, 0)]
    with tempfile.TemporaryDirectory() as root:
        whole, broken = Path(root, "whole"), Path(root, "broken")
        write_batches(whole, batches, shard_rows, None)
        for stop in stops:
            write_batches(broken, batches, shard_rows, stop)
        write_batches(broken, batches, shard_rows, None)
        assert contents(broken) == contents(whole)
        Bank.open(broken).verify()


def test_every_single_point_of_interruption(tmp_path: Path) -> None:
    batches = [(2, 1), (0, 2), (3, 0)]
    write_batches(tmp_path / "whole", batches, 3, None)
    for stop in range(120):
        broken = tmp_path / str(stop)
        write_batches(broken, batches, 3, stop)
        if Bank.is_bank(broken) and json.loads((broken / "manifest.json").read_text())["complete"]:
            break
        write_batches(broken, batches, 3, None)
        assert contents(broken) == contents(tmp_path / "whole")
    assert 20 < stop < 119


def test_a_writer_that_was_interrupted_takes_no_more(tmp_path: Path) -> None:
    with BankWriter(tmp_path / "b", {}) as writer:
        with pytest.raises(Interrupt), interrupted_at(0):
            writer.write({"features": rows(2)})
        with pytest.raises(InputError, match="closed; make a new BankWriter"):
            writer.write({"features": rows(2)})


CHILD = """
import os, sys, time
import numpy as np
from typica.bank import BankWriter
from typica.errors import InputError
path, sleep, limit = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
if limit:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    with BankWriter(path, {"model": "net"}, settings={"pid": 0}, shard_rows=100) as writer:
        print("start", flush=True)
        for start in range(writer.done, 2400, 30):
            if writer.complete:
                break
            features = np.random.default_rng(start).normal(size=(30, 16)).astype(np.float32)
            names = [f"{start + i}.png" for i in range(30)]
            writer.write({"features": features, "labels": np.arange(30)}, names, 30)
            time.sleep(sleep)
        writer.finish()
except InputError as error:
    print(error)
    sys.exit(2)
"""


def child(path: Path, sleep: float = 0.0, limit: int = 0) -> list[str]:
    return [sys.executable, "-c", CHILD, str(path), str(sleep), str(limit)]


def run_child(path: Path, limit: int = 0) -> tuple[int, str]:
    command = child(path, limit=limit)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=ENDS, check=False)
    return done.returncode, done.stdout


def test_killed_at_random_moments_it_ends_the_same(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run_child(whole)[0] == 0
    moments = random.Random(0)
    kills = 0
    for _ in range(5):
        with started(child(broken, sleep=0.02), stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(moments.uniform(0, 0.3))
        kills += process.returncode == -9
    assert run_child(broken)[0] == 0
    assert kills > 0
    assert contents(broken) == contents(whole)
    Bank.open(broken).verify()


def test_a_full_disk_is_said_and_can_be_gone_on_from(tmp_path: Path) -> None:
    code, message = run_child(tmp_path / "full", limit=60_000)
    assert code == 2
    assert re.search(
        r"full: the disk is full \(.*\); free some space and run the same command again", message
    )
    with pytest.raises(
        FormatError, match=r"unfinished, [1-9]\d+ rows of its source are in; run the command"
    ):
        Bank.open(tmp_path / "full")
    for name in ("full", "whole"):
        assert run_child(tmp_path / name)[0] == 0
    assert contents(tmp_path / "full") == contents(tmp_path / "whole")


def test_damage_is_named(folder: Path) -> None:
    Bank.open(folder).verify()
    for file, position in (
        ("features.npy", HEADER + 130),
        ("names.bin", 60),
        ("labels.npy", HEADER + 41),
    ):
        whole = (folder / file).read_bytes()
        broken = bytearray(whole)
        broken[position] ^= 1
        (folder / file).write_bytes(broken)
        with pytest.raises(FormatError, match=r"shard 1 \(rows 5 to 9\) is damaged"):
            Bank.open(folder).verify()
        (folder / file).write_bytes(whole)
    names = sum(len(os.fsencode(name)) for name in ODD_NAMES)
    assert Bank.open(folder).verify() == 4 * (5 * (6 + 2 + 3) * 4 + 5 * 8 + names + 5 * 8)
    header = bytearray((folder / "names.offsets.npy").read_bytes())
    header[0] ^= 1
    (folder / "names.offsets.npy").write_bytes(header)
    with pytest.raises(FormatError, match=r"names\.offsets\.npy: the \.npy file has changed"):
        Bank.open(folder)


def test_a_head_that_is_not_there_or_another_is_named(folder: Path) -> None:
    file = folder / "head.safetensors"
    todo = (
        r"; write the bank again \(`typica extract --fresh`\), "
        r"or pass the head in a file of its own, head=FILE\."
    )
    whole = file.read_bytes()
    for damaged in (b"", whole[:-9], whole[:-1] + b"\x7f"):
        file.write_bytes(damaged)
        with pytest.raises(FormatError, match=r"bank: head\.safetensors is damaged" + todo):
            Bank.open(folder).verify()
    for other in (Head(np.ones((2, 6))), typica.CTM().fit(rows(20))):
        typica.save(other, file)
        with pytest.raises(
            FormatError, match=r"bank: head\.safetensors is not this bank's own" + todo
        ):
            _ = Bank.open(folder).head
    file.unlink()
    with pytest.raises(FormatError, match=r"bank: head\.safetensors is missing" + todo):
        read_head(folder)


@pytest.mark.parametrize("file", ["features.npy", "labels.npy", "names.bin", "names.offsets.npy"])
def test_missing_and_truncated_files_are_named(folder: Path, file: str) -> None:
    size = (folder / file).stat().st_size
    os.truncate(folder / file, size - 1)
    with pytest.raises(
        FormatError, match=f"{file} has {size - 1} bytes instead of {size}; delete the folder"
    ):
        Bank.open(folder)
    (folder / file).unlink()
    with pytest.raises(
        FormatError, match=f"{file} is missing; delete the folder and write the bank again"
    ):
        Bank.open(folder)


def test_a_header_that_was_altered_is_refused(folder: Path) -> None:
    for header, message in (
        (
            npy_header(np.dtype("<f4"), (6, 20)),
            r"float32 of shape \(6, 20\), the manifest says float32 of shape",
        ),
        (bytes(HEADER), "the .npy file has changed or is damaged"),
    ):
        with (folder / "features.npy").open("r+b") as file:
            file.write(header)
        with pytest.raises(FormatError, match=message):
            Bank.open(folder)


def test_foreign_folders_and_damaged_manifests(folder: Path, tmp_path: Path) -> None:
    assert Bank.is_bank(folder)
    manifest = folder / "manifest.json"
    text = manifest.read_text()
    for altered, message in (
        (text.replace('"net"', '"not"'), "the checksum of manifest.json does not match"),
        (text[:-40], "the manifest is damaged"),
        ("", "the manifest is damaged"),
        ('{"name": "a web page"}', "manifest.json does not describe a bank"),
        ("[]", "manifest.json does not describe a bank"),
        (text.replace('"bank": 1', '"bank": 2'), "written by a newer Typica .*; upgrade typica"),
    ):
        manifest.write_text(altered)
        with pytest.raises(FormatError, match=message):
            Bank.open(folder)
        if altered != text[:-40]:
            with pytest.raises(FormatError):
                BankWriter(folder, {"model": "net"})
    manifest.unlink()
    with pytest.raises(FormatError, match=r"not a bank: it has no manifest.json; pass a folder"):
        Bank.open(folder)
    assert not Bank.is_bank(folder)
    assert not Bank.is_bank(tmp_path / "nowhere")
    with pytest.raises(FormatError, match="there is no such folder"):
        Bank.open(tmp_path / "nowhere")
    with pytest.raises(FormatError, match="holds features, not a bank; a bank is a folder"):
        Bank.open(folder / "features.npy")
    manifest.mkdir()
    for path in (folder, tmp_path / ("x" * 300)):
        with pytest.raises(FormatError, match=r"manifest\.json cannot be read .*; pass a bank's"):
            Bank.open(path)


def test_an_unfinished_bank_whose_data_is_short_is_not_taken_up(tmp_path: Path) -> None:
    with BankWriter(tmp_path / "b", {}, shard_rows=2) as writer:
        writer.write({"features": rows(2)})
    os.truncate(tmp_path / "b" / "features.npy", HEADER + 3)
    with pytest.raises(FormatError, match=r"features.npy is shorter than the manifest says"):
        BankWriter(tmp_path / "b", {})


def test_opening_ten_million_rows_reads_none(tmp_path: Path) -> None:
    n, m = 10_000_000, 512
    manifest = Manifest({}, {}, "float32", 4096, complete=True, rows=n, source_rows=n)
    manifest.columns = {
        "features": {"dtype": "<f4", "width": m},
        "labels": {"dtype": "<i8", "width": None},
    }
    manifest.shards = [
        Shard(i * 4096, min(n, (i + 1) * 4096), 0, "0" * 64) for i in range(-(-n // 4096))
    ]
    for name, size in manifest.sizes().items():
        column = name.removesuffix(".npy")
        (tmp_path / name).write_bytes(
            npy_header(manifest.dtype_of(column), manifest.shape_of(column))
        )
        os.truncate(tmp_path / name, size)
    manifest.write(tmp_path)

    def read_so_far() -> int:
        return int(re.findall(r"rchar: (\d+)", Path("/proc/self/io").read_text())[0])

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    if not Path("/proc/self/io").exists():
        pytest.skip("counts what was read through /proc")
    read, memory = read_so_far(), resident()
    bank = Bank.open(tmp_path)
    assert bank.features.shape == (n, m)
    assert bank.features[n // 2, 3] == 0
    few = (tmp_path / "manifest.json").stat().st_size + 10 * io.DEFAULT_BUFFER_SIZE
    assert read_so_far() - read < few
    assert resident() - memory < 20_000_000
    assert read_features(tmp_path).features.shape == (n, m)


def test_the_fingerprint_follows_content(tmp_path: Path) -> None:
    one = write_bank(tmp_path / "1", rows(3), identity={"a": 1})
    same = write_bank(tmp_path / "2", rows(3), identity={"a": 1})
    assert one.fingerprint() == same.fingerprint()
    others = [
        write_bank(tmp_path / "3", rows(3), identity={"a": 2}),
        write_bank(tmp_path / "4", rows(3, seed=1), identity={"a": 1}),
        write_bank(tmp_path / "5", rows(3), identity={"a": 1}, head=HEAD),
        write_bank(tmp_path / "6", rows(3), identity={"a": 1}, names=["a", "b", "c"]),
        write_bank(tmp_path / "7", rows(3), identity={"a": 1}, names=["a", "bc", ""]),
        write_bank(tmp_path / "8", rows(3), identity={"a": 1}, classes=["x"]),
    ]
    assert len({bank.fingerprint() for bank in (one, *others)}) == 7


def test_verify_reports_progress(folder: Path) -> None:
    heard: list[int] = []
    with listening(heard.append):
        Bank.open(folder).verify()
    assert heard == [5, 5, 5, 5]


def test_tables_take_a_bank_like_any_file(folder: Path, tmp_path: Path) -> None:
    table = read_features(folder)
    assert isinstance(table.features, np.memmap)
    assert table.labels is not None
    np.testing.assert_array_equal(table.labels, np.tile(["cat", "dog", "cat", "dog", "cat"], 4))
    np.testing.assert_array_equal(read_labels(str(folder)), table.labels)
    assert read_head(folder) == Bank.open(folder).head == HEAD.named(["cat", "dog"])
    write_bank(tmp_path / "bare", rows(3))
    with pytest.raises(FormatError, match="a bank without a head"):
        read_head(tmp_path / "bare")
    assert read_features(tmp_path / "bare").labels is None
    (tmp_path / "empty").mkdir()
    for read in (read_features, read_labels, read_head):
        with pytest.raises(FormatError, match=r"not a bank: it has no manifest.json"):
            read(tmp_path / "empty")


def test_a_banks_parquet_file_reads_as_a_table(folder: Path, tmp_path: Path) -> None:
    bank, file = Bank.open(folder), tmp_path / "bank.parquet"
    bank.to_parquet(file)
    ours, theirs = read_features(folder), read_features(file)
    np.testing.assert_array_equal(theirs.features, bank.features)
    assert theirs.features.dtype == bank.features.dtype
    np.testing.assert_array_equal(theirs.labels, ours.labels)
    np.testing.assert_array_equal(theirs.logits, bank.logits)
    np.testing.assert_array_equal(read_labels(file), ours.labels)
    assert read_head(file) == read_head(folder) == bank.head
    notes = read_notes(file)
    assert notes is not None
    assert (notes.identity, notes.settings) == (bank.identity, bank.settings)
    assert notes.classes == bank.classes and notes.origin == bank.origin


def test_the_origin_goes_with_the_parquet_file(tmp_path: Path) -> None:
    origin = Origin("net", "w", None, "mean", {"crop": 32})
    bank = write_bank(tmp_path / "a", rows(3), identity=origin.to_dict())
    bank.to_parquet(tmp_path / "a.parquet")
    for path in (tmp_path / "a", tmp_path / "a.parquet"):
        assert read_origin(path) == origin
        assert len(read_features(path, origin).features) == 3
        with pytest.raises(InputError, match=r"^.*a(\.parquet)?: features of another network, wei"):
            read_features(path, dataclasses.replace(origin, weights="v"))
    write_bank(tmp_path / "b", rows(3)).to_parquet(tmp_path / "b.parquet")
    assert read_origin(tmp_path / "b") is None and read_origin(tmp_path / "b.parquet") is None
    assert len(read_features(tmp_path / "b.parquet", origin).features) == 3


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_parquet_keeps_types_skips_and_strings(tmp_path: Path, dtype: str) -> None:
    with BankWriter(tmp_path / "b", {"a": [1, None]}, dtype=dtype, shard_rows=3) as writer:
        writer.write({}, None, 4, [("x", "bad")])
        writer.write({"features": rows(2), "labels": np.array(["ox", "zebra"])}, ["a", "b"], 2)
        writer.write(
            {"features": rows(2), "labels": np.array(["ox", "ox"])}, ["c", "d"], 3, [("y", "bad")]
        )
        writer.write({}, None, 1, [("z", "bad")])
        writer.write({"features": rows(1), "labels": np.array(["ox"])}, ["é"], 1)
        bank = writer.finish()
    bank.to_parquet(tmp_path / "b.parquet")
    table = read_features(tmp_path / "b.parquet")
    wide = "float32" if dtype == "float16" else dtype
    assert table.features.dtype == wide
    np.testing.assert_array_equal(table.features, bank.features.astype(wide))
    np.testing.assert_array_equal(table.labels, bank.labels)
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(tmp_path / "b.parquet")
    assert frame["name"].tolist() == ["a", "b", "c", "d", "é"]
    assert frame["label"].tolist() == ["ox", "zebra", "ox", "ox", "ox"]
    np.testing.assert_array_equal(np.stack(frame["features"]), bank.features)


def test_a_shard_of_more_numbers_than_a_column_of_lists_holds(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    bank = Bank.open(folder)
    monkeypatch.setattr("typica.bank._parquet._MOST_NUMBERS", 12)  # two rows of the features
    bank.to_parquet(tmp_path / "b.parquet")
    metadata = pq.read_metadata(tmp_path / "b.parquet")
    counts = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
    assert counts == [2, 2, 1] * 4
    np.testing.assert_array_equal(read_features(tmp_path / "b.parquet").features, bank.features)


def test_names_that_are_not_unicode_are_bytes_in_parquet(folder: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    bank = Bank.open(folder)
    assert bank.names is not None
    bank.to_parquet(tmp_path / "b.parquet")
    names = pq.read_table(tmp_path / "b.parquet").column("name").to_pylist()
    assert names == [name.encode("utf-8", "surrogateescape") for name in bank.names]


def test_other_parquet_files_have_no_notes(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"a": [1.0]}).to_parquet(tmp_path / "a.parquet")
    assert read_notes(tmp_path / "a.parquet") is None
    assert read_features(tmp_path / "a.parquet").features.tolist() == [[1.0]]
    (tmp_path / "b.parquet").write_text("no")
    for file in ("b.parquet", "nowhere.parquet"):
        with pytest.raises(FormatError, match=r"not a whole .parquet file"):
            read_notes(tmp_path / file)


def test_notes_of_earlier_versions_are_read_and_damaged_ones_said(
    folder: Path, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    file = tmp_path / "a.parquet"
    Bank.open(folder).to_parquet(file)
    table = pq.read_table(file)
    notes = json.loads(table.schema.metadata[b"typica.bank"])
    typica.save(typica.CTM().fit(rows(20)), tmp_path / "ctm.safetensors")
    ctm = base64.b64encode((tmp_path / "ctm.safetensors").read_bytes()).decode()
    earlier = {**notes, "rows": 20, "shards": [], "complete": True}  # 0.1 kept all of the manifest
    schema = {b"typica.bank": json.dumps(earlier)}
    pq.write_table(table.replace_schema_metadata(schema), file)
    assert read_head(file) == HEAD.named(["cat", "dog"]) and has_logits(file)
    damaged = [{**notes, "head_file": "?"}, {**notes, "head_file": ctm}, {"classes": None}, []]
    for text in ("{", *map(json.dumps, damaged)):
        pq.write_table(table.replace_schema_metadata({b"typica.bank": text}), file)
        with pytest.raises(FormatError, match=r"a\.parquet: its notes on the bank are damaged"):
            read_head(file)


def test_banks_need_no_torch() -> None:
    code = "import sys, typica.bank, typica.data.features; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_a_bank_that_is_being_written_is_not_removed(tmp_path: Path) -> None:
    with BankWriter(tmp_path / "b", {}, shard_rows=2) as writer:
        writer.write({"features": rows(2)})
        with pytest.raises(
            InputError, match="b: another process is writing this bank; wait until it has ended"
        ):
            remove_bank(tmp_path / "b")
        assert len(writer.finish()) == 2
    remove_bank(tmp_path / "b")
    assert not (tmp_path / "b").exists()
    remove_bank(tmp_path / "b")


def test_files_of_others_beside_a_bank_are_not_removed(folder: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "thesis.tex").write_text("")
    before = sorted(folder.rglob("*"))
    with pytest.raises(
        InputError, match=r"holds more than a bank \(notes, thesis.tex\); move that"
    ):
        remove_bank(folder)
    assert sorted(folder.rglob("*")) == before
    Bank.open(folder).verify()


def test_the_bank_behind_a_link_is_removed_and_the_link_kept(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    remove_bank(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and not any(folder.iterdir())
    with BankWriter(tmp_path / "link", {}) as writer:
        writer.write({"features": rows(2)})
        assert len(writer.finish()) == 2


def test_what_is_left_of_a_bank_that_never_began_may_be_written_over(tmp_path: Path) -> None:
    (tmp_path / "manifest.json.new").write_text("{")
    remove_bank(tmp_path)
    assert len(write_bank(tmp_path, rows(2))) == 2


def test_a_removal_that_is_stopped_leaves_a_bank_to_remove(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink

    def stop_at_the_last(path: Path) -> None:
        if len(list(folder.iterdir())) == 1:
            raise KeyboardInterrupt
        unlink(path)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "unlink", stop_at_the_last)
        remove_bank(folder)
    assert [file.name for file in folder.iterdir()] == ["manifest.json"]
    remove_bank(folder)
    assert not folder.exists()


@pytest.mark.parametrize("step", ["write", "finish"])
@pytest.mark.parametrize("begun", [True, False])
def test_a_writer_whose_folder_was_replaced_leaves_the_new_one_alone(
    tmp_path: Path, step: str, begun: bool
) -> None:
    with BankWriter(tmp_path / "b", {}, shard_rows=2) as first:
        if begun or step == "finish":
            first.write({"features": rows(1)})
        shutil.rmtree(tmp_path / "b")
        with pytest.raises(
            InputError,
            match="b: the folder was removed or replaced while it was being written",
        ):
            first.write({"features": rows(1)}) if step == "write" else first.finish(HEAD)
        with BankWriter(tmp_path / "b", {"other": 1}, shard_rows=2) as second:
            second.write({"features": rows(2, seed=1)})
            before = contents(tmp_path / "b")
            with pytest.raises(InputError, match="removed or replaced"):
                first.write({"features": rows(1)}) if step == "write" else first.finish(HEAD)
            assert contents(tmp_path / "b") == before
            second.finish().verify()


def test_the_folder_is_looked_at_again_before_the_manifest_is_written(tmp_path: Path) -> None:
    with BankWriter(tmp_path / "b", {}, shard_rows=2) as writer:
        append = writer._append

        def replace(*batch: Any) -> None:
            append(*batch)
            (tmp_path / "b").rename(tmp_path / "away")
            (tmp_path / "b").mkdir()

        with (
            mock.patch.object(writer, "_append", replace),
            pytest.raises(InputError, match="removed or replaced"),
        ):
            writer.write({"features": rows(2)})
    assert contents(tmp_path / "b") == {}


def test_a_folder_that_goes_while_its_lock_is_taken_is_not_locked(tmp_path: Path) -> None:
    import fcntl

    (tmp_path / "b").mkdir()
    with (
        mock.patch.object(fcntl, "flock", lambda *_: (tmp_path / "b").rmdir()),
        pytest.raises(InputError, match="another process is writing this bank"),
    ):
        BankWriter(tmp_path / "b", {})
