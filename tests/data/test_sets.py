"""The benchmark sets, and the table of them.

The sets are found, fetched from a server of our own, and listed; the table is sound.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from helpers.shell import run
from helpers.watcher import Watcher
from helpers.web import Server, serving
from PIL import Image

from typica.data import open_images
from typica.data.sets import (
    SETS,
    SetFile,
    benchmark_set,
    find_set,
    get_set,
    how_to_get,
    list_sets,
)
from typica.data.sets import _download as download_module
from typica.data.sets import _get as sets
from typica.data.sets._digests import Digests
from typica.data.sets._download import DownloadError
from typica.data.sets._idx import read_idx
from typica.errors import FormatError, InputError
from typica.files import home, lock_folder
from typica.progress import watched_by


def image() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), "red").save(buffer, "PNG")
    return buffer.getvalue()


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def idx(array: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return gzip.compress(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes())


CONTENTS = {
    "isun": {
        "iSUN.tar.gz": tar({"iSUN/iSUN_patches/1.png": image(), "iSUN/iSUN_patches/2.png": image()})
    },
    "svhn": {"test_32x32.mat": b"digits"},
    "places365": {
        "places365_test_list.txt": b"Places365_test_00000002.jpg\nPlaces365_test_00000004.jpg\n",
        "test_256.tar": tar({f"test_256/Places365_test_0000000{i}.jpg": image() for i in range(6)}),
    },
    "mnist": {
        "t10k-images-idx3-ubyte.gz": idx(np.arange(3 * 28 * 28, dtype=np.uint8).reshape(3, 28, 28)),
        "t10k-labels-idx1-ubyte.gz": idx(np.array([7, 1, 0], np.uint8)),
        "train-images-idx3-ubyte.gz": idx(np.zeros((2, 28, 28), np.uint8)),
        "train-labels-idx1-ubyte.gz": idx(np.array([5, 0], np.uint8)),
    },
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of small files in the place of the sets' own, whose checksums the table then has."""
    with serving() as server:
        for name, files in CONTENTS.items():
            entry = SETS[name]
            made = []
            for file in entry.files:
                server.files[f"{name}/{file.name}"] = data = files[file.name]
                known = any(file.digests)
                digests = Digests(hashlib.sha256(data).hexdigest()) if known else Digests()
                made.append(
                    SetFile(file.name, (server.address(f"{name}/{file.name}"),), len(data), digests)
                )
            monkeypatch.setitem(SETS, name, entry._replace(files=tuple(made)))
        monkeypatch.setattr(download_module.time, "sleep", lambda _: None)
        yield server


def names_below(folder: Path) -> list[str]:
    return sorted(
        file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()
    )


def test_an_archive(server: Server, tmp_path: Path) -> None:
    assert find_set("isun", tmp_path) is None
    watcher = Watcher()
    with watched_by(watcher):
        path = get_set("isun", tmp_path)
    assert path == tmp_path / "isun" / "iSUN" / "iSUN_patches" == find_set("isun", tmp_path)
    assert len(open_images(path)) == 2
    size = len(CONTENTS["isun"]["iSUN.tar.gz"])
    assert watcher.begun == [("downloading iSUN.tar.gz", size), ("unpacking iSUN.tar.gz", size)]
    assert watcher.done == [size, size]
    assert watcher.notes[0] == f"isun: downloading iSUN.tar.gz ({size / 1000:.0f} kB)"
    assert names_below(tmp_path / "downloads") == ["isun/iSUN.tar.gz.sha256"]
    asked = len(server.asked)
    assert get_set("isun", str(tmp_path)) == path
    assert len(server.asked) == asked


def test_plain_files(server: Server, tmp_path: Path) -> None:
    assert get_set("svhn", tmp_path) == tmp_path / "svhn"
    assert names_below(tmp_path) == ["downloads/svhn/test_32x32.mat.sha256", "svhn/test_32x32.mat"]


def test_only_the_listed_images_are_kept(server: Server, tmp_path: Path) -> None:
    path = get_set("places365", tmp_path)
    assert names_below(path) == ["Places365_test_00000002.jpg", "Places365_test_00000004.jpg"]
    assert len(open_images(path)) == 2


def test_mnist_becomes_arrays(server: Server, tmp_path: Path) -> None:
    path = get_set("mnist", tmp_path)
    images = open_images(path)
    assert (len(images), images.labels.tolist()) == (3, [7, 1, 0])  # type: ignore[union-attr]
    assert np.asarray(images.read(0)).shape == (28, 28, 3)
    assert len(open_images(path.with_name("train.npz"))) == 2
    for bad in (
        b"no",
        gzip.compress(b"\0\0\x08\x01\0\0\0\x09abc"),
        gzip.compress(b"\0\0\x09\x01\0\0\0\x01a"),
    ):
        (tmp_path / "x.gz").write_bytes(bad)
        with pytest.raises(FormatError, match="delete it and fetch it again"):
            read_idx(tmp_path / "x.gz")


