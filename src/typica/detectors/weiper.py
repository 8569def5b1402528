"""WeiPer: how the activations and perturbed logits of a row are distributed, against training rows.

    score(z) = -J(q(z), p) - lambda_1 J(q(W' z + b'), p') + lambda_2 MSP(W' z + b')

W' stacks `repeats` copies of the head's weight, to each row w of which a random vector of length
delta |w| is added; b' repeats the bias. q is the histogram of the m activations, or of the
perturbed logits, in `bins` bins of one width between the least and the largest that training rows
gave; p and p' are the means of the training rows' histograms. MSP is the mean over the copies of
the largest softmax probability. J is the symmetric Kullback-Leibler divergence KL(p || q) + KL(q ||
p), after q was averaged over windows of `smoothing` bins, a small number was added to every bin of
both (0.01 for activations, 0.025 for logits), and both sum to 1.

Granz, Heurich, Landgraf: WeiPer: OOD Detection using Weight Perturbations of Class Projections,
NeurIPS 2024 (WeiPer+KLD), which tunes its parameters on other data for each network; the defaults
are those in the authors' code. Higher = more typical. What is outside all bins counts in none. Fit:
two passes (hence no merging), each with a product with W'. Score: one product with W' and one
histogram of that many logits: about `repeats` times the cost of the head.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import (
    Array,
    Labels,
    Rows,
    as_floating,
    check_rows,
    is_numpy,
    like,
    namespace,
    row_blocks,
)
from typica.checks import count, number, positive
from typica.detectors._bases.headed import HeadedDetector
from typica.detectors._bases.two_passes import Totals, TwoPasses
from typica.errors import InputError
from typica.head import HEAD, Head
from typica.linalg import Floats, softmax, unit_rows
from typica.store import storable
from typica.tags import Tags

NOTHING = np.array([[np.inf, -np.inf]] * 2)  # the ranges of no rows
MARGIN = 1e-6  # of the range, beyond it: rounding must not push a training row out of all bins
FLOORS = (0.01, 0.025)  # added to every bin: of activations, of perturbed logits
WEIGHT = number(
    lambda value: 0 <= value < np.inf,
    "a number from 0 on",
    "{name}={value!r} is not a weight; pass a number >= 0.",
)


def histogram(V: Array, low: float, high: float, bins: int) -> Array:
    """Return WeiPer's densities: the share (n, bins) of each row of V (n, c) in each bin.

    >>> histogram(np.array([[0.0, 0.4, 0.9, 7.0]]), 0.0, 1.0, bins=2)
    array([[0.5 , 0.25]])
    """
    xp = namespace(V)
    places = xp.floor((V - low) * (bins / (high - low)))
    if is_numpy(V):
        return _counted(places, bins) / V.dtype.type(V.shape[1])
    shares = [xp.mean(xp.astype(places == float(b), V.dtype), axis=1) for b in range(bins)]
    return xp.stack(shares, axis=1)


def _counted(places: NDArray[np.floating], bins: int) -> NDArray[np.floating]:
    """Return how often each of the bins occurs in each row of their numbers."""
    inside = (places >= 0) & (places < bins)
    cells = np.where(inside, places, bins).astype(np.int64)
    cells += (bins + 1) * np.arange(len(cells))[:, None]
    counts = np.bincount(cells.ravel(), minlength=(bins + 1) * len(cells))
    return counts.reshape(len(cells), bins + 1)[:, :bins].astype(places.dtype)


def smoothing_matrix(bins: int, width: int) -> Floats:
    """Return K (bins, bins): h @ K averages a histogram h over windows of bins; edges are repeated.

    >>> smoothing_matrix(3, 2)
    array([[0.5, 0. , 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0.5, 1. ]])
    """
    K = np.zeros((bins, bins))
    for b in range(bins):
        first = b - (width - 1) // 2
        for source in range(first, first + width):
            K[min(max(source, 0), bins - 1), b] += 1 / width
    return K


def divergence(Q: Array, p: Array, floor: float) -> Array:
    """Return KL(p || q) + KL(q || p) for each row q of Q (n, bins), after adding the floor.

    >>> divergence(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0.5, 0.5]), 0.01).round(2)
    array([2.26, 0.  ])
    """
    xp = namespace(Q)
    Q, p = Q + floor, p + floor
    Q, p = Q / xp.sum(Q, axis=1, keepdims=True), p / xp.sum(p, axis=0)
    return xp.sum((Q - p) * (xp.log(Q) - xp.log(p)), axis=1)


def _around(ranges: Floats, more: Floats) -> Floats:
    """Return the ranges (low, high) of WeiPer's histograms that hold both."""
    lows = np.minimum(ranges[:, 0], more[:, 0])
    highs = np.maximum(ranges[:, 1], more[:, 1])
    return np.stack([lows, highs], axis=1)


