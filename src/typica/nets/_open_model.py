"""A network by a line of text: a known architecture, a file, or a function of yours."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from typica.data import Images, Preprocessing
from typica.errors import FormatError, InputError, about, argument, border, by_caller, listed
from typica.files import reading
from typica.kinds import STORED, Kind, kind_of
from typica.nets import zoo
from typica.nets._network_of_function import (
    FILES,
    is_function,
    module_exists,
    network_of_function,
)
from typica.nets._probe import probe
from typica.nets._reduce import Reduction, check_reduction
from typica.nets.extractors.dense import load_perceptron
from typica.origin import PROBE, Origin

PROGRAMS = FILES[2:]  # files of PyTorch, which can run code


@dataclass(frozen=True)
class ModelIdentity:
    """What tells an opened model's features from those of another network or layer.

    model: its name. weights: a digest. layer: the feature's, or several. reduce: how maps become
    rows. head: its name, where it was given.
    """

    model: str
    weights: str
    layer: str | list[str] | None
    reduce: str
    head: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return an opened model's identity as banks keep it: JSON, without what does not apply."""
        known = asdict(self)
        if self.head is None:
            del known["head"]
        return known


class Opened(NamedTuple):
    """A network ready to give features.

    Attributes
    ----------
    extractor
        A FeatureExtractor, GraphExtractor, OnnxExtractor or Perceptron.
    transform
        The preprocessing of its images, where it is known.
    identity
        What tells its features from those of another network or layer.
    model_file, weights_file
        Where they are, if they are files.
    answers
        Of a network of code, which its weights do not tell from others: what it gives for one fixed
        image, by preprocessing, as far as it was asked; else None.
    """

    extractor: Any
    transform: Preprocessing | None
    identity: ModelIdentity
    model_file: str | None = None
    weights_file: str | None = None
    answers: dict[Preprocessing, Any] | None = None

    def identity_of(self, images: Images, transform: Preprocessing) -> dict[str, Any]:
        """Return what tells a bank of these images by this network from all others."""
        made = {"transform": transform.to_dict(), "data": images.fingerprint()}
        return {**self.identity.to_dict(), **made, **self._probed(transform)}

    def origin(self, transform: Preprocessing) -> Origin:
        """Return the origin of the features of images that are preprocessed like this."""
        files = {"model_file": self.model_file, "weights_file": self.weights_file}
        made = {"transform": transform.to_dict(), **files, **self._probed(transform)}
        return Origin.from_dict({**self.identity.to_dict(), **made})

    def _probed(self, transform: Preprocessing) -> dict[str, Any]:
        """Return the network's answer to one fixed image, if it is code; asked for once."""
        if self.answers is None:
            return {}
        if transform not in self.answers:
            self.answers[transform] = probe(self.extractor, transform)
        return {PROBE: self.answers[transform]}


@dataclass(frozen=True)
class _Asked:
    """What is wanted of a network."""

    layer: str | None
    layers: Sequence[str] | None
    head: str | None
    reduce: Reduction

    def of_module(self, model: Any) -> Any:
        """Return the extractor of an nn.Module."""
        # Needs torch, which is an extra.
        from typica.nets.extractors.torch import FeatureExtractor  # noqa: PLC0415

        return FeatureExtractor(
            model, self.layer, layers=self.layers, head=self.head, reduce=self.reduce
        )

    def of(self, name: str, extractor: Any, transform: Preprocessing | None) -> Opened:
        """Return the network that an extractor runs."""
        identity = ModelIdentity(
            model=name,
            weights=extractor.fingerprint(),
            layer=self.layer if self.layers is None else list(self.layers),
            reduce=self.reduce if isinstance(self.reduce, str) else _function_name(self.reduce),
            head=self.head,
        )
        return Opened(extractor, transform, identity, answers={} if callable(self.reduce) else None)


