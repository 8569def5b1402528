"""Scores and alarms in a pipe: live, line by line, on a terminal as well."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.data import Data
from helpers.shell import ENDS, run, started

import typica
from typica.cli import main
from typica.data import read_arriving

TYPICA = (sys.executable, "-c", "from typica.cli import main; main()")


@pytest.fixture
def folder(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    detector = typica.CTM().fit(data.train, data.labels).calibrate(data.held_out)
    detector.save("ctm.safetensors")
    np.save("test.npy", data.test)
    np.save("ood.npy", data.ood)
    return tmp_path


@pytest.fixture
def detector(folder: Path) -> typica.CTM:
    return typica.load("ctm.safetensors")


def feed(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    stream = io.TextIOWrapper(io.BufferedReader(io.BytesIO(content)))
    monkeypatch.setattr("sys.stdin", stream)


def npy_header(rows: int) -> bytes:
    """Return the beginning of an .npy file of so many rows, none of which follows."""
    file = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (rows, 2)}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue()


def lines(scores) -> bytes:
    return "".join(f"{score}\n" for score in scores).encode()


def test_the_alarm_comes_in_a_pipe_while_the_input_goes_on(detector, data: Data):
    command = [*TYPICA, "monitor", "ctm.safetensors"]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(lines(detector.score_samples(data.test)[:40]))
        process.stdin.flush()
        process.stdin.write(lines(detector.score_samples(data.ood)))
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"ALARM at input ")
        process.stdin.write(b"0.5\n")  # it listens on
        process.stdin.close()
        assert b"161 inputs" in process.stdout.read()
        assert process.wait(ENDS) == 3


def test_stop_ends_at_the_alarm_on_a_terminal(detector, data: Data):
    ours, theirs = pty.openpty()
    command = [*TYPICA, "monitor", "ctm.safetensors", "--stop"]
    with started(command, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        process.stdin.write(lines(detector.score_samples(data.ood)))
        process.stdin.flush()
        assert process.wait(ENDS) == 3  # though the input is still open
        assert b"ALARM at input " in os.read(ours, 1000)
    os.close(ours)


def test_typed_scores_are_read_from_a_terminal(folder):
    ours, theirs = pty.openpty()
    command = [*TYPICA, "monitor", "ctm.safetensors", "--state", "state.safetensors"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(command, stdin=theirs, **pipes) as process:
        os.close(theirs)
        assert b"end with Ctrl-D" in process.stderr.readline()
        os.write(ours, b"0.9\n0.8\n\x04")
        out, _ = process.communicate(timeout=ENDS)
    assert out.startswith(b"no drift seen in 2 inputs\n") and process.returncode == 0
    os.close(ours)


def test_score_and_monitor_are_one_pipe_and_each_row_is_judged_as_it_comes(detector, data: Data):
    rows = [json.dumps(row.tolist()) + "\n" for row in data.ood]
    command = [*TYPICA, "score", "ctm.safetensors", "-", "-o", "-"]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as score:
        score.stdin.write(rows[0].encode())
        score.stdin.flush()
        first = json.loads(score.stdout.readline())  # before the second row is there
        assert first["row"] == 0 and first["verdict"] == "atypical"
        assert first["score"] == pytest.approx(float(detector.score_samples(data.ood[:1])[0]))
        command = [*TYPICA, "monitor", "ctm.safetensors", "--stop"]
        with started(command, stdin=score.stdout, stdout=subprocess.PIPE) as watch:
            score.stdin.write("".join(rows[1:]).encode())
            score.stdin.flush()
            assert watch.stdout.readline().startswith(b"ALARM at input ")
            assert watch.wait(ENDS) == 3


@pytest.mark.parametrize("form", ["npy", "csv", "header", "lists", "objects"])
def test_features_on_standard_input(folder, data: Data, capsys, monkeypatch, form):
    wanted = json.loads(run(capsys, "score", "ctm.safetensors", "test.npy", "--json", "-"))["rows"]
    file = io.BytesIO()
    if form == "npy":
        np.save(file, data.test)
    elif form == "csv":
        np.savetxt(file, data.test, delimiter=",")
    elif form == "header":
        names = [f"f{i}" for i in range(data.test.shape[1])]
        table = np.column_stack([data.test, np.zeros(len(data.test))])
        np.savetxt(file, table, delimiter=",", header=",".join([*names, "label"]), comments="")
    elif form == "lists":
        file.write("".join(f"{row}\n" for row in data.test.tolist()).encode())
    else:
        objects = [json.dumps({"features": row}) for row in data.test.tolist()]
        file.write("\n".join(objects).encode())
    feed(monkeypatch, file.getvalue())
    out = run(capsys, "score", "ctm.safetensors", "-", "-o", "-")
    *rows, end = [json.loads(line) for line in out.splitlines()]
    assert end == {"end": len(rows)}
    assert [row["row"] for row in rows] == list(range(len(data.test)))
    assert [row["verdict"] for row in rows] == [row["verdict"] for row in wanted]
    assert [row["score"] for row in rows] == pytest.approx([row["score"] for row in wanted])
    feed(monkeypatch, file.getvalue())
    whole = json.loads(run(capsys, "score", "ctm.safetensors", "-", "--json", "-"))["rows"]
    assert [row["verdict"] for row in whole] == [row["verdict"] for row in rows]
    assert [row["score"] for row in whole] == pytest.approx([row["score"] for row in rows])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "standard input: is empty; pipe features as .npy, JSON lines or CSV."),
        (b"\n\n", "standard input: is empty"),
        (b"\x93NUMPY", "standard input: not a whole .npy file"),
        (b"[1, 2]\n{}\n", "standard input: row 1: '{}' holds no features; write a list of"),
        (b"[1, 2]\n[1]\n", "standard input: rows of 1 and of 2 numbers; fix them."),
        (b"1,2\n1\n", "standard input: row 1 has 1 fields instead of 2; fix it."),
        (b"1,2\n1,a\n", "standard input: row 1: 'a' in the column '1' is not a number"),
        (b",x\n0,1\n", "standard input: column 0 has no name, maybe it is the index of pandas"),
        (b"[1" + b"0" * 400 + b"]\n", "standard input: row 0: '[1000"),
        (b"[" * 100_000 + b"\n", "standard input: row 0: '[[[["),
        (npy_header(10**13), "standard input: not a whole .npy file, or larger than the memory"),
        (npy_header(10**30), "standard input: not a whole .npy file"),
        (b"\xff\n", "not a text in UTF-8"),
    ],
)
def test_what_is_wrong_with_standard_input(folder, capsys, monkeypatch, content, message):
    feed(monkeypatch, content)
    assert message in run(capsys, "score", "ctm.safetensors", "-", "-o", "-", code=2)


@pytest.mark.parametrize("text", ["1,2\n3,4", "[1, 2]\n[3, 4]", "x,y\n1,2\n3,4", "\n1,2\n3,4"])
def test_a_mark_at_the_beginning_costs_no_row(text):
    stream = io.BufferedReader(io.BytesIO(text.encode("utf-8-sig")))
    assert np.concatenate(list(read_arriving(stream))).tolist() == [[1, 2], [3, 4]]


def test_standard_streams_are_taken_once(folder, capsys):
    error = run(capsys, "score", "ctm.safetensors", "-", "test.npy", code=2)
    assert "- reads standard input, which cannot be mixed with files" in error
    error = run(capsys, "score", "ctm.safetensors", "test.npy", "-o", "-", "--json", "-", code=2)
    assert "--json and --output: each would be printed" in error


def test_a_pipe_writes_the_document_that_is_asked_for(folder, data: Data):
    program = "from typica.cli import main; main()"
    command = [sys.executable, "-c", program, "score", "ctm.safetensors"]
    rows = io.BytesIO()
    np.save(rows, data.test)
    document = Path("document.json")
    done = subprocess.run(
        [*command, "-", "-o", "-", "--json", str(document)],
        input=rows.getvalue(),
        capture_output=True,
        check=True,
    )
    *lines, end = [json.loads(line) for line in done.stdout.splitlines()]
    assert end == {"end": len(lines)}
    rows = json.loads(document.read_text())["rows"]
    assert all(row.pop("why").startswith("score ") for row in rows)  # which lines leave out
    assert rows == lines and len(lines) == len(data.test)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_monitor_reads_what_score_writes(folder, capsys, monkeypatch, ending):
    run(capsys, "score", "ctm.safetensors", "test.npy", "-o", f"scores.{ending}")
    feed(monkeypatch, Path(f"scores.{ending}").read_bytes())
    out = run(capsys, "monitor", "ctm.safetensors", "--json", "report.json")
    assert out.startswith("no drift seen in 120 inputs\n")
    report = json.loads(Path("report.json").read_text())
    assert set(report["rejected_by_class"]) == {"0", "1", "2", "3"}


def test_a_state_file_is_enough(folder, capsys, monkeypatch):
    state = ("--state", "state.safetensors")
    error = run(capsys, "monitor", *state, code=2)
    assert "state.safetensors: there is no such file yet; name a detector" in error
    assert "name a detector that `typica calibrate` wrote" in run(capsys, "monitor", code=2)
    for arguments, n in [(("ctm.safetensors", *state), 2), (state, 4), (state[1:], 6)]:
        feed(monkeypatch, b"0.9\n0.8\n")
        assert run(capsys, "monitor", *arguments).startswith(f"no drift seen in {n} inputs\n")


REFUSED_BESIDE_A_STATE = {
    "ctm.safetensors --alpha 0.05": "--alpha 0.05: state.safetensors was begun with 0.01; leave",
    "--alpha 0.05": "--alpha 0.05: state.safetensors was begun with 0.01; leave out --alpha, or",
    "other.safetensors": "other.safetensors: state.safetensors was begun with another calibration",
    "fitted.safetensors": "fitted.safetensors: has no calibration scores",
    "absent.safetensors": "absent.safetensors: there is no such file",
}


@pytest.mark.parametrize("more", REFUSED_BESIDE_A_STATE)
def test_nothing_beside_a_state_is_ignored(folder, data: Data, capsys, monkeypatch, more):
    detector = typica.CTM().fit(data.train, data.labels)
    detector.save("fitted.safetensors")
    detector.calibrate(data.test).save("other.safetensors")
    command = ("monitor", "--state", "state.safetensors")
    feed(monkeypatch, b"0.9\n")
    assert run(capsys, *command, "ctm.safetensors").startswith("no drift seen in 1 input\n1 input,")
    before = Path("state.safetensors").read_bytes()
    feed(monkeypatch, b"0.9\n")
    assert REFUSED_BESIDE_A_STATE[more] in run(capsys, *command, *more.split(), code=2)
    assert Path("state.safetensors").read_bytes() == before
    run(capsys, *command, "ctm.safetensors", "--alpha", "1/100")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_state(detector, data: Data, number):
    command = [*TYPICA, "monitor", "ctm.safetensors", "--state", "state.safetensors"]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(lines(detector.score_samples(data.ood)))
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"ALARM at input ")
        process.send_signal(number)
        assert process.wait(ENDS) == 128 + number
    assert typica.load("state.safetensors").alarm


@pytest.mark.parametrize("content", [b"", b"\n", b'{"end": 0}\n'])
def test_an_empty_night_is_no_failure(folder, capfd, monkeypatch, content):
    feed(monkeypatch, content)
    with pytest.raises(SystemExit) as stop:
        main(["monitor", "ctm.safetensors", "--state", "state.safetensors", "--source", "monday"])
    out, error = capfd.readouterr()
    assert stop.value.code == 0
    assert "no scores came on standard input" in error and "no drift seen in 0 inputs" in out
    assert typica.load("state.safetensors").sources == []  # monday may still come


def printed(capsys, *arguments: str) -> bytes:
    return run(capsys, "score", "ctm.safetensors", *arguments, "-o", "-").encode()


def state_after(capsys, monkeypatch, content: bytes, *arguments: str, code: int = 0):
    feed(monkeypatch, content)
    run(capsys, "monitor", "ctm.safetensors", "--state", "state.safetensors", *arguments, code=code)
    return typica.load("state.safetensors")


def test_a_state_takes_no_part_of_a_night(folder, data: Data, capsys, monkeypatch):
    whole = printed(capsys, "test.npy")
    assert state_after(capsys, monkeypatch, whole).inputs == len(data.test)
    before = Path("state.safetensors").read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in (lines[:50], lines[:-1], [*lines[:50], lines[51][:20]], [*lines[:50], lines[-1]]):
        feed(monkeypatch, b"".join(cut))
        error = run(capsys, "monitor", "--state", "state.safetensors", code=2)
        assert error.startswith("error: stdin: ") and error.count("\n") == 1, error
        assert Path("state.safetensors").read_bytes() == before
    twice = state_after(capsys, monkeypatch, whole + whole)  # of two whole nights, both count
    assert twice.inputs == 3 * len(data.test)
    feed(monkeypatch, b"".join(lines[:50]))  # a look at some, which nothing keeps
    assert "no drift seen in 50 inputs" in run(capsys, "monitor", "ctm.safetensors")


def test_a_score_that_fails_half_way_leaves_the_state(folder, data: Data, capsys, monkeypatch):
    rows = [json.dumps(row.tolist()) for row in data.test[:30]]
    feed(monkeypatch, "\n".join([*rows, "{}"]).encode())
    with pytest.raises(SystemExit):
        main(["score", "ctm.safetensors", "-", "-o", "-"])
    assert "end" not in capsys.readouterr().out


def test_a_night_that_failed_at_once_may_come_again(folder, data: Data, capsys, monkeypatch):
    assert state_after(capsys, monkeypatch, b"", "--source", "monday").inputs == 0
    night = printed(capsys, "test.npy")
    assert state_after(capsys, monkeypatch, night, "--source", "monday").inputs == 120


def test_rows_without_a_verdict_are_passed_over(folder, data: Data, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    head = ",".join(f"f{place}" for place in range(data.test.shape[1]))
    rows = [",".join(map(str, row)) for row in data.test]
    rows[3] = "," * head.count(",")
    Path("test.csv").write_text("\n".join([head, *rows]))
    score = ("test.csv", "--columns", "f*", "--on-error", "skip")
    assert state_after(capsys, monkeypatch, printed(capsys, *score)).inputs == 119
    run(capsys, "score", "ctm.safetensors", *score, "-o", "night.csv")
    assert state_after(capsys, monkeypatch, Path("night.csv").read_bytes()).inputs == 238


def test_verdicts_in_a_file_are_whole(folder, capsys):
    run(capsys, "score", "ctm.safetensors", "test.npy", "-o", "night.jsonl")
    command = [*TYPICA, "monitor", "ctm.safetensors", "--state", "state.safetensors"]
    with Path("night.jsonl").open("rb") as file:
        subprocess.run(command, stdin=file, check=True, capture_output=True)
    assert typica.load("state.safetensors").inputs == 120


def test_a_night_counts_once(folder, data: Data, capsys, monkeypatch):
    night = printed(capsys, "test.npy")
    for name, inputs in (("monday", 120), ("monday", 120), ("tuesday", 240), ("monday", 240)):
        kept = state_after(capsys, monkeypatch, night, "--source", name)
        assert kept.inputs == inputs
    assert kept.sources == ["monday", "tuesday"]


def test_reset_ends_an_alarm(folder, data: Data, capsys, monkeypatch):
    strange, good = printed(capsys, "ood.npy"), printed(capsys, "test.npy")
    assert state_after(capsys, monkeypatch, strange, "--source", "monday", code=3).alarm
    assert state_after(capsys, monkeypatch, good, code=3).alarm
    kept = state_after(capsys, monkeypatch, good, "--reset")
    assert not kept.alarm and kept.inputs == 120
    kept = state_after(capsys, monkeypatch, strange, "--source", "monday")  # is still known
    assert not kept.alarm and kept.inputs == 120
    assert state_after(capsys, monkeypatch, b"", "--reset").inputs == 0
    for option in (["--reset"], ["--source", "monday"]):
        error = run(capsys, "monitor", "ctm.safetensors", *option, code=2)
        assert f"{' '.join(option)}: is about a state that is kept; pass --state FILE." in error


@pytest.mark.parametrize("more", [[], ["--json", "-"], ["--prometheus", "-"]])
@pytest.mark.parametrize(("name", "code"), [("ood", 3), ("test", 0)])
def test_an_exit_code_holds_if_nobody_reads(detector, data: Data, more, name, code):
    ours, theirs = os.pipe()
    os.close(ours)
    command = [*TYPICA, "monitor", "ctm.safetensors", "--state", "state.safetensors", *more]
    scores = lines(detector.score_samples(getattr(data, name)))
    pipes = {"stdout": theirs, "stderr": subprocess.PIPE}
    done = subprocess.run(command, input=scores, check=False, **pipes)
    os.close(theirs)
    assert done.returncode == code and b"rror" not in done.stderr, done.stderr
    assert typica.load("state.safetensors").inputs == len(getattr(data, name))


def test_rows_that_nobody_reads_are_cut_off(folder):
    ours, theirs = os.pipe()
    os.close(ours)
    command = [*TYPICA, "score", "ctm.safetensors", "test.npy", "-o", "-"]
    done = subprocess.run(command, check=False, stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_alarm_of_an_earlier_run_is_said_first_and_stops_at_once(folder, capsys, monkeypatch):
    state = ("--state", "state.safetensors")
    feed(monkeypatch, b"-9\n" * 60)
    assert run(capsys, "monitor", "ctm.safetensors", *state, code=3).startswith("ALARM at input")
    feed(monkeypatch, b"0.9\n")
    out = run(capsys, "monitor", *state, "--stop", code=3)
    assert out.startswith("ALARM at input") and "60 inputs" in out
    feed(monkeypatch, b"0.9\n")
    out = run(capsys, "monitor", *state, code=3)
    assert out.startswith("ALARM at input") and out.count("ALARM") == 1 and "61 inputs" in out
