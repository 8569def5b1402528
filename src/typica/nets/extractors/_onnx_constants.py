"""Constants of an ONNX model that grow from a few bytes to gigabytes before any image is there.

ONNX Runtime computes what does not depend on the input when it opens a model. How large that
becomes is known without computing it, from ONNX's own inference of shapes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from typica.errors import FormatError
from typica.extras import need
from typica.files import reading

_SMALL = 4096  # bytes of a stored tensor that may be the shape of another
_ITEM = 4  # bytes of a number; what has more or fewer is off by a factor that does not matter


def check_constants(proto: Any, allowed: int) -> None:
    """Refuse a model with constants of more than `allowed` bytes that are not stored in it."""
    outline = _outline(proto)
    # Values are followed only where no constant is large: to follow them computes them.
    for values in (False, True):
        shapes = _shapes(outline, values)
        for node in _constant_nodes(proto.graph):
            size = _size(shapes.get(node.output[0]))
            if size is None and node.op_type == "Range" and not values:
                raise _bomb("a constant of unknown size", node)
            if size is not None and size > allowed:
                raise _bomb(f"a constant of {size:,} bytes", node)


def _bomb(what: str, node: Any) -> FormatError:
    return FormatError(
        f"{what} ({node.op_type} {node.output[0]!r}), maybe a bomb; "
        "store it in the file if you trust it."
    )


def _outline(proto: Any) -> Any:
    """Return the model without its large weights, of which only the shapes are left."""
    onnx = need("onnx", "onnx")
    light = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
    graph = light.graph
    graph.name = "outline"
    graph.node.extend(proto.graph.node)
    graph.input.extend(proto.graph.input)
    graph.output.extend(proto.graph.output)
    for tensor in proto.graph.initializer:
        if tensor.ByteSize() <= _SMALL:
            graph.initializer.append(tensor)
            continue
        dims = list(tensor.dims)
        graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, dims))
    return light


def _shapes(outline: Any, values: bool) -> dict[str, list[Any]]:
    """Return what is known of the shapes of the tensors between the nodes, by name."""
    inference = need("onnx.shape_inference", "onnx")
    with reading("the graph", "not one whose shapes can be told"):
        inferred = inference.infer_shapes(outline, data_prop=values)
    shapes = {}
    for info in [*inferred.graph.value_info, *inferred.graph.output]:
        if info.type.tensor_type.HasField("shape"):
            shapes[info.name] = list(info.type.tensor_type.shape.dim)
    return shapes


def _constant_nodes(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a model that depend on no input, in the order in which they are given."""
    stored = {tensor.name for tensor in graph.initializer}
    varying = {value.name for value in graph.input} - stored
    for node in graph.node:
        if varying.isdisjoint(node.input) and node.output:
            yield node
        else:
            varying.update(node.output)


def _size(dims: list[Any] | None) -> int | None:
    """Return the bytes of a tensor, or None where they are not known."""
    if dims is None or not all(dim.HasField("dim_value") for dim in dims):
        return None
    sizes = [int(dim.dim_value) for dim in dims]
    return _ITEM * math.prod(sizes)
