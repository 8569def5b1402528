"""Checkpoints in: tensors only, never code.

A file is read with `torch.load(..., weights_only=True)` or as safetensors. The state dict may lie
under a key such as `state_dict`, and every key may carry a prefix that a wrapper has left
(`module.`, `_orig_mod.`, `model.`).
"""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from typica.errors import FormatError, InputError
from typica.nets._torch import torch

_PLACES = ("state_dict", "model_state_dict", "model", "net", "state_dict_ema")
_PREFIXES = ("module.", "_orig_mod.", "model.", "net.")
_LISTED = 5  # keys that a message names before it says how many more there are


def read_state(weights: Any, where: str) -> dict[str, Any]:
    """Return the tensors of a checkpoint by their key, without wrappers' prefixes.

    weights: the path of a file, or a mapping that is a checkpoint already.
    """
    content = weights if isinstance(weights, Mapping) else _read(Path(weights), where)
    source = "the mapping" if isinstance(weights, Mapping) else str(weights)
    state = _tensors(content)
    for place in _PLACES:
        if not state and isinstance(content, Mapping):
            state = _tensors(content.get(place))
    if not state:
        raise FormatError(
            f"{where}: {source} holds no tensors; pass a state dict, model.state_dict()."
        )
    # Wrappers may be nested, so prefixes are taken off until none is on every key.
    while prefix := next(
        (prefix for prefix in _PREFIXES if all(key.startswith(prefix) for key in state)), ""
    ):
        state = {key.removeprefix(prefix): value for key, value in state.items()}
    return state


def _tensors(content: Any) -> dict[str, Any]:
    if not isinstance(content, Mapping):
        return {}
    return {str(key): value for key, value in content.items() if isinstance(value, torch.Tensor)}


def _read(path: Path, where: str) -> Any:
    if not path.is_file():
        raise InputError(f"{where}: there is no file {path}; pass the path of a checkpoint.")
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file  # noqa: PLC0415 (needs torch, which is an extra)

        try:
            return load_file(path)
        except SafetensorError as error:
            raise FormatError(
                f"{where}: {path} is not a safetensors file ({error}); download it again."
            ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # about TorchScript and pickle protocols: said below
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL (\S+)", str(error))
        what = found[1] if found else "more than tensors"
        raise FormatError(
            f"{where}: {path} is a pickle that needs code ({what}), which could do anything and is refused; "
            "where the file is trusted, load it and torch.save(model.state_dict(), FILE)."
        ) from None
    except (
        RuntimeError,
        EOFError,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        OSError,
    ) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:120]
        raise FormatError(
            f"{where}: {path} is not a readable checkpoint ({reason}); "
            "pass a state dict saved by torch.save, or a .safetensors file."
        ) from None


def fill(model: Any, state: Mapping[str, Any], where: str, source: str) -> None:
    """Copy `state` into `model`; raise, naming the keys, unless they are the model's, in its shapes."""
    own = model.state_dict()
    # Files from before torch 0.4.1 lack this counter, which only training reads.
    missing = [key for key in own if key not in state and not key.endswith("num_batches_tracked")]
    unexpected = [key for key in state if key not in own]
    misshaped = [
        f"{key} {tuple(state[key].shape)} instead of {tuple(value.shape)}"
        for key, value in own.items()
        if key in state and state[key].shape != value.shape
    ]
    found = [
        f"{len(keys)} key(s) {what}: {_some(keys)}"
        for keys, what in (
            (missing, "missing"),
            (unexpected, "unexpected"),
            (misshaped, "of another shape"),
        )
        if keys
    ]
    if found:
        raise InputError(
            f"{where}: {source} does not fit; {'; '.join(found)}; pass a checkpoint of this architecture."
        )
    model.load_state_dict(dict(state), strict=False)


def _some(keys: Iterable[str]) -> str:
    keys = list(keys)
    more = f" and {len(keys) - _LISTED} more" if len(keys) > _LISTED else ""
    return ", ".join(keys[:_LISTED]) + more
