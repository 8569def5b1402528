"""Which backend is the quickest is found out once, and told with what it cost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.networks import network

from typica.data import Preprocessing, open_images
from typica.errors import InputError
from typica.files import home
from typica.nets import Settings, _start_runner, open_model
from typica.nets._start_runner import start_runner

PIXELS = Preprocessing(8, 8)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The backends that were asked for; "auto" finds PyTorch with batches of 5 and is cut short."""
    asked = []
    honest = _start_runner.make_runner

    def made(extractor, backend, **options):
        asked.append(backend)
        if backend != "auto":
            return honest(extractor, backend, **options)
        runner = honest(extractor, "torch", **options | {"batch": 5, "threads": 1})
        runner.cut_short = options["images"] < 1000
        return runner

    monkeypatch.setattr(_start_runner, "make_runner", made)
    return asked


def images(count: int = 4):
    rng = np.random.default_rng(0)
    return open_images(rng.integers(256, size=(count, 8, 8, 3), dtype=np.uint8))


def test_what_was_chosen_is_taken_again_and_its_cost_is_told(tried: list[str]):
    opened = open_model(network("cnn"))
    first = start_runner(opened, images(), PIXELS, Settings(), 1000)
    assert tried == ["auto"] and "; chosen in " in first.describe()
    second = start_runner(opened, images(), PIXELS, Settings(), 10_000)
    assert tried == ["auto", "torch"] and second.settings == first.settings
    assert "; as chosen before, in " in second.describe()
    start_runner(opened, images(), PIXELS, Settings("torch", 2, 1))
    start_runner(open_model(network("vit")), images(), PIXELS, Settings())
    start_runner(opened, images(), Preprocessing(9, 9), Settings())
    start_runner(opened, images(), PIXELS, Settings(threads=1))
    assert tried[2:] == ["torch", "auto", "auto", "auto"]


def test_a_trial_that_few_images_cut_short_is_made_again_for_more(tried: list[str]):
    opened = open_model(network("cnn"))
    for total in (500, 400, 501, 2000, 10_000):
        start_runner(opened, images(), PIXELS, Settings(), total)
    assert tried == ["auto", "torch", "auto", "auto", "torch"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        "{}",
        '{"backend": "torch", "batch": 0, "threads": 1, "seconds": 1}',
        '{"backend": "torch", "batch": 2, "threads": "1", "seconds": 1}',
        '{"backend": 3, "batch": 2, "threads": 1, "seconds": 1}',
        '{"backend": "torch", "batch": 2, "threads": 1, "seconds": 1, "more": 1}',
    ],
)
def test_a_damaged_choice_is_made_again(tried: list[str], text: str):
    opened = open_model(network("cnn"))
    start_runner(opened, images(), PIXELS, Settings())
    [file] = (home() / "backends").iterdir()
    file.write_text(text)
    start_runner(opened, images(), PIXELS, Settings())
    assert tried == ["auto", "auto"]
    assert json.loads(file.read_text())["backend"] == "torch"


def test_a_choice_that_cannot_run_any_more_is_made_again(tried: list[str]):
    opened = open_model(network("cnn"))
    start_runner(opened, images(), PIXELS, Settings())
    [file] = (home() / "backends").iterdir()
    file.write_text(file.read_text().replace("torch", "gone"))
    runner = start_runner(opened, images(), PIXELS, Settings())
    assert tried == ["auto", "gone", "auto"] and runner.name == "torch"


def test_other_versions_are_another_choice(tried: list[str], monkeypatch):
    opened = open_model(network("cnn"))
    start_runner(opened, images(), PIXELS, Settings())
    monkeypatch.setattr("typica.nets._remembered_backend._versions", lambda: {"torch": "99"})
    start_runner(opened, images(), PIXELS, Settings())
    assert tried == ["auto", "auto"]


def test_where_nothing_can_be_remembered_it_works_all_the_same(tried, tmp_path: Path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TYPICA_HOME", str(tmp_path / "file"))
    start_runner(open_model(network("cnn")), images(), PIXELS, Settings())
    start_runner(open_model(network("cnn")), images(), PIXELS, Settings())
    assert tried == ["auto", "auto"]


def test_a_backend_that_was_asked_for_must_run(tried):
    with pytest.raises(InputError, match="backend 'gone' cannot run this model"):
        start_runner(open_model(network("cnn")), images(), PIXELS, Settings("gone"))
