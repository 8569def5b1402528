"""Nothing is computed for whoever only looks at a detector, and nothing twice for whoever asks."""

from __future__ import annotations

import copy
import gc
import os
import warnings
from unittest import mock

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import typica
from typica import estimator
from typica.arrays import like
from typica.files import atomic_path

ROWS = np.random.default_rng(0).normal(size=(2100, 5))
LABELS = np.arange(2100) % 3


def counting(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> mock.Mock:
    """Let a function, or a method of a class, be counted when it is called."""
    counted = mock.Mock()
    original = getattr(owner, name)

    def call(*args, **options):
        counted(*args, **options)
        return original(*args, **options)

    monkeypatch.setattr(owner, name, call)
    return counted


@pytest.mark.parametrize(
    "look",
    [dir, copy.copy, repr, lambda detector: detector.has_threshold],
    ids=["dir", "copy", "repr", "has_threshold"],
)
def test_looking_at_a_detector_scores_nothing(look, monkeypatch):
    detector = typica.CTM().fit(ROWS, LABELS)
    scored = counting(monkeypatch, typica.CTM, "_score")
    assert look(detector)
    assert not scored.called
    assert detector.has_threshold and np.isfinite(detector.offset_)


def test_a_copy_has_the_threshold_that_the_original_has():
    detector = typica.CTM().fit(ROWS, LABELS)
    copied = copy.copy(detector)
    assert "threshold_" in dir(copied) and "training_offset_" in dir(copied)
    assert copied.offset_ == detector.offset_


def test_explain_scores_a_row_once(monkeypatch):
    detector = typica.CTM().fit(ROWS, LABELS).calibrate(ROWS[:99] + 0.1)
    scored = [counting(monkeypatch, typica.CTM, name) for name in ("_score", "_score_and_match")]
    detector.explain(ROWS[:4])
    assert sum(each.call_count for each in scored) == 1


@pytest.mark.parametrize(
    "make",
    [typica.CTM, lambda: make_pipeline(StandardScaler(), typica.CTM())],
    ids=["detector", "Pipeline"],
)
def test_calibrate_hashes_a_detector_once(make, monkeypatch):
    fitted = make().fit(ROWS, LABELS)
    hashed = counting(monkeypatch, typica.CTM, "fingerprint")
    typica.calibrate(fitted, ROWS[:99] + 0.1)
    assert hashed.call_count == 1


@pytest.mark.xfail(strict=True, reason="to_pandas makes the sentences of `why` for every row")
def test_a_data_frame_of_verdicts_makes_no_sentences(monkeypatch):
    verdicts = typica.CTM().fit(ROWS, LABELS).judge(ROWS[:9])
    sentences = counting(monkeypatch, typica.Verdicts, "reasons")
    verdicts.to_pandas()
    assert not sentences.called


@pytest.mark.xfail(strict=True, reason="each write lists the folder, to find what was left behind")
def test_many_files_in_one_folder_do_not_list_it_each_time(tmp_path, monkeypatch):
    listed = counting(monkeypatch, os, "scandir")
    for number in range(20):
        with atomic_path(tmp_path / f"part-{number}") as path:
            path.write_text("")
    assert listed.call_count <= 1


@pytest.mark.parametrize(
    "make",
    [typica.Mahalanobis, typica.RelativeMahalanobis, typica.MDSpp, typica.RMDSpp, typica.GMM],
)
def test_what_was_derived_is_converted_once_and_not_at_each_call(make, monkeypatch):
    detector = make().fit(ROWS, LABELS)
    few = ROWS[:3].astype(np.float32)
    first = detector.score_samples(few)
    converted = mock.Mock(side_effect=like)
    monkeypatch.setattr(estimator, "like", converted)
    for module in ("mahalanobis", "relative_mahalanobis", "gmm", "mds_pp", "rmds_pp"):
        monkeypatch.setattr(f"typica.detectors.{module}.like", converted, raising=False)
    np.testing.assert_array_equal(detector.score_samples(few), first)
    assert not converted.called


def test_a_tensor_made_in_inference_mode_does_not_stop_later_gradients():
    torch = pytest.importorskip("torch")
    detector = typica.Mahalanobis().fit(ROWS, LABELS)
    with torch.inference_mode():
        detector.score_samples(torch.from_numpy(ROWS[:3]))
    rows = torch.from_numpy(ROWS[:3]).requires_grad_()
    detector.score_samples(rows).sum().backward()
    assert rows.grad.isfinite().all() and rows.grad.any()


@pytest.mark.xfail(strict=True, reason="a public name is loaded with garbage collection off")
def test_loading_a_name_leaves_the_garbage_collector_to_everybody(monkeypatch):
    switched = counting(monkeypatch, gc, "disable")
    typica.__getattr__("CTM")
    assert not switched.called


# Whose line a warning names, and what is checked of other people's detectors.


@pytest.mark.parametrize("module", ["typica_plugin", "typical", "typica_plugin.part"])
def test_a_warning_points_into_a_package_whose_name_begins_like_ours(module):
    lines = ["from typica.errors import InputWarning, warn", "", "def use():"]
    lines.append("    warn('odd', InputWarning)")
    code = compile("\n".join(lines), "plugin.py", "exec")
    plugin = {"__name__": module}
    exec(code, plugin)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plugin["use"]()
    assert [(one.filename, one.lineno) for one in caught] == [("plugin.py", 4)]


@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
def test_a_number_of_another_packages_detector_is_checked_when_it_is_loaded(future):
    code = f"""{future}
import typica
class Middle(typica.CTM):
    kind = "middle"
    width_of_middle_: int
    share_: float
"""
    plugin = {"__name__": "other_detectors"}
    exec(compile(code, "plugin.py", "exec", dont_inherit=True), plugin)
    detector = plugin["Middle"]().fit(ROWS[:30], LABELS[:30])
    detector.width_of_middle_, detector.share_ = 3, 0.5
    state = detector.state()
    assert plugin["Middle"].from_state(state).share_ == 0.5
    for name in ("width_of_middle_", "share_"):
        changed = {**state, "fitted": {**state["fitted"], name: "three"}}
        with pytest.raises(TypeError, match=f"{name} is a str and not a number"):
            plugin["Middle"].from_state(changed)
