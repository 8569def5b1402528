"""The application: its own options, and a table of commands that are loaded on use."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from typica import __version__
from typica.cli._late_imports import MODULES, defer
from typica.cli._option_checks import check_targets
from typica.progress import watched_by

# Each is the module `typica.cli.NAME`, whose `app` is imported when the command is run. The texts
# are the commands' own, repeated here so that `typica --help` need not load them. Groups and
# commands are in the order of their use.
GROUPS = {
    "Start here": {
        "demo": "Show how detectors tell digits that a network knows from what it has never seen.",
        "detectors": "List the detectors and what they need.",
        "info": "Show what a detector's file or a bank holds.",
    },
    "Fit and decide": {
        "extract": "Run images through a network and keep features, logits and labels in a bank.",
        "choose": "Choose a detector with no OOD data: known inputs play the unknown.",
        "fit": "Fit a detector on training features and set its threshold on held-out ones.",
        "calibrate": "Give a detector p-values from held-out inputs, and reject at a level "
        "that holds.",
        "score": "Score features or images: typical or not, the nearest class and the runner-up.",
        "explain": "Tell one input's story: why it was accepted or rejected, what it looks like.",
        "monitor": "Watch scores on standard input and raise an alarm (exit code 3) when "
        "they have drifted.",
        "export": "Write a detector, and its network, as one ONNX file, which runs without Typica.",
        "sql": "Write a detector's scoring as SQL, to run where the rows are.",
        "serve": "Serve detectors over HTTP and gRPC: verdicts, metrics, and a page to drop "
        "images on.",
    },
    "Measure": {
        "evaluate": "Measure how well a detector tells in-distribution from OOD features.",
        "compare": "Fit every detector on the same features and show which tells ID from OOD best.",
    },
    "Benchmarks": {
        "data": "Get the benchmark sets, and see which are here.",
        "suite": "See the benchmark suites, and write one of your own.",
        "bench": "Measure the methods of a suite: the CTM paper's tables, OpenOOD's, or your own "
        "network's.",
        "report": "Write a benchmark's report: one page that needs no network, with a "
        "threshold to move.",
        "plot": "Draw a benchmark's result for a paper.",
    },
}
COMMANDS: dict[str, str] = {}
for group in GROUPS.values():
    COMMANDS |= group


class LazyGroup(TyperGroup):
    """Commands by name and summary, of which only the one that is run is imported."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for group, commands in GROUPS.items():
            for name, summary in commands.items():
                self.commands[name] = TyperCommand(name, help=summary, rich_help_panel=group)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands in the order of their use."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, loaded, and the arguments left for it."""
        name, found, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            found = load_command(name)
        return name, found, rest


def load_command(name: str) -> Any:
    """Import a command, or a group of commands, by its name."""
    defer(*MODULES)
    module = importlib.import_module(f"typica.cli.{name}")
    command = typer.main.get_command(module.app)
    command.name = name
    return command


class Command(TyperCommand):
    """A command that refuses to write over the files that it reads, before it starts."""

    def invoke(self, ctx: Any) -> Any:
        """Check the files to write, then run the command."""
        check_targets(ctx)
        return super().invoke(ctx)


class Commands(typer.Typer):
    """What a command's module registers its commands with, each a `Command`."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Return a decorator that registers a function as a command."""
        return super().command(name, cls=Command, **settings)


def new_app(**settings: Any) -> Commands:
    """Return what a command's module registers its command with."""
    return Commands(add_completion=False, **settings)


app = typer.Typer(
    cls=LazyGroup,
    help="Know when a trained classifier is looking at something it does not know.",
    epilog="Start with: typica demo. Any command takes --debug to show the traceback of an error.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"typica {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        return
    from typica.cli._progress_bars import Terminal  # noqa: PLC0415 (rich: not for `--version`)

    context.with_resource(watched_by(Terminal()))
