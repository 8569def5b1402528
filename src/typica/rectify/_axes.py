"""The principal axes of training rows, for the rectifiers that turn features to them."""

from __future__ import annotations

from typica.errors import InputError
from typica.linalg import Floats, principal_axes
from typica.moments import Moments


def axes_of(moments: Moments) -> tuple[Floats, Floats]:
    """Return the variances and axes within classes that rectifiers turn by; raise if none vary."""
    variances, vectors = principal_axes(moments.scatter_within(), moments.n)
    if len(variances) == 0:
        raise InputError(
            f"the features do not vary over {moments.n} sample(s); "
            "pass more, or other, training rows."
        )
    return variances, vectors