@storable("weiper")
class WeiPer(HeadedDetector, TwoPasses):
    """Distributions of activations and of perturbed logits, against those of the training rows.

    Parameters
    ----------
    head
        The classifier's last layer.
    repeats
        How many perturbed copies of the head there are.
    delta
        The length of a perturbation, relative to that of the weights it is added to.
    bins
        Of each histogram.
    smoothing
        How many bins a histogram is averaged over.
    lambda_1, lambda_2
        The weights of the perturbed logits' divergence, and of their softmax.
    seed
        Draws the perturbations.

    >>> rng = np.random.default_rng(0)
    >>> train = np.maximum(rng.normal(size=(200, 30)), 0)
    >>> detector = WeiPer(Head(rng.normal(size=(3, 30))), bins=20, smoothing=4).fit(train)
    >>> ordinary, large = detector.score_samples(np.stack([train[0], 5 * train[0]]))
    >>> bool(ordinary > large)
    True
    """

    tags = Tags(
        needs_head=True,
        differentiable=False,
        tolerance=(1e-2, 1e-10),
        fit_cost="O(N m C repeats), two passes",
        score_cost="O(m C repeats)",
        memory="O(m C repeats)",
        reference="Granz, Heurich & Landgraf 2024, NeurIPS",
    )
    params = {
        "head": HEAD,
        "repeats": count(),
        "delta": positive(),
        "bins": count(2),
        "smoothing": count(),
        "lambda_1": WEIGHT,
        "lambda_2": WEIGHT,
        "seed": count(0),
    }
    learnt_by = ("head", "repeats", "delta", "bins", "seed")
    ranges_: NDArray[np.float64]
    histograms_: NDArray[np.float64]
    _weight: Floats
    _bias: Floats
    _smoothing: Floats

    def __init__(
        self,
        head: Head | None = None,
        *,
        repeats: int = 100,
        delta: float = 2.1,
        bins: int = 100,
        smoothing: int = 20,
        lambda_1: float = 1.0,
        lambda_2: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.head = head
        self.repeats = repeats
        self.delta = delta
        self.bins = bins
        self.smoothing = smoothing
        self.lambda_1 = lambda_1
        self.lambda_2 = lambda_2
        self.seed = seed

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        TwoPasses._learn(self, Z, labels)

    def _look(self, Z: Rows, labels: Labels | None) -> None:
        """Find the least and the largest: of activations and of perturbed logits."""
        check_rows(Z)
        self._prepare()
        ranges = getattr(self, "ranges_", NOTHING)
        for block in self._blocks(Z):
            views = self._views(as_floating(Z[block]))
            ranges = _around(ranges, np.array([[V.min(), V.max()] for V in views]))
        self.ranges_ = ranges

    def _absorb(self, other: Self) -> None:
        self.ranges_ = _around(getattr(self, "ranges_", NOTHING), other.ranges_)

    def _settle(self, n: int) -> None:
        """Let the bins reach a little beyond what was found."""
        spans = self.ranges_[:, 1] - self.ranges_[:, 0]
        if not (spans > 0).all():
            raise InputError(
                f"the features do not vary over {n} sample(s); pass more, or other, training rows."
            )
        self.ranges_ = self.ranges_ + MARGIN * np.stack([-spans, spans], axis=1)

    def _totals(self, Z: Rows) -> Totals:
        self._prepare()
        total = np.zeros((2, self.bins))
        for block in self._blocks(Z):
            views = self._views(as_floating(Z[block]))
            total += [h.sum(axis=0, dtype=np.float64) for h in self._histograms(views)]
        return total

    def _end(self, totals: Totals, n: int) -> None:
        self.histograms_ = totals / n

    def _blocks(self, Z: Rows) -> list[slice]:
        return list(row_blocks(len(Z), self._score_width(), itemsize=8))

    def _derive(self) -> None:
        weight = self._head.weight.astype(np.float64)
        rng = np.random.default_rng(self.seed)
        copies = []
        for _ in range(self.repeats):
            noise = unit_rows(rng.standard_normal(weight.shape))
            copies.append(weight + self.delta * np.linalg.norm(weight, axis=1)[:, None] * noise)
        self._weight = np.concatenate(copies)
        self._bias = np.tile(self._head.bias.astype(np.float64), self.repeats)
        self._smoothing = smoothing_matrix(self.bins, self.smoothing)

    def _views(self, Z: Array) -> tuple[Array, Array]:
        """Return the activations and the perturbed logits of rows."""
        return Z, Z @ self._like("_weight", Z).T + self._like("_bias", Z)

    def _histograms(self, views: tuple[Array, Array]) -> list[Array]:
        found = []
        for V, (low, high) in zip(views, self.ranges_.tolist(), strict=True):
            found.append(histogram(V, low, high, self.bins))
        return found

    def _score(self, Z: Array) -> Array:
        xp = namespace(Z)
        views = self._views(Z)
        K = self._like("_smoothing", Z)
        parts = []
        for Q, p, floor in zip(self._histograms(views), self.histograms_, FLOORS, strict=True):
            parts.append(divergence(Q @ K, like(p, Z), floor))
        C = len(self._head.classes)
        copies = xp.reshape(views[1], (-1, C))
        largest = xp.reshape(xp.max(softmax(copies), axis=1), (-1, self.repeats))
        confidence = xp.mean(largest, axis=1)
        return self.lambda_2 * confidence - parts[0] - self.lambda_1 * parts[1]

    def _score_and_similarities(self, Z: Array) -> tuple[Array, Array]:
        return self._score(Z), self._head.logits(Z)  # the score has perturbed logits alone

    def _score_width(self) -> int:
        return max(self._head.n_features, self.repeats * len(self._head.classes))
