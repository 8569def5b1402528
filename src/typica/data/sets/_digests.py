"""Checksums of files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

from typica.files import CHUNK


class Digests(NamedTuple):
    """Checksums of a file in hexadecimal; None where one is not known."""

    sha256: str | None = None
    md5: str | None = None


def file_digests(path: Path) -> Digests:
    """Return the checksums of a file on disk."""
    sha256, md5 = hashlib.sha256(), new_md5()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            sha256.update(chunk)
            md5.update(chunk)
    return Digests(sha256.hexdigest(), md5.hexdigest())


def mismatch(wanted: Digests, found: Digests) -> str | None:
    """Say which checksum differs, if one does."""
    for name, want, got in zip(Digests._fields, wanted, found, strict=True):
        if want is not None and want.lower() != got:
            return f"{name} {got} instead of {want}"
    return None


def new_md5() -> Any:
    """Return an MD5 to be fed: some benchmark sets have no other checksum in public."""
    return hashlib.md5(usedforsecurity=False)
