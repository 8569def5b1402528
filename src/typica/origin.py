"""Where features come from: the model, layer and transform that made them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from typica.as_json import digest_of
from typica.errors import FormatError, InputError, border
from typica.store import State, storable

PENULTIMATE = "penultimate"  # the layer whose output is the head's input, by another name
_PLACES = ("model_file", "weights_file")  # where things lie, which changes no feature


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
    code
        The SHA-256 of the module of the function, if the model is one.
    model_file, weights_file
        Where these were, if they are files.

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
    code: str | None = None
    model_file: str | None = None
    weights_file: str | None = None

    def __post_init__(self) -> None:
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
        return {**values, "transform": transform}

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

    def without_places(self) -> Origin:
        """Return the origin of the same features, wherever model and weights lie."""
        return dataclasses.replace(self, model_file=None, weights_file=None)

    def _network(self) -> dict[str, Any]:
        """Return what makes the features what they are."""
        return {key: value for key, value in self.to_dict().items() if key not in _PLACES}

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
