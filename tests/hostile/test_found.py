"""What a hundred thousand mutated files once came through with: each is refused now."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data import make_data
from helpers.reports import write_folder

import typica
from typica.bench import read_result
from typica.errors import InputError

DATA = make_data()


def without_scores(detector: Any) -> None:
    detector.calibration_.samples = {}


def with_scores_of_nobody(detector: Any) -> None:
    detector.calibration_.samples = {"nobody": next(iter(detector.calibration_.samples.values()))}


def without_width(detector: Any) -> None:
    detector.n_features_in_ = None


def with_a_matrix_for_a_number(detector: Any) -> None:
    detector.alpha_ = np.eye(6)


def with_many_numbers_of_rows(detector: Any) -> None:
    detector.fitted_on_["n"] = np.ones(3)


@pytest.mark.parametrize(
    "forge",
    [
        without_scores,
        with_scores_of_nobody,
        without_width,
        with_a_matrix_for_a_number,
        with_many_numbers_of_rows,
    ],
)
def test_a_forged_detector(forge: Callable[[Any], None], tmp_path: Path) -> None:
    detector = typica.ViM(head=DATA.head).fit(DATA.train, DATA.labels).calibrate(DATA.held_out)
    path = tmp_path / "vim.safetensors"
    detector.save(path)
    assert typica.load(path).calibration_.n == len(DATA.held_out)
    forge(detector)
    detector.save(path)
    with pytest.raises(InputError, match=r"vim\.safetensors"):
        typica.load(path)


def test_a_forged_monitor(tmp_path: Path) -> None:
    monitor = typica.Monitor(np.arange(100.0))
    monitor.sources = 5  # type: ignore[assignment]
    typica.save(monitor, tmp_path / "monitor.safetensors")
    with pytest.raises(InputError, match=r"monitor\.safetensors"):
        typica.load(tmp_path / "monitor.safetensors")


def test_an_ensemble_that_compares_with_fewer_members(tmp_path: Path) -> None:
    detector = typica.Ensemble().fit(DATA.train, DATA.labels)
    detector.observed_ = detector.observed_[:1]
    detector.save(tmp_path / "ensemble.safetensors")
    loaded = typica.load(tmp_path / "ensemble.safetensors")
    for use in (loaded.score_samples, loaded.explain):
        with pytest.raises(InputError, match="scores of 1 members are kept for 2; fit it again"):
            use(DATA.test)


def test_a_manifest_with_a_number_that_json_does_not_have(tmp_path: Path) -> None:
    bank = typica.write_bank(tmp_path / "a.bank", DATA.train)
    manifest = tmp_path / "a.bank" / "manifest.json"
    text = manifest.read_text().replace(str(len(bank)), "1e999", 1)
    manifest.write_text(text)
    with pytest.raises(InputError, match="the manifest is damaged"):
        typica.Bank.open(tmp_path / "a.bank")


def test_a_result_with_half_a_character(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "result")
    document = json.loads((folder / "result.json").read_text())
    document["title"] = "\ud800"
    (folder / "result.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"result\.json: not a whole JSON file"):
        read_result(folder)
