"""Counts, sums and scatter of features per class, gathered over any stream of batches.

Everything is kept as sums, so that batches may come in any split and order, and the moments of
parts, gathered by different processes, merge into those of the whole.

Without scatter the sums are about zero and cost one pass over the features. With scatter each class
k is measured from its first row s_k:

    T_k = Σ (z - s_k)        Q = Σ (z - s_k)(z - s_k)ᵀ        scatter = Q - Σ_k T_k T_kᵀ / n_k

A row of the class lies where the class lies, so neither a large common offset nor classes far apart
cost digits. The products are float64 throughout, but for those of a long batch of float32: see
`typica.sums`.
"""

from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.errors import FormatError, InputError, border
from typica.labels import encode_labels, first_rows_of_classes
from typica.store import State, storable
from typica.sums import centred_sums, scatter_within, sums_by_class

_SAMPLE_ROWS = 2**10
_SAMPLE_ROWS_AT_ONCE = 2**5  # few, so that memory is used again
_BY_CLASS = ("_counts", "_sums", "_shift", "_squares", "_samples")  # arrays of one row per class


@storable("moments")
class Moments:
    """Count, mean and, if asked, tied within-class scatter of every class.

    Parameters
    ----------
    scatter
        Also gather Σ (z - mean_class)(z - mean_class)ᵀ over all rows, (m, m).

    >>> Z = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 5.0]])
    >>> moments = Moments(scatter=True).add(Z, ["cat", "cat", "dog"])
    >>> moments.classes.tolist(), moments.counts.tolist(), moments.means.tolist()
    (['cat', 'dog'], [2, 1], [[2.0, 0.0], [0.0, 5.0]])
    >>> moments.scatter.round(9)
    array([[2., 0.],
           [0., 0.]])
    """

    def __init__(self, scatter: bool = False) -> None:
        self._classes: AnyArray = np.empty(0, np.int64)
        self._counts: NDArray[np.int64] = np.empty(0, np.int64)
        self._sums: NDArray[np.float64] = np.empty((0, 0))
        # (C, m) with scatter, (C, 1) of zeros without.
        self._shift: NDArray[np.float64] = np.empty((0, 0))
        # Summed over as many rows as _samples says.
        self._squares: NDArray[np.float64] = np.empty(0)
        self._samples: NDArray[np.int64] = np.empty(0, np.int64)
        self._products: Any = np.empty((0, 0)) if scatter else None

    @border
    def add(self, Z: Any, labels: Any = None) -> Self:
        """Take in features Z (n, m), of any real dtype and layout, and labels (n,); give self.

        Labels are integers or strings, the same kind in every batch; None puts every row in class
        0. After an error nothing has changed. Z is never written to.

        >>> Moments().add([[1.0, 2.0]]).add([[3.0, 6.0]]).means
        array([[2., 4.]])
        """
        Z = _as_matrix(Z)
        if Z.ndim != 2 or Z.shape[1] == 0:
            raise InputError(f"features of shape {Z.shape}; pass a 2-D array, one row per input.")
        if Z.dtype.kind not in "fiub":
            raise InputError(f"features of dtype {Z.dtype}; pass real numbers.")
        classes, codes = encode_labels(labels, len(Z))
        self._check_match(Z.shape[1], classes)
        if len(Z) == 0:
            return self
        batch = Moments(scatter=self._products is not None)
        batch._classes, batch._shift = classes, np.zeros((classes.size, 1))
        if self._products is not None:
            batch._shift = Z[first_rows_of_classes(codes)].astype(np.float64)
            _, known, again = np.intersect1d(
                self._classes, classes, assume_unique=True, return_indices=True
            )
            if known.size:
                batch._shift[again] = self._shift[known]
        with np.errstate(over="ignore", invalid="ignore"):
            batch._gather(Z, codes)
        self._absorb(batch)
        return self

    @border
    def merge(self, other: "Moments") -> "Moments":
        """Give the moments of the rows of both, as a new object.

        Order and grouping of merges change only rounding.

        >>> a, b = Moments().add([[1.0]], [0]), Moments().add([[5.0]], [1])
        >>> a.merge(b).means.ravel().tolist(), a.classes.tolist()
        ([1.0, 5.0], [0])
        """
        self._check_alike(other)
        if other.n:
            self._check_match(other.n_features, other._classes)
        merged = deepcopy(self if self.n else other)
        if self.n and other.n:
            merged._absorb(other)
        return merged

    @border
    def minus(self, other: "Moments") -> "Moments":
        """Give the moments of the rows that remain without those of `other`, as a new object.

        The rows of `other` must be among these, in the same classes; a class without remaining rows
        is left out. Only `root_mean_square`, which comes from a sample, stays what it was.

        >>> both = Moments().add([[1.0], [5.0], [9.0]], [0, 0, 1])
        >>> rest = both.minus(Moments().add([[5.0], [9.0]], [0, 1]))
        >>> rest.classes.tolist(), rest.counts.tolist(), rest.means.tolist()
        ([0], [1], [[1.0]])
        """
        self._check_alike(other)
        if not other.n:
            return deepcopy(self)
        self._check_match(other.n_features, other._classes)
        unknown = np.setdiff1d(other._classes, self._classes)
        if unknown.size:
            raise InputError(f"class {unknown[0]!s} has no rows here; subtract a part of the rows.")
        at = np.searchsorted(self._classes, other._classes)
        short = self._counts[at] < other._counts
        if short.any():
            name = other._classes[np.argmax(short)]
            raise InputError(
                f"class {name!s} has fewer rows here than there; subtract a part of the rows."
            )
        rest = deepcopy(self)
        sums, products = self._as_measured_here(other, at)
        rest._counts[at] -= other._counts
        rest._sums[at] -= sums
        if rest._products is not None:
            rest._products -= products
        return rest._without_empty_classes()

    def repeated(self, times: int) -> "Moments":
        """Give the moments of the same rows, each taken in `times` times, as a new object.

        >>> Moments().add([[1.0], [3.0]]).repeated(3).counts
        array([6])
        """
        moments = deepcopy(self)
        for name in (*_BY_CLASS, "_products"):
            if name != "_shift" and getattr(moments, name) is not None:
                setattr(moments, name, getattr(moments, name) * times)
        return moments

    @property
    def n(self) -> int:
        """Rows taken in."""
        return int(self._counts.sum())

    @property
    def n_features(self) -> int:
        """Width m of the features; 0 before the first row."""
        return int(self._sums.shape[1])

    @property
    def classes(self) -> AnyArray:
        """Labels seen, sorted: (C,) integers or strings."""
        return self._classes.copy()

    @property
    def counts(self) -> NDArray[np.int64]:
        """Rows of each class, (C,)."""
        return self._counts.copy()

    @property
    def sums(self) -> NDArray[np.float64]:
        """Sum of each class's rows, (C, m)."""
        return self._counts[:, None] * self._shift + self._sums

    @property
    def means(self) -> NDArray[np.float64]:
        """Mean of each class's rows, (C, m)."""
        means: NDArray[np.float64] = self._sums / self._counts[:, None]
        means += self._shift  # in place: with a million classes one copy is enough
        return means

    @property
    def scatter(self) -> NDArray[np.float64] | None:
        """Σ (z - mean_class)(z - mean_class)ᵀ over all rows, (m, m); None unless asked for."""
        if self._products is None:
            return None
        return scatter_within(self._products, self._sums, self._counts)

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of all rows, (m,)."""
        mean: NDArray[np.float64] = self._counts / self.n @ self.means
        return mean

    @border
    def scatter_within(self) -> NDArray[np.float64]:
        """Give the scatter (m, m) of the rows about their class means, which must be there."""
        scatter: NDArray[np.float64] | None = self.scatter
        if scatter is None:
            raise InputError("no scatter was gathered; use Moments(scatter=True).")
        return scatter

    @border
    def scatter_about(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the scatter (m, m) of all rows about one point (m,): within classes and of means.

        >>> moments = Moments(scatter=True).add([[1.0], [3.0], [8.0]], [0, 0, 1])
        >>> moments.scatter_about(np.array([4.0]))
        array([[26.]])
        """
        spread = np.sqrt(self._counts)[:, None] * (self.means - point)
        scatter: NDArray[np.float64] = self.scatter_within() + spread.T @ spread
        return scatter

    @property
    def root_mean_square(self) -> NDArray[np.float64]:
        """Root mean square norm of each class's rows, (C,): the scale on which its mean is zero.

        In a batch of more than 1024 rows only a sample counts, since all would cost a second pass:
        the first row of each class, and about 1024 rows at equal distances.

        >>> Moments().add([[3.0, 4.0], [0.0, 1.0]], ["cat", "dog"]).root_mean_square
        array([5., 1.])
        """
        return np.sqrt(self._squares / self._samples)

    def state(self) -> State:
        """Give everything as arrays, a list (of string labels) and a bool, to be stored.

        >>> kept = Moments().add([[1.0, 2.0]], ["cat"]).state()
        >>> Moments.from_state(kept).means
        array([[1., 2.]])
        """
        state = {
            name[1:]: value for name, value in deepcopy(vars(self)).items() if value is not None
        }
        if self._classes.dtype.kind == "U":
            state["classes"] = self._classes.tolist()
        return state | {"scatter": self._products is not None}

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Restore what `state` gave."""
        moments = cls(scatter=bool(state.get("scatter")))
        for name, shape in _stored_shapes(state).items():
            setattr(moments, f"_{name}", _stored_array(state, name, shape))
        return moments

    def _check_alike(self, other: "Moments") -> None:
        """Refuse moments that were not gathered with the same scatter=."""
        if not isinstance(other, Moments):
            raise InputError(f"got {type(other).__name__}; pass other Moments.")
        if (self._products is None) != (other._products is None):
            raise InputError(
                "moments with and without scatter; gather both with the same scatter=."
            )

    def _check_match(self, width: int, classes: AnyArray) -> None:
        """Refuse rows that do not match those already taken in."""
        if self.n and width != self.n_features:
            raise InputError(
                f"{width} columns after {self.n_features}; keep one width of features."
            )
        if self.n and classes.size and classes.dtype.kind != self._classes.dtype.kind:
            text = classes.dtype.kind == "U"
            kinds = "strings after integers" if text else "integers after strings"
            raise InputError(f"labels are {kinds}; keep one kind of labels.")

    def _gather(self, Z: AnyArray, codes: NDArray[np.int32]) -> None:
        """Sum up a batch, whose classes and shift are set."""
        self._counts = np.bincount(codes).astype(np.int64)
        self._sum_up(Z, codes)
        self._sample(Z, codes)
        totals = [self._sums, self._squares]
        if self._products is not None:
            totals.append(self._products)
        if not all(np.isfinite(total).all() for total in totals):
            raise InputError("the features are so large that float64 overflows; rescale them.")

    def _sum_up(self, Z: AnyArray, codes: NDArray[np.int32]) -> None:
        """Sum up the rows and, with scatter, their products."""
        if self._products is None:
            self._sums = sums_by_class(Z, codes, self._classes.size)
        else:
            self._sums, self._products = centred_sums(Z, codes, self._shift)

    def _sample(self, Z: AnyArray, codes: NDArray[np.int32]) -> None:
        """Sum up the squared norms of a sample of the batch."""
        sample = np.union1d(
            first_rows_of_classes(codes), np.arange(0, len(Z), -(-len(Z) // _SAMPLE_ROWS))
        )
        norms = np.empty(len(sample))
        memory = np.empty((_SAMPLE_ROWS_AT_ONCE, Z.shape[1]))
        for start in range(0, len(sample), _SAMPLE_ROWS_AT_ONCE):
            some = slice(start, start + _SAMPLE_ROWS_AT_ONCE)
            rows = memory[: len(sample[some])]
            rows[:] = Z[sample[some]]
            np.vecdot(rows, rows, out=norms[some])
        squares: Any = np.bincount(codes[sample], weights=norms)
        self._squares = squares
        self._samples = np.bincount(codes[sample]).astype(np.int64)

    def _absorb(self, other: "Moments") -> None:
        """Add the sums of `other`, which may know other classes, measured from other rows."""
        if self.n == 0:
            vars(self).update(vars(other))
            return
        classes = np.union1d(self._classes, other._classes)
        if classes.size > self._classes.size:
            own = np.searchsorted(classes, self._classes)
            self._classes = classes
            for name in _BY_CLASS:
                old = getattr(self, name)
                grown = np.zeros((classes.size, *old.shape[1:]), old.dtype)
                grown[own] = old
                setattr(self, name, grown)
        at = np.searchsorted(classes, other._classes)
        if self._products is not None:
            new = self._counts[at] == 0
            self._shift[at[new]] = other._shift[new]
        sums, products = self._as_measured_here(other, at)
        if self._products is not None:
            self._products += products
        self._sums[at] += sums
        for name in ("_counts", "_squares", "_samples"):
            getattr(self, name)[at] += getattr(other, name)

    def _as_measured_here(self, other: "Moments", at: NDArray[np.int64]) -> tuple[Any, Any]:
        """Give the sums and products of `other`, measured from the same rows as these.

        at: where the classes of `other` are among these.
        """
        if self._products is None:
            return other._sums, None
        move: Any = other._shift - self._shift[at]
        if not move.any():
            return other._sums, other._products
        moved = other._counts[:, None] * move  # z - s = (z - s') + move
        cross = (other._sums + moved / 2).T @ move
        return other._sums + moved, other._products + (cross + cross.T)

    def _without_empty_classes(self) -> "Moments":
        """Drop the classes that have no rows, and give self; new moments if none is left."""
        if not self.n:
            return Moments(scatter=self._products is not None)
        present = self._counts > 0
        self._classes = self._classes[present]
        for name in _BY_CLASS:
            setattr(self, name, getattr(self, name)[present])
        return self


def _stored_shapes(state: State) -> dict[str, tuple[int, ...]]:
    """Return what `Moments.state` gave by name, and the shape that each array must have."""
    scatter = bool(state.get("scatter"))
    sums: Any = state.get("sums")
    C, m = sums.shape if np.ndim(sums) == 2 else (0, 0)
    shift_width = m if scatter or C == 0 else 1
    per_class = dict.fromkeys(("classes", "counts", "squares", "samples"), (C,))
    shapes: dict[str, tuple[int, ...]] = {**per_class, "sums": (C, m), "shift": (C, shift_width)}
    if scatter:
        shapes["products"] = (m, m)
    return shapes


def _stored_array(state: State, name: str, shape: tuple[int, ...]) -> AnyArray:
    """Return a copy of one array of what `Moments.state` gave, or refuse it."""
    value = np.array(state.get(name))
    kinds = "iuU" if name == "classes" else "iuf"
    is_empty = value.shape == (0,)
    has_kind = is_empty or value.dtype.kind in kinds
    if value.shape != shape or not has_kind:
        raise FormatError(
            f"Moments.from_state: {name} is missing or does not fit; pass what state() gave."
        )
    return value


def _as_matrix(Z: Any) -> AnyArray:
    """Return the features that `Moments.add` takes as an array; refuse rows of several lengths."""
    try:
        return np.asarray(Z)
    except ValueError as error:
        raise InputError(
            f"the rows do not form a matrix ({error}); pass rows of one length."
        ) from None
