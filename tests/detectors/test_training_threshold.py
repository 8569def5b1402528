"""The provisional threshold of `fit`: of many rows only the lowest scores are looked for."""

from __future__ import annotations

import contextlib
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typica import CTM, Head, load
from typica.calibration import Calibration
from typica.detectors._training_threshold import Provisional, lowest_scores
from typica.errors import CalibrationWarning


@settings(max_examples=200)
@given(
    scores=st.lists(st.integers(-5, 5), min_size=1, max_size=40),
    gaps=st.lists(st.integers(0, 6), min_size=40, max_size=40),
    data=st.data(),
)
def test_the_lowest_scores_are_exact_and_no_other_is_below_them(scores, gaps, data):
    k = data.draw(st.integers(1, len(scores)))
    scores = np.array(scores, dtype=float)
    floors = scores - gaps[: len(scores)]
    found = lowest_scores(lambda rows: scores[rows], floors, k)
    assert np.sort(found)[:k].tolist() == np.sort(scores)[:k].tolist()
    assert ((found == scores) | (found == floors)).all()


def threshold_by_loop(means, rows):
    """Take the 102nd lowest of the largest cosines of 2,048 rows: floor(2,049 * 0.05)."""
    scores = []
    for row in rows.astype(np.float64):
        cosines = [row @ mean / np.linalg.norm(row) / np.linalg.norm(mean) for mean in means]
        scores.append(max(cosines))
    return sorted(scores)[102 - 1]


