"""The `typica` command. Commands read files, call the library and show the result; none decides."""

from __future__ import annotations

import sys
import warnings
from typing import Any, NoReturn

from typica.cli.app import app
from typica.errors import CalibrationWarning, InputError


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. Bad input ends with one line on standard error and exit code 2."""
    given = sys.argv[1:] if arguments is None else arguments
    wanted = [argument for argument in given if argument != "--debug"]
    with warnings.catch_warnings():
        warnings.simplefilter("always", CalibrationWarning)
        if "--debug" in given:
            app(wanted, prog_name="typica")
            return
        warnings.showwarning = _show_warning
        try:
            app(wanted, prog_name="typica")
        except (InputError, OSError, MemoryError) as error:
            _fail(str(error) or type(error).__name__, code=2)
        except Exception as error:
            _fail_unforeseen(error)


def _fail_unforeseen(error: Exception) -> NoReturn:
    """Show no traceback to a user who did not ask for it, even where the fault is ours."""
    from sklearn.exceptions import NotFittedError  # noqa: PLC0415 (only a failure is worth its time)

    if isinstance(error, NotFittedError):
        _fail(str(error), code=2)
    what = f"{type(error).__name__}: {error}"
    _fail(f"internal error: {what}; --debug shows where, please report it", code=1)


def _fail(message: str, code: int) -> NoReturn:
    from typica.cli.show import complain  # noqa: PLC0415 (rich, which `--version` does not need)

    complain(f"error: {message}", style="red")
    raise SystemExit(code)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    from typica.cli.show import error_console  # noqa: PLC0415 (as above)

    error_console.print(f"warning: {message}", style="yellow")
