"""The way into the command line: streams, warnings, and errors as one line and an exit code."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from typing import Any, NoReturn, TextIO

from typica.cli._exits import BAD_INPUT, CUT_OFF, INTERNAL, INTERRUPTED
from typica.cli._garbage import collect_seldom
from typica.cli._interrupt import answered_soon
from typica.cli._several_values import spread
from typica.errors import (
    CalibrationWarning,
    InputError,
    in_shell,
)
from typica.warning_filters import ignore_broken_metadata, ignore_missing_names


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. Bad input ends with one line on standard error and exit code 2."""
    if arguments is None:
        collect_seldom()
    given = sys.argv[1:] if arguments is None else arguments
    try:
        _prepare_streams()
        try:
            with answered_soon():
                _run(given)
        finally:
            _flush(sys.stdout)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def _prepare_streams() -> None:
    """Escape what the terminal's encoding lacks; a closed stream is that of nobody and nothing."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123 (to the end)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 (to the end)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _flush(stream: TextIO) -> None:
    """Flush what was printed; say why it failed, unless the reader has gone."""
    try:
        stream.flush()
    except OSError as error:
        # Python flushes again when it ends: that goes nowhere now, and cannot fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if error.errno == errno.EPIPE:
            return
        _fail(f"standard output: cannot be written ({error.strerror})", code=BAD_INPUT)


def _run(given: list[str]) -> None:
    from typica.cli._app import app  # noqa: PLC0415 (Ctrl-C while it loads is caught)

    wanted = spread([argument for argument in given if argument != "--debug"])
    with warnings.catch_warnings(), in_shell():
        warnings.simplefilter("always", CalibrationWarning)
        ignore_missing_names()
        ignore_broken_metadata()
        if "--debug" in given:
            app(wanted, prog_name="typica")
            return
        warnings.showwarning = _show_warning
        try:
            app(wanted, prog_name="typica")
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):  # Typer ends with 1
                raise SystemExit(CUT_OFF) from None
            raise
        except InputError as error:
            _fail(*error.lines(), code=BAD_INPUT)
        except (OSError, MemoryError) as error:
            _flush(sys.stdout)  # which may be what failed, and is then named
            _fail(str(error) or type(error).__name__, code=BAD_INPUT)
        except Exception as error:
            _fail_unforeseen(error)


def _fail_unforeseen(error: Exception) -> NoReturn:
    """Show no traceback to a user who did not ask for it, even if the bug is ours."""
    from sklearn.exceptions import NotFittedError  # noqa: PLC0415 (only a failure is worth its time)

    if isinstance(error, NotFittedError):
        _fail(str(error), code=BAD_INPUT)
    what = f"{type(error).__name__}: {error}"
    _fail(f"internal error: {what}; --debug shows where, please report it", code=INTERNAL)


def _fail(message: str, *problems: str, code: int) -> NoReturn:
    from typica.cli._show import complain  # noqa: PLC0415 (rich, which `--version` does not need)

    complain(f"error: {message}", style="red")
    for problem in problems:
        complain(problem, style="red")
    raise SystemExit(code)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    from typica.cli._show import complain  # noqa: PLC0415 (as above)

    complain(f"warning: {message}")
