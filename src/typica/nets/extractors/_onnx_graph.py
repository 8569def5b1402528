"""The linear head of an ONNX graph: Gemm, MatMul, MatMul and Add, or a 1x1 convolution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from typica.arrays import AnyArray
from typica.extras import need
from typica.nets.extractors._graph_head import Walk

# Operators after which the logits before them are still clear.
_PASSES = {
    "ArgMax",
    "AveragePool",
    "Cast",
    "Dropout",
    "Flatten",
    "Gather",
    "GlobalAveragePool",
    "Identity",
    "LogSoftmax",
    "ReduceMean",
    "Reshape",
    "Sigmoid",
    "Slice",
    "Softmax",
    "Squeeze",
    "TopK",
    "Transpose",
    "Unsqueeze",
}


class Linear(NamedTuple):
    """A linear layer of an ONNX graph, logits = features @ weight.T + bias, by its tensors' names.

    features_turned, logits_turned: whether the tensor holds one input per column, (m, n) or (C, n).
    maps: whether features are maps (n, m, h, w), as a convolution's are; other inputs of more than
    two dimensions are tokens.
    """

    name: str
    features: str
    logits: str
    weight: AnyArray
    bias: AnyArray | None
    features_turned: bool = False
    logits_turned: bool = False
    maps: bool = False


class Graph:
    """An ONNX model's graph, with its constants."""

    def __init__(self, model: Any) -> None:
        self._onnx = need("onnx", "onnx")
        self.model = model
        self.producers: dict[str, Any] = {}
        for node in model.graph.node:
            self.producers |= dict.fromkeys(filter(None, node.output), node)
        self._initialisers = {tensor.name: tensor for tensor in model.graph.initializer}
        self.inputs = [value for value in model.graph.input if value.name not in self._initialisers]
        self.outputs = [value.name for value in model.graph.output]
        self._fixed = set(self._initialisers)  # tensors that depend on no input
        for node in model.graph.node:  # in order of execution
            if self._is_fixed(node):
                self._fixed.update(filter(None, node.output))
        self._constants: dict[str, AnyArray] = {}

    def _is_fixed(self, node: Any) -> bool:
        """Tell whether what a node gives depends on no input, by what the nodes before it give."""
        if node.op_type == "Constant":
            return True
        inner = any(attribute.HasField("g") for attribute in node.attribute)
        given = [name for name in node.input if name]
        return bool(given) and not inner and self._fixed.issuperset(given)

    @property
    def tensors(self) -> list[str]:
        """The names of all tensors: those that the graph is given, then those that it computes."""
        return [*(value.name for value in self.inputs), *self.producers]

    def give(self, names: list[str]) -> None:
        """Have the model return these tensors too."""
        known = set(self.outputs)
        new = [self._onnx.ValueInfoProto(name=name) for name in names if name not in known]
        self.model.graph.output.extend(new)

    def constant(self, name: str) -> AnyArray | None:
        """Return the value of a tensor that depends on no input, or None for one that does."""
        if name not in self._fixed:
            return None
        waiting = [name]  # no recursion: a chain may be longer than Python's stack
        while waiting:
            current = waiting[-1]
            before = () if current in self._initialisers else self.producers[current].input
            missing = [key for key in before if key and key not in self._constants]
            if missing and current not in self._constants:
                waiting += missing
                continue
            waiting.pop()
            if current not in self._constants:
                self._constants[current] = self._evaluated(current)
        return self._constants[name]

    def _evaluated(self, name: str) -> AnyArray:
        if name in self._initialisers:
            array: AnyArray = self._onnx.numpy_helper.to_array(self._initialisers[name])
            return array
        node = self.producers[name]
        values = {key: self._constants[key] for key in node.input if key}
        helper, reference = need("onnx.helper", "onnx"), need("onnx.reference", "onnx")
        tensors = [self._onnx.numpy_helper.from_array(value, key) for key, value in values.items()]
        given = [self._onnx.ValueInfoProto(name=name)]
        graph = helper.make_graph([node], "constant", [], given, tensors)
        model = helper.make_model(graph, opset_imports=self.model.opset_import)
        return np.asarray(reference.ReferenceEvaluator(model).run([name], {})[0])

    def head(self) -> Linear | None:
        """Return the linear layer that an output comes from, or None."""
        walk = Walk(self.producers, self._through, self._passes, self._linear)
        return walk.head((name, name) for name in self.outputs)

    def _through(self, node: Any) -> Iterator[str]:
        return (name for name in node.input if self.constant(name) is None)

    def _passes(self, node: Any) -> bool:
        if node.op_type in ("Mul", "Div"):  # by a temperature
            values = [self.constant(name) for name in node.input]
            return any(value is not None and value.size == 1 for value in values)
        return node.op_type in _PASSES

    def _options(self, node: Any) -> dict[str, Any]:
        value_of = self._onnx.helper.get_attribute_value
        return {attribute.name: value_of(attribute) for attribute in node.attribute}

    def _linear(self, node: Any) -> Linear | None:
        match node.op_type:
            case "Gemm":
                return self._gemm(node)
            case "MatMul":
                return self._product(node, *node.input)
            case "Add":
                return self._sum(node)
            case "Conv":
                return self._conv(node)
        return None

    def _product(self, node: Any, a: str, b: str) -> Linear | None:
        """Return features @ constant, or constant @ turned features."""
        name = f"{node.op_type} {node.name or node.output[0]!r}"
        left, right = self.constant(a), self.constant(b)
        if left is None and right is not None and right.ndim == 2:
            return Linear(name, a, node.output[0], right.T, None)
        if right is None and left is not None and left.ndim == 2:
            return Linear(name, b, node.output[0], left, None, True, True)
        return None

    def _gemm(self, node: Any) -> Linear | None:
        options = self._options(node)
        found = self._product(node, *node.input[:2])
        if found is None:
            return None
        flags = options.get("transA", 0), options.get("transB", 0)
        feature_flag, weight_flag = reversed(flags) if found.logits_turned else flags
        weight = found.weight.T if weight_flag else found.weight
        found = found._replace(
            weight=weight * np.float32(options.get("alpha", 1.0)),
            features_turned=found.features_turned != bool(feature_flag),
        )
        if len(node.input) < 3 or not node.input[2]:
            return found
        bias = self._bias(node.input[2], found)
        if bias is None:
            return None
        return found._replace(bias=bias * np.float32(options.get("beta", 1.0)))

    def _sum(self, node: Any) -> Linear | None:
        for product, other in (node.input, reversed(node.input)):
            before = self.producers.get(product)
            if before is None or before.op_type != "MatMul":
                continue
            found = self._product(before, *before.input)
            bias = None if found is None else self._bias(other, found)
            if found is not None and bias is not None:
                return found._replace(logits=node.output[0], bias=bias)
        return None

    def _bias(self, name: str, found: Linear) -> AnyArray | None:
        """Return a constant as one number per class, or None if inputs differ in it."""
        value, classes = self.constant(name), len(found.weight)
        if value is None:
            return None
        if found.logits_turned:
            value = value.T if value.ndim == 2 else value[..., None]
        wide = value.ndim and value.shape[-1] != 1
        if value.size != (classes if wide else 1) or (wide and value.shape[-1] != classes):
            return None
        return np.broadcast_to(value.reshape(-1), (classes,))

    def _conv(self, node: Any) -> Linear | None:
        weight = self.constant(node.input[1])
        if weight is None or weight.ndim < 3 or any(side != 1 for side in weight.shape[2:]):
            return None
        if not _is_plain(self._options(node)):
            return None
        bias = self.constant(node.input[2]) if len(node.input) > 2 and node.input[2] else None
        name = f"Conv {node.name or node.output[0]!r}"
        weight = weight.reshape(weight.shape[:2])
        return Linear(name, node.input[0], node.output[0], weight, bias, maps=True)


def _is_plain(options: dict[str, Any]) -> bool:
    """Tell whether a convolution goes over every place, in one group and without padding."""
    steps = all(step == 1 for step in options.get("strides", ()))
    padded = any(options.get("pads", ())) or options.get("auto_pad", b"NOTSET") not in (
        b"NOTSET",
        b"VALID",
    )
    return steps and not padded and options.get("group", 1) == 1
