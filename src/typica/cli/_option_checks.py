"""Checks of options before any work starts: callbacks for Typer, and similar functions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from typica.errors import InputError
from typica.files import is_same_file

if TYPE_CHECKING:
    from typica.detectors import Estimator


def one_of(choices: Collection[str]) -> Callable[[typer.CallbackParam, str | None], str | None]:
    """Return a callback that refuses what is not one of the choices."""

    def check(param: typer.CallbackParam, value: str | None) -> str | None:
        if value is not None and value not in choices:
            raise InputError(
                f"{_option(param)} {value}: unknown; choose one of {', '.join(choices)}."
            )
        return value

    return check


def out_file(param: typer.CallbackParam, value: Path | None) -> Path | None:
    """Refuse a file that could not be written."""
    if value is not None:
        _check_named(value, param)
        check_out_file(value, _option(param))
    return value


def out_verdicts(param: typer.CallbackParam, value: str | None) -> str | None:
    """Refuse a file or a folder that could not be written; '-' is standard output."""
    if value is None or value == "-" or "://" in value:
        return value
    path = Path(value)
    if path.suffix and not path.is_dir():
        out_file(param, path)
    else:
        out_folder(param, path)
    return value


def out_text(param: typer.CallbackParam, value: str | None) -> str | None:
    """Refuse a file that could not be written; '-' is standard output."""
    if value is not None and value != "-":
        check_out_file(Path(value), _option(param))
    return value


def out_folder(param: typer.CallbackParam, value: Path | None) -> Path | None:
    """Refuse a folder that cannot be made or written to; a bank that is there may be finished."""
    from typica.bank import Bank  # noqa: PLC0415 (NumPy, which most options do not need)

    if value is not None and not Bank.is_bank(value):
        _check_named(value, param)
        check_out_folder(value, _option(param))
    return value


def prints(**targets: str | None) -> bool:
    """Tell whether one of the options' targets is standard output; refuse two."""
    printed = [f"--{name}" for name, target in targets.items() if target == "-"]
    if len(printed) > 1:
        raise InputError(f"{' and '.join(printed)}: each would be printed; pass - to one of them.")
    return bool(printed)


def check_out_file(path: Path, option: str = "") -> None:
    """Refuse a file that an option names if it could not be written.

    Its folder is missing or cannot be written to, or it is a folder itself.
    """
    where = f"{option} {path}".lstrip()
    if path.is_dir():
        raise InputError(f"{where}: is a folder; name a file in it.")
    # A device or a pipe, which the file would replace.
    if path.exists() and not path.is_file():
        raise InputError(f"{where}: is not a plain file; choose another name.")
    if not path.parent.is_dir():
        raise InputError(f"{where}: there is no folder {path.parent}; make it, or choose another.")
    _check_open(path.parent, where)


def check_calibrated(estimator: Estimator, path: Path) -> None:
    """Refuse a detector that has no scores to compare with, where some are needed."""
    from typica.detectors import final_detector  # noqa: PLC0415 (NumPy, which most do not need)

    if final_detector(estimator).current_calibration() is None:
        raise InputError(
            f"{path}: has no calibration scores; run `typica calibrate` with held-out inputs first."
        )


def check_ending(path: Path, ending: str, what: str) -> None:
    """Refuse an output option whose ending does not fit what the command writes."""
    if path.suffix.lower() != ending:
        raise InputError(f"{path}: {what} is stored as {ending}; choose a name that ends in it.")


def check_not_input(target: Path, *inputs: str | Path | None) -> None:
    """Refuse to overwrite what the command reads."""
    if is_input(target, *inputs):
        raise InputError(
            f"{target}: is read by this command, which would replace it; choose another name."
        )


def is_input(target: Path, *inputs: str | Path | None) -> bool:
    """Tell whether a file is one that the command reads, under whatever name."""
    return any(path is not None and is_same_file(target, path) for path in inputs)


def check_out_folder(path: Path, option: str = "") -> None:
    """Refuse a folder that an option names if it, or what goes into it, could not be written.

    Its parents may be missing.
    """
    where = f"{option} {path}".lstrip()
    nearest = next(folder for folder in (path, *path.parents) if folder.exists())
    if not nearest.is_dir():
        what = "is a file" if nearest == path else f"{nearest} is a file"
        raise InputError(f"{where}: {what}; choose another name for the folder.")
    _check_open(nearest, where)


def _check_named(path: Path, param: typer.CallbackParam) -> None:
    if str(path) == "-":
        raise InputError(f"{_option(param)} -: this one cannot be printed; pass a name.".lstrip())


def _check_open(folder: Path, where: str) -> None:
    # Permissions do not say everything: file systems can be full, or read-only.
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"{where}: cannot write there ({error.strerror}); choose another folder."
        ) from None


def _option(param: typer.CallbackParam) -> str:
    """Return an option's long name; nothing for an argument, whose value says enough."""
    names = [name for name in param.opts if name.startswith("-")]
    return max(names, key=len, default="")
