"""A PostgreSQL server of one's own: made in a temporary folder, reached by a socket in it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

USER = "postgres"


def tools() -> Path | None:
    """Return the folder of initdb and pg_ctl, if there is one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).parent


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Start a server and yield how to connect to it; it is gone with the block."""
    binaries = tools()
    if binaries is None:
        pytest.skip("no PostgreSQL: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="typica-postgres-"))
    try:
        if os.getuid() == 0:  # it does not run as root
            shutil.chown(folder, USER)
        data = str(folder / "data")
        _run(binaries / "initdb", "-D", data, "-U", USER, "--auth=trust", "--no-sync", "-E", "UTF8")
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        log = str(folder / "log")
        _run(binaries / "pg_ctl", "-D", data, "-w", "-t", "120", "-l", log, "-o", options, "start")
        try:
            yield f"host={folder} user={USER} dbname=postgres"
        finally:
            _run(binaries / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def _run(command: Path, *arguments: str) -> None:
    who = ["runuser", "-u", USER, "--"] if os.getuid() == 0 else []
    done = subprocess.run(
        [*who, str(command), *arguments],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
    )
    assert done.returncode == 0, done.stdout.decode()
