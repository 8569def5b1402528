"""Verdicts as a folder of Parquet files, each whole or absent, so that killed work can continue.

The folder holds `part-00000.parquet` and so on, one for each part of the data set, and
`_typica.json`, which says what was judged with what; readers of Parquet folders ignore it.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from typica.errors import InputError, listed
from typica.extras import need
from typica.files import atomic_path, lock_folder, reading
from typica.progress import note
from typica.scale._batches import Skipped
from typica.scale._files import is_address, unreachable
from typica.scale._judge import Counted, Counts
from typica.verdicts import WORDS

MANIFEST = "_typica.json"
_COUNTS = b"typica.counts"  # in the metadata of a file: what its verdicts alone do not tell
_CHOOSE = "choose a new folder, or remove it"
_NAME = re.compile(r"part-(\d{5,})\.parquet")


class Shards:
    """A folder of verdicts, here or at an address; made by `open_shards`."""

    def __init__(self, place: VerdictFolder | VerdictAddress, schema: Any) -> None:
        self.place = place
        self.schema = schema

    def numbers(self) -> set[int]:
        """Return the numbers of the parts whose verdicts are there, whole."""
        found = set()
        for name in self.place.names():
            number = _NAME.fullmatch(name)
            if number is not None and self._is_whole(name):
                found.add(int(number[1]))
        return found

    def _is_whole(self, name: str) -> bool:
        try:
            with self.place.opened(name) as file:
                found = need("pyarrow.parquet", "parquet").read_schema(file)
        except Exception:  # of any kind, if the file was cut off
            return False
        return bool(found.equals(self.schema))

    def write(self, number: int, verdicts: Counted) -> None:
        """Write the verdicts on a part, all of them or none."""
        parquet = need("pyarrow.parquet", "parquet")
        with (
            self.place.written(_name(number)) as target,
            parquet.ParquetWriter(target, self.schema) as writer,
        ):
            for batch in verdicts:
                writer.write_batch(batch)
            counts: dict[str, Any] = {"n": verdicts.n, "rejected": verdicts.rejected}
            counts["skipped"] = verdicts.skipped._asdict()
            writer.add_key_value_metadata({_COUNTS: json.dumps(counts)})

    def counts(self, number: int, rows: int | None) -> Counts:
        """Return how many rows of a part were judged, and how many of them are atypical.

        rows: how many the part has, for a file that does not say, as older versions wrote them.
        """
        with self.place.opened(_name(number)) as file:
            found = need("pyarrow.parquet", "parquet").ParquetFile(file)
            told = (found.metadata.metadata or {}).get(_COUNTS)
            if told is not None:
                known = json.loads(told)
                return Counts(known["n"], known["rejected"], Skipped(**known["skipped"]))
            words = found.read(columns=["verdict"]).column("verdict")
        strange = need("pyarrow.compute", "parquet").equal(words, WORDS[False])
        return Counts(rows or 0, int(strange.combine_chunks().sum().as_py() or 0))


class FileOfParts(NamedTuple):
    """The parts of a file that is judged, by number; digest: changes if they or the file do."""

    numbers: list[int]
    digest: str


@contextlib.contextmanager
def open_shards(
    path: str, identity: dict[str, Any], files: dict[str, FileOfParts], schema: Any
) -> Iterator[Shards]:
    """Open a folder for verdicts: a new one, or one in which the same work was begun.

    files: those that are judged. Verdicts on files that have changed are removed.
    """
    place = _place(path)
    with place.locked():
        _begin(place, path, identity, files)
        yield Shards(place, schema)


def shards_at(path: str, schema: Any) -> Shards:
    """Return a folder that another process has opened: a worker writes its own parts there."""
    return Shards(_place(path), schema)


def _place(path: str) -> VerdictFolder | VerdictAddress:
    return VerdictAddress(path) if is_address(path) else VerdictFolder(Path(path))


def _begin(
    place: VerdictFolder | VerdictAddress,
    path: str,
    identity: dict[str, Any],
    files: dict[str, FileOfParts],
) -> None:
    digests = {source: file.digest for source, file in files.items()}
    manifest = json.dumps({**identity, "files": digests}, sort_keys=True, indent=1)
    names = place.names()
    if MANIFEST not in names:
        others = [name for name in names if not name.startswith(".")]
        if others:
            raise InputError(
                f"{path}: is not empty and holds no verdicts ({others[0]}); choose a new folder."
            )
        place.write_text(MANIFEST, manifest)
        return
    with reading(f"{path}/{MANIFEST}", "not what typica wrote", "choose a new folder"):
        there = json.loads(place.read_text(MANIFEST))
        before = dict(there.pop("files"))
    for key in sorted({*identity, *there}):
        if there.get(key) != identity.get(key):
            raise InputError(f"{path}: holds verdicts with another {key}; {_CHOOSE}.")
    if digests == before:
        return
    same = _unchanged(path, digests, before)
    valid = {_name(number) for source in same for number in files[source].numbers}
    for name in names:
        if _NAME.fullmatch(name) and name not in valid:
            place.remove(name)
    place.write_text(MANIFEST, manifest)  # last: until then none of these verdicts would be valid


def _unchanged(path: str, digests: dict[str, str], before: dict[str, str]) -> set[str]:
    """Return the files whose verdicts stay; refuse a folder with verdicts on other data.

    digests: of the files that are judged now; before: of those that were.
    """
    same = {source for source, digest in digests.items() if before.get(source) == digest}
    changed = sorted(digests.keys() - same)
    gone = sorted(before.keys() - digests.keys())
    if "" in before or "" in digests:
        raise InputError(f"{path}: holds verdicts, and a stream is not continued; {_CHOOSE}.")
    if gone:
        which = f"{listed(gone, 3)}, not among these"
        raise InputError(f"{path}: holds verdicts on {which}; {_CHOOSE}.")
    if not same:
        which = f"other data in {listed(changed, 3)}"
        raise InputError(f"{path}: holds verdicts on {which}; {_CHOOSE}.")
    note(f"{path}: has changed or is new, and is judged: {listed(changed, 5)}")
    return same


def _name(number: int) -> str:
    return f"part-{number:05d}.parquet"


class VerdictFolder:
    """A folder of verdicts on this machine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder of verdicts, and keep other processes from writing to it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot make a folder there ({error.strerror}); choose another."
            ) from None
        handle = lock_folder(self.path, "writing verdicts there")
        try:
            yield
        finally:
            # Closing the handle gives up the lock.
            with contextlib.suppress(OSError):
                os.close(handle)

    def names(self) -> list[str]:
        """Return the names of the files among the verdicts."""
        return sorted(entry.name for entry in self.path.iterdir())

    def opened(self, name: str) -> Any:
        """Return a file of verdicts, open for reading."""
        return (self.path / name).open("rb")

    @contextlib.contextmanager
    def written(self, name: str) -> Iterator[Path]:
        """Yield where to write a file of verdicts, which appears if the block succeeds."""
        with atomic_path(self.path / name) as temporary:
            yield temporary

    def remove(self, name: str) -> None:
        """Remove a file of verdicts."""
        (self.path / name).unlink()

    def read_text(self, name: str) -> str:
        """Return the text of a file among the verdicts."""
        return (self.path / name).read_text(encoding="utf-8")

    def write_text(self, name: str, text: str) -> None:
        """Write a text beside the verdicts, whole or not at all."""
        with atomic_path(self.path / name) as temporary:
            temporary.write_text(text, encoding="utf-8")


