"""AdaSCALE: SCALE with a percentile of each input's own, by how a small step moves its features.

    score(x) = log sum_k exp(l_k),   l = head(z exp(r)) (variant "a") or r² head(z) (variant "l")
    r = sum of relu(z) / sum of its largest, those above the percentile p of the row
    p = low + (high - low) (1 - F(Q)),   F = distribution function of Q over known inputs
    Q = sum of relu(z') over the k1 % largest of z + 10 sum of |z - z'| over the k2 % largest

z and z' are the features of x and of x' = x + 0.5 sign(g) on the 5 % of its numbers for which g is
nearest to 0, g being the gradient of the largest logit. Strangers' features move more, and are
scaled less. Regmi: AdaSCALE: Adaptive Scaling for OOD Detection, 2025. Higher = more typical.
k1 = 5, k2 = 1 and the percentiles, 75 and 85, are the defaults of its author's code in OpenOOD; the
paper chooses the percentiles with out-of-distribution images (80 and 85 for a ResNet-50), which is
not done here. Cost: two passes forward, one back.
"""

from __future__ import annotations

from typing import Any

from typica.checks import check_parameters, count
from typica.errors import InputError, border
from typica.nets import image_parameters
from typica.nets._given_images import floating, in_batches
from typica.nets._torch import Tensor, torch
from typica.nets.extractors.torch import FeatureExtractor, as_extractor

STEP = 0.5  # in units of the network's input
MOVED = 0.05  # of the numbers of an input
WEIGHT = 10.0  # of the shift of features, beside their size


class AdaSCALE:
    """Adaptive scaling: fit it on known inputs, held out or of the training set, then score.

    `shifts_` holds the sorted Q of the known inputs; 5,000 are enough.

    Parameters
    ----------
    extractor
        A FeatureExtractor whose features are the input of the head, or a model.
    variant
        "a" scales features, "l" logits.
    low, high
        The percentiles between which an input's own lies.
    k1, k2
        Percent of the features that count as the largest.

    >>> nn = torch.nn
    >>> model = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 2))
    >>> known = torch.randn(50, 20)
    >>> AdaSCALE(model).fit(known).score_samples(torch.randn(3, 20)).shape
    torch.Size([3])
    """

    params = image_parameters.ADASCALE

    @border
    def __init__(
        self,
        extractor: FeatureExtractor | Any,
        variant: str = "a",
        *,
        low: float = 75.0,
        high: float = 85.0,
        k1: float = 5.0,
        k2: float = 1.0,
    ) -> None:
        self.variant, self.low, self.high = variant, low, high
        self.k1, self.k2 = k1, k2
        check_parameters(self.params, self)
        if not 0 <= low <= high < 100:
            raise InputError(f"low={low}, high={high}; pass percentiles with 0<=low<=high<100.")
        self.low, self.high, self.k1, self.k2 = map(float, (low, high, k1, k2))
        self.extractor = as_extractor(extractor)
        self.shifts_: Any = None

    @border
    def fit(self, images: Any, batch_size: int = 64) -> AdaSCALE:
        """Learn how the features of known inputs (n, c, ...) move."""
        count().check("batch_size", batch_size)
        known = floating(self.extractor, images)
        if not len(known):
            raise InputError("no known inputs; pass some to learn from.")
        batches = in_batches(known, batch_size)
        shifts = torch.cat([self._shift(*self._moved(batch)) for batch in batches])
        self.shifts_ = torch.sort(shifts).values
        return self

    @border
    def score_samples(self, images: Any, batch_size: int = 64) -> Tensor:
        """Return the scores (n,) of inputs (n, c, ...), batch by batch."""
        count().check("batch_size", batch_size)
        if self.shifts_ is None:
            raise InputError("this AdaSCALE is not fitted yet; call fit with known inputs first.")
        batches = in_batches(floating(self.extractor, images), batch_size)
        return torch.cat([self._score(batch) for batch in batches])

    @border
    def percentiles(self, images: Any) -> Tensor:
        """Return the percentile (n,) of each input, between `low` and `high`."""
        if self.shifts_ is None:
            raise InputError("this AdaSCALE is not fitted yet; call fit with known inputs first.")
        return self._percentiles(*self._moved(floating(self.extractor, images)))

    def _score(self, x: Tensor) -> Tensor:
        Z, moved = self._moved(x)
        P = Z.relu()
        m = Z.shape[1]
        counts = (m - torch.round(m * self._percentiles(Z, moved) / 100)).clamp(min=1)
        places = torch.arange(1, m + 1, device=Z.device)
        top = torch.sort(P, dim=1, descending=True).values * (places <= counts[:, None])
        largest = top.sum(dim=1)
        r = torch.where(largest > 0, P.sum(dim=1) / largest, torch.ones_like(largest))[:, None]
        if self.variant == "a":
            return torch.logsumexp(self._logits(Z * torch.exp(r)), dim=1)
        return torch.logsumexp(self._logits(Z) * r**2, dim=1)

    def _logits(self, Z: Tensor) -> Tensor:
        head = self.extractor.head
        if head is None or head.n_features != Z.shape[1]:
            raise InputError("the features are not the input of the head; leave out layer=.")
        return head.logits(Z)

    def _percentiles(self, Z: Tensor, moved: Tensor) -> Tensor:
        shifts = self._shift(Z, moved)
        known = self.shifts_.to(shifts.device, shifts.dtype)
        below = torch.searchsorted(known, shifts, right=True).to(shifts.dtype) / len(known)
        return self.low + (self.high - self.low) * (1 - below)

    def _shift(self, Z: Tensor, moved: Tensor) -> Tensor:
        """Return Q (n,) of features Z (n, m) and what the step made of them."""
        order = torch.argsort(Z, dim=1, descending=True)
        sizes = torch.gather(moved.relu(), 1, order[:, : _count(Z, self.k1)])
        apart = torch.gather((Z - moved).abs(), 1, order[:, : _count(Z, self.k2)])
        return sizes.sum(dim=1) + WEIGHT * apart.sum(dim=1)

    def _moved(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features (n, m) of inputs, and of the inputs after the step."""
        with torch.inference_mode(False):
            x = x.detach().clone().requires_grad_(True)
            extraction = self.extractor(x, gradients=True)
            if extraction.logits is None:
                raise InputError("the model gives no logits; pass a classifier.")
            (gradient,) = torch.autograd.grad(extraction.logits.amax(dim=1).sum(), x)
            flat = gradient.flatten(1)
            count = int(flat.shape[1] * MOVED)
            least = torch.argsort(flat.abs(), dim=1)[:, :count]
            mask = torch.zeros_like(flat).scatter_(1, least, 1.0).reshape(x.shape)
            step = STEP * gradient.sign() * mask
            return extraction.features.detach(), self.extractor(x.detach() + step).features


def _count(Z: Tensor, percent: float) -> int:
    return max(1, int(Z.shape[1] * percent / 100))
