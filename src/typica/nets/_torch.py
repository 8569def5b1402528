"""PyTorch, or a message that names the extra; all that needs torch takes it from here."""

from typica.errors import InputError

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise InputError(
        "typica.nets: PyTorch is not installed; install the extra 'torch': "
        "pip install 'typica[torch]'."
    ) from None

__all__ = ["functional", "nn", "torch"]
