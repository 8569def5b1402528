"""OpenMax: the log-odds of an unknown class, from how far the logits lie from the classes'.

    a_k = mean logits of the correctly classified training rows of class k
    w_k = 1 - exp(-(d(l, a_k) / scale_k)^shape_k)
    r_k = l_k (1 - w_k (alpha + 1 - i) / alpha) for the i-th largest logit, i <= alpha
    r_k = l_k for the others;   u = sum_k (l_k - r_k)
    score(z) = log sum_k exp(r_k) - u = - log(P / (1 - P)),   l = logits of z

with P = exp(u) / (exp(u) + sum_k exp(r_k)) the probability of the unknown class, whose log-odds
order inputs as P does, without its rounding to 1 and 0, and w_k a Weibull fitted to the `tail`
largest training distances of class k. Bendale, Boult: Towards Open Set Deep Networks, CVPR 2016, as
the authors' code computes it (the paper prints w with the opposite sense). Higher = more typical.
tail = 20, alpha = 10 and the distance "eucos" = Euclidean / 200 + cosine are theirs. Their Weibull
fit moves the tail to 10,000 first; here the distances are fitted as they are, so that the fit
follows their scale (on CIFAR-10 features AUROC moves by 0.15 points at most at the defaults, by 0.5
otherwise). Fit: two passes. Score: one product with the head, a sort and alpha distances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from typica.arrays import AnyArray, Array, Labels, Rows, like, namespace
from typica.checks import choice, count
from typica.detectors._bases.logit import LogitDetector
from typica.errors import InputError
from typica.head import HEAD, Head
from typica.largest import descending
from typica.linalg import logsumexp, polar
from typica.store import storable
from typica.sums import class_sums
from typica.tags import Tags

DISTANCES = ("eucos", "euclidean", "cosine")
EUCLIDEAN_UNIT = 200.0  # of the authors, for the logits of AlexNet
# A tail whose distances are all equal is a step, a Weibull of infinite shape; this is near enough.
MAX_SHAPE = 1e4
# Relative to the class mean's own distance from 0; below it distances are rounding errors.
LEAST_TAIL = 1e-6


class ClassModels(NamedTuple):
    """Mean logits and Weibulls of the classes.

    lengths (C,), directions (C, C); shapes and scales (C,), 0 where there is no model.
    """

    lengths: Array
    directions: Array
    shapes: Array
    scales: Array


def fit_weibull(distances: AnyArray) -> tuple[float, float]:
    """Return the maximum likelihood shape and scale of a Weibull from 0, for positive distances.

    >>> shape, scale = fit_weibull(np.array([1.0, 2.0, 3.0, 4.0]))
    >>> round(shape, 4), round(scale, 4)
    (2.4532, 2.8287)
    """
    largest = float(distances.max())
    logs = np.log(distances / largest)

    def slope(shape: float) -> float:
        """Rises with the shape, and is 0 where the likelihood is largest."""
        weights = np.exp(shape * logs)
        return float(weights @ logs / weights.sum() - 1 / shape - logs.mean())

    shape = MAX_SHAPE
    if slope(shape) > 0:
        shape = brentq(slope, 0.5 / -logs.mean(), MAX_SHAPE, xtol=1e-13, rtol=1e-13)
    return shape, largest * float(np.mean(np.exp(shape * logs))) ** (1 / shape)


def distances(a: Array, A: Array, b: Array, B: Array, kind: str) -> Array:
    """Return OpenMax's distances of vectors: lengths a and b (...), directions A and B (..., m).

    A zero vector is 1/2 in cosine distance from all others.

    >>> distances(*polar(np.array([[3.0, 4.0]])), *polar(np.array([[6.0, 8.0]])), "euclidean")
    array([5.])
    >>> distances(*polar(np.array([[2.0, 0.0]])), *polar(np.array([[0.0, 7.0]])), "cosine").round(4)
    array([1.])
    """
    xp = namespace(A)
    apart = A - B
    chord = xp.vecdot(apart, apart)  # 2 (1 - cos), without its loss of digits near 0
    if kind == "cosine":
        return chord / 2
    longer = xp.maximum(a, b)
    longer = xp.where(longer > 0, longer, xp.ones_like(longer))
    square = ((a - b) / longer) ** 2 + (a / longer) * (b / longer) * chord
    euclidean = longer * xp.sqrt(xp.clip(square, min=float(xp.finfo(square.dtype).smallest_normal)))
    if kind == "euclidean":
        return euclidean
    return euclidean / EUCLIDEAN_UNIT + chord / 2


def revise(L: Array, models: ClassModels, alpha: int, kind: str) -> tuple[Array, Array, Array]:
    """Return the classes by falling logit (n, C), their revised logits in that order, and u."""
    xp = namespace(L)
    alpha = min(alpha, L.shape[1])
    order = xp.argsort(L, axis=1, descending=True)
    chosen = xp.reshape(order[:, :alpha], (-1,))
    means, directions, shapes, scales = (
        xp.reshape(xp.take(part, chosen, axis=0), (-1, alpha, *part.shape[1:])) for part in models
    )
    length, direction = polar(L)
    far = distances(length[:, None], direction[:, None, :], means, directions, kind)

    known = shapes > 0
    ones = xp.ones_like(scales)
    least = float(xp.finfo(L.dtype).smallest_normal)
    ratio = xp.clip(far / xp.where(known, scales, ones), min=least)
    power = xp.clip(shapes * xp.log(ratio), max=10.0)  # exp(-exp(10)) is 0
    w = xp.where(known, -xp.expm1(-xp.exp(power)), ones)

    falling = descending(L)
    taken = falling[:, :alpha] * w * like(np.arange(alpha, 0, -1) / alpha, L)
    revised = xp.concat([falling[:, :alpha] - taken, falling[:, alpha:]], axis=1)
    return order, revised, xp.sum(taken, axis=1)


def in_order_of_classes(order: Array, revised: Array) -> Array:
    """Return OpenMax's revised logits (n, C) in the order of classes, from that of `order`."""
    xp = namespace(revised)
    return xp.take_along_axis(revised, xp.argsort(order, axis=1), axis=1)


