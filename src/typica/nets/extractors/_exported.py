"""Programs of torch.export (.pt2), changed to return the values asked for."""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from typica.errors import FormatError, InputError, argument, reason_of
from typica.nets._extracted_batch import closest_names, is_float_matrix, returned_logits
from typica.nets._hooks import tensors
from typica.nets._torch import torch
from typica.nets.extractors._graph_head import Walk
from typica.nets.extractors._program import (
    HEADS,
    PASSES,
    SCALES,
    TRAINING,
    Program,
    head_tensors,
    in_training,
)
from typica.origin import PENULTIMATE

_VIEWS = ("alias", "clone", "detach", "permute", "t", "transpose")  # of a weight


def load_exported(path: Path, layers: Sequence[str], named: bool, device: Any) -> Program:
    """Read a file of torch.export, which may run code, and return it as a program.

    layers: names of nodes or of modules, "penultimate" for the head's input; `named` says that a
    value of that name goes before it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = torch.export.load(path)
            module = exported.module()
    except Exception as error:  # a foreign or damaged archive; its kind depends on torch
        raise FormatError(
            f"{path} is not a program of torch.export that this torch {torch.__version__} reads "
            f"({reason_of(error)}); export it again with torch.export.save."
        ) from error
    if torch.device(device).type != "cpu":
        # Not loaded with torch itself.
        from torch.export.passes import move_to_device_pass  # noqa: PLC0415

        exported = move_to_device_pass(exported, device)
        module = exported.module()
    return _Exported(exported, module, path).program(layers, named)


class _Exported:
    """An exported program's graph, with names for its values."""

    def __init__(self, exported: Any, module: Any, path: Path) -> None:
        self.exported, self.module, self.path = exported, module, path
        self.graph = module.graph
        nodes = list(self.graph.nodes)
        calls = [node for node in nodes if node.op == "call_function"]
        self.inputs = [node for node in nodes if node.op == "placeholder"]
        self.end = next(node for node in nodes if node.op == "output")
        self.nodes = {node.name: node for node in calls}
        self.modules: dict[str, Any] = {}  # the last node in each
        for node in calls:
            self.modules |= dict.fromkeys(_modules_around(node), node)
        self._check(calls)

    def _check(self, calls: list[Any]) -> None:
        if len(self.inputs) != 1:
            names = ", ".join(node.name for node in self.inputs) or "nothing"
            raise InputError(f"{self.path} takes {names}; export a model of images alone.")
        for node in calls:
            at = TRAINING.get(_kind(node))
            if at is not None and len(node.args) > at and node.args[at] is True:
                raise in_training(self.path)

    def program(self, layers: Sequence[str], named: bool) -> Program:
        """Return the program that gives the layers and then the logits."""
        outputs = self._outputs()
        head = self._walk().head([(name, node.name) for name, node in outputs])
        has_that_name = named and PENULTIMATE in {*self.nodes, *self.modules}
        from_head = PENULTIMATE in layers and not has_that_name
        values = [
            self._input_of(head) if from_head and name == PENULTIMATE else self._value(name)
            for name in layers
        ]
        logits = head if head is not None else returned_logits(outputs, _gives_float_matrix)
        if logits is not None:
            values.append(logits)
        function = self._returning(values)
        weight, bias = (None, None) if head is None else self._head_tensors(head)
        images = self.inputs[0]
        sizes = _sizes(self.exported, images)
        return Program(function, weight, bias, images.meta["val"].dtype, sizes, from_head)

    def _input_of(self, head: Any) -> Any:
        """Return what the head is applied to."""
        if head is None:
            raise InputError(
                f"no linear layer gives the output of {self.path}; "
                f"pass {argument('layer', 'NAME')}, one of {closest_names('', list(self.nodes))}."
            )
        return _argument(head, HEADS[_kind(head)][0])

    def _walk(self) -> Walk[Any]:
        return Walk(
            self.nodes,
            inputs=lambda node: (value.name for value in node.all_input_nodes),
            passes=_passes,
            found=lambda node: node if self._is_head(node) else None,
        )

    def _is_head(self, node: Any) -> bool:
        places = HEADS.get(_kind(node), ())[1:]
        return bool(places) and all(self._is_constant(_argument(node, i)) for i in places)

    def _head_tensors(self, head: Any) -> tuple[Any, Any]:
        kind = _kind(head)
        _, *places = HEADS[kind]
        weight, bias = (self._constant(_argument(head, i)) for i in places)
        alpha, beta = (head.kwargs.get(name, 1) for name in ("alpha", "beta"))
        return head_tensors(kind, weight, bias, alpha, beta)

    def _outputs(self) -> list[tuple[str, Any]]:
        """Return the nodes that the program returns, with the names that a dict gives them."""
        spec = self.exported.call_spec.out_spec
        output = torch.utils._pytree.tree_unflatten(self.end.args[0], spec)
        return list(tensors(output, kind=torch.fx.Node))

    def _value(self, name: str) -> Any:
        node = self.nodes.get(name) or self.modules.get(name)
        if node is None:
            names = [*self.modules, *self.nodes]
            raise InputError(
                f"{self.path} has no layer {name!r}; closest: {closest_names(name, names)}."
            )
        if not hasattr(node.meta.get("val"), "ndim"):
            raise InputError(f"{self.path}: layer {name!r} gives no single tensor; name another.")
        return node

    def _returning(self, values: list[Any]) -> Any:
        """Return the module, changed to return copies of the values: a later step may overwrite."""
        copies = []
        for value in values:
            with self.graph.inserting_after(value):
                copies.append(self.graph.call_function(torch.ops.aten.clone.default, (value,)))
        self.end.args = (tuple(copies),)
        self.module.requires_grad_(False)  # or a tracer treats its weights as inputs
        self.graph.set_codegen(torch.fx.graph.CodeGen())
        self.module.recompile()
        return self.module

    def _is_constant(self, node: Any) -> bool:
        if node is None:
            return True
        while _kind(node) in _VIEWS:
            node = node.args[0]
        return bool(node.op == "get_attr")

    def _constant(self, node: Any) -> Any:
        """Return the tensor that a node always gives."""
        if not isinstance(node, torch.fx.Node):
            return node
        views = []
        while node.op != "get_attr":
            views.append(node)
            node = node.args[0]
        value = operator.attrgetter(node.target)(self.module)
        with torch.no_grad():
            for view in reversed(views):
                value = view.target(value, *view.args[1:])
        return value


