"""Features from an ONNX file, by ONNX Runtime: no PyTorch needed."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import Any, ClassVar

import numpy as np

from typica.arrays import AnyArray, namespace, to_numpy
from typica.bombs import allowance
from typica.errors import FormatError, InputError, about, argument, border, listed, reason_of
from typica.extras import need
from typica.files import existing, sha256
from typica.head import Head
from typica.nets._extracted_batch import (
    Extraction,
    closest_names,
    in_pieces,
    is_float_matrix,
    returned_logits,
    wanted_layers,
)
from typica.nets._reduce import Reduction, check_reduction, reduced, reduced_logits
from typica.nets.extractors._onnx_constants import check_constants
from typica.nets.extractors._onnx_graph import Graph, Linear
from typica.nets.runtimes.ort import session
from typica.origin import PENULTIMATE

_TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
}
_LARGEST = 2**31 - 2**20  # a protobuf message ends at 2 GiB


class OnnxExtractor:
    """Runs an ONNX model and keeps what its tensors hold; called as a FeatureExtractor is.

    It gives NumPy arrays. The head is the last Gemm, MatMul (with an Add or without) or 1x1 Conv
    with constant weights that leads to an output of the graph, through softmax, reshaping and the
    like; an output called "logits" goes first. Logits are what it gives. A model that was exported
    for a fixed batch size is run in batches of that size, the last one padded.

    Parameters
    ----------
    model
        The path of a file, whose weights may be in files beside it, or its bytes.
    layer
        The name of the tensor that is the feature; None takes the input of the head.
    layers
        Several names at once, "penultimate" for the head's input; the last of them gives
        `.features`.
    reduce
        How tensors of more than two dimensions become one row per input, as for a
        FeatureExtractor; a function is given a NumPy array.

    >>> import onnx.parser
    >>> model = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["" : 17]>
    ...    tiny (float[n, 2] x) => (float[n, 2] y)
    ...    <float[2, 2] w = {1, 0, 0, 2}, float[2] b = {0, 1}>
    ...    { h = Relu (x)  y = Gemm (h, w, b) }''')
    >>> extractor = OnnxExtractor(model.SerializeToString())
    >>> extractor(np.array([[3, -4]], dtype=np.float32)).features
    array([[3., 0.]], dtype=float32)
    >>> extractor.head
    Head(2 classes, 2 features)
    >>> extractor.describe()
    "tiny: features are the input of the head ('h'); the head is Gemm 'y' (2 classes)."
    """

    backend: ClassVar = "onnx"  # what runs it as it is

    @border
    def __init__(
        self,
        model: str | Path | bytes,
        layer: str | None = None,
        *,
        layers: Sequence[str] | None = None,
        reduce: Reduction = "mean",
    ) -> None:
        self.layers = wanted_layers(layer, layers)
        check_reduction(reduce)
        self.reduce = reduce
        proto, self._fingerprint, self._source = _read(model)
        self.name = proto.graph.name or "ONNX graph"
        graph = Graph(proto)
        self._head = graph.head()
        # A tensor of that name goes first, unless no layer was asked for.
        own = (layer is not None or layers is not None) and PENULTIMATE in graph.tensors
        self._from_head = PENULTIMATE in self.layers and not own
        self._check(graph)
        self._returned = graph.outputs
        self.outputs = self._wanted_outputs(graph)
        graph.give(self.outputs)
        self.program = _stored(proto, self)
        with about(self._source):
            self._session = session(self.program)
        self.input, self._type, self.sizes = self._taken()
        self.takes = self._session.get_inputs()[0].shape  # numbers, and names of what may vary

    def _wanted_outputs(self, graph: Graph) -> list[str]:
        """Return the names of the tensors to compute: around the head, of layers, and returned."""
        around = [] if self._head is None else [self._head.features, self._head.logits]
        asked = [name for name in self.layers if not self._is_input(name)]
        names = dict.fromkeys([*around, *asked, *graph.outputs])
        return [name for name in names if name != graph.inputs[0].name]

    def _taken(self) -> tuple[str, Any, tuple[int, int | None]]:
        """Return the input's name and type, and the fewest and the most images at once."""
        value = self._session.get_inputs()[0]
        dtype = _TYPES.get(value.type)
        if dtype is None:
            raise InputError(f"{self._source} takes {value.type}; pass a model that takes images.")
        fixed = value.shape[0] if value.shape and isinstance(value.shape[0], int) else None
        return value.name, dtype, (fixed or 1, fixed)

    @border
    def __call__(self, images: Any) -> Extraction:
        """Run one batch, an array or tensor, (n, ...)."""
        return in_pieces(self.prepared(images), self.sizes, self._run, np.concatenate)

    def prepared(self, images: Any) -> AnyArray:
        """Return a batch as an array of the type that the model takes."""
        if not hasattr(images, "shape") or not len(images.shape):
            raise InputError(
                f"got {type(images).__name__}; pass a batch as an array or tensor, (n, ...)."
            )
        array = to_numpy(images)
        if self.takes_bytes and _are_unscaled(array):
            array = array.astype(np.uint8)
        if self.takes_bytes != (array.dtype == np.uint8):
            raise InputError(
                f"the model takes {np.dtype(self._type).name} and got {array.dtype}; "
                "preprocess the images as the model expects them, for uint8 with scale 1."
            )
        return np.ascontiguousarray(array, dtype=self._type)

    @property
    def takes_bytes(self) -> bool:
        """Whether the model takes pixels as they are, from 0 to 255."""
        return bool(self._type == np.uint8)

    def _run(self, images: AnyArray) -> Extraction:
        try:
            arrays = self._session.run(self.outputs, {self.input: images})
        except Exception as error:  # ONNX Runtime's kinds of errors share no base
            raise InputError(
                f"images of shape {images.shape} do not fit the model ({reason_of(error)}); "
                "pass the shape that it was exported for, or export it with a dynamic batch size."
            ) from error
        return self.extraction(images, arrays)

    def extraction(self, images: AnyArray, arrays: Sequence[AnyArray]) -> Extraction:
        """Return what a run gave: its `images` and the arrays of `outputs`, in that order."""
        found = {self.input: images, **dict(zip(self.outputs, arrays, strict=True))}
        return self.rows(found, self.layers)

    def rows(self, found: Mapping[str, Any], layers: Sequence[str]) -> Extraction:
        """Return the rows of layers, of the tensors by name that are behind them and the logits."""
        reduced_to = {}
        for name in layers:
            with about(f"layer {name!r}"):
                reduced_to[name] = reduced(self._value(name, found), self.reduce)
        return Extraction(reduced_to[layers[-1]], self._logits(found), reduced_to)

    def tensors(self, layer: str) -> list[str]:
        """Return the names of the tensors behind a layer, and of those that the logits may be."""
        if self._head is None:
            return list(dict.fromkeys([layer, *self._returned]))
        features = self._head.features if self._is_input(layer) else layer
        return list(dict.fromkeys([features, self._head.logits]))

    def _value(self, name: str, found: Mapping[str, Any]) -> Any:
        if not self._is_input(name) or self._head is None:
            return found[name]
        return _rows(found[self._head.features], self._head, self._head.features_turned)

    def _logits(self, found: Mapping[str, Any]) -> Any:
        if self._head is None:
            outputs = [(name, found[name]) for name in self._returned if name in found]
            return returned_logits(outputs, is_float_matrix)
        rows = _rows(found[self._head.logits], self._head, self._head.logits_turned)
        return reduced_logits(rows, self.reduce)

    def _is_input(self, name: str) -> bool:
        """Tell whether a layer is the head's input."""
        return self._from_head and name == PENULTIMATE

    @property
    @border
    def head(self) -> Head:
        """The last linear layer."""
        if self._head is None:
            raise InputError(f"{self._no_head()}.")
        return Head(self._head.weight, self._head.bias)

    def describe(self) -> str:
        """Say in a sentence what the features are and where the head was found."""
        name, head = self.layers[-1], self._head
        if head is None:
            return f"{self.name}: features are the tensor {name!r}; there is no linear head."
        source = f"the tensor {name!r}"
        if self._is_input(name):
            source = f"the input of the head ({head.features!r})"
        told = f"the head is {head.name} ({len(head.weight)} classes)"
        return f"{self.name}: features are {source}; {told}."

    def fingerprint(self) -> str:
        """Return the SHA-256 of the file, followed by the weights beside it if there are any."""
        return self._fingerprint

    def __repr__(self) -> str:
        return f"OnnxExtractor({self._source}, layers={self.layers})"

    # How it is done

    def _check(self, graph: Graph) -> None:
        if len(graph.inputs) != 1:
            names = listed([value.name for value in graph.inputs], quoted=True)
            raise InputError(
                f"{self._source} takes {names}; pass a model with one input, the images."
            )
        if self._from_head and self._head is None:
            last = listed(graph.tensors[-8:], quoted=True)
            raise InputError(f"{self._no_head()}; the last tensors are {last}.")
        for name in self.layers:
            if name not in graph.tensors and not self._is_input(name):
                raise InputError(
                    f"{self._source} has no tensor {name!r}; "
                    f"closest: {closest_names(name, graph.tensors)}."
                )

    def _no_head(self) -> str:
        return (
            "no Gemm, MatMul or 1x1 Conv with constant weights gives the output of "
            f"{self._source}; pass {argument('layer', 'TENSOR')}"
        )


def _are_unscaled(array: AnyArray) -> bool:
    """Tell whether an ONNX model is given whole numbers from 0 to 255: pixels not scaled.

    If the largest is 1, white was scaled to it.
    """
    if array.dtype.kind != "f" or not array.size:
        return False
    within = array.min() >= 0 and array.max() <= 255 and array.max() != 1
    return bool(within and np.array_equal(array, np.floor(array)))


def _rows(x: Any, head: Linear, turned: bool) -> Any:
    """Return a tensor of a head as (n, m), tokens (n, t, m) or maps (n, m, h, w)."""
    xp = namespace(x)
    if turned:
        x = xp.matrix_transpose(x)
    if head.maps or x.ndim <= 3:
        return x
    return xp.reshape(x, (x.shape[0], -1, x.shape[-1]))


def _read(model: str | Path | bytes) -> tuple[Any, str, str]:
    """Return a model with all its weights, its fingerprint, and what to call it in messages."""
    if isinstance(model, bytes):
        path, source, content = None, "the model", model
    else:
        path = existing(model)
        source, content = str(path), path.read_bytes()
    proto = _parsed(content, source)
    digest = _load_external(proto, source, path) or hashlib.sha256(content).hexdigest()
    if proto.functions:
        proto = need("onnx.inliner", "onnx").inline_local_functions(proto)
    with about(source):
        check_constants(proto, allowance(len(content)))
    return proto, digest, source


def _parsed(content: bytes, source: str) -> Any:
    onnx = need("onnx", "onnx")
    try:
        proto = onnx.load_model_from_string(content)
    except Exception:  # protobuf's own kinds of errors, which differ between its versions
        proto = None
    if proto is None or not proto.graph.node:
        raise FormatError(f"{source} is not an ONNX model; write one with torch.onnx.export.")
    return proto


def _load_external(proto: Any, source: str, path: Path | None) -> str | None:
    """Load weights that lie beside a model's file; return the digest of all, None for none."""
    helper = need("onnx.external_data_helper", "onnx")
    to_array = need("onnx.numpy_helper", "onnx").to_array
    tensors = [tensor for tensor in _tensors(proto) if helper.uses_external_data(tensor)]
    names = sorted({_location(tensor) for tensor in tensors})
    if not names:
        return None
    if path is None:
        raise InputError(f"{source} keeps weights in {listed(names)}; pass the path of its file.")
    for name in names:
        if not _stays_beside(name):
            raise FormatError(
                f"{path} keeps weights in {name!r}, outside its folder; export it again, with its "
                "weights beside it."
            )
    with about(f"{path} keeps weights in another file"):
        files = [existing(path.parent / name) for name in names]
    try:
        for tensor in tensors:
            helper.load_external_data_for_tensor(tensor, str(path.parent))
            tensor.ClearField("data_location")
            del tensor.external_data[:]
            to_array(tensor)  # older onnx says only here that the file is too short
    except Exception as error:  # of files that are too short or elsewhere, by onnx and the system
        raise FormatError(
            f"{path}: its weights in {listed(names)} cannot be read ({reason_of(error)}); "
            "export it again, or copy them whole."
        ) from error
    return sha256(path, *files)


def _tensors(message: Any) -> Iterator[Any]:
    """Yield every tensor in a model: of graphs and subgraphs, attributes, functions, training."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in [value] if hasattr(value, "ListFields") else value:
            if field.message_type.name == "TensorProto":
                yield part
            else:
                yield from _tensors(part)


def _location(tensor: Any) -> str:
    """Return the name of the file that holds a tensor; of several entries the last counts."""
    entries: dict[str, str] = {entry.key: entry.value for entry in tensor.external_data}
    return entries.get("location", "")


def _stays_beside(name: str) -> bool:
    """Tell whether a file named in a model lies in the model's folder, on any system."""
    parts = PureWindowsPath(name).parts
    return bool(parts) and ".." not in parts and not PureWindowsPath(name).anchor


def _stored(proto: Any, owner: OnnxExtractor) -> bytes | Path:
    """Return a model as bytes, or, if too large, as a file that is deleted with its owner."""
    if proto.ByteSize() < _LARGEST:
        content: bytes = proto.SerializeToString()
        return content
    folder = tempfile.mkdtemp(prefix="typica-")
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "model.onnx")
    need("onnx", "onnx").save_model(proto, path, save_as_external_data=True, location="weights")
    return path
