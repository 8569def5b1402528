"""PyTorch, or a message that names the extra; all that needs torch takes it from here."""

from typing import Any

from typica.arrays import AnyArray
from typica.errors import InputError, given, reason_of
from typica.extras import need

need("torch", "torch")

import torch  # noqa: E402 (or else the message above)
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

__all__ = ["Tensor", "check_device", "functional", "nn", "tensor_of", "torch"]


def check_device(device: Any) -> None:
    """Raise unless PyTorch can put numbers on the device and get them back."""
    absent = (RuntimeError, AssertionError, ImportError, TypeError)  # each device has its own
    try:
        torch.zeros(1, device=device).cpu()
    except absent as error:
        reason = reason_of(error).rstrip(".")
        raise InputError(
            f"{given('device', str(device))} cannot be used here ({reason}); "
            "pass another, such as cpu, or leave it out."
        ) from None


def tensor_of(array: AnyArray) -> Tensor:
    """Return an array as a tensor; a copy of one that is read-only, turned round or byte-swapped.

    >>> import numpy as np
    >>> tensor_of(np.array([[1.0, 2.0]], dtype=">f4")[:, ::-1])
    tensor([[2., 1.]])
    """
    turned = any(stride < 0 for stride in array.strides)
    if turned or not array.flags.writeable or not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="), order="C")
    return torch.from_numpy(array)
