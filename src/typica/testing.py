"""The contract of a detector as checks, for ours and for other people's.

    from typica.testing import check_detector

    def test_the_contract():
        check_detector(MyDetector(k=3))

They need nothing but the core; where PyTorch is installed, tensors are tried as well.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.base import clone

from typica import store
from typica.arrays import AnyArray, to_numpy
from typica.detectors import Detector
from typica.errors import InputError
from typica.estimator import NotFittedError
from typica.head import Head
from typica.metrics import evaluate

__all__ = ["CHECKS", "Check", "Data", "check_detector", "make_data"]

BETTER_THAN = 0.7  # AUROC that a detector reaches on data as easy as these
BAD_ROW = 17


class Data(NamedTuple):
    """Features of C classes as a ReLU network makes them, a head that fits them, and strangers."""

    train: NDArray[np.float64]
    labels: NDArray[np.int64]
    held_out: NDArray[np.float64]
    test: NDArray[np.float64]
    ood: NDArray[np.float64]
    head: Head


class Case(NamedTuple):
    """A detector under test: how to make a new one, and what to show it."""

    make: Callable[[], Detector]
    data: Data

    def fitted(self) -> Detector:
        """Return a new detector, fitted."""
        return self.make().fit(self.data.train, self.data.labels)

    def assert_close(self, got: Any, wanted: AnyArray, dtype: Any = np.float64) -> None:
        """Compare scores within the tolerance that the detector's tags promise."""
        single, double = self.make().tags.tolerance
        scale = np.abs(wanted).max() + 1e-300
        allowed = (single if dtype == np.float32 else double) * scale
        assert_allclose(to_numpy(got), wanted, rtol=0, atol=allowed)


Check = Callable[[Case], None]


