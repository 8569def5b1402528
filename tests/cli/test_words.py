"""One vocabulary in every command: data are arguments, levels are alpha, and files are called what they are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.data import Data
from helpers.shell import run

import typica
from typica.cli import main


@pytest.fixture
def folder(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("train", "held_out", "test", "ood", "labels"):
        np.save(f"{name}.npy", getattr(data, name))
    detector = typica.CTM().fit(data.train, data.labels).calibrate(data.held_out)
    detector.save("ctm.safetensors")
    return tmp_path


def document(capsys, *arguments: str) -> tuple[dict, str]:
    """Return what a command gives as JSON, and what it says beside."""
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--json", "-"])
    captured = capsys.readouterr()
    assert stop.value.code == 0, captured.err
    return json.loads(captured.out), captured.err


OLD = {  # the option, and the command with and without it; the data stand where {} is
    "choose --bank": ("DATA", "choose {} --labels labels.npy --detectors ctm", "train.npy"),
    "evaluate --id": ("TEST", "evaluate ctm.safetensors {} --ood ood.npy", "test.npy"),
    "compare --id": (
        "TEST",
        "compare train.npy {} --labels labels.npy --ood ood.npy --detectors ctm",
        "test.npy",
    ),
}


@pytest.mark.parametrize("old", OLD)
def test_data_are_an_argument_and_the_old_option_says_so(folder, capsys, old):
    name, command, file = OLD[old]
    option = old.split()[1]
    now, said = document(capsys, *command.format(file).split())
    assert option not in said
    before, said = document(capsys, *command.format(f"{option} {file}").split())
    assert f"{option} goes with the next version: name {name} without it" in said
    for part in (now, before):  # seconds differ from run to run
        for row in part.values():
            if isinstance(row, dict):
                row.pop("fit_seconds", None)
                row.pop("score_microseconds", None)
    assert before == now
    both = command.format(f"{file} {option} {file}").split()
    assert f"{name} and {option} are the same" in run(capsys, *both, code=2)
    neither = command.format("").split()
    assert f"{name} is missing" in run(capsys, *neither, code=2)
    assert option not in run(capsys, command.split()[0], "--help").split()


LEVELS = {
    "fit": "fit train.npy --labels labels.npy -o a.safetensors --calibrate held_out.npy",
    "calibrate": "calibrate ctm.safetensors held_out.npy -o a.safetensors",
    "evaluate": "evaluate ctm.safetensors test.npy --ood ood.npy",
    "score": "score ctm.safetensors test.npy",
}


@pytest.mark.parametrize("command", LEVELS)
def test_alpha_and_tpr_are_one_choice_in_every_command(folder, capsys, command):
    arguments = LEVELS[command].split()
    by_alpha, _ = document(capsys, *arguments, "--alpha", "0.2")
    by_tpr, _ = document(capsys, *arguments, "--tpr", "0.8")
    assert by_alpha == by_tpr != document(capsys, *arguments)[0]
    error = run(capsys, *arguments, "--alpha", "0.2", "--tpr", "0.8", code=2)
    assert "--alpha 0.2 and --tpr 0.8 are one choice; pass one of them." in error
    error = run(capsys, *arguments, "--alpha", "7", code=2)
    assert "--alpha 7 is not a share; pass a number at least 0 and below 1." in error
