"""Files from the network: resumed where they stopped, and checked while they come in."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typica
from typica.data.sets._digests import Digests, mismatch, new_md5
from typica.errors import FormatError, InputError
from typica.files import CHUNK, FULL
from typica.progress import advance

SCHEMES = ("https://", "http://", "file:")
_WORTH_ANOTHER_TRY = (408, 425, 429, 500, 502, 503, 504)


class DownloadError(InputError):
    """A file of a benchmark set that could not be fetched; says what was tried and what to do."""


class _Stop(Exception):  # noqa: N818 (not an error yet: there may be other addresses)
    """An address that is not worth another try."""


def download(
    addresses: str | Sequence[str],
    path: str | os.PathLike[str],
    *,
    digests: Digests = Digests(),  # noqa: B008 (immutable)
    size: int | None = None,
    timeout: float = 30.0,
    tries: int = 3,
    pause: float = 1.0,
) -> str:
    """Fetch a file from the first address that gives it whole, and return its SHA-256.

    What has come in so far is kept in PATH.part. The next call resumes it where a checksum can tell
    whether it belongs to the same file; if it does not, the file is fetched again from its
    beginning. Bytes are reported through `typica.progress`.

    Parameters
    ----------
    addresses
        Of the kinds http, https and file.
    path
        Where to put the file.
    digests, size
        The checksums and the bytes that it must have, where they are known.
    timeout
        Seconds without a byte.
    tries, pause
        How often an address is asked without progress, and the seconds before the second time; the
        pause doubles each time.

    >>> import tempfile
    >>> source = Path(tempfile.mkdtemp()) / "a.txt"
    >>> _ = source.write_text("hello")
    >>> target = source.with_name("b.txt")
    >>> download(source.as_uri(), target)[:8], target.read_text()
    ('2cf24dba', 'hello')
    """
    path = Path(path)
    addresses = _listed(addresses)
    for address in addresses:
        if not address.startswith(SCHEMES):
            raise InputError(
                f"{address}: not an address of the kind http://, https:// or file:; check it."
            )
    part = _Part(path, digests, size)
    tried = []
    for address in addresses:
        part.taken_up = part.done > 0
        try:
            _fetch(address, part, timeout, tries, pause)
            if part.taken_up and part.wrong() is not None:  # what was there before may be at fault
                part.restart()
                _fetch(address, part, timeout, tries, pause)
            return part.finish(last=address == addresses[-1])
        except _Stop as reason:
            tried.append(f"{address}: {reason}")
    raise DownloadError(
        f"{path.name}: could not be downloaded ({'; '.join(tried)}); "
        "check the network and run the same command again, "
        f"or download it by hand from {addresses[0]} and put it in {path.parent}."
    )


def _listed(addresses: str | Sequence[str]) -> list[str]:
    if isinstance(addresses, str):
        return [addresses]
    return list(addresses)


def remote_size(addresses: str | Sequence[str], timeout: float = 10.0) -> int | None:
    """Ask how many bytes a file has; None where no server says."""
    for address in _listed(addresses):
        request = _request(address, method="HEAD")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return int(response.headers.get("Content-Length", ""))
        except urllib.error.HTTPError as error:
            error.close()
        except (OSError, ValueError, http.client.HTTPException):
            continue
    return None


class _Part:
    """What has come in of a file, with its checksums so far."""

    def __init__(self, target: Path, digests: Digests, size: int | None) -> None:
        self.target, self.digests, self.size = target, digests, size
        self.path = target.with_name(f"{target.name}.part")
        self.done = 0
        self.taken_up = False  # whether some of it came in before, or from another address
        self._sha256, self._md5 = hashlib.sha256(), new_md5()
        with _disk(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
        if any(digests):
            with self.path.open("rb") as file:
                while chunk := file.read(CHUNK):
                    self._count(chunk)
        self._check_room()

    def _check_room(self) -> None:
        free = shutil.disk_usage(self.path.parent).free
        to_come = 0 if self.size is None else self.size - self.done
        if to_come > free:
            raise DownloadError(
                f"{self.target}: {to_come:,} bytes are to come and {free:,} are free; "
                "free some space, or choose another folder."
            )

    def _count(self, chunk: bytes) -> None:
        self._sha256.update(chunk)
        self._md5.update(chunk)
        self.done += len(chunk)
        advance(len(chunk))

    def restart(self) -> None:
        """Begin the download from its first byte."""
        advance(-self.done)
        self.done = 0
        self.taken_up = False
        self._sha256, self._md5 = hashlib.sha256(), new_md5()

    def take(self, response: Any) -> None:
        """Append what a response brings, from where the part stands."""
        with _disk(self.target):
            file = self.path.open("r+b")
        with file:
            file.truncate(self.done)
            file.seek(self.done)
            while chunk := response.read(CHUNK):
                with _disk(self.target):
                    file.write(chunk)
                    file.flush()
                self._count(chunk)

    def wrong(self) -> str | None:
        """Say how it differs from the expected file, if it does."""
        found = Digests(self._sha256.hexdigest(), self._md5.hexdigest())
        wrong = mismatch(self.digests, found)
        if wrong is None and self.size not in (None, self.done):
            wrong = f"{self.done:,} bytes instead of {self.size:,}"
        return wrong

    def finish(self, last: bool) -> str:
        """Put the file in its place if it is the expected one.

        If not, the next address may have it, unless this was the last.
        """
        wrong = self.wrong()
        if wrong is not None:
            self.restart()
            with _disk(self.target):
                self.path.write_bytes(b"")
                if not last:
                    raise _Stop(f"another file, {wrong}")
                self.path.unlink()
            raise FormatError(
                f"{self.target.name}: the download has {wrong}; it was removed. "
                "The file has changed at its address, or something on the way changes it: "
                "try again, or from another network."
            )
        with _disk(self.target):
            with self.path.open("r+b") as file:
                file.truncate(self.done)
                os.fsync(file.fileno())
            self.path.replace(self.target)
        return str(self._sha256.hexdigest())


def _fetch(address: str, part: _Part, timeout: float, tries: int, pause: float) -> None:
    """Bring in the rest of a file; _Stop where that does not work."""
    furthest, fruitless = part.done, 0
    while True:
        try:
            return _ask(address, part, timeout)
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"HTTP {error.code} {error.reason}"
            if error.code not in _WORTH_ANOTHER_TRY:
                raise _Stop(reason) from None
        except (OSError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
            reason = str(getattr(error, "reason", "") or error) or type(error).__name__
            if address.startswith("file:"):
                raise _Stop(reason) from None
        fruitless = 0 if part.done > furthest else fruitless + 1
        furthest = max(furthest, part.done)
        if fruitless >= tries:
            raise _Stop(f"{reason}, {tries} times")
        time.sleep(pause * 2**fruitless)


def _ask(address: str, part: _Part, timeout: float) -> None:
    if not any(part.digests):  # nothing could tell whether what is there is of the same file
        part.restart()
    response = _response(address, part, timeout)
    if response is None:
        return
    with response:
        sent = str(response.headers.get("Content-Range", ""))
        if not sent.startswith(f"bytes {part.done}-"):  # the server sends the whole file
            part.restart()
        start = part.done
        length = response.headers.get("Content-Length")
        part.take(response)
        if length is not None and part.done - start < int(length):
            raise ConnectionError(
                f"the connection broke after {part.done:,} of {start + int(length):,} bytes"
            )


def _response(address: str, part: _Part, timeout: float) -> Any:
    """Ask for what is missing of a file, or for all of it; None where all is there already."""
    request = _request(address)
    if part.done:
        request.add_header("Range", f"bytes={part.done}-")
    try:
        return urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not part.done:
            raise
        error.close()
        if error.headers.get("Content-Range") == f"bytes */{part.done}":
            return None
    part.restart()
    return urllib.request.urlopen(_request(address), timeout=timeout)


def _request(address: str, method: str = "GET") -> urllib.request.Request:
    headers = {"User-Agent": f"typica/{typica.__version__}", "Accept-Encoding": "identity"}
    return urllib.request.Request(address, headers=headers, method=method)


@contextlib.contextmanager
def _disk(path: Path) -> Iterator[None]:
    """Tell trouble with the disk from trouble with the network."""
    try:
        yield
    except OSError as error:
        full = error.errno in FULL
        what = "the disk is full" if full else f"cannot write there ({error.strerror})"
        raise DownloadError(
            f"{path}: {what}; make room or choose another folder, then run the same command again."
        ) from None
