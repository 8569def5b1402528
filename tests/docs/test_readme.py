"""The snippets that people copy run as they stand."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file
from sklearn.datasets import load_sample_images

from typica.bench import digits
from typica.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```",
        page.read_text(encoding="utf-8"),
        flags=re.MULTILINE | re.DOTALL,
    )


def write_photos() -> None:
    """The files that the snippets name: photos/ with a folder per class, inbox/ and holiday.jpg."""
    for name, photo in zip(("china", "flower"), load_sample_images().images, strict=True):
        for i, column in enumerate(range(0, 600, 90)):
            file = Path("photos", name, f"{i}.jpg")
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(photo[:, column : column + 40]).save(file)
    Path("photos", "noise").mkdir()
    for i in range(7):
        noise = np.random.default_rng(i).integers(256, size=(40, 40, 3), dtype=np.uint8)
        Image.fromarray(noise).save(f"photos/noise/{i}.png")
    shutil.copytree("photos/china", "inbox")
    shutil.copy("photos/flower/0.jpg", "holiday.jpg")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name
)
def test_python_snippets_run_in_order(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_photos()
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


def test_shell_snippets_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    suite = digits.load()
    sets = {
        "train": suite.train,
        "labels": suite.train_labels,
        "held_out": suite.calibration,
        "test": suite.test,
    }
    sets |= {"new": suite.test, "svhn": suite.ood["photos"], "dtd": suite.ood["noise"]}
    for name, rows in sets.items():
        np.save(f"{name}.npy", rows)
    write_photos()
    save_file({"weight": suite.head_weight, "bias": suite.head_bias}, "head.safetensors")
    commands = [
        line
        for block in blocks(ROOT / "README.md", "sh")
        for line in block.splitlines()
        if line.startswith("typica ")
    ]
    assert len(commands) >= 4
    for command in commands:
        with pytest.raises(SystemExit) as stop:
            main(shlex.split(command)[1:])
        assert stop.value.code == 0, command
    assert (
        Path("digits-result/report.html").exists()
        and Path("out.json").exists()
        and Path("scores.csv").exists()
    )
