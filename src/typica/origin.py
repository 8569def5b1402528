"""Where features come from: the model, layer and transform that made them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typica.arrays import relative_difference
from typica.as_json import digest_of, finite_number
from typica.errors import FormatError, InputError, border
from typica.store import State, storable

PENULTIMATE = "penultimate"  # the layer whose output is the head's input, by another name
_PLACES = ("model_file", "weights_file")  # where things lie, which changes no feature
PROBE = "probe"  # its key in the identity of a bank
# Of the largest value. Measured: engines, threads and processors move the answer by at most 2e-6,
# one per cent on the output of the last convolution by 2.5e-3.
SAME_ANSWER = 1e-4


def _refuse(*_: Any, **__: Any) -> Any:
    raise TypeError("an origin cannot be changed; make another by dataclasses.replace")


class _Frozen(dict[str, Any]):
    """The transform of an origin, which banks and detectors share: it cannot be changed."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return _Frozen, (dict(self),)


class _FrozenList(list[Any]):
    """A setting of an origin's transform, equal to a list, which cannot be changed either."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = remove = pop = clear = sort = reverse = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return _FrozenList, (list(self),)


@storable("origin")
@dataclass(frozen=True)
class Origin:
    """The network that made features: enough to make those of another image, or to refuse others.

    Parameters
    ----------
    model
        Its name, file name or `package.module:function`.
    weights
        The fingerprint of its weights.
    layer
        The layer whose output the features are, None for the input of the head; of several layers,
        the last.
    reduce
        How maps became rows.
    transform
        The preprocessing of images, as JSON values.
    head
        The layer that was named as the head, if one was.
    model_file, weights_file
        Where these were, if they are files.
    probe
        What a network of code gives for one fixed image, by layer: it tells code that has changed
        with the weights as they were. None for a network whose weights tell all.

    >>> origin = Origin("densenet-bc-100", "5f1c", None, "mean", {"resize": 32, "crop": 32})
    >>> Origin.from_dict(origin.to_dict()) == origin
    True
    >>> moved = dataclasses.replace(origin, weights_file="/models/net.pth.tar")
    >>> moved == origin, moved.fingerprint() == origin.fingerprint()
    (False, True)
    """

    model: str
    weights: str
    layer: str | None
    reduce: str
    transform: dict[str, Any]
    head: str | None = None
    model_file: str | None = None
    weights_file: str | None = None
    probe: dict[str, Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.probe is not None:
            object.__setattr__(self, PROBE, _checked_probe(self.probe))
        object.__setattr__(self, "layer", feature_layer(self.layer))
        frozen = {name: _frozen(value) for name, value in self.transform.items()}
        object.__setattr__(self, "transform", _Frozen(frozen))

    @classmethod
    def known_in(cls, values: Mapping[str, Any]) -> bool:
        """Tell whether these values, of a bank's identity for example, say which network it was."""
        return all(key in values for key in _NEEDED)

    @classmethod
    @border
    def from_dict(cls, values: Mapping[str, Any]) -> Origin:
        """Rebuild the origin from what `to_dict` returned; other values are ignored."""
        if not cls.known_in(values):
            missing = ", ".join(key for key in _NEEDED if key not in values)
            raise FormatError(f"an origin without {missing}; extract the features again.")
        return cls(**{key: values[key] for key in _KEYS if key in values})

    def to_dict(self) -> dict[str, Any]:
        """Return the origin as JSON values."""
        values = {name: getattr(self, name) for name in _KEYS}
        transform = {name: _thawed(value) for name, value in self.transform.items()}
        probe = self.probe and {name: _thawed(value) for name, value in self.probe.items()}
        return {**values, "transform": transform, PROBE: probe}

    def fingerprint(self) -> str:
        """Return the SHA-256 of what makes the features: equal for equal networks."""
        return digest_of(self._network())

    def check_same(self, other: Origin | None) -> None:
        """Raise if `other`, the origin of other features, is another network; None may be any.

        >>> ours = Origin("net.onnx", "5f1c", None, "mean", {})
        >>> ours.check_same(dataclasses.replace(ours, weights="77aa"))
        Traceback (most recent call last):
        typica.errors.InputError: features of another network, weights '77aa' in place ...
        """
        if other is None:
            return
        theirs = other._network()
        for key, value in self._network().items():
            if theirs[key] != value:
                raise InputError(
                    f"features of another network, {key} {theirs[key]!r} in place of {value!r}; "
                    "extract them with the same model, layer and transform."
                )
        self.check_answer(other.probe)

    def check_answer(self, probe: Mapping[str, Any] | None) -> None:
        """Raise if a network of code answers the fixed image otherwise than this one did."""
        apart = probe_difference(self.probe, probe)
        if apart > SAME_ANSWER:
            raise InputError(
                f"{self.model} has changed: its answer to one fixed image is another than when the "
                f"features were made (by {apart:.2g} of the largest value, the weights being the "
                "same); go back to the code and packages of then, or extract and fit again."
            )

    def alone(self) -> Origin:
        """Return the origin without places and probe: equal for the same features."""
        return dataclasses.replace(self, model_file=None, weights_file=None, probe=None)

    def _network(self) -> dict[str, Any]:
        """Return what makes the features what they are."""
        left_out = (*_PLACES, PROBE)
        return {key: value for key, value in self.to_dict().items() if key not in left_out}

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    def state(self) -> State:
        """Return what is to be stored."""
        return self.to_dict()

    @classmethod
    def from_state(cls, state: State) -> Origin:
        """Rebuild the origin from what was stored."""
        return cls.from_dict(state)


def _frozen(value: Any) -> Any:
    """Return a setting of an Origin's transform so that it cannot be changed."""
    return _FrozenList(map(_frozen, value)) if isinstance(value, list | tuple) else value


def _thawed(value: Any) -> Any:
    """Return a setting of an Origin's transform; a list in it is one that its caller may change."""
    return list(map(_thawed, value)) if isinstance(value, list) else value


def probe_difference(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> float:
    """Return how far two probes are apart, as a part of the largest value; 0 if one is unknown.

    Layers that only one of them has are left out.

    >>> probe_difference({"logits": [2.0, -4.0]}, {"logits": [2.0, -3.0], "layer.fc": [1.0]})
    0.25
    """
    if one is None or other is None:
        return 0.0
    shared = [name for name in one if name in other]
    apart = [relative_difference(_numbers(other[name]), _numbers(one[name])) for name in shared]
    return max(apart, default=0.0)


def _numbers(values: Any) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _checked_probe(probe: Any) -> _Frozen:
    """Return a probe that cannot be changed; refuse what is none, as a file may hold anything."""
    if not isinstance(probe, Mapping):
        raise FormatError("an origin whose probe is no dict; extract the features again.")
    for name, values in probe.items():
        known = isinstance(values, list | tuple) and all(
            value is None or finite_number(value) is not None for value in values
        )
        if not known:
            raise FormatError(
                f"an origin whose probe has no list of numbers as {name!r}; "
                "extract the features again."
            )
    return _Frozen({str(name): _frozen(values) for name, values in probe.items()})


def feature_layer(layer: str | list[str] | None) -> str | None:
    """Return the layer in an origin that features come from; None for the input of the head.

    >>> feature_layer(["block2", "block3"]), feature_layer("penultimate")
    ('block3', None)
    """
    last = layer[-1] if isinstance(layer, list) else layer
    return None if last == PENULTIMATE else last


_KEYS = tuple(field.name for field in dataclasses.fields(Origin))
_NEEDED = tuple(
    field.name for field in dataclasses.fields(Origin) if field.default is dataclasses.MISSING
)
