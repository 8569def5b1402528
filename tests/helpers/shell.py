"""Commands, run as a person types them."""

from __future__ import annotations

import pytest

from typica.cli import main
from typica.cli._show import console


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
