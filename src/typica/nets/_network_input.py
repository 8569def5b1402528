"""The preprocessing that a network needs: its own, what was asked for, or read off its input.

Channels and size are found by asking the network: it is shown noise of the shapes that may be
meant, and takes it or raises. What no shape tells is the range of values: pixels / 255 is taken,
unless the first layer says otherwise.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from typica.data import Images, Preprocessing
from typica.errors import InputError, InputWarning, about, argument, border, warn
from typica.nets._extracted_batch import run_directly
from typica.nets._left_out import none_readable
from typica.nets._open_model import Opened
from typica.nets._probe import SIDES
from typica.progress import is_watched, note

_LOOKED_AT = 16  # images whose sizes are compared
_LARGEST = 512 * 512  # pixels of an image that may be meant to be taken as it is
_MODES = {3: "RGB", 1: "L"}
_RAW = 2.0  # a mean of the input above this is of values from 0 to 255

Size = tuple[int, int]


@border
def transform_for(
    opened: Opened, images: Images, given: Preprocessing | Mapping[str, Any] | None = None
) -> Preprocessing:
    """Return the preprocessing of images for a network.

    given: a Preprocessing is taken as it is. Of settings in a dict, what is left out of size and
    mode is the model's own; None is the model's own altogether: what it came with, or what its
    input and the images tell, which is said in a note.
    """
    if isinstance(given, Preprocessing):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise InputError(
            f"{argument('transform')} of type {type(given).__name__}; pass a Preprocessing, or its "
            f"settings in a dict, e.g. {Preprocessing.EXAMPLE}."
        )
    given = dict(given or {})
    check_settings(given)
    if "resize" in given or "crop" in given:
        made = Preprocessing.from_dict(given)
        if "mode" in given:
            return made
        return _in_its_mode(opened, images, made, given)
    if opened.transform is not None:
        own: Preprocessing = replace(opened.transform, **given)
        return own
    with about(f"the preprocessing of {opened.identity.model} is not known"):
        found = _read_off(opened, images)
    # Over plain values, so that one number stands for the mean of one channel.
    made = Preprocessing.from_dict({**_size_and_mode(found), "scale": found.scale, **given})
    _tell(made)
    return made


def _size_and_mode(transform: Preprocessing) -> dict[str, Any]:
    return {"resize": transform.resize, "crop": transform.crop, "mode": transform.mode}


def _tell(made: Preprocessing) -> None:
    """Say what was read off, in a note or else as a warning: all verdicts depend on it."""
    if is_watched():
        note(_told(made))
    else:
        warn(_told(made), InputWarning)


def _told(made: Preprocessing) -> str:
    """Say which preprocessing is used, and how to pass another."""
    text = json.dumps({key: value for key, value in made.to_dict().items() if key not in _QUIET})
    example = f"{argument('transform')} '{Preprocessing.EXAMPLE}'"
    return f"transform {text}, read off model and images; if that is wrong, pass e.g. {example}"


_QUIET = ("exif", "interpolation")


def _in_its_mode(
    opened: Opened, images: Images, made: Preprocessing, given: Mapping[str, Any]
) -> Preprocessing:
    """Return the transform in grey where the network takes grey and no colours."""
    if opened.transform is not None:
        return made
    size = _sizes(images)[0] if None in made.shape else made.shape[1:]
    takes_grey = not _takes(opened.extractor, (3, *size)) and _takes(opened.extractor, (1, *size))
    if takes_grey:
        return Preprocessing.from_dict({**given, "mode": "L"})
    return made


def _read_off(opened: Opened, images: Images) -> Preprocessing:
    """Return the preprocessing that the network's input and the sizes of the images tell."""
    network = _NetworkInput(opened.extractor)
    channels, (height, width) = _fitting(network, _sizes(images))
    square = height == width
    return Preprocessing(
        height if square else (height, width),
        height if square else None,
        scale=network.scale(channels),
        mode=_MODES[channels],
    )


def _say_how() -> str:
    return (
        f"say how images become its input, e.g. {argument('transform')} '{Preprocessing.EXAMPLE}'"
    )


