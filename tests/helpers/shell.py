"""Commands, run as a person types them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from typica.cli import main
from typica.cli._show import console

ENDS = 120  # seconds in which a child ends, on a busy machine


@contextlib.contextmanager
def started(command: Sequence[Any], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a process that is gone at the end of the block, whatever happens in it."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Run a command as a person types it on 80 columns.

    Return what it printed, or its errors if it failed.
    """
    console.width = 80
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    captured = capsys.readouterr()
    assert stop.value.code == code, captured.out + captured.err
    assert "Traceback" not in captured.err
    return captured.err if code in (1, 2) else captured.out
