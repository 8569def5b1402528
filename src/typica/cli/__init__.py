"""The `typica` command. Commands read files, call the library and show the result; no logic of their own."""

from __future__ import annotations

import sys
import warnings

from sklearn.exceptions import NotFittedError

# Each registers its commands.
from typica.cli import (  # noqa: F401
    about,
    bench,
    choose,
    data,
    decide,
    extract,
    fit,
    measure,
    report,
    score,
    suite,
)
from typica.cli.app import app
from typica.cli.show import error_console
from typica.errors import CalibrationWarning, InputError


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. Bad input ends with one line on standard error and exit code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    with warnings.catch_warnings():
        warnings.simplefilter("always", CalibrationWarning)
        if not debug:
            warnings.showwarning = lambda message, *_, **__: error_console.print(
                f"warning: {message}", style="yellow"
            )
        try:
            app(arguments, prog_name="typica")
        except (InputError, NotFittedError, OSError, MemoryError) as error:
            if debug:
                raise
            _fail(str(error) or type(error).__name__, code=2)
        except (
            Exception
        ) as error:  # a fault of ours: still no traceback on a user who did not ask for it
            if debug:
                raise
            _fail(
                f"internal error: {type(error).__name__}: {error}; --debug shows where, please report it",
                code=1,
            )


def _fail(message: str, code: int) -> None:
    error_console.print(
        f"error: {message}", style="red", highlight=False, markup=False, soft_wrap=True
    )
    raise SystemExit(code)
