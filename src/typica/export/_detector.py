"""A detector as one ONNX model: features in, verdicts out."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper
from spox import Tensor, Var, argument, build

import typica
from typica.detectors import (
    Estimator,
    check_fitted,
    final_detector,
    input_head,
    known_width,
    reads_logits,
)
from typica.errors import InputError
from typica.export._image_input import Front
from typica.export._metadata import metadata
from typica.export._network import TracedRows
from typica.export._traced import Traced
from typica.export._verdicts import Judged, Reference, judged

IR = 8  # the oldest format that has opset 18, for older runtimes
BATCH = "N"  # the name of the number of rows
OUTPUTS = ("logits", "score", "p_value", "typical", "nearest", "runner_up")


def detector_model(
    estimator: Estimator, front: Front | None = None, calibration_size: int | None = None
) -> onnx.ModelProto:
    """Return a fitted detector, or a Pipeline that ends in one, as a model.

    front: what makes features of images, where images go in.
    """
    detector = final_detector(estimator)
    check_fitted(estimator)
    reference = Reference.of(detector, calibration_size)
    width = known_width(estimator)
    inputs, rows = _features(width) if front is None else _images(front, estimator, width)
    head = input_head(estimator)
    if rows.logits is None and head is not None:
        rows = rows._replace(logits=head.logits(rows.features))
    threshold = None
    if reference.thresholds is not None:
        threshold = argument(Tensor(np.float32, reference.thresholds.shape))
        inputs["threshold"] = threshold
    said = judged(estimator, rows.features, _traced(threshold), reference)
    model: onnx.ModelProto = build(inputs, _outputs(said, rows.logits))
    if reference.thresholds is not None:
        # An initializer with the name of an input is its default.
        model.graph.initializer.append(numpy_helper.from_array(reference.thresholds, "threshold"))
    _name_batches(model)
    more = {} if front is None else front.facts
    helper.set_model_props(model, metadata(estimator, reference) | more)
    model.ir_version = max(IR, helper.find_min_ir_version_for(model.opset_import))
    model.producer_name, model.producer_version = "typica", typica.__version__
    model.graph.name = detector.kind
    return model


def _traced(var: Var | None) -> Traced | None:
    return None if var is None else Traced(var)


def _features(width: int) -> tuple[dict[str, Var], TracedRows]:
    """Return the input of a model of features, and the features."""
    features = argument(Tensor(np.float32, (BATCH, width)))
    return {"features": features}, TracedRows(Traced(features), None)


def _images(front: Front, estimator: Estimator, width: int) -> tuple[dict[str, Var], TracedRows]:
    """Return the input of a model of images, and what the detector reads of them."""
    images, rows = front()
    read = rows.logits if reads_logits(estimator) else rows.features
    if read is None:
        raise InputError("it reads logits, and the network has no head; pass another network.")
    if read.shape[1] != width:
        raise InputError(
            f"the network gives {read.shape[1]} features, the detector was fitted on {width}; "
            "pass the network and layer that it was fitted for."
        )
    return {"images": images}, TracedRows(read, rows.logits)


def _outputs(said: Judged, logits: Traced | None) -> dict[str, Var]:
    """Return the outputs that the model has, in their order."""
    found = {name: getattr(said, name, None) for name in OUTPUTS} | {"logits": logits}
    return {name: column.var for name, column in found.items() if column is not None}


def _name_batches(model: onnx.ModelProto) -> None:
    """Declare that every output has as many rows as the input."""
    for output in model.graph.output:
        shape = output.type.tensor_type.shape
        width = [dim.dim_value for dim in shape.dim][1:]
        kind = output.type.tensor_type.elem_type
        output.CopyFrom(helper.make_tensor_value_info(output.name, kind, [BATCH, *width]))
