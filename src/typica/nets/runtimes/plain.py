"""An engine of NumPy, for networks that need nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.nets._extracted_batch import Extraction, in_float32

NUMPY = "numpy"
BATCH = 256  # images of a small network at once


class NumpyEngine:
    """Calls a Perceptron, one batch at a time; BLAS has threads of its own."""

    pads = False

    def __init__(self, extractor: Any, batch: int | None, threads: int | None) -> None:
        self.batch, self.threads, self.jobs = batch or BATCH, threads or 1, 1
        self.versions: dict[str, str] = {}  # every Runner tells NumPy's
        self.extractor = extractor

    def infer(self, images: NDArray[np.float32]) -> Extraction:
        """Return what a batch gives."""
        return in_float32(self.extractor(images))

    def close(self) -> None:
        """Do nothing: nothing was changed."""