@storable("openmax")
class OpenMax(LogitDetector):
    """Negative log-odds of the unknown class.

    Labels are the head's class names; with head=None the positions of the logits. A class without
    correctly classified rows has no model, and all of its logit goes to the unknown. `classify`
    takes the class with the largest revised logit.

    Parameters
    ----------
    head
        The classifier's last layer; None takes logits as input.
    tail
        How many of a class's largest distances are fitted (all, if it has fewer).
    alpha
        How many of a row's largest logits are revised (all, if there are fewer).
    distance
        "eucos", "euclidean" or "cosine".

    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(200) % 2
    >>> logits = 10 * np.eye(2)[labels] + rng.normal(size=(200, 2))
    >>> OpenMax().fit(logits, labels).score_samples(np.array([[10.0, 0.0], [9.0, 9.0]])).round(2)
    array([10.  , -8.99])
    """

    tags = Tags(
        needs_labels=True,
        uses_labels=True,
        reads="logits",
        tolerance=(1e-4, 1e-10),  # the Weibull's shape multiplies every rounding error
        fit_cost="O(N m C)",
        score_cost="O(m C + C log C + alpha C)",
        memory="O(m C + C^2)",
        reference="Bendale & Boult 2016, CVPR",
    )
    params = {
        "head": HEAD,
        "tail": count(2),
        "alpha": count(),
        "distance": choice(*DISTANCES),
    }
    learnt_by = ("head", "tail", "distance")
    _models: ClassModels
    means_: NDArray[np.float64]
    shapes_: NDArray[np.float64]
    scales_: NDArray[np.float64]

    def __init__(
        self, head: Head | None = None, tail: int = 20, alpha: int = 10, distance: str = "eucos"
    ) -> None:
        self.head = head
        self.tail = tail
        self.alpha = alpha
        self.distance = distance

    def _learn(self, Z: Rows, labels: Labels | None) -> None:
        truth = self._class_numbers(labels, len(Z))
        means, correct = self._mean_logits(Z, truth)
        far = self._distances(Z, truth, means)[correct]
        origin = distances(*polar(np.zeros_like(means)), *polar(means), self.distance)
        least = np.maximum(LEAST_TAIL * origin, np.finfo(np.float32).tiny)

        shapes, scales = np.zeros(len(means)), np.zeros(len(means))
        truth = truth[correct]
        order = np.lexsort((far, truth))
        present, starts = np.unique(truth[order], return_index=True)
        for k, own in zip(present, np.split(far[order], starts[1:]), strict=True):
            shapes[k], scales[k] = fit_weibull(np.maximum(own[-self.tail :], least[k]))
        self.means_, self.shapes_, self.scales_ = means, shapes, scales

    def _mean_logits(
        self, Z: Rows, truth: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the mean logits (C, C) of each class's correct rows, and which rows these are."""
        C = len(self.classes_)
        correct = np.zeros(len(Z), dtype=bool)
        sums = np.zeros((C, C))
        for block, L in self._logit_blocks(Z):
            correct[block] = right = np.argmax(L, axis=1) == truth[block]
            sums += class_sums(L[right], truth[block][right], C)
        if not correct.any():
            raise InputError(
                f"of {len(Z)} sample(s) none is classified correctly; "
                "pass labels and a head that belong together."
            )
        counts = np.bincount(truth[correct], minlength=C)
        return sums / np.maximum(counts, 1)[:, None], correct

    def _distances(
        self, Z: Rows, truth: NDArray[np.int64], means: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the distance (n,) of each row's logits from the mean logits of its class."""
        lengths, directions = polar(means)
        far = np.zeros(len(Z))
        for block, L in self._logit_blocks(Z):
            own = truth[block]
            far[block] = distances(*polar(L), lengths[own], directions[own], self.distance)
        return far

    def _derive(self) -> None:
        self._models = ClassModels(*polar(self.means_), self.shapes_, self.scales_)

    def _class_numbers(self, labels: Labels | None, n: int) -> NDArray[np.int64]:
        """Return the position in `classes_` of each of the n labels."""
        if labels is None or labels.shape != (n,):
            shape = None if labels is None else labels.shape
            raise InputError(f"labels of shape {shape} for {n} rows; pass one label per row.")
        positions = {name: position for position, name in enumerate(self.classes_.tolist())}
        names, which = np.unique(labels, return_inverse=True)
        unknown = [name for name in names.tolist() if name not in positions]
        if unknown:
            found = f"{len(positions)} class(es), n_features={self.n_features}"
            raise InputError(
                f"label {unknown[0]!r} is not a class: {found}; pass the names in head.classes as "
                "labels, or without a head the positions of the logits."
            )
        return np.array([positions[name] for name in names.tolist()])[which]

    def _score_logits(self, L: Array) -> Array:
        _, revised, unknown = self._revised(L)
        return logsumexp(revised) - unknown

    def _match_logits(self, L: Array) -> Array:
        order, revised, _ = self._revised(L)
        return in_order_of_classes(order, revised)

    def _score_and_similarities(self, Z: Array) -> tuple[Array, Array]:
        order, revised, unknown = self._revised(self._logits(Z))
        return logsumexp(revised) - unknown, in_order_of_classes(order, revised)

    def _revised(self, L: Array) -> tuple[Array, Array, Array]:
        return revise(L, self._like("_models", L), int(self.alpha), self.distance)

    def _score_width(self) -> int:
        C = len(self.classes_)
        return C * min(int(self.alpha), C)
