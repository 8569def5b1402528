"""The network before a detector, as a graph from images to features and logits."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper
from spox import Tensor, Var, argument, build, inline

from typica.arrays import AnyArray, relative_difference
from typica.errors import InputError
from typica.errors import argument as named
from typica.export._namespace import xp
from typica.export._traced import Traced
from typica.extras import need
from typica.nets import run_directly
from typica.nets.extractors.dense import Perceptron
from typica.nets.extractors.onnx import OnnxExtractor
from typica.nets.runtimes.ort import session

IMAGES = "images"
OPSET = 18
AGREES = 1e-3  # how far the graph may be from the network, as a fraction of the largest number


class TracedRows(NamedTuple):
    """What an exported network makes of images: features (N, m), logits (N, C) if it has a head."""

    features: Traced
    logits: Traced | None


class Network(NamedTuple):
    """A network as an ONNX model, with what it takes.

    rows: what makes rows of the tensors that the model gives, by name. shape: of one image,
    (channels, height, width).
    """

    model: onnx.ModelProto
    rows: Callable[[dict[str, Traced]], TracedRows]
    shape: tuple[int, ...]
    dtype: Any

    @classmethod
    def of(cls, extractor: Any, shape: tuple[int | None, ...] | None) -> Network:
        """Write down what an extractor does to images of this shape; the number is left open."""
        if isinstance(extractor, Perceptron):
            raise InputError("a Perceptron is not written to ONNX; export the detector alone.")
        if isinstance(extractor, OnnxExtractor):
            network = _of_file(extractor, shape)
        else:
            network = _of_torch(extractor, _known_shape(shape))
        network._check(extractor)
        return network

    def __call__(self, images: Var) -> TracedRows:
        """Return what the network makes of images, inside the graph that these are in."""
        found = inline(self.model)(images)
        return self.rows({name: xp.astype(Traced(var), np.float32) for name, var in found.items()})

    def _check(self, extractor: Any) -> None:
        """Raise unless the graph gives the extractor's own features and logits, for any number."""
        images = _noise(3, self.shape, self.dtype)
        wanted = run_directly(extractor, images)
        taken = argument(Tensor(self.dtype, ("N", *self.shape)))
        rows = self(taken)
        outputs = {name: x.var for name, x in rows._asdict().items() if x is not None}
        found = _run(build({IMAGES: taken}, outputs), list(outputs), images)
        same = found is not None and all(
            relative_difference(found[name], getattr(wanted, name)) <= AGREES for name in outputs
        )
        if not same:
            raise InputError(
                "the network gives other features when it is written to ONNX, e.g. because its "
                "code treats the number of images as a constant; write it yourself with a dynamic "
                "batch size, and name that file, or export the detector alone."
            )


def _known_shape(shape: tuple[int | None, ...] | None) -> tuple[int, ...]:
    if shape is None or None in shape:
        raise InputError(
            f"the size of the images is not known; pass {named('transform')} with resize and crop."
        )
    return tuple(size for size in shape if size is not None)


def _of_torch(extractor: Any, shape: tuple[int, ...]) -> Network:
    """Write a PyTorch extractor to ONNX; its rows come reduced."""
    torch = need("torch", "torch")
    images = _noise(2, shape, np.float32)
    wanted = extractor(torch.from_numpy(images))  # which also settles what the head is
    names = ["features"] if wanted.logits is None else ["features", "logits"]
    model = _written(torch, extractor, images, names)
    _declare(model, {name: getattr(wanted, name).numpy() for name in names})

    def rows(found: dict[str, Traced]) -> TracedRows:
        return TracedRows(found["features"], found.get("logits"))

    return Network(model, rows, shape, np.float32)


def _noise(count: int, shape: tuple[int, ...], dtype: Any) -> AnyArray:
    """Return images of noise, to try a network on: fractions, or whole pixels for bytes."""
    fractions = np.random.default_rng(0).random((count, *shape), dtype=np.float32)
    return (255 * fractions if dtype == np.uint8 else fractions).astype(dtype)


