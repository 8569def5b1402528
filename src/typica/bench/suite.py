"""What every suite of features shares: the features of one network on known data and on foreign data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from typica.errors import InputError


@dataclass(frozen=True, eq=False, repr=False)
class FeatureSuite:
    """One network's penultimate features, ready for any detector.

    A detector is fitted on `train`, its threshold set on `calibration`, and judged by how it tells `test`
    from each set in `ood`. Shapes are checked when the suite is made.

    Attributes
    ----------
    name, title : str
        The name that commands take, and one line for people.
    train, calibration, test : array (n, m)
        Features of in-distribution inputs; no input is in two of them.
    train_labels, calibration_labels, test_labels : array (n,)
        Their true classes.
    ood : mapping of str to array (n, m)
        Features of inputs that the network should not be trusted with, by set.
    near : frozenset of str
        The OOD sets that resemble the training data; the rest are `far`.
    head_weight, head_bias, classes : array (C, m), (C,), (C,)
        The network's last layer, `logits = Z @ head_weight.T + head_bias`; column j stands for `classes[j]`.
    accuracy : float
        Top-1 accuracy of the network on `test`, from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> z, y = np.eye(2, dtype=np.float32), np.array([0, 1])
    >>> suite = FeatureSuite("toy", "Two points", z, y, z, y, z, y, {"noise": -z}, frozenset(), z, y, y, 1.0)
    >>> suite
    <FeatureSuite toy: 2 train, 2 calibration, 2 test; OOD: noise 2>
    >>> suite.far
    frozenset({'noise'})
    """

    name: str
    title: str
    train: NDArray[Any]
    train_labels: NDArray[Any]
    calibration: NDArray[Any]
    calibration_labels: NDArray[Any]
    test: NDArray[Any]
    test_labels: NDArray[Any]
    ood: Mapping[str, NDArray[Any]]
    near: frozenset[str]
    head_weight: NDArray[Any]
    head_bias: NDArray[Any]
    classes: NDArray[Any]
    accuracy: float

    def __post_init__(self) -> None:
        C, m = len(self.classes), self.train.shape[-1]
        splits = {split: getattr(self, split) for split in ("train", "calibration", "test")}
        for what, features in (*splits.items(), *self.ood.items()):
            if features.ndim != 2 or features.shape[1] != m or len(features) == 0:
                raise self._error(f"{what} has shape {features.shape}", f"give it as (n, {m}) with n >= 1")
        for split, features in splits.items():
            labels = getattr(self, f"{split}_labels")
            if labels.shape != (len(features),):
                found = f"{split}_labels has shape {labels.shape}"
                raise self._error(found, f"give one label for each of the {len(features)} rows of {split}")
        for what, shape in {"head_weight": (C, m), "head_bias": (C,), "classes": (C,)}.items():
            if getattr(self, what).shape != shape:
                raise self._error(f"{what} has shape {getattr(self, what).shape}", f"give it as {shape}")
        if unknown := sorted(self.near - set(self.ood)):
            raise self._error(f"near names {unknown}", f"name sets of ood, which are {sorted(self.ood)}")

    def __repr__(self) -> str:
        splits = ", ".join(f"{len(getattr(self, s))} {s}" for s in ("train", "calibration", "test"))
        ood = ", ".join(f"{name} {len(features)}" for name, features in self.ood.items())
        return f"<FeatureSuite {self.name}: {splits}; OOD: {ood}>"

    @property
    def far(self) -> frozenset[str]:
        """Names of the OOD sets that are not near."""
        return frozenset(self.ood) - self.near

    def _error(self, found: str, advice: str) -> InputError:
        return InputError(f"FeatureSuite {self.name!r}: {found}; {advice}.")
