"""Counts, sums and scatter of features per class, gathered over any stream of batches.

Everything is kept as sums, so that batches may come in any split and order, and the moments of parts, gathered
by different processes, merge into those of the whole.

Without scatter the sums are about zero, and cost one pass over the features. With scatter each class k is
measured from its first row s_k, in float64 throughout:

    T_k = Σ (z - s_k)        Q = Σ (z - s_k)(z - s_k)ᵀ        scatter = Q - Σ_k T_k T_kᵀ / n_k

A row of the class lies where the class lies: neither a large common offset nor classes far apart cost digits,
and a batch of known classes is simply added.
"""

from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from typica.errors import FormatError, InputError

_BLOCK_ROWS = 2**15
_BLOCK_BYTES = 2**26
_CENTRED_BYTES = 2**25
_ROWS_PER_SUM = 256  # the longest sum in float32: a constant feature loses 1e-4 of its mean in 2**15 rows


class Moments:
    """Count, mean and, if asked, tied within-class scatter of every class.

    Parameters
    ----------
    scatter : bool
        Also gather the (m, m) scatter Σ (z - mean_class)(z - mean_class)ᵀ over all rows.

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 5.0]])
    >>> whole = Moments(scatter=True).add(Z, ["cat", "cat", "dog"])
    >>> whole.classes.tolist(), whole.counts.tolist(), whole.means.tolist()
    (['cat', 'dog'], [2, 1], [[2.0, 0.0], [0.0, 5.0]])
    >>> whole.scatter.tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    >>> parts = Moments().add(Z[:1], ["cat"]).merge(Moments().add(Z[1:], ["cat", "dog"]))
    >>> bool((parts.means == whole.means).all())
    True
    """

    def __init__(self, scatter: bool = False) -> None:
        self._classes: NDArray[Any] = np.empty(0, np.int64)
        self._counts: NDArray[Any] = np.empty(0, np.int64)
        self._sums: NDArray[Any] = np.empty((0, 0))
        self._squares: NDArray[Any] = np.empty(0)
        self._samples: NDArray[Any] = np.empty(0, np.int64)
        self._shift: NDArray[Any] | None = np.empty((0, 0)) if scatter else None
        self._products: NDArray[Any] | None = np.empty((0, 0)) if scatter else None

    def add(self, Z: Any, labels: Any = None, *, where: str = "Moments.add") -> Self:
        """Take in a batch; after an error nothing has changed.

        Parameters
        ----------
        Z : array (n, m)
            Features: real numbers of any dtype and memory layout. Never written to.
        labels : array (n,), optional
            Integers or strings, the same kind in every batch. None: every row is of class 0.
        where : str
            What error messages start with.

        Examples
        --------
        >>> Moments().add([[1.0, 2.0]]).add([[3.0, 6.0]]).means
        array([[2., 4.]])
        """
        Z = _check_features(Z, where)
        classes, codes = _encode(labels, len(Z), where)
        self._check_match(Z.shape[1], classes, where)
        if len(Z) == 0:
            return self
        batch = Moments()
        batch._classes = classes
        if self._shift is not None:
            batch._shift = Z[_first_rows(codes, classes.size)].astype(np.float64)
            _, known, again = np.intersect1d(self._classes, classes, assume_unique=True, return_indices=True)
            batch._shift[again] = self._shift[known]
        with np.errstate(over="ignore", invalid="ignore"):
            batch._gather(Z, codes, where)
        self._absorb(batch)
        return self

    def merge(self, other: "Moments", *, where: str = "Moments.merge") -> "Moments":
        """Give the moments of the rows of both, as a new object.

        Any order and any tree of merges gives the same, to rounding.

        >>> a, b = Moments().add([[1.0]], [0]), Moments().add([[5.0]], [1])
        >>> a.merge(b).means.ravel().tolist(), a.classes.tolist()
        ([1.0, 5.0], [0])
        """
        if (self._shift is None) != (other._shift is None):
            raise InputError(f"{where}: moments with and without scatter; gather both with the same scatter=.")
        if other.n:
            self._check_match(other.n_features, other._classes, where)
        merged = deepcopy(self)
        merged._absorb(other)
        return merged

    @property
    def n(self) -> int:
        """Rows taken in."""
        return int(self._counts.sum())

    @property
    def n_features(self) -> int:
        """Width m of the features; 0 before the first row."""
        return int(self._sums.shape[1])

    @property
    def classes(self) -> NDArray[Any]:
        """Labels seen, sorted: (C,) integers or strings."""
        return self._classes.copy()

    @property
    def counts(self) -> NDArray[np.int64]:
        """Rows of each class, (C,)."""
        return self._counts.copy()

    @property
    def sums(self) -> NDArray[np.float64]:
        """Sum of each class's rows, (C, m)."""
        return self._sums + (0.0 if self._shift is None else self._counts[:, None] * self._shift)

    @property
    def means(self) -> NDArray[np.float64]:
        """Mean of each class's rows, (C, m)."""
        return self._sums / self._counts[:, None] + (0.0 if self._shift is None else self._shift)

    @property
    def scatter(self) -> NDArray[np.float64] | None:
        """Σ (z - mean_class)(z - mean_class)ᵀ over all rows, (m, m); None unless asked for."""
        if self._products is None:
            return None
        scaled = self._sums / np.sqrt(self._counts)[:, None]
        scatter: NDArray[np.float64] = self._products - scaled.T @ scaled
        return scatter

    @property
    def scale(self) -> NDArray[np.float64]:
        """Size of each class's features, (C,), beside which a mean can be called zero.

        The root mean square norm of a sample: the first row of the class in each block of at most 32768 rows.
        All rows would cost a second pass. It exceeds the value over all rows at most √32768 ≈ 181 times.

        >>> Moments().add([[3.0, 4.0], [0.0, 1.0]], ["cat", "dog"]).scale
        array([5., 1.])
        """
        return np.sqrt(self._squares / self._samples)

    def state(self) -> dict[str, Any]:
        """Give everything as arrays, a list (of string labels) and a bool, to be saved without pickle.

        >>> kept = Moments().add([[1.0, 2.0]], ["cat"]).state()
        >>> Moments.from_state(kept).means
        array([[1., 2.]])
        """
        state = {name[1:]: value for name, value in deepcopy(vars(self)).items() if value is not None}
        if self._classes.dtype.kind == "U":
            state["classes"] = self._classes.tolist()
        return state | {"scatter": self._shift is not None}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Restore what `state` gave."""
        try:
            moments = cls(scatter=bool(state["scatter"]))
            labels = state["classes"]
            moments._classes = np.array(labels, dtype=None if len(labels) else np.int64)
            (C, m), parts = np.shape(state["sums"]), {name: state[name[1:]] for name in moments._arrays()}
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"Moments.from_state: no state of Moments ({error!r}); pass what state() gave.") from error
        shapes = {"_sums": (C, m), "_shift": (C, m), "_products": (m, m)}
        for name, blank in moments._arrays().items():
            if np.shape(parts[name]) != shapes.get(name, (C,)):
                raise FormatError(
                    f"Moments.from_state: {name[1:]} has shape {np.shape(parts[name])} beside sums of shape {(C, m)}; "
                    "pass what state() gave."
                )
            setattr(moments, name, np.array(parts[name], dtype=blank.dtype))
        return moments
