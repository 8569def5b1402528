"""Commands on images: every set is hashed once, and every bank opened once."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from pathlib import Path

import pytest
from helpers.tinynet import MODEL, SOURCE, write_images

from typica.bank import Bank
from typica.bench import choose_files, fit_files
from typica.data import Images
from typica.files import home

pytest.importorskip("torch")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a network and images."""
    (tmp_path / "tiny.py").write_text(SOURCE)
    write_images(tmp_path / "train", 30, seed=1)
    write_images(tmp_path / "held_out", 10, seed=2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "tiny", raising=False)
    return tmp_path


@pytest.fixture
def counts(here: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often images are hashed and banks opened, once the banks are there."""
    for folder in ("train", "held_out"):
        fit_files(folder, model=MODEL)
    found: Counter[str] = Counter()
    hashed, opened = Images._digest.func, Bank.open.__func__

    @functools.wraps(hashed)
    def counting_hashes(images):
        found[f"hash {len(images)}"] += 1
        return hashed(images)

    def counting_banks(cls, path):
        found[f"bank {Path(path).name.rpartition('-')[0]}"] += 1
        return opened(cls, path)

    monkeypatch.setattr(Images._digest, "func", counting_hashes)
    monkeypatch.setattr(Bank, "open", classmethod(counting_banks))
    return found


ONCE = {"hash 90": 1, "bank train": 1}
BOTH = {**ONCE, "hash 30": 1, "bank held_out": 1}


def test_of_a_fit(counts: Counter[str]):
    fit_files("train", model=MODEL)
    assert counts == ONCE


@pytest.mark.parametrize(("held_out", "expected"), [(None, ONCE), ("held_out", BOTH)])
def test_of_a_choice(counts: Counter[str], held_out, expected):
    choice = choose_files("train", held_out=held_out, model=MODEL, names="ctm")
    assert counts == expected and choice.near["ctm"]


def test_of_a_choice_with_classes_in_an_order(counts: Counter[str]):
    classes = ["red", "green", "blue"]
    fit_files("train", model=MODEL, classes=classes)
    counts.clear()
    choose_files("train", model=MODEL, classes=classes, names="ctm")
    assert counts == ONCE


def test_held_out_features_beside_images_are_taken_without_changed_images(here: Path):
    fit_files("held_out", model=MODEL)
    (held_out,) = (home() / "banks").iterdir()
    choice = choose_files("train", held_out=held_out, model=MODEL, names="ctm")
    assert not choice.near and set(choice.auroc["ctm"]) == {"blue", "green", "red"}
