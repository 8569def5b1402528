"""Code runs only if this very call or command names it; what a file names is asked for."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.shell import run
from helpers.tinynet import MODEL, SOURCE

import typica
from typica.data import open_images
from typica.errors import InputError
from typica.nets import Settings, extract, judge_images, open_model

PLAIN = Settings("torch", 8, 1)
RAN = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "tiny", raising=False)
    Path("tiny.py").write_text(SOURCE + RAN)
    pixels = np.random.default_rng(0).integers(256, size=(60, 8, 8, 3), dtype=np.uint8)
    return open_images(pixels, labels=[0, 1, 2] * 20)


def forgotten() -> None:
    """As a new process has it: nothing has been imported, and nothing ran."""
    sys.modules.pop("tiny", None)
    Path("ran").unlink(missing_ok=True)


def fitted(images) -> typica.CTM:
    return typica.CTM().fit(extract(images, MODEL, "a.bank", settings=PLAIN))


def test_a_detector_asks_for_its_function_each_time_and_never_imports_it(images):
    detector = fitted(images)
    for _ in range(2):
        forgotten()
        with pytest.raises(InputError) as error:
            judge_images(detector, images)
        assert "the function tiny:network, whose code runs only if you name it here" in str(
            error.value
        )
        assert str(error.value).endswith("model='tiny:network'.")
        assert "tiny" not in sys.modules and not Path("ran").exists()
        assert len(judge_images(detector, images, model=MODEL)) == 60
        assert Path("ran").exists()


def test_a_file_that_is_called_like_a_function_is_one(images):
    detector = fitted(images)
    Path("evil.py").write_text(RAN)
    Path("evil:network").write_text("")
    detector.origin_ = dataclasses.replace(
        detector.origin_, model_file="evil:network", model="net.onnx"
    )
    forgotten()
    with pytest.raises(InputError, match="only if you name it here: model='evil:network'"):
        judge_images(detector, images)
    assert not Path("ran").exists() and "evil" not in sys.modules


def test_in_the_shell(images, capsys):
    fitted(images).save("ctm.safetensors")
    np.save("photos.npy", np.zeros((2, 8, 8, 3), dtype=np.uint8))
    for _ in range(2):
        forgotten()
        error = run(capsys, "score", "ctm.safetensors", "photos.npy", code=2)
        assert "whose code runs only if you name it here: --model tiny:network." in error
        assert not Path("ran").exists()
        run(capsys, "score", "ctm.safetensors", "photos.npy", "--model", MODEL)


def test_a_file_in_the_working_folder_takes_the_place_of_no_installed_package(images, monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    Path("colorsys.py").write_text(RAN)
    Path("tiny.py").write_text("import colorsys\ncolorsys.rgb_to_hsv\n" + SOURCE)
    before = list(sys.path)
    open_model(MODEL)
    assert not Path("ran").exists() and sys.path == before
