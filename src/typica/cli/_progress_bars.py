"""Progress bars on the terminal, for the work that the library reports."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from typica.cli._show import complain, error_console

PATIENCE = 1.0  # seconds of work before a bar appears


class Terminal:
    """Show work as bars on standard error, once it has taken a second, and notes as lines."""

    def __init__(self) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            _Speed(),
            console=error_console,
            transient=True,
        )

    @contextlib.contextmanager
    def begin(self, what: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
        """Show a bar until the block ends; the function that is yielded advances it."""
        task = self._bars.add_task(what, total=total, visible=False, unit=unit)
        late = time.monotonic() + PATIENCE

        def advance(done: int) -> None:
            self._bars.advance(task, done)
            if time.monotonic() > late:
                self._appear(task)

        try:
            yield advance
        finally:
            self._bars.remove_task(task)
            if self._bars.live.is_started and not self._bars.tasks:
                self._bars.stop()  # one that never showed would print an empty line

    def note(self, text: str) -> None:
        """Print a line."""
        complain(text, style="")

    def _appear(self, task: TaskID) -> None:
        self._bars.update(task, visible=True)
        if error_console.is_terminal and not self._bars.live.is_started:
            self._bars.start()


class _Speed(ProgressColumn):
    """How many are done per second, where a unit is given."""

    def render(self, task: Task) -> Text:
        unit = task.fields["unit"]
        if not unit or task.speed is None:
            return Text()
        return Text(f"{task.speed:.0f} {unit}")
