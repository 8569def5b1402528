"""The one public function: a detector as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from typica.checks import is_whole
from typica.decide import origin_of
from typica.detectors import Estimator, final_detector
from typica.errors import InputError, argument, border, given, listed
from typica.extras import need
from typica.files import atomic_path

if TYPE_CHECKING:
    import onnx


@border
def to_onnx(
    estimator: Estimator,
    network: Any = None,
    *,
    path: str | Path | None = None,
    calibration_size: int | None = None,
    weights: Any = None,
    trust: bool = False,
    transform: Any = None,
    uint8: bool = False,
) -> onnx.ModelProto:
    """Return a fitted detector, or a Pipeline that ends in one, as an ONNX model.

    Inputs: `features` (N, m) and `threshold`, which has a default; by class it is a vector, in the
    order of `classes_`. Outputs: `logits` where there is a head, `score`, `p_value` where it is
    calibrated, `typical`, and `nearest` and `runner_up`, positions in `classes_`, -1 for none.
    A row with NaN or infinity scores NaN and is not typical.

    With a network the input is `images` (N, channels, height, width), as the network takes them,
    and the network is part of the model: it must be the one that the detector was fitted for.

    Parameters
    ----------
    estimator
        The detector or Pipeline.
    network
        As `typica.nets.open_model` takes it: a name of the zoo, an ONNX file, "module:function", an
        nn.Module; or what `open_model` or `reopen` returned.
    path
        Where to write the model as well.
    calibration_size
        How many calibration scores of each group to keep at most, as a uniform sample.
    weights, trust
        As `open_model` takes them.
    transform
        The Preprocessing of images, where neither the detector nor the network knows it.
    uint8
        Whether `images` are pixels (N, height, width, 3) of any size, which the model resizes,
        crops and normalises itself.
    """
    onnx = need("onnx", "onnx")
    need("spox", "onnx")
    final_detector(estimator)
    asked = {"uint8": uint8, "trust": trust, "weights": weights, "transform": transform}
    for_images = [argument(name) for name, value in asked.items() if not _is_left_out(value)]
    if network is None and for_images:
        raise InputError(
            "without a network features go in, not images; name the network, "
            f"or leave out {listed(for_images)}."
        )
    if calibration_size is not None and not (is_whole(calibration_size) and calibration_size >= 1):
        raise InputError(
            f"{given('calibration_size', calibration_size)} is not a number of scores; "
            "pass 1 or more."
        )
    # Need spox, which is an extra.
    from typica.export._detector import detector_model  # noqa: PLC0415
    from typica.export._image_input import front_of  # noqa: PLC0415

    front = None
    if network is not None:
        front = front_of(
            network,
            origin_of(estimator),
            weights=weights,
            trust=trust,
            transform=transform,
            uint8=uint8,
        )
    model = detector_model(estimator, front, calibration_size)
    onnx.checker.check_model(model, full_check=True)
    if path is not None:
        with atomic_path(path) as partial:
            partial.write_bytes(model.SerializeToString())
    return model


def _is_left_out(value: Any) -> bool:
    """Tell whether `to_onnx` was called without this argument."""
    return value is None or value is False