def _written(torch: Any, extractor: Any, images: AnyArray, names: list[str]) -> onnx.ModelProto:
    """Return what an extractor does as an ONNX model from IMAGES to `names`."""
    # Its layers, the features last, and logits.
    outputs = [*(f"layer.{i}" for i in range(len(extractor.layers) - 1)), *names]
    # Needs torch, which is an extra.
    from typica.nets.runtimes.torch import quiet, ready  # noqa: PLC0415

    with quiet(), ready(extractor) as program, tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "network.onnx")
        torch.onnx.export(
            program,
            (torch.from_numpy(images),),
            path,
            input_names=[IMAGES],
            output_names=outputs,
            dynamic_axes={name: {0: "N"} for name in (IMAGES, *outputs)},
            opset_version=OPSET,
            dynamo=False,
            verbose=False,
        )
        return _pruned(onnx.load(path), names)


def _run(model: onnx.ModelProto, names: list[str], images: AnyArray) -> dict[str, AnyArray] | None:
    """Return what the model to export gives; None where it cannot take this many images."""
    try:
        found = session(model.SerializeToString(), 1).run(names, {IMAGES: images})
    except Exception:  # ONNX Runtime's kinds of errors share no base
        return None
    return dict(zip(names, found, strict=True))


def _of_file(extractor: OnnxExtractor, shape: tuple[int | None, ...] | None) -> Network:
    """Cut the graph of an ONNX file off behind its features and its logits."""
    if not isinstance(extractor.reduce, str):
        raise InputError(
            "reduce is a function, which a graph cannot hold; pass mean, max, flatten or cls."
        )
    fixed = extractor.sizes[1]
    if fixed is not None:
        raise InputError(
            f"the network takes images exactly {fixed} at a time; "
            "write it to ONNX with a dynamic batch size."
        )
    program, layer = extractor.program, extractor.layers[-1]
    size = _stated_shape(extractor, shape)
    names = extractor.tensors(layer)
    example = extractor.prepared(_noise(1, size, np.uint8 if extractor.takes_bytes else np.float32))
    extractor(example)  # which says what is wrong with images of that shape
    given = zip(names, session(program, 1).run(names, {extractor.input: example}), strict=True)
    # What a file returns beside the layer may also be integers or lists, which are no logits.
    arrays = {name: x for name, x in given if name == layer or _is_of_floats(x)}
    model = _pruned(_loaded(program), list(arrays))
    _declare(model, arrays)

    def rows(found: dict[str, Traced]) -> TracedRows:
        extraction = extractor.rows(found, [layer])
        return TracedRows(extraction.features, extraction.logits)

    return Network(model, rows, size, example.dtype)


def _is_of_floats(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _stated_shape(
    extractor: OnnxExtractor, shape: tuple[int | None, ...] | None
) -> tuple[int, ...]:
    """Return the shape of an image: what the file states of it, and for the rest `shape`."""
    stated = [size if isinstance(size, int) else None for size in extractor.takes[1:]]
    given = stated if shape is None or len(shape) != len(stated) else shape
    whole = [own or other for own, other in zip(stated, given, strict=True)]
    return _known_shape(tuple(whole))


def _loaded(program: bytes | Path) -> onnx.ModelProto:
    if isinstance(program, bytes):
        return onnx.load_model_from_string(program)
    return onnx.load(program)


def _pruned(model: onnx.ModelProto, names: list[str]) -> onnx.ModelProto:
    """Return an exported network with only these outputs, without what only others need."""
    needed, kept = set(names), []
    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(_tensors_read(node))
    small = onnx.ModelProto()
    small.CopyFrom(model)
    for field, values in (("node", reversed(kept)), ("output", ()), ("value_info", ())):
        del getattr(small.graph, field)[:]
        getattr(small.graph, field).extend(values)
    constants = [tensor for tensor in model.graph.initializer if tensor.name in needed]
    del small.graph.initializer[:]
    small.graph.initializer.extend(constants)
    # An input with a default is a constant here: the graph around does not pass it.
    fixed = {tensor.name for tensor in constants}
    inputs = [value for value in model.graph.input if value.name not in fixed]
    del small.graph.input[:]
    small.graph.input.extend(inputs)
    small.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    return small


def _tensors_read(node: Any) -> set[str]:
    """Return the tensors that a node of the graph to export reads, inside its branches too."""
    names = set(node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                names |= _tensors_read(inner)
            names |= {value.name for value in graph.output}
    return names


def _declare(model: onnx.ModelProto, arrays: dict[str, AnyArray]) -> None:
    """Declare the types and shapes of the outputs, as a run has shown them."""
    del model.graph.output[:]
    for name, array in arrays.items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        shape = ["N", *array.shape[1:]]
        model.graph.output.append(helper.make_tensor_value_info(name, kind, shape))
