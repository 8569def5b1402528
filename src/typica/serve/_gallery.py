"""Known inputs to look at: the most typical images of a class, and any image of a bank."""

from __future__ import annotations

import io
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.as_json import json_number
from typica.bank import Bank
from typica.data import Images, open_images, thumbnail
from typica.detectors import reads_layers
from typica.errors import InputError
from typica.serve._served import Served

EACH = 6  # images of a class
SIDE = 128  # of an image's longer side, at most, in pixels
ROWS = 20_000  # of a class that are looked through, at most
CLASSES = 4096  # whose images are remembered

Told = dict[str, Any]


class NotKnownError(InputError):
    """What a request wants from the gallery, but the bank does not hold."""


class Gallery:
    """The images behind the rows of a bank, looked for where they were when it was made.

    images: where they are now, if they have moved. Several threads may use it.
    """

    def __init__(self, bank: Bank, images: str | None = None) -> None:
        self.bank = bank
        self._place = images or bank.settings.get("images")
        self._split = bank.settings.get("split")
        self._lock = threading.Lock()
        self._images: Images | None = None
        self._typical: dict[tuple[str, str], list[Told]] = {}

    @property
    def has_images(self) -> bool:
        """Whether it is known where the images are."""
        return self._place is not None and self.bank.names is not None

    def typical(self, served: Served, name: str) -> list[Told]:
        """Return the known inputs of a class that score highest, the best first."""
        key = (served.digest, name)
        if key not in self._typical:
            if len(self._typical) >= CLASSES:
                self._typical.clear()
            self._typical[key] = self._best(served, name)
        return self._typical[key]

    def _best(self, served: Served, name: str) -> list[Told]:
        places = self._rows_of(name)
        rows = self.bank.logits if served.reads == "logits" else self.bank.features
        if not len(places) or rows is None or reads_layers(served.estimator) is not None:
            return []
        verdicts = served.judge(np.asarray(rows[places]))
        scores = np.array(verdicts.score, dtype=np.float64)
        if verdicts.nearest is not None:
            own = np.array([str(nearest) == name for nearest in verdicts.nearest.tolist()])
            scores[~own] = -np.inf  # a row nearer to another class is not typical of this one
        best = np.argsort(-scores, kind="stable")[:EACH]
        return [self.told(int(places[i]), scores[i]) for i in best if np.isfinite(scores[i])]

    def _rows_of(self, name: str) -> NDArray[np.intp]:
        """Return the rows of a class by its name, spread evenly if there are many."""
        labels, classes = self.bank.labels, self.bank.classes
        if labels is None:
            return np.zeros(0, dtype=np.intp)
        if classes is not None:
            numbers = [number for number, known in enumerate(classes) if known == name]
        else:
            numbers = [label for label in np.unique(labels).tolist() if str(label) == name]
        places = np.flatnonzero(np.isin(labels, numbers))
        return places[:: max(1, -(-len(places) // ROWS))]

    def told(self, row: int, score: float | None = None) -> Told:
        """Return what is known about a row, as JSON values."""
        names = self.bank.names
        told: Told = {"row": row, "file": None if names is None else names[row]}
        if score is not None:
            told["score"] = json_number(float(score))
        return told

    def thumbnail(self, row: int) -> bytes:
        """Return the image of a row as a small PNG."""
        if not 0 <= row < len(self.bank):
            raise NotKnownError(f"row {row} of a bank of {len(self.bank)}; pass one of them.")
        images = self._opened()
        shown = thumbnail(images.read(self._place_of(row, images)), SIDE)
        file = io.BytesIO()
        shown.save(file, "png")
        return file.getvalue()

    def _opened(self) -> Images:
        if not self.has_images:
            raise NotKnownError("it is not known where the bank's images are; pass bank_images.")
        with self._lock:
            if self._images is None:
                self._images = open_images(self._place, split=self._split)
            return self._images

    def _place_of(self, row: int, images: Images) -> int:
        """Return which image a row is of: those before it, and those that were skipped."""
        name = "" if self.bank.names is None else self.bank.names[row]
        for place in range(row, min(row + len(self.bank.skipped) + 1, len(images))):
            if images.names[place] == name:
                return place
        raise NotKnownError(f"{name}: no longer among the images of {self._place}.")
