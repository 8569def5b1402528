"""A network by a line of text: a known architecture, a file, or a function of yours."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from typica.errors import FormatError, InputError
from typica.files import sha256
from typica.nets import zoo
from typica.nets._result import closest
from typica.nets.extractors._reduce import Reduction

_SCRIPT = (".pt", ".pth", ".torchscript", ".ts")
PROGRAMS = (*_SCRIPT, ".pt2")  # files of PyTorch
_FILES = (*PROGRAMS, ".onnx")
_FORMS = f"a known architecture ({', '.join(zoo.names())}), a file ({', '.join(_FILES)}), or package.module:function"


class Opened(NamedTuple):
    """A network ready to give features.

    extractor: a FeatureExtractor, GraphExtractor or OnnxExtractor. transform: the preprocessing of
    its images, where it is known. identity: JSON values that tell its features from those of
    another network or layer.
    """

    extractor: Any
    transform: Any
    identity: dict[str, Any]


def open_model(
    spec: str,
    weights: Any = None,
    *,
    layer: str | None = None,
    layers: Sequence[str] | None = None,
    head: str | None = None,
    reduce: Reduction = "mean",
) -> Opened:
    """Open a network.

    spec: one of
    - the name of a known architecture (`zoo.names()`), with the file of its weights, or weights="random";
    - a file: TorchScript (.pt, .pth, .torchscript, .ts), torch.export (.pt2) or ONNX (.onnx);
    - "package.module:function", called with no arguments, or with `weights`, which returns an nn.Module, or a pair of
      one and its Preprocessing. This runs the code of that module and function; the current
      directory is searched.
    layer, layers, head, reduce: as for a FeatureExtractor.

    A file is a program, whose operations run. A .pt2 file that could run Python code is refused,
    and so is TorchScript with operations on files.

    >>> opened = open_model("densenet-bc-100", "random")
    >>> opened.extractor.head
    Head(10 classes, 342 features)
    >>> opened.transform.crop
    32
    """
    where = f"open_model({str(spec)!r})"
    spec = str(spec)
    ending = Path(spec).suffix.lower()
    asked = {"layer": layer, "layers": layers, "reduce": reduce}
    known = _zoo_name(spec)
    by_function = known is None and ending not in _FILES and ":" in spec
    if known is not None:
        spec = known
        model, transform = _from_zoo(spec, weights, where), zoo.transform(spec)
        extractor = _extractor(model, {**asked, "head": head})
    elif ending in _FILES:
        for name, value in (("weights", weights), ("head", head)):
            if value is not None:
                raise InputError(
                    f"{where}: {name}={value!r}, but the file holds its own; leave {name} out."
                )
        extractor, transform = _from_file(Path(spec), ending, asked, where), None
    elif by_function:
        model, transform = _from_function(spec, weights, where)
        extractor = _extractor(model, {**asked, "head": head})
    else:
        error = FormatError(f"{where}: not a model; pass {_FORMS}.")
        raise _other_file(Path(spec), ending, where, error) if Path(spec).is_file() else error
    identity = {
        "model": Path(spec).name if ending in _FILES else spec,
        "weights": extractor.fingerprint(),
        "layer": list(layers) if layers is not None else layer,
        "reduce": reduce if isinstance(reduce, str) else _function_name(reduce, where),
    }
    if by_function:
        identity["code"] = _code(spec.rpartition(":")[0])
    return Opened(extractor, transform, identity if head is None else {**identity, "head": head})


def _function_name(function: Any, where: str) -> str:
    """Return what tells a function from all others: its module, its name and its code."""
    name = getattr(function, "__qualname__", None)
    if name is None or "<" in name:
        raise InputError(
            f"{where}: reduce={name or type(function).__name__} has no name that tells it from others; pass a function "
            "defined with def at the top of a module, or mean, max, flatten or cls."
        )
    return f"{function.__module__}.{name} {_code(function.__module__)}"


def _code(module: str) -> str | None:
    """Return the SHA-256 of a module's file: what its functions do may change while names and weights stay."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return None if file is None or not Path(file).is_file() else sha256(Path(file))