def make_data(n: int = 240, m: int = 12, C: int = 4, seed: int = 0) -> Data:
    """Rows of class k lie around a direction of its own; the strangers lie where no class does.

    >>> make_data().train.shape
    (240, 12)
    """
    rng = np.random.default_rng(seed)
    directions = np.eye(C, m) * 4 + rng.random((C, m))
    labels = np.arange(n) % C

    def rows(count: int) -> NDArray[np.float64]:
        noise = rng.normal(scale=0.6, size=(count, m))
        return np.maximum(directions[np.arange(count) % C] + noise, 0)

    ood = np.maximum(rng.normal(size=(n // 2, m)) + 2 * np.eye(1, m, m - 1), 0)
    return Data(rows(n), labels, rows(n // 2), rows(n // 2), ood, Head(directions))


def check_detector(detector: Detector) -> None:
    """Raise AssertionError, with the name of the check, unless a detector keeps the contract.

    detector: unfitted; a head is given to one that needs it or reads logits. The class must be
    registered, `@storable("its_name")`, and importable.

    >>> import typica
    >>> check_detector(typica.CTM())
    """
    data = make_data()
    if detector.tags.needs_head or detector.tags.reads == "logits":
        detector = clone(detector).set_params(head=data.head)
    case = Case(lambda: clone(detector), data)
    for check in CHECKS:
        try:
            check(case)
        except Exception as error:
            what = check.__name__.replace("_", " ")
            raise AssertionError(f"{type(detector).__name__}, {what}: {error}") from error


def _require(holds: Any, otherwise: str) -> None:
    """Raise AssertionError with the message `otherwise` unless something holds, even with -O."""
    if not holds:
        raise AssertionError(otherwise)


# The checks, one promise each


def tags_are_complete(case: Case) -> None:
    """Say what it costs and where it comes from."""
    tags = case.make().tags
    for name in ("reference", "score_cost", "memory", "fit_cost"):
        _require(getattr(tags, name), f"tags.{name} is empty")


def higher_is_typical(case: Case) -> None:
    """Score what is known above what is strange."""
    detector = case.fitted()
    known, strange = map(detector.score_samples, (case.data.test, case.data.ood))
    reached = evaluate(known, strange).auroc
    _require(reached > BETTER_THAN, f"AUROC {reached:.3f} on easy data")


def dtype_is_kept(case: Case) -> None:
    """Give one score per row, in the dtype of the rows."""
    detector = case.fitted()
    for dtype in (np.float32, np.float64):
        scores = detector.score_samples(case.data.test.astype(dtype))
        wanted, found = np.dtype(dtype).name, f"{scores.dtype} {scores.shape}"
        same = scores.dtype == dtype and scores.shape == (len(case.data.test),)
        _require(same, f"scores of {len(case.data.test)} rows in {wanted} are {found}")


def batches_do_not_matter(case: Case) -> None:
    """Score a row the same alone as among others."""
    detector = case.fitted()
    for dtype in (np.float32, np.float64):
        test = case.data.test.astype(dtype)
        alone = [detector.score_samples(row[None]) for row in test]
        case.assert_close(np.concatenate(alone), detector.score_samples(test), dtype)


def tensors_are_scored_as_arrays_are(case: Case) -> None:
    """Take PyTorch's tensors and give tensors."""
    if importlib.util.find_spec("torch") is None:
        return
    torch = importlib.import_module("torch")
    detector = case.fitted()
    for dtype in (np.float32, np.float64):
        test = case.data.test.astype(dtype)
        scores = detector.score_samples(torch.asarray(test))
        _require(isinstance(scores, torch.Tensor), f"scores of a tensor are {type(scores)}")
        case.assert_close(scores, detector.score_samples(test), dtype)


def input_is_not_written_to(case: Case) -> None:
    """Leave the rows as they were, and take them read-only."""
    train, test = case.data.train.copy(), case.data.test.copy()
    for rows in (train, test):
        rows.flags.writeable = False
    detector = case.make().fit(train, case.data.labels)
    case.assert_close(
        detector.score_samples(test), case.fitted().score_samples(case.data.test.copy())
    )


def decision_is_score_minus_threshold(case: Case) -> None:
    """Accept at and above the threshold."""
    detector = case.fitted().calibrate(case.data.held_out, tpr=0.9)
    scores = detector.score_samples(case.data.test)
    assert_allclose(detector.decision_function(case.data.test), scores - detector.offset_)
    assert_array_equal(
        detector.predict(case.data.test), np.where(scores >= detector.offset_, 1, -1)
    )
    dtype = detector.predict(case.data.test).dtype
    _require(dtype == np.int64, f"predict returns {dtype}, not int64")


def calibration_sets_the_kth_smallest_score(case: Case) -> None:
    """Take the threshold from held-out scores, by rank."""
    held_out = case.data.held_out
    detector = case.fitted().partial_calibrate(held_out, tpr=0.9)
    k = (len(held_out) + 1) // 10
    wanted = np.sort(detector.score_samples(held_out))[k - 1]
    _require(detector.offset_ == wanted, f"the threshold is {detector.offset_}, not {wanted}")
    kept = detector.calibration_
    same = kept.k == k and kept.n == len(held_out)
    _require(same, f"k={kept.k} of n={kept.n} scores, not {k} of {len(held_out)}")
    at_once = case.fitted().calibrate(held_out, tpr=0.9)
    n, half = at_once.calibration_.n, len(held_out) - len(held_out) // 2
    if n == len(held_out):
        same = at_once.offset_ == detector.offset_
        _require(same, f"calibrate sets {at_once.offset_}, partial_calibrate {detector.offset_}")
    else:  # one that ranks scores compares with one half of the rows
        _require(n == half, f"calibrate keeps {n} scores, not all {len(held_out)} or {half}")


def a_saved_detector_is_the_same(case: Case) -> None:
    """Come back from its file with the same scores, verdicts and parameters."""
    detector = case.fitted().calibrate(case.data.held_out)
    if not detector.tags.saveable:
        return
    with tempfile.TemporaryDirectory(prefix="typica-") as folder:
        path = Path(folder, "detector.safetensors")
        detector.save(path)
        loaded = store.load(path)
    _require(type(loaded) is type(detector), f"its file holds a {type(loaded).__name__}")
    assert_array_equal(loaded.score_samples(case.data.test), detector.score_samples(case.data.test))
    assert_array_equal(loaded.predict(case.data.ood), detector.predict(case.data.ood))
    _require_same_params(loaded, detector)


def a_clone_is_unfitted(case: Case) -> None:
    """Keep its parameters in a clone, and nothing that it has learnt."""
    detector = case.fitted().calibrate(case.data.held_out)
    fresh = clone(detector)
    _require(not hasattr(fresh, "offset_"), "a clone has the threshold of its original")
    _require_same_params(fresh, detector)


def _require_same_params(other: Detector, detector: Detector) -> None:
    found, wanted = other.get_params(), detector.get_params()
    _require(str(found) == str(wanted), f"its parameters are {found}, not {wanted}")


def parts_merge_into_the_whole(case: Case) -> None:
    """Learn from parts, merged or one after the other, what it learns from all."""
    train, labels, test = case.data.train, case.data.labels, case.data.test
    if not case.make().tags.mergeable:
        for name in ("merge", "partial_fit"):
            _require(not hasattr(case.make(), name), f"it has {name}, and tags.mergeable is False")
        return
    wanted = case.fitted().score_samples(test)
    parts = [case.make().partial_fit(train[i::3], labels[i::3]) for i in range(3)]
    merged = case.make().merge(parts[0]).merge(parts[1]).merge(parts[2])
    case.assert_close(merged.score_samples(test), wanted)
    streamed = case.make()
    for start in range(0, len(train), 50):
        rows = slice(start, start + 50)
        streamed.partial_fit(train[rows], labels[rows])
    case.assert_close(streamed.score_samples(test), wanted)


def a_fit_forgets_an_earlier_one(case: Case) -> None:
    """Learn nothing from what it was fitted on before."""
    detector = case.fitted()
    once = detector.score_samples(case.data.test)
    others = np.arange(len(case.data.ood)) % len(case.data.head.classes)
    detector.fit(case.data.ood, others).fit(case.data.train, case.data.labels)
    assert_array_equal(detector.score_samples(case.data.test), once)


def use_before_fit_is_refused(case: Case) -> None:
    """Say that it has not learnt, or has no threshold yet."""
    detector = case.make()
    _message_of(NotFittedError, detector.predict, case.data.test, "it predicts before fit")
    if detector.tags.needs_fit:
        _message_of(NotFittedError, detector.score_samples, case.data.test, "it scores before fit")


def bad_rows_are_refused(case: Case) -> None:
    """Name the row that is not finite, and refuse rows of another width."""
    detector = case.fitted()
    bad = case.data.test.copy()
    bad[BAD_ROW, 3] = np.nan
    message = _message_of(InputError, detector.score_samples, bad, "a row with NaN was scored")
    _require(f"row {BAD_ROW}" in message, f"{message!r} does not name row {BAD_ROW}")
    for rows in (case.data.test[:, :3], case.data.test[0]):
        otherwise = f"rows of shape {rows.shape} were scored after a fit on {bad.shape[1]} features"
        _message_of(InputError, detector.score_samples, rows, otherwise)


def no_rows_give_no_verdicts(case: Case) -> None:
    """Give empty scores and verdicts for no rows at all."""
    detector, none = case.fitted().calibrate(case.data.held_out), case.data.test[:0]
    found = len(detector.score_samples(none)) + len(detector.judge(none))
    _require(found == 0, "no rows were given, and it has scores or verdicts")


def explanations_agree_with_scores(case: Case) -> None:
    """Explain each row by its own score and verdict."""
    detector = case.fitted().calibrate(case.data.held_out)
    rows = np.concatenate([case.data.test[:4], case.data.ood[:4]])
    answers = detector.explain(rows)
    scores = [answer.score for answer in answers]
    assert_allclose(scores, detector.score_samples(rows), rtol=1e-12)
    verdicts = [1 if answer.typical else -1 for answer in answers]
    predicted = detector.predict(rows).tolist()
    _require(verdicts == predicted, f"explained as {verdicts}, predicted as {predicted}")


def _message_of(
    kind: type[Exception], call: Callable[[Any], Any], rows: AnyArray, otherwise: str
) -> str:
    """Return the message of the error that a call must raise; otherwise: what it does if not."""
    try:
        call(rows)
    except kind as error:
        return str(error)
    raise AssertionError(otherwise)


CHECKS: tuple[Check, ...] = (
    tags_are_complete,
    higher_is_typical,
    dtype_is_kept,
    batches_do_not_matter,
    tensors_are_scored_as_arrays_are,
    input_is_not_written_to,
    decision_is_score_minus_threshold,
    calibration_sets_the_kth_smallest_score,
    a_saved_detector_is_the_same,
    a_clone_is_unfitted,
    parts_merge_into_the_whole,
    a_fit_forgets_an_earlier_one,
    use_before_fit_is_refused,
    bad_rows_are_refused,
    no_rows_give_no_verdicts,
    explanations_agree_with_scores,
)
