"""What reaches a terminal, a pipe or a spreadsheet: names are shown, and none is obeyed."""

from __future__ import annotations

import csv
import os
import resource
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers.data import Data
from helpers.shell import run

import typica
from typica.bench import to_csv
from typica.bench._table import Cell, Column, Table
from typica.cli import _show, main
from typica.cli._show import PlainConsole
from typica.data import RowWriter, read_features, read_labels
from typica.decide import read_scores
from typica.errors import CalibrationWarning

TYPICA = [sys.executable, "-c", "from typica.cli import main; main()"]
FORMULAS = ["=1+1", "+1", "-cat", "@sum", "\tx", "'=already", "'tis", "cat", "-1"]
posix = pytest.mark.skipif(os.name != "posix", reason="signals and /dev/full are POSIX's")


def test_control_characters_of_names_are_shown_escaped(capsys):
    console = PlainConsole(highlight=False)
    console.print("a\x1b[31mred\x9b\u202e.png", markup=False)
    assert capsys.readouterr().out == "a\\x1b[31mred\\x9b\\u202e.png\n"


def test_what_the_shell_says_of_a_hostile_name(tmp_path: Path):
    name = "evil\x1b]0;title\x07.npy"
    run = subprocess.run(
        [*TYPICA, "info", str(tmp_path / name)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert not {"\x1b", "\x07"} & set(run.stderr) and "evil\\x1b]0;title" in run.stderr


LONG = "a_name_that_is_longer_than_a_line_of_the_terminal_" * 2


@pytest.mark.parametrize("name", ["o[red]", LONG])
def test_what_was_written_is_named_letter_for_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, data: Data, name: str
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_show.error_console, "width", 80)
    np.save("rows.npy", data.held_out)
    typica.CTM().fit(data.train, data.labels).save("ctm.safetensors")
    outputs = [
        ["score", "ctm.safetensors", "rows.npy", "-o", f"{name}.csv", "--json", f"{name}.json"],
        ["fit", "rows.npy", "-o", f"{name}.safetensors"],
        ["calibrate", "ctm.safetensors", "rows.npy", "-o", f"{name}.safetensors"],
        ["suite", "init", f"{name}.toml"],
    ]
    for command in outputs:
        with pytest.raises(SystemExit) as stop:
            main(command)
        said = "".join(capsys.readouterr())
        assert stop.value.code == 0, said
        for path in command:
            assert not path.startswith(name) or f"wrote {path}" in said, said


def test_classes_in_brackets_are_no_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, data: Data
):
    monkeypatch.chdir(tmp_path)
    np.save("few.npy", data.held_out[:20])
    names = np.array(["[/b]", "[red]", "[/]", "cat"])
    typica.CTM().fit(data.train, names[data.labels]).save("ctm.safetensors")
    run(capsys, "calibrate", "ctm.safetensors", "few.npy", "--by-class", "--alpha", "0.5")
    out = run(capsys, "score", "ctm.safetensors", "few.npy")
    assert "[/b]" in out and "[red]" in out


def test_a_warning_is_no_markup(monkeypatch: pytest.MonkeyPatch, capsys):
    def warn() -> None:
        warnings.warn("class '[/b]' has few rows", CalibrationWarning, stacklevel=1)

    monkeypatch.setattr("typica.cli._app.app", lambda *_, **__: warn())
    main(["detectors"])
    assert capsys.readouterr().err == "warning: class '[/b]' has few rows\n"


def test_text_cells_are_quoted_and_read_back(tmp_path: Path):
    path = tmp_path / "rows.csv"
    with RowWriter(path) as writer:
        writer.write({"score": np.arange(-1.0, len(FORMULAS) - 1), "label": FORMULAS})
    rows = list(csv.reader(path.read_text(encoding="utf-8").split("\n")))
    cells = [row[1] for row in rows[1:] if row]
    assert [cell for cell in cells if cell[0] in "=+-@\t\r"] == ["+1", "-1"]  # which are numbers
    assert cells[6:8] == ["'tis", "cat"]
    assert rows[1][0] == "-1.0"  # a number is never quoted
    back = read_features(path)
    assert back.features[0, 0] == -1
    expected = [text.strip() for text in FORMULAS]
    assert [str(label) for label in back.labels] == [*expected[:4], r"\tx", *expected[5:]]