@pytest.mark.parametrize("spread", [0.2, 3.0, 40.0], ids=["apart", "mixed", "all but noise"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_threshold_of_many_rows_is_that_of_all_their_scores(spread, dtype):
    rng = np.random.default_rng(5)
    y = rng.integers(20, size=3000)
    Z = (rng.standard_normal((20, 8))[y] + spread * rng.standard_normal((3000, 8))).astype(dtype)
    chosen = np.sort(np.random.default_rng(0).choice(3000, 2048, replace=False))
    means = [Z[y == name].astype(np.float64).mean(axis=0) for name in range(20)]
    wanted = threshold_by_loop(means, Z[chosen])
    tolerance = 3e-6 if dtype == np.float32 else 1e-11
    words = [f"class {name}" for name in y]
    for labels in (y, y.tolist(), y.astype(np.uint8), words, np.array(words)):
        assert CTM().fit(Z, labels).offset_ == pytest.approx(wanted, abs=tolerance)


def test_zero_rows_and_classes_without_a_correct_row_are_scored_like_all_others():
    rng = np.random.default_rng(1)
    y = rng.integers(3, size=3000)
    Z = np.abs(rng.standard_normal((3000, 4)))
    Z[::10] = 0.0
    head = Head(np.eye(4)[:3])
    unheard_of = np.where(rng.random(3000) < 0.1, 9, y)  # a label that no row is classified as
    chosen = np.sort(np.random.default_rng(0).choice(3000, 2048, replace=False))
    for detector, labels in (
        (CTM(), y),
        (CTM(head, correct_only=True), y),
        (CTM(head, correct_only=True), unheard_of),
    ):
        detector.fit(Z, labels)
        scores = np.sort(detector.score_samples(Z[chosen]))
        assert detector.offset_ == pytest.approx(scores[102 - 1], abs=1e-11)


def both_at_once(work, *others):
    """Run functions in threads of their own, and return what they return."""
    results = {}
    threads = [
        threading.Thread(target=lambda i=i, one=one: results.update({i: one()}))
        for i, one in enumerate([work, *others])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results.get(i) for i in range(len(threads))]


def test_two_threads_that_judge_first_both_have_the_threshold(monkeypatch):
    """One thread is held where the other used to take the training rows away from it."""
    # Python 3.12 took away the lock of `cached_property`.
    prop = vars(Provisional)["training_offset_"]
    if hasattr(prop, "lock"):
        monkeypatch.setattr(prop, "lock", contextlib.nullcontext())
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((2100, 5))
    detector = CTM().fit(Z, np.arange(2100) % 3)
    prepare = detector._prepare
    inside, over = threading.Event(), threading.Event()
    calls = []

    def held_at_second_call():
        if threading.current_thread().name == "held":
            calls.append(1)
            if len(calls) == 2:
                inside.set()
                over.wait(0.5)  # the other must wait for this one, so it may not be over
        prepare()

    monkeypatch.setattr(detector, "_prepare", held_at_second_call)

    def held():
        threading.current_thread().name = "held"
        return detector.judge(Z[:3])

    def other():
        assert inside.wait(10)
        verdicts = detector.judge(Z[:3])
        over.set()
        return verdicts

    first, second = both_at_once(held, other)
    assert first.typical.tolist() == second.typical.tolist()
    assert first.threshold.tolist() == second.threshold.tolist() == [detector.offset_] * 3


def test_two_threads_that_read_a_calibration_first_both_have_all_scores(monkeypatch):
    calibration = Calibration().add(np.arange(100.0))
    concatenate = np.concatenate
    sorting, over = threading.Event(), threading.Event()

    def held_in_the_middle(parts, **options):
        sorting.set()
        over.wait(0.5)
        return concatenate(parts, **options)

    def other():
        assert sorting.wait(10)
        p = calibration.p_values(np.array([50.0]))
        over.set()
        return p

    monkeypatch.setattr(np, "concatenate", held_in_the_middle)
    first, second = both_at_once(lambda: calibration.p_values(np.array([50.0])), other)
    assert first.tolist() == second.tolist() == [52 / 101]


def rows_of(n, seed):
    return np.random.default_rng(seed).standard_normal((n, 6)).astype(np.float32)


@pytest.mark.parametrize("n", [500, 20_000])
@pytest.mark.parametrize("again", [False, True], ids=["as fitted", "from a file"])
def test_a_calibration_on_rows_of_the_fit_is_warned_of(n, again, tmp_path):
    train = rows_of(n, 0)
    detector = CTM().fit(train, np.arange(n) % 3)
    if again:
        detector.save(tmp_path / "ctm.safetensors")
        detector = load(tmp_path / "ctm.safetensors")
    for rows in (train, train[: n // 2].astype(np.float64)):
        told = r"about (100|9\d) % of these rows were fitted on"
        with pytest.warns(CalibrationWarning, match=told) as caught:
            detector.calibrate(rows)
        assert [warning.filename for warning in caught] == [__file__]


def test_a_calibration_on_other_rows_is_not_warned_of_nor_a_few_that_occur_twice():
    train, held_out = rows_of(20_000, 0), rows_of(1000, 1)
    detector = CTM().fit(train, np.arange(20_000) % 3).calibrate(held_out)
    held_out[:200] = train[:200]
    detector.calibrate(held_out)  # warnings are errors
    detector.partial_fit(train).calibrate(train[:500])  # of a stream nothing is kept


@pytest.mark.parametrize("n", [1500, 20_000])
@pytest.mark.parametrize("kind", ["rows of zeros", "bits", "one row"])
def test_new_rows_of_data_in_which_rows_recur_are_not_taken_for_rows_of_the_fit(kind, n):
    def drawn(count, seed):
        rng = np.random.default_rng(seed)
        rows = rng.standard_normal((count, 10))
        if kind == "rows of zeros":
            rows[rng.random(count) < 0.02] = 0
        elif kind == "bits":
            rows = (rows > 0).astype(float)
        return rows if kind != "one row" else np.ones((count, 10))

    detector = CTM().fit(drawn(n, 0), np.arange(n) % 3)
    assert detector._share_fitted_on(drawn(2000, 1)) == 0


def test_two_fits_with_equal_scores_have_one_fingerprint_whatever_rows_were_hashed():
    train = rows_of(100, 0)
    one, other = CTM().fit(train, np.arange(100) % 2), CTM().fit(train, np.arange(100) % 2)
    other.fitted_on_ = {"n": 7, "hashes": np.arange(7, dtype=np.uint64)}
    assert one.fingerprint() == other.fingerprint()
