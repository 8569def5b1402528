"""The table of commands: loaded on use, and told of as they tell of themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.shell import run

import typica.cli
from typica.cli._app import COMMANDS, GROUPS, load_command

HEAVY = {"numpy", "sklearn", "scipy", "torch", "pyarrow", "PIL"}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_of_a_command_what_it_says_itself(name):
    command = load_command(name)
    assert command.name == name
    assert command.help.partition("\n\n")[0] == COMMANDS[name]


def test_the_table_knows_every_command(capsys):
    folder = Path(typica.cli.__file__).parent
    apart = {"app", "checks", "options", "show"}
    assert set(COMMANDS) == {path.stem for path in folder.glob("[!_]*.py")} - apart
    listed = run(capsys, "--help")
    assert all(f"│ {name} " in listed for name in COMMANDS)


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["-h"], ["nonsense"]])
def test_nothing_is_loaded_that_is_not_run(arguments):
    code = (
        "import sys\n"
        "from typica.cli import main\n"
        "try:\n"
        f"    main({arguments})\n"
        "except SystemExit:\n"
        "    print('loaded', *sys.modules)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = out.stdout.rpartition("loaded ")[2].split()
    assert "typica.cli._app" in loaded and not HEAVY & set(loaded)
    commands = {f"typica.cli.{name}" for name in COMMANDS}
    assert not commands & set(loaded)
    if arguments == ["--version"]:
        assert "rich" not in loaded


def test_alone_it_shows_the_commands_in_the_order_of_their_use(capsys):
    shown = run(capsys)  # exit code 0
    assert shown == run(capsys, "--help")
    wanted = []
    for group, commands in GROUPS.items():
        wanted += [f"─ {group} ─", *(f"│ {name} " for name in commands)]
    places = [shown.index(text) for text in wanted]
    assert places == sorted(places)


def test_a_command_that_is_not_there(capsys):
    assert "No such command 'scor'. Did you mean 'score'?" in " ".join(
        run(capsys, "scor", code=2).split()
    )
