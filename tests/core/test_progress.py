"""One channel for what a person sees of work."""

from __future__ import annotations

import io

import pytest
from helpers.watcher import Watcher
from rich.console import Console

from typica.cli import _progress_bars, _show
from typica.progress import advance, is_watched, listening, note, steps, watched_by, work


def test_nobody_watches():
    heard: list[int] = []
    note("unheard")
    advance(1)
    with listening(heard.append), work("scoring", 3):
        advance(3)
    with steps("comparing", 2) as done:
        done("ctm")
    assert heard == [3] and not is_watched()


def test_rows_count_for_all_work_around_them_and_not_for_steps():
    watcher = Watcher()
    with watched_by(watcher):
        assert is_watched()
        with steps("measuring", 2) as done:
            advance(100)
            with work("images", 9), work("looking", 5, "images/s"):
                advance(4)
            done("ctm")
        with pytest.raises(ZeroDivisionError), work("failing", None):
            advance(7)
            raise ZeroDivisionError
        advance(9)
        note("said")
    advance(9)
    begun = [("measuring", 2), ("images", 9), ("looking", 5), ("failing", None)]
    assert watcher.begun == begun
    assert watcher.done == [1, 4, 4, 7] and watcher.notes == ["said"]


def test_the_terminal_shows_a_bar_once_work_takes_long(monkeypatch):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=99)
    monkeypatch.setattr(_progress_bars, "error_console", console)
    monkeypatch.setattr(_show, "error_console", console)
    with watched_by(_progress_bars.Terminal()), work("quick", 10):
        advance(10)
    assert stream.getvalue() == ""
    monkeypatch.setattr(_progress_bars, "PATIENCE", 0.0)
    with watched_by(_progress_bars.Terminal()):
        with work("looking", 10, "images/s"), work("unknown", None):
            advance(1)
        with steps("measuring", 2) as done:
            done("ctm")
            done("knn")
        note("[said]")
    shown = stream.getvalue()
    assert "unknown" in shown and "measuring" in shown and "[said]" in shown