def test_texts_of_numbers_stay_as_they_are_and_control_characters_are_seen(tmp_path: Path):
    path = tmp_path / "rows.csv"
    texts = ["-1", "+3", "-1.5e-3", "-1+1", "-inf", "cat\x1b[31m", "gpj.\u202etac", "two\nlines"]
    with RowWriter(path) as writer:
        writer.write({"label": texts})
    with path.open(newline="", encoding="utf-8") as file:
        _, *cells = [row[0] for row in csv.reader(file)]
    assert cells[:5] == ["-1", "+3", "-1.5e-3", "'-1+1", "'-inf"]
    assert cells[5:] == [r"cat\x1b[31m", r"gpj.\u202etac", "two\nlines"]
    (batch,) = read_scores(["score,nearest", "0.5,-1"])
    assert batch.classes == ["-1"]


def test_labels_and_classes_are_read_back(tmp_path: Path):
    lines = tmp_path / "labels.csv"
    lines.write_text("label\n'=1+1\ncat\n")
    assert read_labels(lines).tolist() == ["=1+1", "cat"]
    (batch,) = read_scores(["score,nearest", "0.5,'=1+1"])
    assert batch.classes == ["=1+1"]


def test_a_table_of_results_runs_nothing():
    table = Table("t", [Column("=set", (Cell("@method"),), "text")])
    text = to_csv([table])
    assert "'=set" in text and "'@method" in text


def test_output_that_is_not_utf_8_falls_back(tmp_path: Path):
    np.save(tmp_path / "x.npy", np.eye(3))
    run = subprocess.run(
        [*TYPICA, "info", str(tmp_path / "größe.npy")],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii:strict"},
    )
    assert run.returncode == 2 and b"gr\\xf6\\xdfe.npy" in run.stderr


@posix
def test_a_closed_standard_input_is_empty(data: Data, tmp_path: Path):
    path = tmp_path / "ctm.safetensors"
    typica.CTM().fit(data.train, data.labels).calibrate(data.held_out).save(path)
    command = ["sh", "-c", '"$@" <&-', "sh", *TYPICA, "monitor", path]
    closed = subprocess.run(command, capture_output=True, check=False)
    assert closed.returncode == 0 and b"no scores came" in closed.stderr, closed.stderr


def test_a_closed_standard_output_ends_quietly():
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *TYPICA, "detectors"], capture_output=True, check=False
    )
    assert closed.returncode == 0 and not closed.stderr
    piped = ["sh", "-c", '"$@" | head -n 1', "sh", *TYPICA, "detectors"]
    run = subprocess.run(piped, capture_output=True, check=False)
    assert not run.stderr


@posix
def test_a_full_standard_output_is_said():
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [*TYPICA, "detectors"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1 and "No space left on device" in run.stderr


START = """
import builtins, os, signal
original = builtins.__import__
def interrupted(name, *rest):
    if name == "typer":
        os.kill(os.getpid(), signal.SIGINT)
    return original(name, *rest)
from typica.cli import main
builtins.__import__ = interrupted
main(["--version"])
"""


@posix
def test_ctrl_c_during_the_start_prints_no_traceback():
    run = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=False)
    assert run.returncode == 128 + signal.SIGINT and not run.stderr


# A computation that takes half an hour, lets other threads run and looks at no signal.
DEAF = """
import hashlib, os, signal, sys, threading, time
import typica.cli._app
from typica.cli import main
def compute(*given, **named):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
typica.cli._app.app = compute
main(["compare"])
"""


@posix
def test_ctrl_c_ends_a_computation_that_does_not_listen():
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    run = subprocess.run([sys.executable, "-c", DEAF], capture_output=True, text=True, check=False)
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    assert run.returncode == 128 + signal.SIGINT and not run.stderr
    assert used < 60


def test_a_line_break_in_a_name_forges_no_line(capsys):
    table = _show.table("", ["file", "score"], [["cat.png\ndog.png", "1"]])
    _show.console.print(table, width=60)
    _show.complain("cat.png\nerror: none")
    out, error = capsys.readouterr()
    assert r"cat.png\ndog.png" in out and error == "cat.png\\nerror: none\n"
