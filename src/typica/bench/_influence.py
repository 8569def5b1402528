"""The influence kernel in three forms, and what a step on the weights does to predictions.

    K(z', z) = cos(p' - u, p - u) cos(z', z)
    p = softmax(W z + b),   p' = softmax(W z' + b),   u = 1/C

is the cosine of the gradients of KL(u || p) in W, (p - u) ⊗ z, at z' and z. With z' = mu_k, k =
argmax p:

    exact     as it stands
    one_hot   p' = e_k:   (p_k - 1/C) / sqrt((1 - 1/C) (|p|² - 1/C)) cos(mu_k, z)
    printed   the one_hot form as the paper prints it, without the root: not bounded by 1

All is computed in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray, row_blocks
from typica.head import Head
from typica.linalg import softmax, softmax_surplus, unit_rows

Floats = NDArray[np.float64]
FORMS = ("exact", "one_hot", "printed")


class Kernel(NamedTuple):
    """For each row of an analysis: the kernel in three forms, and the cosine in its place."""

    exact: Floats
    one_hot: Floats
    printed: Floats
    cosine: Floats


def kernel(Z: AnyArray, means: Floats, head: Head) -> Kernel:
    """Return K between the rows of Z (n, m) and the means of the classes predicted for them.

    means: (C, m). Where a gradient is zero, so is K.

    >>> kernel(np.array([[4.0, 3.0]]), 50 * np.eye(2), Head(10 * np.eye(2))).exact.round(6)
    array([0.8])
    """
    C = len(means)
    directions = unit_rows(means)
    profiles = unit_rows(softmax_surplus(_logits(means, head)))
    parts = []
    for block in row_blocks(len(Z), Z.shape[1], 8):
        rows = np.asarray(Z[block], dtype=np.float64)
        L = _logits(rows, head)
        best = np.argmax(L, axis=1)
        excess = softmax_surplus(L)
        direction = unit_rows(rows)
        cosine = np.vecdot(direction, directions[best])
        squares = np.vecdot(excess, excess)
        some = squares > 0
        over = excess[np.arange(len(rows)), best]
        profile = unit_rows(excess)
        one_hot = np.divide(
            over, np.sqrt((1 - 1 / C) * squares), out=np.zeros_like(over), where=some
        )
        printed = np.divide(over, (1 - 1 / C) * squares, out=np.zeros_like(over), where=some)
        exact = np.vecdot(profile, profiles[best])
        parts.append((exact * cosine, one_hot * cosine, printed * cosine, cosine))
    return Kernel(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def uncertainty_gradient(means: Floats, head: Head) -> Floats:
    """Return the gradient (C, m) in W of the mean of KL(u || softmax(W mu + b)) over class means.

    It is the mean of (p - u) ⊗ mu: minus it is the way to more uncertainty.

    >>> head = Head(np.zeros((2, 1)), np.array([np.log(3.0), 0.0]))
    >>> uncertainty_gradient(np.array([[1.0], [0.0]]), head)
    array([[ 0.125],
           [-0.125]])
    """
    return np.asarray(softmax_surplus(_logits(means, head)).T @ means / len(means))


def divergence(L: Floats) -> Floats:
    """Return KL(u || softmax(L)) = log mean exp(L) - mean L for each row of the logits L (n, C).

    >>> divergence(np.array([[0.0, 0.0], [0.0, np.log(3.0)]])).round(4)
    array([0.    , 0.1438])
    """
    largest = L.max(axis=1)
    return np.asarray(
        np.log(np.mean(np.exp(L - largest[:, None]), axis=1)) + largest - L.mean(axis=1)
    )


class Moved(NamedTuple):
    """For each row of an analysis: how much its predictions vary, and how far KL(u || p) fell."""

    variation: Floats
    uncertainty: Floats


def moved(Z: AnyArray, head: Head, step: Floats) -> Moved:
    """Return how far a step (C, m) on the weights moves the predictions of the rows of Z (n, m)."""
    parts = []
    for block in row_blocks(len(Z), Z.shape[1], 8):
        rows = np.asarray(Z[block], dtype=np.float64)
        before = _logits(rows, head)
        after = before + rows @ step.T
        variation = np.abs(softmax(after) - softmax(before)).sum(axis=1) / 2
        parts.append((variation, divergence(before) - divergence(after)))
    return Moved(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _logits(Z: AnyArray, head: Head) -> Floats:
    return np.asarray(
        np.asarray(Z, dtype=np.float64) @ head.weight.astype(np.float64).T + head.bias
    )
