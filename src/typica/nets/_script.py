"""TorchScript programs: frozen, and cut so that they return the input and the output of their head."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typica.errors import FormatError, InputError
from typica.nets._program import HEADS, PASSES, SCALES, TRAINING, Program, in_training
from typica.nets._torch import torch
from typica.nets._walk import Walk, find_back

_ON_FILES = ("aten::from_file", "aten::save")
_CONTAINERS = ("prim::TupleConstruct", "prim::ListConstruct", "prim::DictConstruct")


def load_script(path: Path, device: Any, where: str) -> Program:
    """Read a TorchScript file and return it as a program.

    PyTorch reads it in C++, with an unpickler that knows tensors, containers and the file's own
    classes and imports nothing of Python. The program itself runs: freezing computes what is
    constant in it. One that has operations on files is refused before that.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that TorchScript is old
        try:
            module = torch.jit.load(path, map_location=device).eval()
        except (RuntimeError, ValueError, OSError) as error:
            raise FormatError(
                f"{where}: {path} is not a TorchScript file ({_first_line(error)}); "
                "write one with torch.jit.trace(model.eval(), images).save(FILE)."
            ) from error
        for kind in _ON_FILES:
            if module.inlined_graph.findAllNodes(kind, True):
                raise FormatError(
                    f"{where}: {path} would touch files ({kind}), and is refused; export the model again."
                )
        try:
            graph = torch.jit.freeze(module).graph.copy()
        except RuntimeError as error:
            raise InputError(
                f"{where}: {path} cannot be frozen ({_first_line(error)}); export the model as .pt2 or .onnx."
            ) from error
    torch._C._jit_pass_inline(graph)
    nodes = list(graph.nodes())
    for node in nodes:
        at = TRAINING.get(_kind(node))
        if at is not None and node.inputsAt(at).toIValue() is True:
            raise in_training(path, where)
    given = list(graph.inputs())
    if len(given) != 2 or given[0].uses():
        raise InputError(
            f"{where}: {path} takes more than images, or keeps state; trace a model of images alone."
        )
    head = find_back(_walk(nodes), _outputs(graph), lambda node: node if _is_head(node) else None)
    if head is None:
        last = ", ".join(f"{node.kind()}" for node in nodes[-5:])
        raise InputError(
            f"{where}: no linear layer with constant weights gives the output of {path}, which ends in {last}, and the "
            "values in TorchScript have no names; export the model as .pt2 or .onnx and name a layer."
        )
    x, weight, bias = (head.inputsAt(i) for i in HEADS[_kind(head)])
    scales = [head.inputsAt(i).toIValue() for i in (4, 3)] if _kind(head) == "addmm" else [1, 1]
    weight, bias = weight.toIValue(), bias.toIValue()
    return Program.of(
        _function(graph, [x, head.output()]), weight, bias, scales, turned=_kind(head) == "addmm"
    )


def _function(graph: Any, values: list[Any]) -> Any:
    """Return the graph as a function from images to a tuple of the values."""
    both = graph.create("prim::TupleConstruct", values, 1)
    both.output().setType(torch._C.TupleType([value.type() for value in values]))
    graph.appendNode(both)
    graph.eraseOutput(0)
    graph.registerOutput(both.output())
    graph.eraseInput(0)  # the module itself, which a frozen graph does not use
    torch._C._jit_pass_dce(graph)
    return torch._C._create_function_from_graph("forward", graph)


def _outputs(graph: Any) -> Iterator[tuple[str, str]]:
    """Yield the names and values that a program returns."""
    waiting = [("", value) for value in graph.outputs()]
    while waiting:
        name, value = waiting.pop(0)
        inputs = list(value.node().inputs())
        if value.node().kind() == "prim::DictConstruct":
            waiting += [
                (str(key.toIValue()), item)
                for key, item in zip(inputs[::2], inputs[1::2], strict=True)
            ]
        elif value.node().kind() in _CONTAINERS:
            waiting += [(name, item) for item in inputs]
        else:
            yield name, value.debugName()


def _walk(nodes: list[Any]) -> Walk:
    def inputs(node: Any) -> Iterator[str]:
        return (value.debugName() for value in node.inputs())

    def passes(node: Any) -> bool:
        kind = _kind(node)
        return kind in PASSES or (
            kind in SCALES and node.inputsAt(1).node().kind() == "prim::Constant"
        )

    return Walk(
        {value.debugName(): node for node in nodes for value in node.outputs()}, inputs, passes
    )


def _is_head(node: Any) -> bool:
    places = HEADS.get(_kind(node), ())
    return bool(places) and all(
        node.inputsAt(i).node().kind() == "prim::Constant" for i in places[1:]
    )


def _kind(node: Any) -> str:
    return str(node.kind()).removeprefix("aten::")


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
