"""Programs of torch.export (.pt2), changed to return the values asked for."""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from typica.errors import FormatError, InputError
from typica.nets._program import HEADS, PASSES, SCALES, TRAINING, Program, in_training
from typica.nets._result import PENULTIMATE, closest
from typica.nets._torch import torch
from typica.nets._walk import Walk, find_back

_VIEWS = ("alias", "clone", "detach", "permute", "t", "transpose")  # of a weight


def load_exported(path: Path, layers: Sequence[str], named: bool, device: Any, where: str) -> Program:
    """Read a file of torch.export, which runs nothing but what torch.export.load runs, and return it as a program.

    layers: names of nodes or of modules, "penultimate" for the head's input; `named` says that a value of that name
    goes before it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = torch.export.load(path)
            if device is not None and torch.device(device).type != "cpu":
                exported = torch.export.passes.move_to_device_pass(exported, device)
            module = exported.module()
    except Exception as error:  # what a foreign or damaged archive raises differs between torch's versions
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
        raise FormatError(
            f"{where}: {path} is not a program of torch.export that this torch {torch.__version__} reads ({reason}); "
            "export it again with torch.export.save."
        ) from error
    return _Exported(module, path, where).program(exported, layers, named)


class _Exported:
    """An exported program's graph, with names for its values."""

    def __init__(self, module: Any, path: Path, where: str) -> None:
        self.module, self.path, self.where = module, path, where
        self.graph = module.graph
        nodes = list(self.graph.nodes)
        self.inputs = [node for node in nodes if node.op == "placeholder"]
        calls = [node for node in nodes if node.op == "call_function"]
        self.nodes = {node.name: node for node in calls}
        self.modules = {name: node for node in calls for name in _modules_around(node)}  # the last node in each
        if len(self.inputs) != 1:
            names = ", ".join(node.name for node in self.inputs) or "nothing"
            raise InputError(f"{where}: {path} takes {names}; export a model of images alone.")
        for node in calls:
            at = TRAINING.get(_kind(node))
            if at is not None and len(node.args) > at and node.args[at] is True:
                raise in_training(path, where)

    def program(self, exported: Any, layers: Sequence[str], named: bool) -> Program:
        """Return the program that gives the layers and then the logits."""
        head = self._head(exported)
        from_head = PENULTIMATE in layers and not (named and PENULTIMATE in {*self.nodes, *self.modules})
        if head is None and from_head:
            raise InputError(
                f"{self.where}: no linear layer gives the output of {self.path}; "
                f"pass layer=NAME, one of {closest('', list(self.nodes))}."
            )
        values = [
            head.args[HEADS[_kind(head)][0]] if from_head and n == PENULTIMATE else self._value(n) for n in layers
        ]
        logits = head if head is not None else self._returned(exported)
        function = self._returning([*values, *([] if logits is None else [logits])])
        dtype, sizes = self.inputs[0].meta["val"].dtype, _sizes(exported, self.inputs[0])
        if head is None:
            return Program(function, None, None, dtype, sizes, from_head)
        weight, bias = (self._constant(head.args[i]) if i < len(head.args) else None for i in HEADS[_kind(head)][1:])
        scales = [head.kwargs.get(name, 1) for name in ("alpha", "beta")]
        made = Program.of(function, weight, bias, scales, turned=_kind(head) == "addmm")
        return made._replace(dtype=dtype, sizes=sizes, from_head=from_head)

    def _head(self, exported: Any) -> Any:
        def passes(node: Any) -> bool:
            kind = _kind(node)
            return kind in PASSES or (kind in SCALES and not isinstance(node.args[1], torch.fx.Node))

        def linear(node: Any) -> Any:
            places = HEADS.get(_kind(node), ())[1:]
            known = all(i >= len(node.args) or node.args[i] is None or self._is_constant(node.args[i]) for i in places)
            return node if places and known else None

        walk = Walk(self.nodes, lambda node: (value.name for value in node.all_input_nodes), passes)
        return find_back(walk, [(name, node.name) for name, node in self._outputs(exported)], linear)

    def _outputs(self, exported: Any) -> list[tuple[str, Any]]:
        """Return the nodes that the program returns, with the names that a dict gives them."""
        returned = next(node for node in self.graph.nodes if node.op == "output").args[0]
        spec = exported.call_spec.out_spec
        return list(_leaves(torch.utils._pytree.tree_unflatten(returned, spec)))

    def _returned(self, exported: Any) -> Any:
        """Return the node that gives the logits of a program without a head: of that name, else the first matrix."""
        found = [(name, n) for name, n in self._outputs(exported) if getattr(n.meta.get("val"), "ndim", 0) == 2]
        return next((node for name, node in found if name == "logits"), found[0][1] if found else None)

    def _value(self, name: str) -> Any:
        node = self.nodes.get(name) or self.modules.get(name)
        if node is None:
            names = [*self.modules, *self.nodes]
            raise InputError(f"{self.where}: {self.path} has no layer {name!r}; closest: {closest(name, names)}.")
        if not hasattr(node.meta.get("val"), "ndim"):
            raise InputError(f"{self.where}: layer {name!r} gives no single tensor; name another.")
        return node

    def _returning(self, values: list[Any]) -> Any:
        """Return the module, changed to return a tuple of the values, each a copy: a later step may overwrite it."""
        copies = []
        for value in values:
            with self.graph.inserting_after(value):
                copies.append(self.graph.call_function(torch.ops.aten.clone.default, (value,)))
        end = next(node for node in self.graph.nodes if node.op == "output")
        end.args = (tuple(copies),)
        self.module.requires_grad_(False)  # or a tracer takes its weights for inputs
        self.graph.set_codegen(torch.fx.graph.CodeGen())
        self.module.recompile()
        return self.module

    def _is_constant(self, node: Any) -> bool:
        if node.op == "get_attr":
            return True
        return _kind(node) in _VIEWS and self._is_constant(node.args[0])

    def _constant(self, node: Any) -> Any:
        """Return the tensor that a node always gives."""
        if not isinstance(node, torch.fx.Node):
            return node
        if node.op == "get_attr":
            return operator.attrgetter(node.target)(self.module)
        with torch.no_grad():
            return node.target(self._constant(node.args[0]), *node.args[1:])


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, torch.fx.Node):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, str(key))
    elif isinstance(value, tuple | list):
        for key, item in zip(getattr(value, "_fields", value), value, strict=True):
            yield from _leaves(item, key if isinstance(key, str) else name)


def _modules_around(node: Any) -> Iterator[str]:
    """Yield the dotted names of the modules that a node was in, without the mark of a repeated call."""
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
