"""Models of scikit-learn inside an exported graph, as skl2onnx converts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import spox.opset.ai.onnx.v18 as op
from onnx import TensorProto, helper
from spox import Var, inline

from typica.errors import InputError
from typica.extras import need

OPSETS = {"": 18, "ai.onnx.ml": 3}


def converted(model: Any, method: str, rows: Var) -> Var:
    """Return what `method`, transform or score_samples, of a fitted model makes of float32 rows."""
    skl2onnx = need("skl2onnx", "onnx")
    types = need("skl2onnx.common.data_types", "onnx")
    scores = method == "score_samples"
    try:
        made = skl2onnx.to_onnx(
            model,
            initial_types=[("rows", types.FloatTensorType([None, int(model.n_features_in_)]))],
            target_opset=OPSETS,
            options={id(model): {"score_samples": True}} if scores else None,
        )
    except RuntimeError:  # the base of all errors of skl2onnx about what it does not support
        raise InputError(
            f"{type(model).__name__} has no counterpart in ONNX; "
            "take a rectifier or transformer that has one."
        ) from None
    width = 1 if scores else model.transform(np.zeros((1, model.n_features_in_))).shape[1]
    output = made.graph.output[-1]
    output.CopyFrom(helper.make_tensor_value_info(output.name, TensorProto.FLOAT, ["N", width]))
    found = inline(made)(rows=rows)[output.name]
    if scores:
        return op.reshape(found, op.constant(value=np.array([-1])))
    return found
