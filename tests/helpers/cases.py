"""The data on which Typica and other people's code are both run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from typica import Head


class Case(NamedTuple):
    """Training features with labels, features to be scored, and the head: all float64."""

    train: NDArray[np.float64]
    labels: NDArray[np.int64]
    queries: NDArray[np.float64]
    head: Head

    @property
    def logits(self) -> NDArray[np.float64]:
        """The logits of the features to be scored."""
        return np.asarray(self.head.logits(self.queries))

    @property
    def linear(self) -> torch.nn.Linear:
        """The head as a module."""
        layer = torch.nn.Linear(self.head.n_features, len(self.head.classes), dtype=torch.float64)
        layer.load_state_dict(
            {"weight": torch.tensor(self.head.weight), "bias": torch.tensor(self.head.bias)}
        )
        return layer.requires_grad_(False)
