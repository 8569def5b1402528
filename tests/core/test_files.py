"""Files: whole or not at all, with the user's own permissions, wherever they lie."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from typica.errors import InputError
from typica.files import atomic_path, check_lock, existing, is_locked, lock_folder, sha256

posix = pytest.mark.skipif(os.name != "posix", reason="modes and links are POSIX's")


def write(path: Path, text: str = "new") -> None:
    with atomic_path(path) as temporary:
        assert temporary.parent == path.parent and temporary.suffix == path.suffix
        temporary.write_text(text)


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "a.txt"
    with atomic_path(path) as temporary:
        temporary.write_text("half")
        assert not path.exists()
    assert path.read_text() == "half" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise error
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_writer_that_makes_the_file_itself(tmp_path):
    path = tmp_path / "a.txt"
    with atomic_path(path) as temporary:
        temporary.unlink()
        temporary.write_text("new")
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


@posix
@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_the_umask_is_kept_to_and_never_touched(tmp_path, monkeypatch, mask):
    before = os.umask(mask)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", None)
            write(tmp_path / "a.txt")
    finally:
        assert os.umask(before) == mask
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o666 & ~mask


@posix
def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "there.txt").write_text("old")
    for name, target in (("link.txt", "there.txt"), ("broken.txt", "nowhere.txt")):
        (tmp_path / name).symlink_to(target)
        write(tmp_path / name)
        assert (tmp_path / name).is_symlink() and (tmp_path / target).read_text() == "new"
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").symlink_to("folder")
    write(tmp_path / "other" / "a.txt")
    assert (tmp_path / "folder" / "a.txt").read_text() == "new"


@pytest.mark.parametrize("name", ["n" * 250 + ".txt", "ü" * 120 + ".txt", "猫" * 80 + ".txt"])
def test_a_name_as_long_as_a_file_may_have(tmp_path, name):
    write(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").touch()
    for path, reason in (
        (tmp_path / "absent" / "a.txt", "No such file or directory"),
        (tmp_path / "file" / "a.txt", "Not a directory"),
        (tmp_path / f"a.{'x' * 300}", "File name too long"),
    ):
        with pytest.raises(InputError) as caught, atomic_path(path):
            pytest.fail("nothing is to be done")
        assert str(caught.value) == f"{path}: cannot write there ({reason}); choose another folder."
    with (
        pytest.raises(InputError, match="is a folder; pass the name of a file"),
        atomic_path(tmp_path),
    ):
        pytest.fail("nothing is to be done")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


WRITE_AS_NOBODY = """
import os, sys
from typica.files import atomic_path
if os.geteuid() == 0:
    os.setuid(65534)  # for root may write anywhere
try:
    with atomic_path(sys.argv[1]):
        print("written")
except ValueError as error:
    print(error)
"""


@posix
def test_a_folder_that_is_read_only():
    with tempfile.TemporaryDirectory() as folder:  # pytest's own is closed to others
        Path(folder).chmod(0o555)
        path = Path(folder, "a.txt")
        told = subprocess.run(
            [sys.executable, "-c", WRITE_AS_NOBODY, path],
            capture_output=True,
            text=True,
            check=True,
        )
        wanted = f"{path}: cannot write there (Permission denied); choose another folder.\n"
        assert told.stdout == wanted and not list(Path(folder).iterdir())


def test_one_holder_of_a_lock(tmp_path):
    handle = lock_folder(tmp_path)
    try:
        with pytest.raises(InputError, match="another process is testing; wait until it has ended"):
            lock_folder(tmp_path, "testing")
        assert is_locked(tmp_path, handle)
        tmp_path.rename(tmp_path.with_name("elsewhere"))
        with pytest.raises(InputError, match="the folder was removed or replaced"):
            check_lock(tmp_path, handle)
    finally:
        os.close(handle)
    os.close(lock_folder(tmp_path.with_name("elsewhere")))


def test_digests_and_existing_files(tmp_path):
    one, two = tmp_path / "1", tmp_path / "2"
    one.write_bytes(b"a" * 300_000)
    two.write_bytes(b"b")
    assert sha256(one, two) == hashlib.sha256(b"a" * 300_000 + b"b").hexdigest()
    assert existing(str(one)) == one
    with pytest.raises(InputError, match=r"3: there is no such file; check the path"):
        existing(tmp_path / "3")
    with pytest.raises(InputError, match="there is no such file"):
        existing(tmp_path)


@posix
def test_a_file_keeps_the_mode_of_the_one_that_it_replaces(tmp_path):
    path = tmp_path / "secret.txt"
    path.write_text("old")
    path.chmod(0o600)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


LEAVE = """
import os, sys
from typica.files import atomic_path

with atomic_path(sys.argv[1]) as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), 9)
"""


@posix
def test_what_a_killed_process_has_left_goes_with_the_next_save_of_that_name(tmp_path):
    path = tmp_path / "a.txt"
    subprocess.run([sys.executable, "-c", LEAVE, path], check=False)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".a.txt.")
    write(tmp_path / "other.txt")
    assert left.exists()  # a container beside ours may be writing it
    with atomic_path(path) as first:  # one that is being written stays
        write(path)
        assert first.exists() and not left.exists()
    assert {file.name for file in tmp_path.iterdir()} == {"a.txt", "other.txt"}


@posix
def test_what_a_killed_process_has_left_goes_after_a_day_with_any_save(tmp_path):
    subprocess.run([sys.executable, "-c", LEAVE, tmp_path / "big.csv"], check=False)
    (left,) = tmp_path.iterdir()
    mine = tmp_path / ".big.csv.of-somebody-else"
    mine.write_text("stays")
    for path in (left, mine):
        os.utime(path, (1, 1))
    write(tmp_path / "other.txt")
    assert {file.name for file in tmp_path.iterdir()} == {"other.txt", mine.name}


FULL = """
import resource, signal, sys
import numpy as np
import typica
from typica.data import RowWriter

detector = typica.KNN(k=1).fit(np.random.default_rng(0).normal(size=(2000, 64)))
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
for name in sys.argv[1:]:
    try:
        if name.endswith(".safetensors"):
            detector.save(name)
        else:
            with RowWriter(name) as writer:
                writer.write({"row": np.arange(100_000)})
    except typica.InputError as error:
        print(error)
"""


@posix
def test_a_disk_that_is_full_is_said_with_the_path(tmp_path):
    names = ["d.safetensors", "r.csv", "r.jsonl", "r.parquet"]
    command = [sys.executable, "-c", FULL, *(str(tmp_path / name) for name in names)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    assert len(lines) == len(names)
    for name, line in zip(names, lines, strict=True):
        assert str(tmp_path / name) in line and "free some space" in line
    assert not list(tmp_path.iterdir())
