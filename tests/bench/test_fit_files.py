"""Detectors that are fitted and calibrated from files know all that their scores depend on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from helpers.data import Data

from typica.bank import Bank, write_bank
from typica.bench import fit_files


def write_csv(path: Path, rows, labels=None) -> Path:
    header = [f"f{i}" for i in range(rows.shape[1])]
    lines = [[*map(str, row)] for row in rows.tolist()]
    if labels is not None:
        header.append("label")
        lines = [[*line, str(label)] for line, label in zip(lines, labels, strict=True)]
    path.write_text("\n".join(",".join(line) for line in [header, *lines]) + "\n")
    return path


def test_a_calibration_from_files_is_known_as_that_of_its_detector(data: Data, tmp_path):
    train = write_csv(tmp_path / "train.csv", data.train, data.labels)
    held_out = write_csv(tmp_path / "held_out.csv", data.held_out)
    detector = fit_files(train, calibrate=[held_out]).detector
    assert list(detector.feature_names_in_[:2]) == ["f0", "f1"]
    assert detector.calibration_.scored_by == detector.fingerprint()
    detector.set_calibration(detector.calibration_)
    detector.score_samples(data.test)  # without names, which is no warning here


def test_a_calibration_from_banks_is_known_as_that_of_its_detector(data: Data, tmp_path):
    network = {
        "model": "net",
        "weights": "ab",
        "layer": None,
        "reduce": "mean",
        "transform": {"crop": 32},
    }
    for name, rows in (("train", data.train), ("held", data.held_out)):
        write_bank(tmp_path / name, rows.astype(np.float32), identity=network)
    assert Bank.open(tmp_path / "train").origin is not None
    detector = fit_files(tmp_path / "train", calibrate=[tmp_path / "held"]).detector
    assert detector.origin_.model == "net"
    assert detector.calibration_.scored_by == detector.fingerprint()
