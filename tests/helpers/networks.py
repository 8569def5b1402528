"""Small networks that the tests of extractors and backends share.

What their layers give, by their own modules, is here too.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn


class CNN(nn.Module):
    """The head is defined first and runs last; a ReLU overwrites what the normalisation gave."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)
        self.conv = nn.Conv2d(3, 6, 3, stride=2)
        self.bn = nn.BatchNorm2d(6)
        self.relu = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.5)

    def penultimate(self, x):
        return self.relu(self.bn(self.conv(x))).mean((2, 3))

    def forward(self, x):
        return self.fc(self.drop(self.penultimate(x)))


class ViT(nn.Module):
    """Attention, tokens and a class token; tracing bakes the batch size into it."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 4, stride=4)
        self.cls = nn.Parameter(torch.randn(1, 1, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)

    def tokens(self, x):
        t = torch.cat([self.cls.expand(len(x), 1, 8), self.patch(x).flatten(2).transpose(1, 2)], 1)
        t = t + self.attention(t, t, t)[0]
        return t + self.mlp(t)

    def penultimate(self, x):
        return self.norm(self.tokens(x))[:, 0]

    def forward(self, x):
        return self.head(self.penultimate(x)).softmax(1)


class MLP(nn.Module):
    """Gives a dict, and two linear layers at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(192, 7), nn.Tanh())
        self.head = nn.Linear(7, 3)
        self.other = nn.Linear(7, 5)

    def penultimate(self, x):
        return self.body(x)

    def forward(self, x):
        z = self.body(x)
        return {"logits": self.head(z), "projection": self.other(z)}


NETWORKS = {"cnn": CNN, "vit": ViT, "mlp": MLP}


def network(name: str) -> nn.Module:
    """A network in eval mode whose normalisations have statistics of their own."""
    torch.manual_seed(0)
    model = NETWORKS[name]()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model.eval()


def expected(model: nn.Module, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Features and logits, by the model's own modules."""
    head = model.fc if hasattr(model, "fc") else model.head
    with torch.no_grad():
        z = model.penultimate(torch.from_numpy(x))
        return z.numpy(), head(z).numpy()


def images(n: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 3, 8, 8)).astype(np.float32)


def close(a, b, tolerance: float = 1e-5) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and bool(
        np.abs(a - b).max(initial=0) <= tolerance * max(np.abs(b).max(initial=0), 1e-9)
    )


@contextmanager
def torch_is_talkative() -> Iterator[None]:
    """What torch warns about in its own exporters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
