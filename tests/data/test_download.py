"""Downloads: taken up where they stopped, checked, and clear about what went wrong."""

from __future__ import annotations

import contextlib
import hashlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from helpers.web import Server, serving

from typica.data.sets._digests import Digests, file_digests, mismatch
from typica.data.sets._download import DownloadError, download, remote_size
from typica.errors import FormatError, InputError
from typica.progress import listening

DATA = np.random.default_rng(0).bytes(700_000)
SHA256 = hashlib.sha256(DATA).hexdigest()
MD5 = hashlib.md5(DATA).hexdigest()
GOOD = Digests(SHA256, MD5)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        server.files["data.bin"] = DATA
        yield server


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "data.bin"


def fetch(server: Server, target: Path, **options: Any) -> str:
    options = {"digests": GOOD, "pause": 0.0, "timeout": 600.0, **options}
    return download(server.address("data.bin"), target, **options)


def test_a_whole_file(server: Server, target: Path) -> None:
    heard: list[int] = []
    with listening(heard.append):
        assert fetch(server, target, size=len(DATA)) == SHA256
    assert target.read_bytes() == DATA
    assert sum(heard) == len(DATA)
    assert list(target.parent.iterdir()) == [target]
    assert file_digests(target) == GOOD


@pytest.mark.parametrize("digests", [Digests(SHA256), Digests(md5=MD5), Digests(SHA256.upper())])
def test_what_is_there_is_taken_up(server: Server, target: Path, digests: Digests) -> None:
    target.parent.mkdir()
    (target.parent / "data.bin.part").write_bytes(DATA[:300_000])
    heard: list[int] = []
    with listening(heard.append):
        assert fetch(server, target, digests=digests) == SHA256
    assert server.asked == ["bytes=300000-"]
    assert target.read_bytes() == DATA
    assert sum(heard) == len(DATA)


def test_without_a_checksum_it_starts_over(server: Server, target: Path) -> None:
    target.parent.mkdir()
    (target.parent / "data.bin.part").write_bytes(b"of another file" * 100_000)
    assert fetch(server, target, digests=Digests()) == SHA256
    assert server.asked == [""]
    assert target.read_bytes() == DATA


def test_broken_connections_are_taken_up(server: Server, target: Path) -> None:
    server.cuts = [100_000, 1, 0, 200_000]
    assert fetch(server, target) == SHA256
    assert server.asked == ["", "bytes=100000-", "bytes=100001-", "bytes=100001-", "bytes=300001-"]
    server.cuts = [100_000]
    target.unlink()
    heard: list[int] = []
    with listening(heard.append):
        assert fetch(server, target, digests=Digests()) == SHA256
    assert server.asked[-2:] == ["", ""]
    assert sum(heard) == len(DATA)


def test_a_connection_that_keeps_breaking_ends(server: Server, target: Path) -> None:
    server.cuts = [1000] + [0] * 10
    with pytest.raises(
        DownloadError, match=r"the connection broke after 1,000 of 700,000 bytes, 3 times"
    ):
        fetch(server, target)
    assert len(server.asked) == 4
    assert (target.parent / "data.bin.part").stat().st_size == 1000
    server.cuts = [1000] * 10
    server.asked.clear()
    with pytest.raises(DownloadError):
        fetch(server, target, digests=Digests())
    assert len(server.asked) == 4


def test_a_server_that_ignores_ranges(server: Server, target: Path) -> None:
    server.no_ranges = True
    server.cuts = [300_000]
    heard: list[int] = []
    with listening(heard.append):
        assert fetch(server, target) == SHA256
    assert server.asked == ["", "bytes=300000-"]
    assert target.read_bytes() == DATA
    assert sum(heard) == len(DATA)


def test_a_part_that_is_all_there_or_too_long(server: Server, target: Path) -> None:
    target.parent.mkdir()
    part = target.parent / "data.bin.part"
    part.write_bytes(DATA)
    assert fetch(server, target) == SHA256
    part.write_bytes(DATA + b"more")
    assert fetch(server, target) == SHA256
    assert server.asked == ["bytes=700000-", "bytes=700004-", ""]
    assert target.read_bytes() == DATA


@pytest.mark.parametrize("length", [300_000, len(DATA), len(DATA) + 4])
def test_a_part_of_something_else_is_fetched_again_once(
    server: Server, target: Path, length: int
) -> None:
    target.parent.mkdir()
    part = target.parent / "data.bin.part"
    part.write_bytes(bytes(length))
    heard: list[int] = []
    with listening(heard.append):
        assert fetch(server, target) == SHA256
    assert server.asked == [f"bytes={length}-", ""]
    assert target.read_bytes() == DATA and sum(heard) == len(DATA)
    part.write_bytes(bytes(300_000))
    with pytest.raises(
        FormatError, match=f"the download has sha256 {SHA256} instead of 0{{64}}; it was removed"
    ):
        fetch(server, target, digests=Digests("0" * 64))
    assert server.asked[2:] == ["bytes=300000-", ""]
    assert list(target.parent.iterdir()) == [target]


def test_what_a_server_sends_whole_is_not_fetched_twice(server: Server, target: Path) -> None:
    target.parent.mkdir()
    (target.parent / "data.bin.part").write_bytes(bytes(300_000))
    server.no_ranges = True
    with pytest.raises(FormatError, match="it was removed"):
        fetch(server, target, digests=Digests("0" * 64))
    assert server.asked == ["bytes=300000-"]


