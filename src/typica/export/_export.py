"""The one public function: a detector as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from typica.checks import is_whole
from typica.detectors import final_detector
from typica.errors import InputError, border, given
from typica.extras import need
from typica.files import atomic_path

if TYPE_CHECKING:
    import onnx


@border
def to_onnx(
    estimator: Any,
    network: Any = None,
    *,
    path: str | Path | None = None,
    calibration_size: int | None = None,
) -> onnx.ModelProto:
    """Return a fitted detector, or a Pipeline that ends in one, as an ONNX model.

    Inputs: `features` (N, m) and `threshold`, which has a default; by class it is a vector, in the
    order of `classes_`. Outputs: `logits` where there is a head, `score`, `p_value` where it is
    calibrated, `typical`, and `nearest` and `runner_up`, positions in `classes_`, -1 for none.
    A row with NaN or infinity scores NaN and is not typical.

    path: where to write the model as well. calibration_size: how many calibration scores of each
    group to keep at most, as a uniform sample; all if None.
    """
    onnx = need("onnx", "onnx")
    need("spox", "onnx")
    final_detector(estimator)
    if calibration_size is not None and not (is_whole(calibration_size) and calibration_size >= 1):
        raise InputError(
            f"{given('calibration_size', calibration_size)} is not a number of scores; "
            "pass 1 or more."
        )
    from typica.export._build import detector_model  # noqa: PLC0415 (spox, an extra)

    model = detector_model(estimator, calibration_size)
    onnx.checker.check_model(model, full_check=True)
    if path is not None:
        with atomic_path(path) as partial:
            partial.write_bytes(model.SerializeToString())
    return model
