"""Detectors and suites of other people's packages, and the checks that they can run."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.data import make_data
from helpers.shell import run

import typica
from typica.bench import list_suites, load_suite
from typica.detectors import Tags
from typica.testing import check_detector

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "detector.md"
# The package of the guide: what it says is what is tested.
MODULE = GUIDE.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
SUITE = """
title = "Another package's"
model = "densenet-bc-100"
[id]
train = { set = "cifar10", split = "train" }
test = { set = "cifar10", split = "test" }
[ood]
svhn = { set = "svhn", split = "test" }
[methods.ctm]
"""
POINTS = """
[typica.detectors]
middle = other_detectors:Middle

[typica.suites]
other-suite = other_detectors:medical
"""
BROKEN = """
[typica.detectors]
broken = other_detectors.missing:Nothing
misnamed = other_detectors:Middle
ctm = other_detectors:Middle

[typica.suites]
no-suite = other_detectors:missing
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package as pip installs it, where Python looks for packages."""
    code, info = tmp_path / "other_detectors", tmp_path / "other_detectors-1.0.dist-info"
    code.mkdir()
    info.mkdir()
    (code / "__init__.py").write_text(MODULE)
    (code / "medical.toml").write_text(SUITE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-detectors\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "other_detectors", raising=False)
    return tmp_path


def test_an_installed_detector_is_one_like_any_other(package, tmp_path, capsys):
    data = make_data()
    assert "middle" in typica.list_detectors() and "other_detectors" not in sys.modules
    detector = typica.make_detector("middle").fit(data.train).calibrate(data.held_out)
    path = tmp_path / "middle.safetensors"
    detector.save(path)
    np.save(tmp_path / "test.npy", data.test)
    code = (
        f"import sys; sys.path.insert(0, {str(package)!r}); import numpy, typica; "
        f"print(typica.load({str(path)!r})"
        f".score_samples(numpy.load({str(tmp_path / 'test.npy')!r}))[0])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert float(printed.stdout) == detector.score_samples(data.test)[0]
    assert "middle" in run(capsys, "detectors")


def test_it_keeps_the_contract(package):
    # One box around all classes is no good detector: the strangers are further away than these.
    check_detector(typica.make_detector("middle"))


def test_ours_cannot_be_replaced_and_broken_ones_are_named(package):
    (package / "other_detectors-1.0.dist-info" / "entry_points.txt").write_text(BROKEN)
    assert typica.detector_class("ctm") is typica.CTM
    with pytest.raises(typica.InputError, match=r"broken: the package other-detectors cannot be"):
        typica.make_detector("broken")
    with pytest.raises(typica.InputError, match="'misnamed': the package that brings it has no"):
        typica.make_detector("misnamed")
    with pytest.raises(typica.InputError, match="other_detectors:missing: not a suite"):
        load_suite("no-suite")


def test_an_installed_suite_is_one_like_any_other(package, capsys):
    assert "other-suite" in list_suites()
    assert load_suite("other-suite").title == "Another package's"
    assert "other-suite" in run(capsys, "suite", "list")


def test_damaged_metadata_of_a_package_without_plugins_does_not_matter(package):
    info = package / "strange-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_bytes(b"\xff")
    assert "middle" in typica.list_detectors()


def test_a_package_in_the_working_folder_is_not_installed(package, tmp_path, monkeypatch):
    """Whoever plants one there runs no code of theirs by a file of a kind that nobody knows."""
    detector = typica.make_detector("middle").fit(make_data().train)
    detector.save(tmp_path / "middle.safetensors")
    (package / "other_detectors" / "__init__.py").write_text("raise SystemExit('ran')")
    monkeypatch.chdir(package)
    for first in ("''", repr(str(package))):
        load = "import typica; typica.load('middle.safetensors')"
        code = f"import sys; sys.path.insert(0, {first}); {load}"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert "unknown kind 'middle'" in done.stderr and "ran" not in done.stderr.split()
    assert "middle" not in typica.list_detectors() and "other-suite" not in list_suites()


class Upside(typica.CTM):
    """CTM with the wrong sign."""

    kind = "ctm"

    def _score(self, Z):
        return -super()._score(Z)


class Wide(typica.CTM):
    """CTM that forgets the dtype."""

    kind = "ctm"

    def score_samples(self, X):
        return super().score_samples(X).astype(np.float64)


class Silent(typica.CTM):
    """CTM that takes anything."""

    kind = "ctm"

    def score_samples(self, X):
        return super().score_samples(np.nan_to_num(np.asarray(X)))


class Early(typica.CTM):
    """CTM that takes everything for typical until it is fitted."""

    kind = "ctm"
    tags = replace(typica.CTM.tags, saveable=False)

    def predict(self, X):
        fitted = hasattr(self, "moments_")
        return super().predict(X) if fitted else np.ones(len(X), dtype=np.int64)


class Vague(typica.CTM):
    """CTM that does not say what it costs."""

    kind = "ctm"
    tags = Tags(reference="nobody")


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (Upside, "higher is typical"),
        (Wide, "dtype is kept: scores of 120 rows in float32 are float64"),
        (Silent, "tensors are scored as arrays are: scores of a tensor are <class 'numpy"),
        (Vague, "tags are complete: tags.score_cost is empty"),
        (Early, "use before fit is refused: it predicts before fit"),
    ],
)
def test_a_broken_promise_is_named(broken, promise):
    pytest.importorskip("torch")
    with pytest.raises(AssertionError, match=f"{broken.__name__}, {promise}"):
        check_detector(broken())


def test_a_broken_promise_is_named_where_asserts_are_left_out():
    code = (
        "import numpy, typica; from typica.testing import check_detector\n"
        "class Wide(typica.CTM):\n"
        "    def score_samples(self, X):\n"
        "        return super().score_samples(X).astype(numpy.float64)\n"
        "check_detector(Wide())"
    )
    ended = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, check=False)
    assert b"AssertionError: Wide, dtype is kept: scores of 120 rows" in ended.stderr


def test_the_guide_names_the_entry_points_that_are_looked_for():
    block = GUIDE.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    points = tomllib.loads(block)["project"]["entry-points"]
    assert points == {
        "typica.detectors": {"middle": "my_package:Middle"},
        "typica.suites": {"my-suite": "my_package:medical"},
    }
