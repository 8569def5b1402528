"""What TorchScript and exported programs share: the operations around a head, and the program that comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from typica.errors import InputError

# ATen operations that leave it plain which logits were there before; the last ones where they scale
# by a number.
PASSES = {
    *(
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
    ),
    *(
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
    ),
    *("t", "to", "transpose", "unsqueeze", "view"),
}
SCALES = ("div", "mul")
HEADS = {
    "linear": (0, 1, 2),
    "addmm": (1, 2, 0),
}  # where input, weight and bias stand among the arguments
TRAINING = {"dropout": 2, "batch_norm": 5}  # where the flag stands that only training sets


class Program(NamedTuple):
    """A function from images to the tensors asked for and then the logits, and what is known about it.

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

    @classmethod
    def of(
        cls, function: Any, weight: Any, bias: Any, scales: Sequence[Any], turned: bool
    ) -> Program:
        """Return a program whose head is scales[0] * weight, the latter turned if it says so, and scales[1] * bias."""
        weight = scales[0] * (weight.t() if turned else weight).detach()
        return cls(
            function, weight, None if bias is None else scales[1] * bias.detach(), weight.dtype
        )


def in_training(path: Path, where: str) -> InputError:
    """Return the error about a program that drops or normalises as in training."""
    return InputError(
        f"{where}: {path} was made in training mode; call model.eval() and export it again."
    )