@border
def open_model(
    spec: Any,
    weights: Any = None,
    *,
    layer: str | None = None,
    layers: Sequence[str] | None = None,
    head: str | None = None,
    reduce: Reduction = "mean",
    trust: bool = False,
) -> Opened:
    """Open a network.

    It is named by one of

    - the name of a known architecture (`zoo.list_architectures()`), with the file of its weights,
      or weights="random";
    - an ONNX file (.onnx), or a Perceptron's (.safetensors);
    - "package.module:function", called with no arguments, or with `weights`, which returns an
      nn.Module, or a pair of one and its Preprocessing; a class, or a function that takes no
      weights, is given those of a checkpoint afterwards. This runs the code of that module and
      function; the current directory is searched last. To name it, in this very call, is to agree;
    - a file of TorchScript (.pt, .pth, .torchscript, .ts) or torch.export (.pt2), with trust=True:
      such a file can run any code when it is loaded;
    - an nn.Module.

    Parameters
    ----------
    spec
        The network, in one of these forms.
    weights
        A file, where the network does not bring its own.
    layer, layers, head, reduce
        As for a FeatureExtractor.
    trust
        Whether a TorchScript or .pt2 file may be loaded.

    >>> opened = open_model("densenet-bc-100", "random")
    >>> opened.extractor.head
    Head(10 classes, 342 features)
    >>> opened.transform.crop
    32
    """
    check_reduction(reduce)
    asked = _Asked(layer, layers, head, reduce)
    if not isinstance(spec, str | os.PathLike):
        if weights is not None:
            raise InputError("weights for a module, which has its own; leave weights out.")
        kind = type(spec)
        opened = asked.of(f"{kind.__module__}.{kind.__qualname__}", asked.of_module(spec), None)
        return opened._replace(answers={})
    with reading(spec, "not a model that can be read", "export it again"):
        return _open(str(spec), weights, asked, trust)


def _open(spec: str, weights: Any, asked: _Asked, trust: bool) -> Opened:
    name = zoo.find(spec)
    if name is not None:
        return _open_architecture(name, weights, asked)
    if Path(spec).suffix.lower() in FILES:
        return _open_file(Path(spec), weights, asked, trust)
    if is_function(spec):
        with about(spec):
            return _open_function(spec, weights, asked)
    raise _no_model(spec)


def _open_architecture(name: str, weights: Any, asked: _Asked) -> Opened:
    with about(name):
        model = _from_zoo(name, weights)
        opened = asked.of(name, asked.of_module(model), zoo.transform(name))
    return opened._replace(weights_file=_file_to_reopen(weights))


def _open_file(path: Path, weights: Any, asked: _Asked, trust: bool) -> Opened:
    for key, value in (("weights", weights), ("head", asked.head)):
        if value is not None:
            raise InputError(
                f"{path}: {key}={value!r}, but the file holds its own; leave {key} out."
            )
    opened = asked.of(path.name, _from_file(path, asked, trust), None)
    return opened._replace(model_file=_file_to_reopen(path))


def _open_function(spec: str, weights: Any, asked: _Asked) -> Opened:
    """Open what a function makes; to name it is to agree to its code."""
    model, transform = network_of_function(spec, weights)
    opened = asked.of(spec, asked.of_module(model), transform)
    return opened._replace(weights_file=_file_to_reopen(weights), answers={})


def _no_model(spec: str) -> FormatError:
    """Return the error about what is not a model, by what it is instead."""
    path = Path(spec)
    if path.suffix == ".py" and path.is_file():
        return _python_file(path)
    if path.is_file() and (other := _other_file(path)) is not None:
        return other
    found, named = kind_of(path), spec or "''"
    if found is not None:
        return FormatError(f"{named}: {found}, not a network; pass {_forms()}.")
    return FormatError(f"{named}: not a model{_meant(spec)}; pass {_forms()}.")


def _forms() -> str:
    """Return the ways to name a network, for a message."""
    known, files = ", ".join(zoo.list_architectures()), ", ".join(FILES)
    itself = by_caller(", or an nn.Module itself", "")
    return f"a known architecture ({known}), a file ({files}), or package.module:function{itself}"


def _meant(spec: str) -> str:
    """Return a question about a function that is named with a dot in place of the colon."""
    module, _, name = spec.rpartition(".")
    return f" (did you mean {module}:{name}?)" if module and module_exists(module) else ""


