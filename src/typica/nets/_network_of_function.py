"""A network that a function or class of the user makes, by `package.module:function`."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, cast

from typica.data import Preprocessing
from typica.errors import InputError
from typica.nets import zoo
from typica.nets._extracted_batch import closest_names

FILES = (".onnx", ".safetensors", ".pt", ".pth", ".torchscript", ".ts", ".pt2")  # of models


def is_function(spec: Any) -> bool:
    """Tell whether a network is named as package.module:function, whose code has to run."""
    if not isinstance(spec, str) or ":" not in spec or zoo.find(spec) is not None:
        return False
    return Path(spec).suffix.lower() not in FILES


def module_exists(name: str) -> bool:
    """Tell whether there is a module of this name, installed or in this folder; none is run."""
    importlib.invalidate_caches()
    folders: Sequence[str] | None = [*sys.path, str(Path.cwd())]
    for part in name.split("."):
        found = PathFinder.find_spec(part, folders)
        if found is None:
            return False
        folders = found.submodule_search_locations
    return True


def network_of_function(spec: str, weights: Any) -> tuple[Any, Preprocessing | None]:
    """Return the nn.Module that a function makes, with weights, and the Preprocessing it names."""
    module, _, name = spec.rpartition(":")
    with _code_of_the_user():
        function = _function(module, name)
        given = weights is not None and _takes_weights(function, weights)
        arguments = (weights,) if given else ()
        _check_call(function, arguments)
        made = function(*arguments)
    model, transform = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    from typica.nets._torch import nn  # noqa: PLC0415 (needs torch, which is an extra)

    if not isinstance(model, nn.Module):
        raise InputError(
            f"returned {type(model).__name__}; "
            "return an nn.Module, or a pair of one and its Preprocessing."
        )
    if transform is not None and not isinstance(transform, Preprocessing):
        raise InputError(
            f"returned a module and {type(transform).__name__}; "
            "return it alone, or with its typica.data.Preprocessing."
        )
    if weights is not None and not given:
        # Needs torch, which is an extra.
        from typica.nets.zoo.checkpoint import fill, read_state  # noqa: PLC0415

        state = read_state(weights, own=model.state_dict().keys())
        fill(model, state, str(weights), copy=True)
    return model, transform


def _takes_weights(function: Callable[..., Any], weights: Any) -> bool:
    """Tell whether weights are what a function is called with.

    A class or function without parameters, or whose first is a number such as a count of classes,
    is called with none, and the network is given the weights afterwards.
    """
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if not parameters or isinstance(parameters[0].default, int | float):
        return False
    return _binds(signature, (weights,)) or not _binds(signature, ())


def _binds(signature: inspect.Signature, arguments: tuple[Any, ...]) -> bool:
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


@contextlib.contextmanager
def _code_of_the_user() -> Iterator[None]:
    """Find modules in the current directory too, for a while, and say what their code raises.

    It comes last: a file that happens to be there takes the place of no installed package. No
    bytecode is written: Python would run it in place of a module that changes within a second.
    """
    here, written = str(Path.cwd()), sys.dont_write_bytecode
    sys.path.append(here)
    sys.dont_write_bytecode = True
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"it raised {type(error).__name__} ({error}); fix the function."
        ) from error
    finally:
        sys.dont_write_bytecode = written
        if here in sys.path:
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(here)]


def _function(module: str, name: str) -> Callable[..., Any]:
    importlib.invalidate_caches()
    try:
        home = importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        advice = f"{module} needs it: install it"
        if module.startswith(missing):
            advice = "pass package.module:function of one that is installed, or that lies here"
        raise InputError(f"there is no module {missing!r}; {advice}.") from error
    function = getattr(home, name, None)
    if not callable(function):
        public = [key for key in vars(home) if not key.startswith("_")]
        names = [key for key in public if callable(getattr(home, key))]
        raise InputError(
            f"{module} ({getattr(home, '__file__', 'built in')}) has no function {name!r}; it has "
            f"{closest_names(name, names) or 'none'}."
        )
    return cast("Callable[..., Any]", function)


def _check_call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        how = "the weights alone" if arguments else "no arguments"
        raise InputError(
            f"it cannot be called with {how} ({error}); write a function that can."
        ) from None
