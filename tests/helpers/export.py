"""What an exported model says of rows, beside what Python says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline

import typica
from helpers.data import Data, make
from typica.rectify import rectifier_class

Rows = NDArray[np.float32]
ROUNDING = 1e-5  # of the scale of the scores
LEAST_SCALE = 0.1  # where scores are differences of larger numbers
# skl2onnx squares differences in float32: beyond the root of its largest number they overflow.
FAR = {"lof": 1e18}


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # it warns that the threshold is no constant, which is the point
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run(model: onnx.ModelProto, rows: Rows, **more: Any) -> dict[str, NDArray[Any]]:
    """Return the outputs of a model by name."""
    runtime = session(model)
    names = [output.name for output in runtime.get_outputs()]
    return dict(zip(names, runtime.run(None, {"features": rows, **more}), strict=True))


def strange_rows(rows: Rows) -> Rows:
    """Return rows at the ends of float32, and beyond: the last three are not finite."""
    one = rows[0]
    huge, tiny = one / one.max() * np.float32(1e30), one / one.max() * np.float32(1e-30)
    kinds = [0 * one, huge, tiny, one * np.float32(1e-37), -one, 1e-3 * one, 1e3 * one]
    broken = np.array([np.nan, np.inf, -np.inf], dtype=np.float32)
    kinds += [np.where(np.arange(len(one)) == 1, value, one) for value in broken]
    return np.array(kinds, dtype=np.float32)


def tolerance(estimator: Any) -> float:
    steps = (
        [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    )
    return max([ROUNDING, *(step.tags.tolerance[0] for step in steps if hasattr(step, "tags"))])


def small(name: str, data: Data) -> typica.Detector:
    """Return an unfitted detector, a forest with few trees: skl2onnx takes its time for each."""
    detector = make(name, data)
    return detector.set_params(trees=5) if name == "isolation_forest" else detector


def behind(rectifier: str, detector: str, data: Data) -> Pipeline:
    """Return an unfitted Pipeline of a rectifier and a detector that suits its output."""
    cls = rectifier_class(rectifier)
    params = {"width": 64} if rectifier == "random_fourier" else {}
    first = cls(data.head) if cls.tags.needs_head else cls(**params)
    rows = clone(first).fit(data.train, data.labels).transform(data.train)
    last = small(detector, data)
    if getattr(last, "head", None) is not None:
        means = np.array([rows[data.labels == k].mean(axis=0) for k in range(4)])
        last.head = typica.Head(means, -np.sum(means**2, axis=1) / 2)  # the nearest mean wins
    return make_pipeline(first, last)


def calibrated_pair(rectifier: str, detector: str, data: Data) -> Pipeline:
    """Return a calibrated Pipeline of the two; the test is skipped where they cannot be fitted."""
    pipeline = behind(rectifier, detector, data)
    try:
        return calibrated(pipeline, data)
    except typica.InputError as error:
        pytest.skip(f"not in Python either: {error}")


def calibrated(estimator: Any, data: Data, **options: Any) -> Any:
    estimator.fit(data.train.astype(np.float32), data.labels)
    return typica.calibrate(estimator, data.held_out.astype(np.float32), alpha=0.1, **options)


def rows_of(data: Data) -> Rows:
    return np.concatenate([data.test[:60], data.ood[:60]]).astype(np.float32)


def assert_alike(
    estimator: Any, model: onnx.ModelProto, rows: Rows, far: float = np.inf, zero: bool = True
) -> None:
    """Compare ordinary rows at once and strange ones one by one; what Python refuses is NaN.

    far: beyond this size a score may be infinite in one of the two. zero: whether a zero row has
    one score; LOF's depends on which of equally near rows are the nearest.
    """
    wanted = typica.judge(estimator, rows)
    scale = max(float(np.abs(wanted.score).max()), LEAST_SCALE)
    compare(run(model, rows), wanted, tolerance(estimator) * scale, estimator, far)
    strange = strange_rows(rows)[0 if zero else 1 :]
    found = run(model, strange)
    for i in range(len(strange)):
        one = {name: column[i : i + 1] for name, column in found.items()}
        try:
            with np.errstate(all="ignore"):
                wanted = typica.judge(estimator, strange[i : i + 1])
        except ValueError:
            assert_refused(one, estimator)
            continue
        size = max(scale, float(np.abs(wanted.score[0])))
        compare(one, wanted, tolerance(estimator) * size, estimator, far)


def compare(
    found: dict[str, NDArray[Any]],
    wanted: typica.Verdicts,
    rounding: float,
    estimator: Any,
    far: float,
) -> None:
    detector = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    endless = np.abs(wanted.score) > far
    same = found["score"] == wanted.score
    with np.errstate(invalid="ignore"):
        near = np.abs(found["score"] - wanted.score) <= rounding
    assert (same | near | (endless & np.isinf(found["score"]))).all(), (found, wanted.score)
    if wanted.typical is not None:
        with np.errstate(invalid="ignore"):
            apart = ~(np.abs(wanted.score - wanted.threshold) <= rounding)
        assert np.array_equal(found["typical"][apart], wanted.typical[apart])
    if wanted.p_value is not None:
        slack = close_scores(detector, wanted, rounding)
        assert (np.abs(found["p_value"] - wanted.p_value) <= slack + 1e-12).all()
    if wanted.nearest is not None:
        reach = rounding + 1e-5 * np.abs(wanted.similarity)
        with np.errstate(invalid="ignore"):
            clear = wanted.margin > reach
        assert (detector.classes_[found["nearest"]] == wanted.nearest)[clear].all()


def close_scores(
    detector: typica.Detector, wanted: typica.Verdicts, rounding: float
) -> NDArray[np.float64]:
    """Return the share of calibration scores within rounding of each score."""
    calibration = detector.calibration_
    scores = wanted.score.astype(np.float64)
    if calibration.by_class:
        parts = [str(name) for name in wanted.nearest]
        groups = [calibration.taxonomy.get(name, name) for name in parts]
        known = [calibration.samples[group].ordered for group in groups]
    else:
        known = [calibration.scores] * len(scores)
    with np.errstate(invalid="ignore"):
        close = [np.sum(~(np.abs(k - s) > rounding)) for k, s in zip(known, scores, strict=True)]
    return np.array(close) / (np.array([len(k) for k in known]) + 1)


def assert_refused(one: dict[str, NDArray[Any]], estimator: Any) -> None:
    """What Python raises at: no score, not typical, the smallest p-value, no class."""
    assert np.isnan(one["score"]).all()
    assert not one.get("typical", np.zeros(1)).any()
    if "nearest" in one:
        assert one["nearest"].tolist() == one["runner_up"].tolist() == [-1]
    if "p_value" in one:
        detector = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        sizes = [sample.kept for sample in detector.calibration_.samples.values()]
        assert one["p_value"].tolist() == [1 / (max(sizes) + 1)]