def test_another_address_may_go_on_with_what_is_wrong(server: Server, target: Path) -> None:
    server.files["other.bin"] = bytes(5000)
    server.cuts = [1000, 0]
    addresses = [server.address("other.bin"), server.address("data.bin")]
    assert download(addresses, target, digests=GOOD, pause=0, tries=1) == SHA256
    assert server.asked == ["", "bytes=1000-", "bytes=1000-", ""]


def test_a_wrong_checksum_removes_the_file(server: Server, target: Path) -> None:
    for digests, message in (
        (Digests("0" * 64), f"the download has sha256 {SHA256} instead of 0{{64}}; it was removed"),
        (Digests(md5="0" * 32), f"the download has md5 {MD5} instead of 0{{32}}; it was removed"),
    ):
        with pytest.raises(FormatError, match=message):
            fetch(server, target, digests=digests)
        assert list(target.parent.iterdir()) == []
    with pytest.raises(
        FormatError, match="the download has 700,000 bytes instead of 5; it was removed"
    ):
        fetch(server, target, digests=Digests(), size=5)
    assert list(target.parent.iterdir()) == []


def test_a_server_that_does_not_tell_the_length(server: Server, target: Path) -> None:
    server.no_length = True
    assert fetch(server, target) == SHA256
    server.cuts = [1000]
    with pytest.raises(FormatError, match="1,000 bytes instead of 700,000; it was removed"):
        fetch(server, target, digests=Digests(), size=len(DATA))


def test_missing_files_are_not_asked_for_again(server: Server, target: Path) -> None:
    del server.files["data.bin"]
    with pytest.raises(DownloadError) as caught:
        fetch(server, target)
    address = server.address("data.bin")
    assert str(caught.value) == (
        f"data.bin: could not be downloaded ({address}: HTTP 404 Not Found); "
        "check the network and run the same command again, "
        f"or download it by hand from {address} and put it in {target.parent}."
    )
    assert len(server.asked) == 1
    assert not target.exists()


def test_a_busy_server_is_asked_again(server: Server, target: Path) -> None:
    server.statuses = [503, 429]
    assert fetch(server, target) == SHA256
    server.statuses = [503] * 9
    with pytest.raises(DownloadError, match="HTTP 503 Service Unavailable, 3 times"):
        fetch(server, target)


def test_the_next_address_is_tried(server: Server, target: Path) -> None:
    server.files["other.bin"] = b"<html>Sign in</html>"
    addresses = [
        server.address("nowhere.bin"),
        server.address("other.bin"),
        server.address("data.bin"),
    ]
    assert download(addresses, target, digests=GOOD, pause=0) == SHA256
    with pytest.raises(FormatError, match="it was removed"):
        download(addresses[:2], target, digests=GOOD, pause=0)
    with pytest.raises(
        DownloadError, match=r"other.bin: another file, sha256 .*; http.*nowhere.bin: HTTP 404"
    ):
        download([addresses[1], addresses[0]], target, digests=GOOD, pause=0)


def test_a_server_that_falls_silent(server: Server, target: Path) -> None:
    server.stall = True
    with pytest.raises(DownloadError, match="timed out, 2 times"):
        fetch(server, target, timeout=0.1, tries=2)


@pytest.fixture
def closed_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_no_network(closed_port: int, target: Path) -> None:
    with pytest.raises(
        DownloadError,
        match=r"refused.*, 2 times\); check the network and run .* or download it by hand",
    ):
        download(f"http://127.0.0.1:{closed_port}/data.bin", target, tries=2, pause=0)
    assert remote_size(f"http://127.0.0.1:{closed_port}/data.bin") is None


def test_files_and_other_addresses(target: Path) -> None:
    with pytest.raises(InputError, match=r"ftp://x/y: not an address of the kind http://"):
        download("ftp://x/y", target)
    source = target.parent.parent / "s p a c e.bin"
    source.write_bytes(DATA)
    assert download(source.as_uri(), target, digests=GOOD) == SHA256
    with pytest.raises(DownloadError, match="No such file"):
        download((source.parent / "nowhere").as_uri(), target.parent / "b")


def test_remote_size(server: Server) -> None:
    assert remote_size([server.address("nowhere"), server.address("data.bin")]) == len(DATA)
    server.no_length = True
    assert remote_size(server.address("data.bin")) is None


class Usage(NamedTuple):
    free: int


def test_a_full_disk(server: Server, target: Path) -> None:
    with (
        mock.patch("shutil.disk_usage", lambda _: Usage(5)),
        pytest.raises(
            DownloadError, match="700,000 bytes are to come and 5 are free; free some space"
        ),
    ):
        fetch(server, target, size=len(DATA))
    real = Path.open

    class Full:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, chunk: bytes) -> int:
            if self.file.tell() + len(chunk) > 400_000:
                raise OSError(28, "No space left on device")
            return int(self.file.write(chunk))

    def open_full(self: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        file = real(self, mode, *args, **kwargs)
        return Full(file) if mode == "r+b" else file

    with (
        mock.patch.object(Path, "open", open_full),
        pytest.raises(DownloadError, match="the disk is full; make room"),
    ):
        fetch(server, target)
    assert (target.parent / "data.bin.part").stat().st_size == 262_144
    assert fetch(server, target) == SHA256
    assert server.asked[-1] == "bytes=262144-"


def test_a_folder_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        DownloadError, match=r"cannot write there \(.*\); make room or choose another folder"
    ):
        fetch(server, tmp_path / "file" / "data.bin")


def test_checksums_that_differ_are_named() -> None:
    assert mismatch(Digests(), GOOD) is None
    assert mismatch(GOOD, GOOD) is None
    assert re.match(r"md5 \w{32} instead of 00", mismatch(Digests(SHA256, "00"), GOOD) or "")
