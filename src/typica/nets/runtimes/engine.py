"""What runs a network for a Runner.

An engine takes float32 arrays of at most `batch` images and gives float32 arrays. `infer` may be
called by `jobs` threads at once. Where `pads` is true, it takes `batch` images and no other number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from typica.arrays import AnyArray
from typica.nets._extracted_batch import Extraction


class Engine(Protocol):
    """See the top of this file. versions: of the packages that the numbers depend on."""

    batch: int
    threads: int
    jobs: int
    pads: bool
    versions: dict[str, str]

    def infer(self, images: NDArray[np.float32]) -> Extraction:
        """Return what a batch gives, as float32 arrays."""
        ...

    def close(self) -> None:
        """Put back what was changed for all, such as the number of threads."""
        ...


class Wiring(NamedTuple):
    """How a converted model is used: what it is given, its outputs, and what they make."""

    outputs: Sequence[Any]
    prepare: Callable[[AnyArray], AnyArray]
    assemble: Callable[[AnyArray, Sequence[AnyArray]], Extraction]