def _zoo_name(spec: str) -> str | None:
    """Return the architecture's name, whatever the case and wherever the hyphens."""

    def letters(name: str) -> str:
        return "".join(letter for letter in name.lower() if letter.isalnum())

    return next((name for name in zoo.names() if letters(name) == letters(spec)), None)


def _extractor(model: Any, arguments: dict[str, Any]) -> Any:
    from typica.nets.extractors.torch import FeatureExtractor  # noqa: PLC0415 (needs torch, which is an extra)

    return FeatureExtractor(model, arguments.pop("layer"), **arguments)


def _from_zoo(name: str, weights: Any, where: str) -> Any:
    if weights is None:
        try:
            return zoo.load(name)
        except InputError as error:
            if "no weights come with it" not in str(error):
                raise
            raise InputError(
                f"{where}: no weights come with it; pass weights=FILE (--weights FILE), or 'random' to try it out."
            ) from None
    return zoo.load(name, None if isinstance(weights, str) and weights == "random" else weights)


def _from_file(path: Path, ending: str, asked: dict[str, Any], where: str) -> Any:
    if not path.is_file():
        raise InputError(f"{where}: there is no file {path}; check the path, or pass {_FORMS}.")
    layer = asked.pop("layer")
    if ending == ".onnx":
        from typica.nets.extractors.onnx import OnnxExtractor  # noqa: PLC0415 (with torch, where it is there, costs seconds)

        return OnnxExtractor(path, layer, **asked)
    from typica.nets.extractors.program import GraphExtractor  # noqa: PLC0415 (needs torch, which is an extra)

    try:
        return GraphExtractor(path, layer, **asked)
    except FormatError as error:
        raise _other_file(path, ending, where, error) from error


def _other_file(path: Path, ending: str, where: str, error: FormatError) -> FormatError:
    """Return the error about a file that is no program: what it is instead, and what to do with it."""
    from typica.nets.zoo.checkpoint import read_state  # noqa: PLC0415 (needs torch, which is an extra)

    try:
        read_state(path, where)
    except InputError as other:
        if (
            ending != ".pt2"
            and "pickle that needs code" in str(other)
            and "more than tensors" not in str(other)
        ):
            return FormatError(
                f"{where}: a pickled module needs code, which could do anything, and is refused; where the file is "
                "trusted, return it from a function of yours and pass package.module:function, or save it as .pt2."
            )
        return error
    return FormatError(
        f"{where}: holds weights, not a program; name their architecture and pass the file as its weights: "
        f"--model ZOO_NAME --weights {path} (zoo: {', '.join(zoo.names())}), or pass package.module:function."
    )


def _from_function(spec: str, weights: Any, where: str) -> tuple[Any, Any]:
    module, _, name = spec.rpartition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        made = _function(module, name, where, weights)(*(() if weights is None else (weights,)))
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{where}: it raised {type(error).__name__} ({error}); mend the function."
        ) from error
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(here)
    model, transform = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    from typica.nets._torch import nn  # noqa: PLC0415 (needs torch, which is an extra)

    if not isinstance(model, nn.Module):
        raise InputError(
            f"{where}: returned {type(model).__name__}; return an nn.Module, or a pair of one and its Preprocessing."
        )
    return model, transform


def _function(module: str, name: str, where: str, weights: Any) -> Callable[..., Any]:
    importlib.invalidate_caches()
    try:
        home = importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        what = (
            "pass package.module:function" if module.startswith(missing) else f"{module} needs it"
        )
        raise InputError(
            f"{where}: there is no module {missing!r}; {what}; is it installed, or here?"
        ) from error
    function = getattr(home, name, None)
    if not callable(function):
        names = [
            key for key, value in vars(home).items() if callable(value) and not key.startswith("_")
        ]
        raise InputError(
            f"{where}: {module} has no function {name!r}; it has {closest(name, names) or 'none'}."
        )
    try:
        inspect.signature(function).bind(*(() if weights is None else (weights,)))
    except TypeError as error:
        how = "no arguments" if weights is None else "the weights alone"
        raise InputError(
            f"{where}: it cannot be called with {how} ({error}); write a function that can."
        ) from None
    return cast("Callable[..., Any]", function)
