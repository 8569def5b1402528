"""`typica serve --demo`: its files are like anybody's, and need the core alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.glyphs import GLYPHS
from helpers.serving import serving
from PIL import Image, ImageDraw

import typica
from typica.bench import digits
from typica.errors import InputError
from typica.nets import judge_images
from typica.serve import Demo, write_demo

SIDE, DETAIL, PEN, WIDEST = 8, 8, 0.17, 0.75


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return write_demo(tmp_path_factory.mktemp("demo") / "files")


def as_drawn(name: str) -> Image.Image:
    """Draw a sign as the page does, top to bottom of the frame, each pixel a mean of finer ones."""
    points = np.concatenate([np.array(stroke) for stroke in GLYPHS[name]])
    low, size = points.min(axis=0), np.ptp(points, axis=0)
    side, pen = SIDE * DETAIL, PEN * SIDE * DETAIL
    across = min((side - pen) / size[1], (WIDEST * side - pen) / size[0])
    scale = np.array([across, (side - pen) / size[1]])
    image = Image.new("L", (side, side))
    draw = ImageDraw.Draw(image)
    for stroke in GLYPHS[name]:
        at = (np.array(stroke) - low - size / 2) * scale + side / 2
        draw.line([tuple(point) for point in at], fill=255, width=round(pen), joint="curve")
        for x, y in at:
            draw.ellipse([x - pen / 2, y - pen / 2, x + pen / 2, y + pen / 2], fill=255)
    blocks = np.asarray(image, dtype=float).reshape(SIDE, DETAIL, SIDE, DETAIL)
    return Image.fromarray(np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8))


def test_it_accepts_digits_and_refuses_letters(demo):
    detector = typica.load(demo.detectors[0])
    for name in GLYPHS:
        [verdict] = judge_images(detector, as_drawn(name))
        assert verdict.verdict == ("typical" if name.isdigit() else "atypical"), name
        if name.isdigit():
            assert str(verdict.nearest) == name


def test_its_threshold_keeps_what_it_says(demo, tmp_path):
    held_out = digits.split()["calibration"][0]
    images = np.rint(held_out * (255 / digits.INK)).astype(np.uint8)
    strange = digits.images()
    for path in demo.detectors:
        detector = typica.load(path)
        kept = judge_images(detector, images).typical.mean()
        assert 0.95 <= kept < 0.97
        for name, most in (("photos", 0.2), ("noise", 0.15), ("inverted", 0.15)):
            pixels = np.rint(strange[name] * (255 / digits.INK)).astype(np.uint8)
            assert judge_images(detector, pixels).typical.mean() < most, (path.stem, name)


def test_its_bank_holds_the_images(demo):
    bank = typica.Bank.open(demo.bank)
    assert bank.classes == list("0123456") and len(bank) == 948
    assert bank.settings["images"] == str(demo.bank.with_suffix(""))
    assert bank.accuracy > 0.99


def test_it_loads_no_torch_and_no_onnx(tmp_path):
    code = (
        "import sys; from typica.serve import write_demo; write_demo(sys.argv[1]); "
        "print([name for name in ('torch', 'onnx', 'onnxruntime', 'mlserver') "
        "if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "demo")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ended.stdout.strip() == "[]"


def test_a_folder_with_files_in_it_is_refused(demo):
    with pytest.raises(InputError, match="is not empty; choose another folder"):
        write_demo(demo.bank.parent)


def test_its_files_go_with_the_server():
    with serving("--demo") as server:
        told = server.ask("/models/ctm").json()
        network = Path(told["origin"]["model_file"])
        assert network.is_file() and told["takes_images"] and told["shows_known"]
        assert server.ask("/models/ctm/known/0").status == 200
        server.signal()
        assert server.ends() == 0
    assert not network.parent.exists()
