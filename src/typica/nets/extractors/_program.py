"""What TorchScript and exported programs share: the operations around a head, and the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from typica.errors import InputError

# ATen operations after which the logits before them are still clear.
PASSES = {
    "_log_softmax",
    "_softmax",
    "_to_copy",
    "alias",
    "argmax",
    "clone",
    "contiguous",
    "detach",
    "dropout",
    "flatten",
    "getitem",
    "log_softmax",
    "max",
    "mean",
    "permute",
    "reshape",
    "select",
    "sigmoid",
    "slice",
    "softmax",
    "squeeze",
    "t",
    "to",
    "transpose",
    "unsqueeze",
    "view",
}
SCALES = ("div", "mul")  # the same, where it is by a number
HEADS = {"linear": (0, 1, 2), "addmm": (1, 2, 0)}  # which arguments are input, weight and bias
TRAINING = {"dropout": 2, "batch_norm": 5}  # which argument is the flag that only training sets


class Program(NamedTuple):
    """A function from images to the tensors asked for and then the logits.

    weight (C, m), bias (C,): the head's tensors, None where there is none. sizes: the fewest and
    the most images that it takes at once, the latter None if any number. dtype: of its images.
    from_head: whether the layer "penultimate" is the head's input, not a layer of that name.
    """

    function: Any
    weight: Any
    bias: Any
    dtype: Any
    sizes: tuple[int, int | None] = (1, None)
    from_head: bool = True


def head_tensors(kind: str, weight: Any, bias: Any, alpha: Any, beta: Any) -> tuple[Any, Any]:
    """Return weight (C, m) and bias of an operation `linear`, or `addmm` with its two factors."""
    weight = alpha * (weight.t() if kind == "addmm" else weight).detach()
    return weight, None if bias is None else beta * bias.detach()


def in_training(path: Path) -> InputError:
    """Return the error about a program that drops or normalises as in training."""
    return InputError(f"{path} was made in training mode; call model.eval() and export it again.")
