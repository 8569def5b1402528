"""Checkpoints in: tensors only, never code.

A file is read with `torch.load(..., weights_only=True)` or as safetensors. The state dict may lie
under a key such as `state_dict`, and every key may carry a prefix that a wrapper has left
(`module.`, `_orig_mod.`, `model.`).
"""

from __future__ import annotations

import os
import pickle
import pickletools
import warnings
import zipfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from typica.errors import FormatError, InputError, listed, reason_of
from typica.files import existing, reading
from typica.nets._torch import torch

_PLACES = ("state_dict", "model_state_dict", "model", "net", "state_dict_ema")
_PREFIXES = ("module.", "_orig_mod.", "model.", "net.")
_LISTED = 5  # keys that a message names before it says how many more there are


def read_state(weights: Any, own: Collection[str] = ()) -> dict[str, Any]:
    """Return the tensors of a checkpoint by their key, without wrappers' prefixes.

    weights: the path of a file, or a mapping that is a checkpoint already. own: the keys of the
    model that it is for, where that is known; a prefix that these have too is not a wrapper's.
    """
    content = weights if isinstance(weights, Mapping) else _read(weights)
    source = "the mapping" if isinstance(weights, Mapping) else str(weights)
    state = _state_dict(content)
    if not state:
        raise FormatError(f"{source} holds no tensors; pass a state dict, model.state_dict().")
    # Wrappers may be nested, so prefixes are taken off until none is on every key.
    while state.keys().isdisjoint(own) and (prefix := _shared_prefix(state)):
        state = {key.removeprefix(prefix): value for key, value in state.items()}
    return state


def _state_dict(content: Any) -> dict[str, Any]:
    """Return the tensors in the usual places of a checkpoint, else those that lie beside them."""
    if not isinstance(content, Mapping):
        return {}
    for place in _PLACES:
        if state := _tensors(content.get(place)):
            return state
    return _tensors(content)


def _shared_prefix(keys: Iterable[str]) -> str:
    """Return a wrapper's prefix that every key has, or ""."""
    for prefix in _PREFIXES:
        if all(key.startswith(prefix) for key in keys):
            return prefix
    return ""


def _tensors(content: Any) -> dict[str, Any]:
    if not isinstance(content, Mapping):
        return {}
    return {str(key): value for key, value in content.items() if isinstance(value, torch.Tensor)}


def _read(weights: Any) -> Any:
    if not isinstance(weights, str | os.PathLike):
        raise InputError(
            f"got {type(weights).__name__}; pass the path of a checkpoint, or a state dict."
        )
    path = existing(weights, "pass the path of a checkpoint")
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file  # noqa: PLC0415 (needs torch, which is an extra)

        with reading(path, "is not a safetensors file", "download it again"):
            return load_file(path)
    try:
        with warnings.catch_warnings():
            # About TorchScript and pickle protocols: said below.
            warnings.simplefilter("ignore", UserWarning)
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if not zipfile.is_zipfile(path) and not _is_pickle(path):
            raise _unreadable(path, error) from None
        raise PickledCodeError(path, _code_in(path)) from None
    except Exception as error:  # torch.load raises nearly every kind for damaged files
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> FormatError:
    return FormatError(
        f"{path} is not a readable checkpoint ({reason_of(error, 120)}); "
        "pass a state dict saved by torch.save, or a .safetensors file."
    )


def _is_pickle(path: Path) -> bool:
    """Tell whether a checkpoint begins with a whole pickle; none of it is run."""
    with path.open("rb") as file:
        try:
            for _ in pickletools.genops(file):
                pass
        except Exception:  # what is not a pickle raises nearly every kind
            return False
    return True


def _code_in(path: Path) -> str | None:
    """Return the name of code that a checkpoint needs, where torch can tell without running it."""
    try:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except Exception:  # damaged files and those of old versions raise nearly every kind
        return None
    return min(names, default=None)


class PickledCodeError(FormatError):
    """A checkpoint that holds more than tensors. name: of the code that it needs, if it says so."""

    def __init__(self, path: Path, name: str | None) -> None:
        super().__init__(
            f"{path} is a pickle that needs code ({name or 'more than tensors'}), which could do "
            "anything and is refused; where the file is trusted, load it and "
            "torch.save(model.state_dict(), FILE)."
        )
        self.name = name


def fill(model: Any, state: Mapping[str, Any], source: str, *, copy: bool) -> None:
    """Give a model the tensors of `state`, or copies; raise unless names and shapes fit."""
    own = model.state_dict()
    misfits = _misfits(own, state)
    if misfits:
        raise InputError(
            f"{source} does not fit; {'; '.join(misfits)}; pass a checkpoint of this architecture."
        )
    tensors = {}
    for key, value in own.items():
        given = state[key] if key in state else torch.zeros(value.shape)
        tensors[key] = given.detach().to("cpu", value.dtype, copy=copy).contiguous()
    model.load_state_dict(tensors, assign=True)


def _misfits(own: Mapping[str, Any], state: Mapping[str, Any]) -> list[str]:
    """Return what keeps a state from fitting: keys that are missing, unexpected or misshaped."""
    # Files from before torch 0.4.1 lack this counter, which only training reads.
    needed = [key for key in own if not key.endswith("num_batches_tracked")]
    kinds = {
        "missing": [key for key in needed if key not in state],
        "unexpected": [key for key in state if key not in own],
        "of another shape": _misshaped(own, state),
    }
    found = {what: keys for what, keys in kinds.items() if keys}
    return [f"{len(keys)} key(s) {what}: {listed(keys, _LISTED)}" for what, keys in found.items()]


def _misshaped(own: Mapping[str, Any], state: Mapping[str, Any]) -> list[str]:
    misshaped = []
    for key, value in own.items():
        if key in state and state[key].shape != value.shape:
            misshaped.append(f"{key} {tuple(state[key].shape)} instead of {tuple(value.shape)}")
    return misshaped
