"""Tar archives, opened so that no header can keep Python's reader busy or send it backwards."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import IO, Any

_HEADER = 1 << 14  # bytes of what may stand before a member: its path, its times and the like
_LONG = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME,
         tarfile.GNUTYPE_LONGLINK)  # fmt: skip


class _Info(tarfile.TarInfo):
    """A member whose sizes are checked before they are used."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.size < 0 or (self.type in _LONG and self.size > _HEADER):
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]

    def _block(self, count: int) -> int:
        if count < 0:
            raise tarfile.ReadError(f"a member of {count:,} bytes")
        blocks: int = super()._block(count)  # type: ignore[misc]
        return blocks


def open_tar_file(path: Path, mode: Any, file: IO[bytes] | None = None) -> tarfile.TarFile:
    """Open a tar archive; names that are not in UTF-8 stay as they are."""
    return tarfile.open(path, mode, file, errors="surrogateescape", tarinfo=_Info)