def _argument(node: Any, i: int) -> Any:
    return node.args[i] if i < len(node.args) else None


def _passes(node: Any) -> bool:
    kind = _kind(node)
    by_number = kind in SCALES and not isinstance(node.args[1], torch.fx.Node)
    return by_number or kind in PASSES


def _gives_float_matrix(node: Any) -> bool:
    return is_float_matrix(node.meta.get("val"))


def _modules_around(node: Any) -> Iterator[str]:
    """Yield the dotted names of the modules around a node, without the mark of a repeated call."""
    for name, _ in (node.meta.get("nn_module_stack") or {}).values():
        yield re.sub(r"@\d+$", "", str(name))


def _kind(node: Any) -> str:
    """Return the name of the ATen operation, without its overload."""
    if node.target is operator.getitem:
        return "getitem"
    packet = getattr(node.target, "overloadpacket", None)
    return packet.__name__ if packet is not None else ""


def _sizes(exported: Any, images: Any) -> tuple[int, int | None]:
    """Return the fewest and the most images that an exported program takes at once."""
    size = images.meta["val"].shape[0]
    if isinstance(size, int):
        return size, size
    allowed = exported.range_constraints.get(size.node.expr)
    if allowed is None:
        return 1, None
    return max(int(allowed.lower), 1), int(allowed.upper) if allowed.upper < 2**31 else None
