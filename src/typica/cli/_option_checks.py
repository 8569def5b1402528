"""Checks of options before any work starts: callbacks for Typer, and similar functions."""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from typica.errors import InputError
from typica.files import check_not_input

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


_TARGETS = "typica.targets"  # where a command's context keeps the files that it will write


class _Target(NamedTuple):
    """A file that an option names to be written; parameter: which one, renews: another parameter.

    The file may replace what the other parameter names: it is the same thing, brought up to date.
    """

    path: Path
    parameter: str | None
    renews: str | None


def out_file(context: typer.Context, param: typer.CallbackParam, value: Path | None) -> Path | None:
    """Refuse a file that could not be written, or, when all is parsed, that the command reads."""
    if value is not None:
        _check_named(value, param)
        check_out_file(value, _option(param))
        _note_target(context, param, value)
    return value


def out_detector(
    context: typer.Context, param: typer.CallbackParam, value: Path | None
) -> Path | None:
    """Refuse what `out_file` does, but for the detector that the command reads and renews."""
    if value is not None:
        _check_named(value, param)
        check_out_file(value, _option(param))
        _note_target(context, param, value, renews="detector")
    return value


def out_verdicts(
    context: typer.Context, param: typer.CallbackParam, value: str | None
) -> str | None:
    """Refuse a file or a folder that could not be written; '-' is standard output."""
    if value is None or value == "-" or "://" in value:
        return value
    path = Path(value)
    if path.suffix and not path.is_dir():
        out_file(context, param, path)
    else:
        out_folder(param, path)
    return value


def out_text(context: typer.Context, param: typer.CallbackParam, value: str | None) -> str | None:
    """Refuse what `out_file` does; '-' is standard output."""
    if value is not None and value != "-":
        check_out_file(Path(value), _option(param))
        _note_target(context, param, Path(value))
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
    """Refuse a detector, given to a command that needs its calibration, if it has none."""
    from typica.detectors import final_detector  # noqa: PLC0415 (NumPy, which most do not need)

    if final_detector(estimator).current_calibration() is None:
        raise InputError(
            f"{path}: has no calibration scores; run `typica calibrate` with held-out inputs first."
        )


def check_ending(path: Path, ending: str, what: str) -> None:
    """Refuse an output option whose ending does not fit what the command writes."""
    if path.suffix.lower() != ending:
        raise InputError(f"{path}: {what} is stored as {ending}; choose a name that ends in it.")


def check_targets(context: typer.Context) -> None:
    """Refuse to write a file that another option or argument of the command names as well.

    For every command, when all its options are known: the callbacks of options that name files to
    write have noted these.
    """
    targets: list[_Target] = context.meta.get(_TARGETS, [])
    _check_each_once([target.path for target in targets])
    written = {target.parameter for target in targets}
    for target in targets:
        if not target.path.is_file():  # there is nothing to replace
            continue
        for param in context.command.params:
            if param.name is not None and param.name not in {*written, target.renews}:
                is_argument = param.param_type_name == "argument"
                files = _named_files(context.params.get(param.name), patterns=is_argument)
                check_not_input(target.path, *files)


def _check_each_once(paths: list[Path]) -> None:
    """Refuse two options that would write one file."""
    places = [path.resolve() for path in paths]
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1:
            raise InputError(f"{path}: two options would write it; choose another name for one.")


def _note_target(
    context: typer.Context, param: typer.CallbackParam, path: Path, renews: str | None = None
) -> None:
    noted: list[_Target] = context.meta.setdefault(_TARGETS, [])
    noted.append(_Target(path, param.name, renews))


def _named_files(value: Any, *, patterns: bool) -> Iterator[str | Path]:
    """Yield the files that the value of an option or an argument may name, also by NAME=FILE.

    patterns: whether it may be a pattern of files; those of options are of columns.
    """
    if isinstance(value, list | tuple):
        for one in value:
            yield from _named_files(one, patterns=patterns)
    elif isinstance(value, Path):
        yield value
    elif isinstance(value, str):
        yield value
        yield value.partition("=")[2]
        if patterns:
            yield from glob.iglob(value, recursive=True)  # noqa: PTH207 (may be absolute)


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