class VerdictAddress:
    """A folder of verdicts at an address that fsspec knows.

    Object stores show a file only when it is whole; on other systems a file that was cut off is
    recognised by its missing end.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        with self._answering():
            self.system, self.path = need("fsspec", "scale").core.url_to_fs(address)

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except InputError:
            raise
        except Exception as error:  # of every kind, by the package that knows the address
            raise unreachable(self.address, error) from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder of verdicts if the system has folders; there is no lock."""
        with self._answering():
            self.system.makedirs(self.path, exist_ok=True)
        yield

    def names(self) -> list[str]:
        """Return the names of the files among the verdicts."""
        with self._answering():
            self.system.invalidate_cache()
            return sorted(posixpath.basename(path) for path in self.system.find(self.path))

    def opened(self, name: str) -> Any:
        """Return a file of verdicts, open for reading."""
        return self.system.open(f"{self.path}/{name}", "rb")

    @contextlib.contextmanager
    def written(self, name: str) -> Iterator[Path]:
        """Yield where to write a file of verdicts, which is sent if the block succeeds."""
        # Once closed, a file that was opened there would look whole to all readers, wherever the
        # writing stopped.
        with tempfile.TemporaryDirectory(prefix="typica-") as folder:
            whole = Path(folder, name)
            with atomic_path(whole) as temporary:
                yield temporary
            with self._answering():
                self.system.put_file(str(whole), f"{self.path}/{name}")

    def remove(self, name: str) -> None:
        """Remove a file of verdicts."""
        with self._answering():
            self.system.rm_file(f"{self.path}/{name}")

    def read_text(self, name: str) -> str:
        """Return the text of a file among the verdicts."""
        return bytes(self.system.cat_file(f"{self.path}/{name}")).decode()

    def write_text(self, name: str, text: str) -> None:
        """Write a text beside the verdicts."""
        with self._answering():
            self.system.pipe_file(f"{self.path}/{name}", text.encode())
