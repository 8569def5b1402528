"""No code without consent: what is named runs and is remembered, what a file names is asked for."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.shell import run
from helpers.tinynet import MODEL, SOURCE
from helpers.watcher import Watcher

import typica
from typica.data import open_images
from typica.errors import InputError
from typica.nets import Settings, agreements_file, code_to_run, extract, judge_images, open_model
from typica.nets._consent import code_of
from typica.progress import watched_by

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


def test_what_was_named_once_runs_again_for_this_user_and_this_code(images):
    detector = fitted(images)
    forgotten()
    assert len(judge_images(detector, images)) == 60
    assert Path("ran").exists()
    [entry] = json.loads(agreements_file().read_text())
    here = str(Path("tiny.py").resolve())
    assert entry == {"function": MODEL, "file": here, "code": code_of("tiny"), "weights": None}
    assert stat.S_IMODE(agreements_file().stat().st_mode) == 0o600


def test_another_user_is_asked_with_the_hash_and_how_to_agree(images, monkeypatch):
    detector = fitted(images)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(Path("somebody").resolve()))
    forgotten()
    with pytest.raises(InputError, match="agree with model='tiny:network', once for") as error:
        judge_images(detector, images)
    assert not Path("ran").exists()
    digest = code_of("tiny")
    assert f"whose code (SHA-256 {digest[:16]}..., {Path('tiny.py').resolve()})" in str(error.value)
    judge_images(detector, images, model=MODEL)
    judge_images(detector, images)


def test_the_same_code_in_another_folder_is_asked_for(images, monkeypatch):
    # Modules beside it may be others there.
    detector, source = fitted(images), Path("tiny.py").read_text()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    Path("tiny.py").write_text(source)
    forgotten()
    with pytest.raises(InputError, match="agree with model='tiny:network'"):
        judge_images(detector, images)
    assert not Path("ran").exists()


def test_other_weights_are_asked_for(images):
    Path("0").write_text("seed")
    code_to_run(MODEL, "0").agree()
    assert code_to_run(MODEL, "0").is_agreed()
    assert not code_to_run(MODEL).is_agreed() and not code_to_run(MODEL, "1").is_agreed()
    Path("0").write_text("other")
    assert not code_to_run(MODEL, "0").is_agreed()


def test_a_file_that_is_called_like_a_function_is_one(images):
    detector = fitted(images)
    Path("evil.py").write_text(RAN)
    Path("evil:network").write_text("")
    origin = dataclasses.replace(
        detector.origin_, model_file="evil:network", code=code_of("evil"), model="evil:network"
    )
    detector.origin_ = origin
    forgotten()
    with pytest.raises(InputError, match="agree with model='evil:network'"):
        judge_images(detector, images)
    assert not Path("ran").exists()


def test_code_that_has_changed_since_it_was_loaded_is_refused(images, monkeypatch):
    before = open_model(MODEL).identity.code
    Path("tiny.py").write_text(SOURCE + RAN + "\n# Edited.\n")
    with pytest.raises(InputError, match=r"tiny\.py has changed since it was loaded.*start Python"):
        open_model(MODEL)
    assert [entry["code"] for entry in json.loads(agreements_file().read_text())] == [before]
    monkeypatch.syspath_prepend(Path.cwd())
    importlib.reload(sys.modules["tiny"])
    assert open_model(MODEL).identity.code == code_of("tiny") != before


def test_code_that_nothing_tells_from_other_code_is_asked_for_each_time(images):
    assert code_to_run("builtins:eval") is None
    assert code_to_run(MODEL, Path.cwd()) is None
    assert code_to_run(MODEL, {"a": 1}) is None
    assert code_to_run("nowhere:network") is None


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_file_that_others_can_write_agrees_to_nothing(images):
    fitted(images)
    agreements_file().chmod(0o666)
    assert not code_to_run(MODEL).is_agreed()
    notes = Watcher()
    with watched_by(notes):
        open_model(MODEL)
    assert any("can be written by others" in text for text in notes.notes)


@pytest.mark.parametrize("text", ["", "{", "3", '{"a": 1}', "[[[", "[1]"])
def test_a_damaged_file_agrees_to_nothing_and_is_written_anew(images, text: str):
    agreements_file().parent.mkdir(parents=True)
    agreements_file().write_text(text)
    agreements_file().chmod(0o600)
    assert not code_to_run(MODEL).is_agreed()
    open_model(MODEL)
    assert code_to_run(MODEL).is_agreed()


def test_where_nothing_can_be_written_it_is_said_and_works(images, monkeypatch):
    Path("file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(Path("file").resolve()))
    notes = Watcher()
    with watched_by(notes):
        open_model(MODEL)
    assert any(text.startswith("cannot remember that tiny:network may run") for text in notes.notes)


def test_a_relative_config_folder_is_not_one(monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", "here")
    assert agreements_file() == Path.home() / ".config/typica/agreed.json"


def test_in_the_shell(images, capsys):
    fitted(images).save("ctm.safetensors")
    np.save("photos.npy", np.zeros((2, 8, 8, 3), dtype=np.uint8))
    agreements_file().unlink()
    forgotten()
    error = run(capsys, "score", "ctm.safetensors", "photos.npy", code=2)
    assert "agree with --model tiny:network, once for this code" in error
    assert not Path("ran").exists()
    run(capsys, "score", "ctm.safetensors", "photos.npy", "--model", MODEL)
    run(capsys, "score", "ctm.safetensors", "photos.npy")
