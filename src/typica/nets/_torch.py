"""PyTorch, or a message that names the extra; all that needs torch takes it from here."""

from typica.extras import need

need("torch", "torch")

import torch  # noqa: E402 (or else the message above)
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

__all__ = ["Tensor", "functional", "nn", "torch"]
