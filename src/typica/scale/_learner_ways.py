"""How a detector is fitted in parts, decided by what it needs before any row is read."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from typica.checks import is_whole
from typica.detectors import TRAINING_SAMPLE, Detector, TwoPasses, reads_logits
from typica.errors import InputError, LogitsWarning, argument
from typica.scale._batches import Batch
from typica.scale._row_sample import RowSample

State = dict[str, Any]


class Way:
    """What was learnt from some rows, in one of the ways below.

    limit: how many sampled rows it needs at the end. salt: part of the keys they are chosen by.
    """

    name: ClassVar[str]
    passes: ClassVar[int] = 1
    limit = TRAINING_SAMPLE
    salt = ""

    def __init__(self, detector: Detector) -> None:
        self.detector: Detector = clone(detector)

    def add(self, batch: Batch) -> None:
        """Learn a batch."""

    def merge(self, other: Self) -> None:
        """Take in what was learnt of another part of the tables."""

    def close(self, sample: RowSample, n: int) -> None:
        """End a pass over n rows that another follows; sample: of them."""

    def fresh(self) -> Self:
        """Return one that has learnt nothing in this pass."""
        return type(self)(self.detector)

    def finish(self, sample: RowSample, n: int) -> Detector:
        """Return the detector; sample: of all n rows."""
        return self.detector.set_training_threshold(sample.first(TRAINING_SAMPLE), n)

    def state(self) -> State:
        """Return what is sent to others."""
        return {"detector": self.detector}

    def restore(self, state: State) -> None:
        """Set what was sent."""
        self.detector = state["detector"]


class Sums(Way):
    """What it learns adds up (CTM, Mahalanobis and the like), or is the rows themselves (KNN)."""

    name = "sums"

    def add(self, batch: Batch) -> None:
        """Learn a batch."""
        self.detector.partial_fit(batch.features, batch.labels)

    def merge(self, other: Self) -> None:
        """Take in what was learnt of another part of the tables."""
        self.detector.merge(other.detector)


class Passes(Way):
    """It reads all rows twice (ViM, WeiPer): to find a measure, and to sum with it."""

    name = "passes"
    passes = 2
    detector: TwoPasses

    def __init__(self, detector: Detector) -> None:
        super().__init__(detector)
        self.closed = False
        self.totals: NDArray[np.float64] | None = None

    def add(self, batch: Batch) -> None:
        """Learn a batch in the first pass, and sum up in the second."""
        if self.closed:
            self._sum(self.detector.second_pass(batch.features))
        else:
            self.detector.first_pass(batch.features, batch.labels)

    def _sum(self, more: NDArray[np.float64]) -> None:
        self.totals = more if self.totals is None else self.totals + more

    def merge(self, other: Self) -> None:
        """Take in what was found, or summed up, of another part of the tables."""
        if not self.closed:
            self.detector.merge_first_pass(other.detector)
        elif other.totals is not None:
            self._sum(other.totals)

    def close(self, sample: RowSample, n: int) -> None:
        """End the first pass."""
        self.detector.end_first_pass(n)
        self.closed = True

    def fresh(self) -> Self:
        """Return one that has learnt nothing in this pass; the first stays known in the second."""
        made = type(self)(self.detector)
        if self.closed:
            made.detector, made.closed = self.detector, True
        return made

    def finish(self, sample: RowSample, n: int) -> Detector:
        """Return the detector."""
        if self.totals is None:
            raise InputError("the rows were read once, and have to be read twice; read them again.")
        self.detector.end_second_pass(self.totals, n)
        return super().finish(sample, n)

    def state(self) -> State:
        """Return what is sent to others."""
        return {**super().state(), "closed": self.closed, "totals": self.totals}

    def restore(self, state: State) -> None:
        """Set what was sent."""
        super().restore(state)
        self.closed, self.totals = state["closed"], state["totals"]


class Share(Way):
    """It keeps a share of the rows (`subsample=0.01`): those whose keys are small enough."""

    name = "share"

    def __init__(self, detector: Detector) -> None:
        super().__init__(detector)
        self.share = float(getattr(detector, "subsample", None) or 1)
        self.keys_of = seed_of(detector)
        self.detector.set_params(subsample=None)  # it is given only the share

    def add(self, batch: Batch) -> None:
        """Learn the rows whose keys are small enough."""
        batch.check()
        kept = batch.share(self.share, self.keys_of)
        if len(kept):
            self.detector.partial_fit(kept.features, kept.labels)

    def merge(self, other: Self) -> None:
        """Take in the rows that were kept of another part of the tables."""
        if hasattr(other.detector, "n_features_in_"):
            self.detector.merge(other.detector)

    def fresh(self) -> Self:
        """Return one that has no rows yet."""
        made = type(self)(self.detector)
        made.share = self.share
        return made

    def finish(self, sample: RowSample, n: int) -> Detector:
        """Return the detector with the share that was asked for among its parameters."""
        if not hasattr(self.detector, "n_features_in_"):
            raise InputError(f"a share of {self.share} of {n} rows is no row; pass a larger one.")
        state = self.detector.state()
        params = {**state["params"], "subsample": self.share}
        made = type(self.detector).from_state({**state, "params": params})
        return made.set_training_threshold(sample.first(TRAINING_SAMPLE), n)

    def state(self) -> State:
        """Return what is sent to others."""
        return {**super().state(), "share": self.share}

    def restore(self, state: State) -> None:
        """Set what was sent."""
        super().restore(state)
        self.share = state["share"]
        self.keys_of = seed_of(self.detector)


class Sampled(Way):
    """It is fitted on a sample: a number of rows is kept (`subsample=100000`), or was asked for.

    So is what learns nothing at all (MSP), for its provisional threshold.
    """

    name = "sample"

    def __init__(self, detector: Detector, limit: int | None = None) -> None:
        super().__init__(detector)
        kept: Any = getattr(detector, "subsample", None)
        self.limit = limit or (int(kept) if _is_number(kept) else TRAINING_SAMPLE)
        self.salt = seed_of(detector)

    def add(self, batch: Batch) -> None:
        """Look at a batch: bad rows are refused, whether they are in the sample or not."""
        batch.check()

    def fresh(self) -> Self:
        """Return the same, which has learnt nothing."""
        return type(self)(self.detector, self.limit)

    def finish(self, sample: RowSample, n: int) -> Detector:
        """Fit the detector on the sample."""
        logits = reads_logits(self.detector)
        labels = None if logits and not self.detector.tags.uses_labels else sample.labels
        with warnings.catch_warnings():
            # A sample does not show how many classes there are.
            warnings.simplefilter("ignore", LogitsWarning)
            return self.detector.fit(sample.rows, labels)

    def state(self) -> State:
        """Return what is sent to others."""
        return {**super().state(), "limit": self.limit}

    def restore(self, state: State) -> None:
        """Set what was sent."""
        super().restore(state)
        self.limit, self.salt = state["limit"], seed_of(self.detector)


WAYS: dict[str, type[Way]] = {way.name: way for way in (Sums, Passes, Share, Sampled)}


def way_of(detector: Detector, sample: int | None = None) -> Way:
    """Return how a detector is fitted in parts; refuse one that needs all rows at once.

    >>> from typica import CTM, KNN, MSP, ViM
    >>> [way_of(made).name for made in (CTM(), KNN(), KNN(subsample=1000), MSP(), ViM())]
    ['sums', 'sums', 'sample', 'sample', 'passes']
    """
    kept = getattr(detector, "subsample", None)
    if sample is not None:
        _check_sample(sample)
        return Sampled(detector, sample)
    if not detector.tags.needs_fit or _is_number(kept):
        return Sampled(detector)
    if kept is not None:
        return Share(detector)
    if isinstance(detector, TwoPasses):
        return Passes(detector)
    if detector.tags.mergeable:
        return Sums(detector)
    raise InputError(
        f"{type(detector).__name__} needs all rows at once; pass {argument('sample', 100_000)} to "
        "fit it on that many of them, chosen at random."
    )


def _is_number(kept: Any) -> bool:
    return isinstance(kept, int | np.integer)


def _check_sample(sample: int) -> None:
    if not is_whole(sample) or sample < 1:
        raise InputError(f"{argument('sample')} {sample}: pass a number of rows of 1 or more.")


def seed_of(detector: Detector) -> str:
    """Return what the keys of a sample depend on besides the rows: the detector's seed."""
    seed = getattr(detector, "seed", 0)
    return f"seed {seed}, " if seed else ""
