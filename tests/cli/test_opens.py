"""Every command opens a bank once, however much it asks of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from helpers.shell import run

from typica import Head, write_bank
from typica.bank import Bank

RNG = np.random.default_rng(0)
CLASSES = ["cat", "dog", "owl"]
HEAD = Head(np.eye(3, 4))


def make_bank(path: str, count: int, shift: float = 0.0) -> None:
    labels = np.arange(count) % 3
    features = RNG.normal(size=(count, 4)) + 4 * np.eye(3, 4)[labels] + shift
    columns = {"logits": HEAD.logits(features), "labels": labels}
    write_bank(path, features, **columns, head=HEAD, classes=CLASSES)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> Path:
    monkeypatch.chdir(tmp_path)
    make_bank("train.bank", 60)
    make_bank("held.bank", 45)
    make_bank("test.bank", 30)
    make_bank("strange.bank", 30, shift=9.0)
    run(capsys, "fit", "train.bank", "-o", "ctm.safetensors")
    return tmp_path


@pytest.fixture
def opened(here: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each bank was opened since."""
    counts: Counter[str] = Counter()
    open_bank = Bank.open.__func__

    def counting(cls, path):
        counts[Path(path).name] += 1
        return open_bank(cls, path)

    monkeypatch.setattr(Bank, "open", classmethod(counting))
    return counts


@pytest.mark.parametrize(
    "arguments",
    [
        "fit train.bank -o a.safetensors --calibrate held.bank",
        "fit train.bank -o a.safetensors --detector energy",
        "fit train.bank -o a.safetensors --detector kl_matching --calibrate held.bank",
        "calibrate ctm.safetensors held.bank",
        "score ctm.safetensors test.bank",
        "evaluate ctm.safetensors test.bank --ood strange=strange.bank",
        "compare train.bank test.bank --ood strange=strange.bank --detectors ctm,energy,vim",
        "choose train.bank --held-out held.bank --detectors ctm,energy",
        "choose train.bank --detectors ctm,energy",
        "info train.bank",
    ],
)
def test_a_bank_is_opened_once(opened: Counter[str], capsys, arguments: str):
    run(capsys, *arguments.split())
    named = [word.rpartition("=")[2] for word in arguments.split() if word.endswith(".bank")]
    assert opened == Counter(named)
