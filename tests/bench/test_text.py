"""A suite of features alone: sentences, for which there is no network here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.data import Data
from helpers.real import REAL
from helpers.shell import run
from sklearn.model_selection import train_test_split

from typica import CTM
from typica.bench import load_suite, read_features_folder, run_experiment
from typica.errors import InputError

FEATURES = REAL / "clinc150-minilm"
# AUROC and FPR95 in percent, by an implementation of others.
KNOWN = {"ctm": (96.54, 17.70), "relative_mahalanobis": (97.22, 14.70), "nci": (97.27, 15.40)}


@pytest.mark.skipif(not FEATURES.is_dir(), reason=f"{FEATURES} is not there")
def test_clinc150_has_the_figures_that_are_known():
    suite = load_suite("clinc150")
    sets = read_features_folder(suite, FEATURES)
    assert len(sets.calibration) == 3000 and list(sets.ood) == ["oos"]
    record = run_experiment("main", suite, sets, {name: {} for name in KNOWN}).record
    found = {name: record.means(name, ["oos"]) for name in KNOWN}
    for name, (auroc, fpr) in KNOWN.items():
        assert round(100 * found[name]["auroc"].value, 2) == auroc
        assert round(100 * found[name]["fpr"].value, 2) == fpr
    assert round(100 * record.accuracy["standard"], 1) == 95.1


@pytest.mark.filterwarnings("ignore::typica.CalibrationWarning")
@pytest.mark.skipif(not FEATURES.is_dir(), reason=f"{FEATURES} is not there")
def test_false_alarms_per_intent_are_those_of_the_page():
    sets = read_features_folder(load_suite("clinc150"), FEATURES)
    labels, held_out = sets.train_labels, sets.calibration
    each = {intent: intent for intent in np.unique(labels)}

    def rejected(detector: CTM, rows: np.ndarray, **by_class: Any) -> tuple[float, float, float]:
        """Return the share of rejected test sentences, of the worst intent, and out of scope."""
        detector.calibrate(rows, alpha=0.05, **by_class)
        of_test = detector.predict(sets.test) == -1
        worst = max(of_test[sets.test_labels == intent].mean() for intent in each)
        out_of_scope = np.mean(detector.predict(sets.ood["oos"]) == -1)
        found = (of_test.mean(), worst, out_of_scope)
        return tuple(round(100 * float(share), 1) for share in found)

    whole = CTM().fit(sets.train, labels)
    assert rejected(whole, held_out) == (4.2, 96.7, 80.5)
    assert rejected(whole, held_out, by_class=True) == (4.2, 96.7, 80.5)
    assert rejected(whole, held_out, by_class=True, groups=each) == (4.4, 33.3, 59.0)
    fitted, kept, of_fitted, _ = train_test_split(
        sets.train, labels, test_size=0.5, stratify=labels, random_state=0
    )
    half = CTM().fit(fitted, of_fitted)
    more = np.concatenate([kept, held_out])
    assert rejected(half, more, by_class=True, groups=each) == (4.5, 36.7, 81.5)


def write_folder(folder: Path, data: Data, held_out: str = "val") -> Path:
    folder.mkdir()
    arrays = {
        "train.features": data.train, "train.labels": data.labels,
        "test.features": data.test, "test.labels": np.arange(len(data.test)) % 4,
        f"{held_out}.features": data.held_out, f"{held_out}.labels": np.zeros(120, dtype=int),
        "ood.oos.features": data.ood,
        "head.weight": data.head.weight, "head.bias": data.head.bias,
    }  # fmt: skip
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def test_a_suite_of_features_runs_on_a_folder_of_them(data: Data, tmp_path, capsys):
    folder = write_folder(tmp_path / "rows", data)
    out = run(
        capsys,
        *("bench", "clinc150", "--features", str(folder), "--methods", "ctm,msp,react+energy"),
        *("--json", "-"),
    )
    found = json.loads(out)
    assert set(found["results"]) == {"ctm", "msp", "react+energy"}
    assert found["results"]["react+energy"]["params"]["react__percentile"] == 90
    assert "--against" not in found and found["published"] == {}
    (folder / "val.labels.npy").unlink()
    with pytest.raises(InputError, match=r"lacks val\.labels\.npy"):
        read_features_folder(load_suite("clinc150"), folder)


def test_what_held_out_rows_are_called(data: Data, tmp_path):
    suite = load_suite("clinc150")
    for name in ("val", "calibration"):
        sets = read_features_folder(suite, write_folder(tmp_path / name, data, name))
        assert len(sets.calibration) == 120


def test_it_says_that_it_takes_features(tmp_path, capsys):
    for options in ((), ("--data", str(tmp_path))):
        err = run(capsys, "bench", "clinc150", *options, code=2)
        assert "has no network and needs features" in " ".join(err.split())


def test_a_suite_of_features_of_your_own(data: Data, tmp_path):
    path = tmp_path / "my.toml"
    path.write_text('features = "rows of mine"\n[methods."ash+energy"]\nash__percentile = 80\n')
    suite = load_suite(path)
    sets = read_features_folder(suite, write_folder(tmp_path / "rows", data))
    record = run_experiment("main", suite, sets, suite.methods).record
    assert record.rows["ash+energy"].params["ash__percentile"] == 80
    path.write_text('features = "rows"\n[methods."ash+energy"]\npercentile = 80\n')
    with pytest.raises(InputError, match="did you mean 'ash__percentile'"):
        load_suite(path)
    path.write_text('features = "rows"\n')
    with pytest.raises(InputError, match="methods: missing"):
        load_suite(path)
    path.write_text('features = "rows"\n[methods."energy+ash"]\n')
    with pytest.raises(InputError, match="unknown method"):
        load_suite(path)