def _python_file(path: Path) -> FormatError:
    """Return the error about a file of code, with the names in it; none of it is run."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError, RecursionError):
        body = []
    names = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    named = f"{path.stem}:{names[-1] if names else 'FUNCTION'}"
    has = f" (it has {listed(names, quoted=True)})" if names else ""
    return FormatError(
        f"{path}: a file of Python; name the class or function in it that makes the network{has}, "
        f"from the folder it lies in: {argument('model', named)}."
    )


def _file_to_reopen(name: Any) -> str | None:
    """Return where a model's or weights' file lies, to reopen it from any folder, or None."""
    if not isinstance(name, str | os.PathLike) or not Path(name).is_file():
        return None
    return str(Path(name).resolve())


def _function_name(function: Any) -> str:
    """Return what tells a network's `reduce` from other functions: its module and name."""
    name = getattr(function, "__qualname__", None)
    if name is None or "<" in name:
        raise InputError(
            f"reduce={name or type(function).__name__} has no name that tells it from others; "
            "pass a function defined with def at the top of a module, or mean, max, flatten or cls."
        )
    return f"{function.__module__}:{name}"


def _from_zoo(name: str, weights: Any) -> Any:
    bundled = weights is None or (isinstance(weights, str) and weights == "bundled")
    if bundled and not zoo.has_weights(name):
        raise InputError(
            f"no weights come with it; pass {argument('weights', 'FILE')}, or 'random' to try it "
            "out."
        )
    if bundled:
        return zoo.load(name)
    return zoo.load(name, None if isinstance(weights, str) and weights == "random" else weights)


def _from_file(path: Path, asked: _Asked, trust: bool) -> Any:
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; check the path, or pass {_forms()}.")
    if path.suffix.lower() == ".onnx":
        # With torch, where it is there, costs seconds.
        from typica.nets.extractors.onnx import OnnxExtractor  # noqa: PLC0415

        return OnnxExtractor(path, asked.layer, layers=asked.layers, reduce=asked.reduce)
    if path.suffix.lower() == ".safetensors":
        return _from_numbers(path, asked)
    # Needs torch, which is an extra.
    from typica.nets.extractors.program import GraphExtractor  # noqa: PLC0415

    if not trust and (other := _other_file(path)) is not None:
        raise other  # to trust it would not help
    try:
        return GraphExtractor(
            path, asked.layer, layers=asked.layers, reduce=asked.reduce, trust=trust
        )
    except FormatError as error:
        raise (_other_file(path) or error) from error


def _from_numbers(path: Path, asked: _Asked) -> Any:
    """Return the network in a file of numbers; others of its kind hold weights, or a detector."""
    found = kind_of(path)
    if found == Kind.NETWORK:
        with about(str(path)):
            return load_perceptron(path).giving(asked.layer, asked.layers)
    if found in STORED:
        raise FormatError(f"{path}: {found}, not a network; pass {_forms()}.")
    raise _other_file(path) or FormatError(f"{path}: not a model; pass {_forms()}.")


def _other_file(path: Path) -> FormatError | None:
    """Return the error about a file of weights or a pickled module, None for other files."""
    # Needs torch, which is an extra.
    from typica.nets.zoo.checkpoint import PickledCodeError, read_state  # noqa: PLC0415

    try:
        read_state(path)
    except PickledCodeError as error:
        if path.suffix.lower() == ".pt2" or error.name is None:
            return None
        return FormatError(
            f"{path}: a pickled module needs code, which could do anything, and is refused; where "
            "the file is trusted, return it from a function of yours and pass "
            "package.module:function, or export it to ONNX."
        )
    except InputError:
        return None
    known = ", ".join(zoo.list_architectures())
    return FormatError(
        f"{path}: holds weights, not a program; name their architecture and pass the file as its "
        f"weights: {argument('model', 'ZOO_NAME')} {argument('weights', str(path))} "
        f"(zoo: {known}), or the class of a network of your own, from the folder of its code: "
        f"{argument('model', 'FILE:CLASS')} {argument('weights', str(path))}."
    )