def _fitting(network: _NetworkInput, sizes: list[Size]) -> tuple[int, Size]:
    """Return the channels and the size that the network takes: the images' own, or the only one."""
    squares = [(side, side) for side in SIDES]
    small = [size for size in sizes if math.prod(size) <= _LARGEST]
    fits = _that_fit(network, network.sides or [*small, *squares])
    first = next(fits, None)
    if first is None:
        raise network.refusal()
    if [first[1]] in (sizes, network.sides) or next(fits, None) is None:
        return first
    shown = " and ".join(f"{width} x {height}" for height, width in sizes[:2])
    raise InputError(f"it takes images of any size, and these are {shown}; {_say_how()}.")


def _that_fit(network: _NetworkInput, sizes: list[Size]) -> Iterator[tuple[int, Size]]:
    """Yield the sizes that the network takes, each with the first number of channels."""
    for size in dict.fromkeys(sizes):
        for channels in network.channels:
            if _takes(network.extractor, (channels, *size)):
                yield channels, size
                break


@dataclass(frozen=True)
class _NetworkInput:
    """What a network says of its input without being run."""

    extractor: Any

    @property
    def _shape(self) -> list[Any]:
        """What an ONNX model states, a number or a name for each dimension; nothing for others."""
        return list(getattr(self.extractor, "takes", []))

    @property
    def channels(self) -> tuple[int, ...]:
        """The numbers of channels that images can have and the network may take."""
        stated = self._shape[1] if len(self._shape) == 4 else None
        return (stated,) if stated in _MODES else tuple(_MODES)

    @property
    def sides(self) -> list[Size]:
        """The height and width that an ONNX model states, if it does."""
        size = self._shape[2:] if len(self._shape) == 4 else []
        fixed = [side for side in size if isinstance(side, int)]
        return [(fixed[0], fixed[1])] if len(fixed) == 2 else []

    def scale(self, channels: int) -> float:
        """Return what the network wants pixels from 0 to 255 divided by."""
        if getattr(self.extractor, "takes_bytes", False):
            return 1.0
        first = next(_leaves(self.extractor), None)
        mean = getattr(first, "running_mean", None)
        if mean is None or len(mean) != channels:
            return 255.0
        return 1.0 if float(mean.abs().max()) > _RAW else 255.0

    def refusal(self) -> InputError:
        """Return the error that says what is known of an input that no image fits."""
        if self._shape:
            return InputError(f"it takes {tuple(self._shape)}, channels first; {_say_how()}.")
        for layer in _leaves(self.extractor):
            taken = getattr(layer, "in_channels", None)
            if taken is not None and taken not in _MODES:
                return InputError(
                    f"its first layer takes {taken} channels, where images have 1 or 3; "
                    "make its features yourself, and pass these."
                )
        return InputError(f"it takes no images of 1 or 3 channels and a usual size; {_say_how()}.")


def _leaves(extractor: Any) -> Iterator[Any]:
    """Yield the modules of a PyTorch model that have none inside, in the order of definition."""
    model = getattr(extractor, "model", None)
    for module in [] if model is None else model.modules():
        if not any(True for _ in module.children()):
            yield module


def _takes(extractor: Any, shape: tuple[Any, ...]) -> bool:
    """Tell whether a network takes images of a shape, by showing it two."""
    noise = np.random.default_rng(0).random((2, *shape), dtype=np.float32)
    if getattr(extractor, "takes_bytes", False):
        noise = np.floor(256 * noise)
    try:
        run_directly(copy.copy(extractor), noise)  # a copy: noise must not settle what the head is
    except Exception:  # networks raise any error for input that they were not made for
        return False
    return True


def _sizes(images: Images) -> list[Size]:
    """Return the different sizes of some of the images, in the order of the images."""
    found: dict[Size, None] = {}
    for row in np.linspace(0, len(images) - 1, min(_LOOKED_AT, len(images)), dtype=int).tolist():
        try:
            image = images.read(row)
        except InputError:
            continue
        height, width = np.asarray(image).shape[:2]
        found[height, width] = None
    if not found:
        raise none_readable(images)
    return list(found)


@border
def check_settings(given: Mapping[str, Any]) -> None:
    """Raise for wrong settings of a network's input, whatever the network has for the rest."""
    if "resize" in given or "crop" in given:
        Preprocessing.from_dict(given)
        return
    numbers = [given.get(key) for key in ("mean", "std")]
    one = any(isinstance(number, list | tuple) and len(number) == 1 for number in numbers)
    Preprocessing.from_dict({"resize": None, "mode": "L" if one else "RGB", **given})