def test_the_first_download_is_recorded_and_later_ones_checked(
    server: Server, tmp_path: Path
) -> None:
    name = "places365_test_list.txt"
    get_set("places365", tmp_path)
    recorded = (tmp_path / "downloads" / "places365" / f"{name}.sha256").read_text().strip()
    assert recorded == hashlib.sha256(CONTENTS["places365"][name]).hexdigest()
    (tmp_path / "places365").rename(tmp_path / "away")
    server.files[f"places365/{name}"] = CONTENTS["places365"][name].replace(b"2", b"3")
    with pytest.raises(
        FormatError, match=rf"the download has sha256 \w+ instead of {recorded}; it was removed"
    ):
        get_set("places365", tmp_path)


def test_interrupted_it_goes_on(server: Server, tmp_path: Path) -> None:
    server.cuts = [100] + [0] * 3
    with pytest.raises(DownloadError, match="the connection broke after 100 of"):
        get_set("isun", tmp_path)
    assert find_set("isun", tmp_path) is None
    with (
        mock.patch.object(sets, "unpack", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        get_set("isun", tmp_path)
    assert server.asked[-1] == "bytes=100-"
    asked = len(server.asked)
    assert find_set("isun", tmp_path) is None
    get_set("isun", tmp_path)
    assert len(server.asked) == asked


def test_what_was_downloaded_by_hand_is_taken_and_kept(server: Server, tmp_path: Path) -> None:
    archive = tmp_path / "downloads" / "isun" / "iSUN.tar.gz"
    archive.parent.mkdir(parents=True)
    archive.write_bytes(CONTENTS["isun"]["iSUN.tar.gz"][:-1])
    with pytest.raises(
        FormatError, match=r"iSUN.tar.gz: has sha256 \w+ instead of \w+; delete it and run"
    ):
        get_set("isun", tmp_path)
    archive.write_bytes(CONTENTS["isun"]["iSUN.tar.gz"])
    get_set("isun", tmp_path)
    assert server.asked == []
    assert archive.exists()


@pytest.mark.parametrize("below", ["", "textures"])
def test_a_folder_that_someone_has_already(tmp_path: Path, below: str) -> None:
    (tmp_path / below / "dtd" / "images").mkdir(parents=True)
    assert find_set("textures", tmp_path) == tmp_path / below / "dtd" / "images"
    (tmp_path / "test_32x32.mat").write_text("")
    assert find_set("svhn", tmp_path) is None  # its folder would be all of the root


def test_a_foreign_folder_is_left_alone(server: Server, tmp_path: Path) -> None:
    (tmp_path / "isun").mkdir()
    (tmp_path / "isun" / "mine.txt").write_text("")
    with pytest.raises(InputError, match="is there already; move it away"):
        get_set("isun", tmp_path)
    assert names_below(tmp_path / "isun") == ["mine.txt"]


def test_an_archive_with_something_else_in_it(server: Server, tmp_path: Path) -> None:
    data = tar({"other/1.png": image()})
    server.files["isun/iSUN.tar.gz"] = data
    file = SETS["isun"].files[0]._replace(size=None, digests=Digests())
    SETS["isun"] = SETS["isun"]._replace(files=(file,))
    with pytest.raises(
        FormatError, match=r"unpacked, but iSUN/iSUN_patches is not in it; see https://github.com"
    ):
        get_set("isun", tmp_path)


def test_one_process_at_a_time(server: Server, tmp_path: Path) -> None:
    (tmp_path / "downloads" / "isun").mkdir(parents=True)
    lock = lock_folder(tmp_path / "downloads" / "isun")
    with pytest.raises(InputError, match="another process is getting the set 'isun'; wait"):
        get_set("isun", tmp_path)
    sets.os.close(lock)
    get_set("isun", tmp_path)


def test_a_set_without_an_address_says_how(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"no public address; see https://image-net.org.*: register there.*imagenet\.",
    ):
        get_set("imagenet", tmp_path)
    assert str(tmp_path / "imagenet") in how_to_get("imagenet", tmp_path)
    assert how_to_get("svhn", tmp_path) == f"get it with: typica data get svhn --root {tmp_path}"
    assert how_to_get("svhn", "my data") == "get it with: typica data get svhn --root 'my data'"
    (tmp_path / "imagenet" / "val").mkdir(parents=True)
    assert get_set("imagenet", tmp_path) == tmp_path / "imagenet"


def test_names_that_are_not_there() -> None:
    for function in (benchmark_set, find_set, get_set, how_to_get):
        with pytest.raises(
            InputError,
            match=r"set 'CIFAR-10': there is none of that name; did you mean cifar10 or ",
        ):
            function("CIFAR-10")
    for name in ("nosuch", "zzzzzzzz", "cat"):
        with pytest.raises(
            InputError, match="there is none of that name; choose one of cifar10, cifar100, svhn"
        ):
            benchmark_set(name)


def test_where_sets_lie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("TYPICA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home() == tmp_path / ".cache" / "typica"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert home() == tmp_path / "x" / "typica"
    monkeypatch.setenv("TYPICA_HOME", "~/here")
    assert home() == tmp_path / "here"
    (tmp_path / "here" / "sun" / "SUN" / "images").mkdir(parents=True)
    assert find_set("sun") == tmp_path / "here" / "sun" / "SUN" / "images"


def test_a_root_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write there \(.*\); choose another folder"):
        get_set("svhn", tmp_path / "file")


@pytest.mark.parametrize("name", list_sets())
def test_the_table_is_sound(name: str) -> None:
    entry = SETS[name]
    assert entry.name == name
    assert re.fullmatch(r"[a-z0-9-]+", name)
    assert entry.title and entry.licence and entry.images > 0
    assert entry.page.startswith(("https://", "http://"))
    assert entry.kind in ("archive", "plain", "idx")
    assert bool(entry.files) != bool(entry.by_hand)
    assert entry.open in (entry.needs, ".") or entry.needs.startswith(f"{entry.open}/")
    for file in entry.files:
        for address in file.addresses:
            assert address.startswith(("https://", "http://"))
            assert address.partition("?")[0].endswith(f"/{file.name}")
        assert file.digests.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", file.digests.sha256)
        assert file.digests.md5 is None or re.fullmatch(r"[0-9a-f]{32}", file.digests.md5)
        assert any(file.digests) or file.name == entry.only
    if entry.only is not None:
        assert entry.only in [file.name for file in entry.files]


def test_no_checksum_stands_twice() -> None:
    digests = [
        digest
        for entry in SETS.values()
        for file in entry.files
        for digest in file.digests
        if digest
    ]
    assert len(set(digests)) == len(digests)


def test_data_get(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = run(capsys, "data", "get", "isun", "svhn", "--root", str(tmp_path))
    assert output == f"isun: {tmp_path}/isun/iSUN/iSUN_patches\nsvhn: {tmp_path}/svhn\n"
    assert run(capsys, "data", "get", "isun", "--root", str(tmp_path)).startswith("isun: ")


def test_data_get_refuses(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = ["--root", str(tmp_path)]
    for arguments in ([], ["isun", "--all"]):
        assert "pass the names of sets, or --all" in run(
            capsys, "data", "get", *arguments, *root, code=2
        )
    errors = run(capsys, "data", "get", "isun", "svnh", *root, code=2)
    assert "there is none of that name; did you mean svhn?" in errors
    assert list(tmp_path.iterdir()) == []
    assert "register there" in run(capsys, "data", "get", "imagenet", *root, code=2)
    del server.files["svhn/test_32x32.mat"]
    errors = run(capsys, "data", "get", "svhn", "isun", *root, code=2)
    assert "test_32x32.mat: could not be downloaded (http://127.0.0.1" in errors
    assert "data get: 1 of 2 sets are missing (svhn); see above." in errors
    assert find_set("isun", tmp_path) is not None


def test_data_get_all(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch.dict(SETS, {name: SETS[name] for name in (*CONTENTS, "imagenet")}, clear=True):
        output = run(capsys, "data", "get", "--all", "--root", str(tmp_path))
    assert [line.partition(":")[0] for line in output.splitlines()] == list(CONTENTS)


def test_data_list(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    get_set("svhn", tmp_path)
    output = run(capsys, "data", "list", "--root", str(tmp_path))
    lines = {line.split()[0]: line for line in output.splitlines() if line.strip()}
    assert "here" in lines["svhn"]
    assert "here" not in lines["cifar10"]
    assert lines["cifar10"].rstrip().endswith("170 MB")
    assert lines["imagenet"].rstrip().endswith("by hand")
    listed = json.loads(run(capsys, "data", "list", "--root", str(tmp_path), "--json", "-"))
    assert list(listed) == list_sets()
    assert listed["svhn"]["path"] == str(tmp_path / "svhn")
    assert listed["isun"]["path"] is None
    assert listed["cifar10"]["bytes"] == 170_498_071
    assert listed["cifar10"]["files"][0]["md5"] == "c58f30108f718f92721af3b95e74349a"
    run(capsys, "data", "list", "--root", str(tmp_path), "--json", str(tmp_path / "sets.json"))
    assert json.loads((tmp_path / "sets.json").read_text()) == listed


@pytest.mark.parametrize("command", ["get", "list"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"Example: typica data {command}" in run(capsys, "data", command, "--help")
