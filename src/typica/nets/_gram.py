"""Gram: how far products of feature maps lie outside what inputs of the predicted class have shown.

    score(x) = -sum_l delta_l(x) / mean of delta_l over held-out known inputs
    delta_l(x) = sum over channels i and powers p of dev(G_i^p; min, max)
    G_i^p = (sum_j sum_places F_i^p F_j^p)^(1/p),   F = the maps that layer l gives
    dev(v; a, b) = (a - v) / |a| below a, (v - b) / |b| above b, 0 between

with min and max those of the known inputs for which the class is predicted that is predicted for x.
Roots keep the sign. Sastry, Oore: Detecting Out-of-Distribution Examples with Gram Matrices, ICML
2020; the sums over rows of the matrices, and the powers 1 to 10, are those of the authors' code.
Higher = more typical. Cost: one pass forward, and one product of a map with its sum over channels
for each power.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typica.checks import check_parameters, count
from typica.errors import InputError, border
from typica.nets import image_parameters
from typica.nets._given_images import finite, in_batches
from typica.nets._torch import Tensor, torch
from typica.nets.extractors.torch import FeatureExtractor

POWERS = tuple(range(1, 11))
HELD_OUT = 10  # every tenth known input tells what deviation is usual
LEAST = 1e-6  # what deviations are divided by, at least


def gram_sums(x: Tensor, powers: Sequence[int] = POWERS) -> Tensor:
    """Return G_i^p (n, channels * powers) of maps x (n, m, h, w).

    >>> gram_sums(torch.tensor([[[[1.0, 2.0]], [[0.0, 1.0]]]]), powers=(1, 2)).round(decimals=3)
    tensor([[7.0000, 3.0000, 4.5830, 2.2360]])
    """
    maps = x.flatten(2)
    # In units of the largest, so that high powers neither overflow nor vanish.
    unit = maps.abs().amax(dim=(1, 2), keepdim=True)
    unit = torch.where(unit > 0, unit, torch.ones_like(unit))
    scaled = maps / unit
    sums = []
    for power in powers:
        raised = scaled**power
        products = (raised * raised.sum(dim=1, keepdim=True)).sum(dim=2)
        sums.append(products.sign() * products.abs() ** (1 / power))
    return torch.cat(sums, dim=1) * unit[:, :, 0] ** 2


class Gram:
    """Deviations of products of feature maps; fit it on known inputs, then score.

    A class that was predicted for none of the known inputs has the ranges of all of them.

    Parameters
    ----------
    model
        A classifier, an `nn.Module`.
    layers
        The dotted names of the modules whose maps are compared; where a module gives rows, these
        stand for the G.
    powers
        Those of the formula.

    >>> nn = torch.nn
    >>> model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2))
    >>> known = torch.rand(40, 1, 5, 5)
    >>> Gram(model, ["1"]).fit(known).score_samples(torch.rand(3, 1, 5, 5)).shape
    torch.Size([3])
    """

    params = image_parameters.GRAM

    @border
    def __init__(self, model: Any, layers: Sequence[str], powers: Sequence[int] = POWERS) -> None:
        self.powers = powers
        check_parameters(self.params, self)
        self.powers = tuple(map(int, powers))
        self.extractor = FeatureExtractor(model, layers=list(layers), reduce=self._sums)
        self.low_: Any = None
        self.high_: Any = None
        self.usual_: Tensor | None = None

    @border
    def fit(self, images: Any, batch_size: int = 64) -> Gram:
        """Learn the ranges from known inputs (n, c, ...), and what is usual from every tenth."""
        count().check("batch_size", batch_size)
        prepared = finite(self.extractor, images)
        if len(prepared) < 2 * HELD_OUT:
            raise InputError(f"{len(prepared)} known inputs; pass at least {2 * HELD_OUT}.")
        tenth = torch.arange(len(prepared), device=prepared.device) % HELD_OUT == HELD_OUT - 1
        self.low_ = self.high_ = self.usual_ = None
        for batch in in_batches(prepared[~tenth], batch_size):
            self._learn(*self._seen(batch))
        self._fill()
        parts = in_batches(prepared[tenth], batch_size)
        held_out = torch.cat([self._deviations(*self._seen(batch)) for batch in parts])
        self.usual_ = held_out.mean(dim=0).clamp(min=LEAST)
        return self

    @border
    def score_samples(self, images: Any, batch_size: int = 64) -> Tensor:
        """Return the scores (n,) of inputs (n, c, ...), batch by batch."""
        count().check("batch_size", batch_size)
        if self.usual_ is None:
            raise InputError("this Gram is not fitted yet; call fit with known inputs first.")
        batches = in_batches(finite(self.extractor, images), batch_size)
        parts = [self._deviations(*self._seen(batch)) for batch in batches]
        return -(torch.cat(parts) / self.usual_).sum(dim=1)

    def _sums(self, x: Tensor) -> Tensor:
        return gram_sums(x, self.powers)

    def _seen(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the sums of each layer, and the predicted classes."""
        extraction = self.extractor(x)
        if extraction.logits is None:
            raise InputError("the model gives no logits; pass a classifier.")
        return list(extraction.layers.values()), extraction.logits

    def _learn(self, sums: list[Tensor], logits: Tensor) -> None:
        if self.low_ is None:
            shapes = [(logits.shape[1], values.shape[1]) for values in sums]
            self.low_ = [torch.full(s, torch.inf).to(v) for s, v in zip(shapes, sums, strict=True)]
            self.high_ = [-low for low in self.low_]
        classes = logits.argmax(dim=1)
        for values, low, high in zip(sums, self.low_, self.high_, strict=True):
            places = classes[:, None].expand_as(values)
            low.scatter_reduce_(0, places, values, "amin")
            high.scatter_reduce_(0, places, values, "amax")

    def _fill(self) -> None:
        """Give classes that were never predicted the ranges of all."""
        for low, high in zip(self.low_, self.high_, strict=True):
            never = (low > high).any(dim=1)
            low[never] = low.amin(dim=0)
            high[never] = high.amax(dim=0)

    def _deviations(self, sums: list[Tensor], logits: Tensor) -> Tensor:
        """Return delta_l (n, layers)."""
        classes = logits.argmax(dim=1)
        deltas = []
        for values, lows, highs in zip(sums, self.low_, self.high_, strict=True):
            low, high = lows[classes], highs[classes]
            below = (low - values).clamp(min=0) / low.abs().clamp(min=LEAST)
            above = (values - high).clamp(min=0) / high.abs().clamp(min=LEAST)
            deltas.append((below + above).sum(dim=1))
        return torch.stack(deltas, dim=1)
