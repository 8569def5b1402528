"""One detector in many threads: scoring beside scoring, and saving beside learning."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from helpers.data import Data, fitted, make

import typica
from typica import CTM, InputError


def test_many_threads_may_judge_with_one_detector(name: str, data: Data, tmp_path: Path) -> None:
    expected = fitted(name, data).calibrate(data.held_out).score_samples(data.test)
    detector = fitted(name, data).calibrate(data.held_out)
    with ThreadPoolExecutor(4) as pool:
        scores = list(pool.map(detector.score_samples, [data.test] * 8))
        verdicts = list(pool.map(detector.judge, [data.test] * 4))
    for found in [*scores, *(verdict.score for verdict in verdicts)]:
        np.testing.assert_array_equal(found, expected)


def test_a_detector_is_not_saved_while_it_is_fitted(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, goes_on = threading.Event(), threading.Event()

    def wait(self: CTM, Z: object) -> None:
        waits.set()
        assert goes_on.wait(60)

    monkeypatch.setattr(CTM, "_before_threshold", wait)
    detector = CTM()
    thread = threading.Thread(target=detector.fit, args=(data.train, data.labels))
    thread.start()
    try:
        assert waits.wait(60)
        with pytest.raises(InputError, match="save: the last fit has not ended, or another thread"):
            detector.save(tmp_path / "d.safetensors")
    finally:
        goes_on.set()
        thread.join()
    assert not list(tmp_path.iterdir())
    detector.save(tmp_path / "d.safetensors")
    assert typica.load(tmp_path / "d.safetensors").has_threshold


def test_a_detector_that_lost_its_threshold_is_not_saved(data: Data, tmp_path: Path) -> None:
    detector = fitted("ctm", data)
    del detector.training_offset_  # as a thread does that forgets it while another sets it
    with pytest.raises(InputError, match="fit it again, in one thread, before it is saved"):
        detector.save(tmp_path / "d.safetensors")
    assert not list(tmp_path.iterdir())
    detector.calibrate(data.held_out).save(tmp_path / "d.safetensors")
    assert typica.load(tmp_path / "d.safetensors").offset_ == detector.offset_


def test_a_stream_is_saved_without_a_threshold(data: Data, tmp_path: Path) -> None:
    detector = make("ctm", data).partial_fit(data.train, data.labels)
    detector.save(tmp_path / "d.safetensors")
    loaded = typica.load(tmp_path / "d.safetensors")
    loaded.save(tmp_path / "again.safetensors")
    assert not loaded.has_threshold


def test_a_fit_that_finds_no_threshold_leaves_nothing_to_save(data: Data) -> None:
    class NoThreshold(CTM):
        def _before_threshold(self, Z) -> None:
            raise InputError("there is none; pass others.")

    detector = NoThreshold()
    with pytest.raises(InputError, match="there is none"):
        detector.fit(data.train, data.labels)
    assert not hasattr(detector, "n_features_in_")
