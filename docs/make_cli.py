"""Write docs/cli/, a page of every command, from the commands themselves.

Run it after a command was changed: python docs/make_cli.py. Words, options and defaults are those
that `typica COMMAND --help` shows.
"""

from __future__ import annotations

import importlib
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from typer.models import ArgumentInfo, OptionInfo

from typica.cli._app import GROUPS, app

DOCS = Path(__file__).parent
WRITTEN = "<!-- Written by docs/make_cli.py; do not edit. -->\n"

INTRODUCTION = f"""\
{WRITTEN}
# Command line

`pip install typica` brings one command, `typica`. Every table has a `--json` beside it, and bad
input gets one line and exit code 2.

| exit code | means |
|---|---|
| 0 | done |
| 1 | a fault of ours; `--debug` shows where |
| 2 | bad input: a file, an option, a value |
| 3 | `typica monitor` raised an alarm |
| 130 | interrupted with Ctrl-C |
| 141 | whoever read the rows that `typica score -o -` prints has gone before the last |

They hold if nobody reads standard output any more.
"""


def main() -> None:
    """Write all pages, and remove those of commands that are gone."""
    made = pages()
    folder = DOCS / "cli"
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.md"):
        if f"cli/{path.name}" not in made:
            path.unlink()
    for name, text in made.items():
        (DOCS / name).write_text(text, encoding="utf-8")
    print(f"{len(made)} pages of the command line")


def pages() -> dict[str, str]:
    """Return the pages as Markdown, by their place in docs/."""
    made = {"cli/index.md": index()}
    for name in commands():
        made[f"cli/{name}.md"] = page(name)
    return made


def commands() -> list[str]:
    """Return the names of the commands, in the order of `typica --help`."""
    return [name for group in GROUPS.values() for name in group]


def index() -> str:
    """Return the page that lists the commands."""
    parts = [INTRODUCTION]
    for title, group in GROUPS.items():
        rows = [(f"[`{name}`]({name}.md)", summary) for name, summary in group.items()]
        parts += [f"## {title}\n", _table(("command", ""), rows)]
    parts += ["## Options of `typica` itself\n", _options(_parameters(app.registered_callback))]
    return "\n".join(parts)


def page(name: str) -> str:
    """Return the page of one command, with those of its group where it is one."""
    application = importlib.import_module(f"typica.cli.{name}").app
    commands = application.registered_commands
    parts = [WRITTEN, f"# typica {name}\n"]
    if len(commands) == 1:
        return "\n".join([*parts, *_described(commands[0], name)])
    parts.append(f"{_line(application.info.help)}\n")
    for command in commands:
        whole = f"{name} {command.name or command.callback.__name__}"
        parts += [f"## typica {whole}\n", *_described(command, whole)]
    return "\n".join(parts)


class Parameter(NamedTuple):
    """An argument or an option as a command declares it."""

    names: list[str]
    takes: str
    many: bool
    default: Any
    info: ArgumentInfo | OptionInfo

    @property
    def is_option(self) -> bool:
        """Whether it has a name in the shell."""
        return isinstance(self.info, OptionInfo)

    @property
    def needed(self) -> bool:
        """Whether a command cannot do without it."""
        return self.default is inspect.Parameter.empty


def _described(command: Any, name: str) -> Iterator[str]:
    yield f"{_line(command.help or command.callback.__doc__)}\n"
    parameters = [parameter for parameter in _parameters(command) if not parameter.info.hidden]
    arguments = [parameter for parameter in parameters if not parameter.is_option]
    usage = " ".join(["typica", name, "[OPTIONS]", *map(_place, arguments)])
    yield f"```text\n{usage}\n```\n"
    if arguments:
        rows = [(f"`{_place(argument)}`", _line(argument.info.help)) for argument in arguments]
        yield _table(("argument", ""), rows)
    yield _options(parameters)
    example = _line(command.epilog)
    if example.startswith("Example: "):
        yield f"Example:\n\n```text\n{example.removeprefix('Example: ')}\n```\n"


def _parameters(command: Any) -> list[Parameter]:
    """Return what a command takes, as its function declares it."""
    function: Callable[..., Any] = command.callback
    hints = typing.get_type_hints(function, include_extras=True)
    found = []
    for name, declared in inspect.signature(function).parameters.items():
        if typing.get_origin(hints[name]) is Annotated:
            plain, info = typing.get_args(hints[name])[:2]
            found.append(_parameter(name, plain, info, declared.default))
    return found


def _parameter(name: str, plain: Any, info: Any, default: Any) -> Parameter:
    inner, many = _inner(plain)
    if isinstance(info, ArgumentInfo):
        return Parameter([info.metavar or name.upper().rstrip("_")], "", many, default, info)
    # What Typer's Option is given first is a default, or, in an annotation, the first name.
    first = [info.default] if isinstance(info.default, str) else []
    names = "/".join([*first, *(info.param_decls or ())]).split("/")
    plain_name = f"--{name.replace('_', '-')}"
    if names == [""]:
        names = [plain_name, f"--no-{plain_name[2:]}"] if inner is bool else [plain_name]
    takes = "" if inner is bool else info.metavar or WORDS.get(inner, "TEXT")
    return Parameter(names, takes, many, default, info)


WORDS = {Path: "PATH", int: "NUMBER", float: "NUMBER"}


def _inner(plain: Any) -> tuple[Any, bool]:
    """Return the type of one value, and whether several may be given."""
    kinds = [plain]
    if isinstance(plain, types.UnionType):
        kinds = [kind for kind in typing.get_args(plain) if kind is not types.NoneType]
    kind = kinds[0]
    if typing.get_origin(kind) is list:
        return typing.get_args(kind)[0], True
    return kind, False


def _options(parameters: list[Parameter]) -> str:
    """Return the options of a command, with what each takes and its default."""
    rows = []
    for option in parameters:
        if not option.is_option:
            continue
        names = ", ".join(f"`{name}`" for name in option.names)
        rows.append((f"{names} {option.takes}".rstrip(), " ".join(_said(option))))
    return _table(("option", ""), rows)


def _said(option: Parameter) -> Iterator[str]:
    """Yield what is said of an option, and whether it is needed, repeated, or has a default."""
    told = _line(option.info.help)
    yield told
    if option.many and "repeated" not in told:
        yield "May be repeated."
    if option.needed:
        yield "Needed."
    if option.default not in (inspect.Parameter.empty, None, False):
        yield f"Default: `{option.default}`."


def _place(argument: Parameter) -> str:
    """Return how usage shows an argument."""
    (name,) = argument.names
    shown = f"{name}..." if argument.many and not name.endswith("...") else name
    return shown if argument.needed else f"[{shown}]"


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )


if __name__ == "__main__":
    main()
