"""TorchScript programs, cut so that they return the input and the output of their head."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typica.errors import FormatError, InputError, reason_of
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

_CONTAINERS = ("prim::TupleConstruct", "prim::ListConstruct", "prim::DictConstruct")


def load_script(path: Path, device: Any) -> Program:
    """Read a TorchScript file, which may run code, and return it as a program."""
    graph, modules = _graph(path, device)
    nodes = list(graph.nodes())
    _check(graph, nodes, path)
    walk = _walk(nodes)
    head = walk.head(_outputs(graph))
    if head is None:
        last = ", ".join(f"{node.kind()}" for node in nodes[-5:])
        raise InputError(
            f"no linear layer with constant weights gives the output of {path}, which ends in "
            f"{last}, and the values in TorchScript have no names; export the model as .onnx and "
            "name a layer."
        )
    kind = _kind(head)
    x, weight, bias = (head.inputsAt(i) for i in HEADS[kind])
    alpha, beta = (1, 1)
    if kind == "addmm":
        beta, alpha = (head.inputsAt(i).toIValue() for i in (3, 4))
    weight, bias = head_tensors(kind, weight.toIValue(), bias.toIValue(), alpha, beta)
    run = _function(graph, [x, head.output()])
    # Where an operator raises, PyTorch reads names off the modules that the graph was made of: it
    # crashes with SIGSEGV if they are gone.
    run.modules = modules
    return Program(run, weight, bias, weight.dtype)


def _graph(path: Path, device: Any) -> tuple[Any, Any]:
    """Return the whole program as one graph, with its weights as constants, and its modules."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about TorchScript being old
        try:
            module = torch.jit.load(path, map_location=device).eval()
        except (RuntimeError, ValueError, OSError) as error:
            raise FormatError(
                f"{path} is not a TorchScript file ({reason_of(error)}); "
                "write one with torch.jit.trace(model.eval(), images).save(FILE)."
            ) from error
        try:
            frozen = torch.jit.freeze(module)
            graph = frozen.graph.copy()
        except RuntimeError as error:
            raise InputError(
                f"{path} cannot be frozen ({reason_of(error)}); export the model as .onnx."
            ) from error
    torch._C._jit_pass_inline(graph)
    return graph, (module, frozen)


def _check(graph: Any, nodes: list[Any], path: Path) -> None:
    for node in nodes:
        at = TRAINING.get(_kind(node))
        if at is not None and node.inputsAt(at).toIValue() is True:
            raise in_training(path)
    given = list(graph.inputs())
    if len(given) != 2 or given[0].uses():
        raise InputError(
            f"{path} takes more than images, or keeps state; trace a model of images alone."
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
            keys = [str(key.toIValue()) for key in inputs[::2]]
            waiting += zip(keys, inputs[1::2], strict=True)
        elif value.node().kind() in _CONTAINERS:
            waiting += [(name, item) for item in inputs]
        else:
            yield name, value.debugName()


def _walk(nodes: list[Any]) -> Walk[Any]:
    producers: dict[str, Any] = {}
    for node in nodes:
        producers |= dict.fromkeys((value.debugName() for value in node.outputs()), node)
    return Walk(
        producers,
        inputs=lambda node: (value.debugName() for value in node.inputs()),
        passes=_passes,
        found=lambda node: node if _is_head(node) else None,
    )


def _passes(node: Any) -> bool:
    kind = _kind(node)
    return kind in PASSES or (kind in SCALES and _is_constant(node.inputsAt(1)))


def _is_head(node: Any) -> bool:
    places = HEADS.get(_kind(node), ())
    return bool(places) and all(_is_constant(node.inputsAt(i)) for i in places[1:])


def _is_constant(value: Any) -> bool:
    return bool(value.node().kind() == "prim::Constant")


def _kind(node: Any) -> str:
    return str(node.kind()).removeprefix("aten::")
