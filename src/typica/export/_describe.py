"""What an exported model takes, gives, and says about itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from typica.extras import need

if TYPE_CHECKING:
    import onnx


def describe_onnx(model: onnx.ModelProto) -> dict[str, Any]:
    """Return the inputs and outputs, by name with type and shape, and the metadata, as texts."""
    return {
        "inputs": _values(model.graph.input),
        "outputs": _values(model.graph.output),
        "metadata": {entry.key: entry.value for entry in model.metadata_props},
    }


def _values(values: Iterable[Any]) -> dict[str, dict[str, Any]]:
    helper = need("onnx.helper", "onnx")
    told = {}
    for value in values:
        tensor = value.type.tensor_type
        kind = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type)).name
        shape = [dim.dim_param or dim.dim_value for dim in tensor.shape.dim]
        told[value.name] = {"type": kind, "shape": shape}
    return told
