"""Unpacking: what is in an archive comes out, and nothing else does.

A folder is whole or not there.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from typica import bombs
from typica.data import _unpack as module
from typica.data import unpack
from typica.errors import FormatError, InputError
from typica.progress import listening

FILES = {"cats/1.txt": b"meow", "cats/deep/er/2.txt": b"purr" * 1000, "Größe.txt": b""}


def make_zip(path: Path, contents: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return path


def make_tar(
    path: Path, contents: dict[str, bytes], *others: tarfile.TarInfo, mode: str = "w:gz"
) -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for other in others:
            archive.addfile(other)
    return path


def entry(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def tree(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def archive_of(kind: str, path: Path, contents: dict[str, bytes]) -> Path:
    if kind == "zip":
        return make_zip(path, contents)
    return make_tar(path, contents, mode=f"w:{kind}")


@pytest.mark.parametrize("kind", ["zip", "", "gz", "bz2", "xz"])
def test_what_is_in_comes_out(tmp_path: Path, kind: str) -> None:
    archive = archive_of(kind, tmp_path / "a", FILES)
    heard: list[int] = []
    with listening(heard.append):
        assert unpack(archive, tmp_path / "out") == tmp_path / "out"
    assert tree(tmp_path / "out") == FILES
    assert sum(heard) <= archive.stat().st_size
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "out"]


@pytest.mark.parametrize("kind", ["zip", "gz"])
def test_only_what_is_wanted(tmp_path: Path, kind: str) -> None:
    archive = archive_of(kind, tmp_path / "a", FILES)
    unpack(archive, tmp_path / "out", keep=lambda name: name.endswith("2.txt"))
    assert list(tree(tmp_path / "out")) == ["cats/deep/er/2.txt"]
    with pytest.raises(FormatError, match="holds none of the files that were looked for"):
        unpack(archive, tmp_path / "none", keep=lambda name: False)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("kind", ["zip", "gz"])
@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "a/../../evil",
        "/evil",
        "C:\\evil",
        "C:evil",
        "\\\\host\\evil",
        "a\\..\\evil",
        "\\evil",
    ],
)
def test_names_that_lead_out_are_refused(tmp_path: Path, kind: str, name: str) -> None:
    (tmp_path / "in").mkdir()
    archive = archive_of(kind, tmp_path / "a", {"fine.txt": b"x", name: b"evil"})
    with pytest.raises(FormatError, match="leads out of the folder; refused, nothing was unpacked"):
        unpack(archive, tmp_path / "in" / "out")
    assert list((tmp_path / "in").iterdir()) == []
    assert not list(tmp_path.rglob("*evil*"))


@pytest.mark.parametrize(
    "others",
    [
        [entry("l", tarfile.SYMTYPE, "/etc")],
        [entry("l", tarfile.SYMTYPE, "..")],
        [entry("d/l", tarfile.SYMTYPE, "../../x")],
        [entry("l", tarfile.LNKTYPE, "../x")],
        [entry("l", tarfile.LNKTYPE, "/etc/passwd")],
        # Harmless each, until the one before has been made.
        [entry("s/d/up", tarfile.SYMTYPE, "../.."), entry("s/d/up/l", tarfile.SYMTYPE, "../..")],
        [entry("a", tarfile.SYMTYPE, "b/.."), entry("b", tarfile.SYMTYPE, ".")],
        [
            entry("a", tarfile.SYMTYPE, "b/.."),
            entry("b", tarfile.SYMTYPE, "."),
            entry("a/new/x", tarfile.DIRTYPE),
        ],
    ],
)
def test_links_that_lead_out_are_refused(tmp_path: Path, others: list[tarfile.TarInfo]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "x").write_text("secret")
    archive = make_tar(tmp_path / "a.tar.gz", {"fine.txt": b"x"}, *others)
    with pytest.raises(FormatError, match="leads out of the folder; refused"):
        unpack(archive, tmp_path / "in" / "out")
    assert list((tmp_path / "in").iterdir()) == []


def test_links_that_stay_inside(tmp_path: Path) -> None:
    others = [
        entry("d/soft", tarfile.SYMTYPE, "../a.txt"),
        entry("hard", tarfile.LNKTYPE, "d/soft"),
        entry("./", b"5"),
    ]
    unpack(make_tar(tmp_path / "a.tar", {"a.txt": b"x"}, *others, mode="w"), tmp_path / "out")
    assert tree(tmp_path / "out") == {"a.txt": b"x", "d/soft": b"x", "hard": b"x"}
    assert not (tmp_path / "out" / "hard").is_symlink()
    broken = make_tar(
        tmp_path / "b.tar", {"a.txt": b"x"}, entry("hard", tarfile.LNKTYPE, "nowhere"), mode="w"
    )
    with pytest.raises(FormatError, match="hard is a link to nowhere, which is not there"):
        unpack(broken, tmp_path / "b")


@pytest.mark.parametrize("link", ["../x", "a.txt"])
def test_links_in_zip_files(tmp_path: Path, link: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", "x")
        info = zipfile.ZipInfo("l")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, link)
    if link == "a.txt":
        assert tree(unpack(tmp_path / "a.zip", tmp_path / "out")) == {"a.txt": b"x", "l": b"x"}
        return
    with pytest.raises(FormatError, match="l leads out of the folder"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    archive = make_tar(tmp_path / "a.tar", {"a": b""}, entry("null", kind), mode="w")
    with pytest.raises(FormatError, match="null is a device or the like; refused"):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["zip", "gz"])
def test_bombs_are_refused(tmp_path: Path, kind: str) -> None:
    archive = archive_of(kind, tmp_path / "a", {"zeros": bytes(4_000_000)})
    assert archive.stat().st_size * 100 < 4_000_000
    unpack(archive, tmp_path / "small")
    with (
        mock.patch.object(bombs, "FLOOR", 1000),
        pytest.raises(FormatError, match=r"more than .* a bomb"),
    ):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_bombs_of_links_and_of_members_are_refused(tmp_path: Path) -> None:
    links = [entry(f"l{i}", tarfile.LNKTYPE, "a") for i in range(300)]
    archive = make_tar(tmp_path / "a.tar", {"a": bytes(200_000)}, *links, mode="w")
    with mock.patch.object(bombs, "FLOOR", 1000), pytest.raises(FormatError, match="a bomb"):
        unpack(archive, tmp_path / "out")
    with (
        mock.patch.object(module, "MEMBERS", 300),
        pytest.raises(FormatError, match="or 300 members, a bomb"),
    ):
        unpack(archive, tmp_path / "out")


@pytest.mark.parametrize("kind", ["zip", "", "gz", "xz"])
def test_truncated_and_foreign_files(tmp_path: Path, kind: str) -> None:
    whole = archive_of(
        kind, tmp_path / "whole", {"a.bin": bytes(range(256)) * 200, "b": b"x"}
    ).read_bytes()
    for cut in (len(whole) // 3, 30):
        (tmp_path / "cut").write_bytes(whole[:cut])
        with pytest.raises(
            FormatError, match=r"not a whole archive \(.*\); delete it and fetch it again"
        ):
            unpack(tmp_path / "cut", tmp_path / "out")
    (tmp_path / "cut").write_text("<html>Sign in to download</html>")
    with pytest.raises(FormatError, match="not a whole archive"):
        unpack(tmp_path / "cut", tmp_path / "out")
    with pytest.raises(InputError, match="there is no such file"):
        unpack(tmp_path / "nowhere", tmp_path / "out")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cut", "whole"]


def test_an_interrupted_unpack_is_done_again(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", FILES)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with mock.patch.object(module, "_copy", interrupt), pytest.raises(KeyboardInterrupt):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    left = tmp_path / ".out.unpacking"  # what a kill leaves
    left.mkdir()
    (left / "half").write_text("x")
    (tmp_path / "out").mkdir()
    unpack(archive, tmp_path / "out")
    assert tree(tmp_path / "out") == FILES
    assert not left.exists()
    with pytest.raises(InputError, match="is there already; move it away"):
        unpack(archive, tmp_path / "out")


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", FILES)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with (
        mock.patch.object(module, "_copy", full),
        pytest.raises(InputError, match=r"cannot be unpacked to .*No space"),
    ):
        unpack(archive, tmp_path / "out")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.zip"]


def test_a_lock_is_closed_once_where_open_files_cannot_be_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[int] = []
    close = os.close

    def lock_folder(folder: Path, what: str) -> int:
        return os.open(folder / module.LOCK, os.O_RDWR | os.O_CREAT)

    def counted(handle: int) -> None:
        closed.append(handle)
        close(handle)

    monkeypatch.setattr(module, "DELETES_OPEN_FILES", False)
    monkeypatch.setattr(module, "lock_folder", lock_folder)
    archive = make_zip(tmp_path / "a.zip", FILES)
    monkeypatch.setattr(os, "close", counted)
    folder = unpack(archive, tmp_path / "out")
    monkeypatch.undo()
    assert len(closed) == 1 and (folder / "cats/1.txt").read_bytes() == b"meow"
