"""The built-in suite `digits`: a small real network, and real inputs that it has never met.

Everything comes with Typica and scikit-learn, so the suite needs no download. A small convolutional
network knows the handwritten digits 0 to 6 (8x8 pixels, ink from 0 to 16). The out-of-distribution
sets are

| set | inputs | |
|---|---|---|
| `held-out-digits` | the digits 7, 8 and 9, by the same writers | near |
| `rotated` | test digits on their side, without 0, which looks the same | near |
| `inverted` | test digits, light on dark | far |
| `photos` | pieces of two photographs | far |
| `noise` | every pixel uniform from 0 to 16 | far |

7, 8 and 9 are held out because they share their strokes with digits that stay (7 with 4, 8 and 9
with 3), and because the classes that stay then count from 0.

The file `WEIGHTS`, written by benchmarks/training/digits.py, is the state dict of a
`torch.nn.Sequential`: three 3x3 convolutions, each with ReLU, the second with stride 2; the mean of
each map; the head. NumPy runs it, with each convolution written out as a matrix.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from sklearn.datasets import load_digits, load_sample_images
from sklearn.model_selection import train_test_split

from typica.arrays import AnyArray
from typica.bench._feature_suite import FeatureSuite, with_accuracy
from typica.errors import InputError, border
from typica.nets import Perceptron
from typica.origin import PENULTIMATE

WEIGHTS = Path(__file__).with_name("digits.safetensors")
DIGEST = "1c4ebdefb74f539f5bbbc225b912373b780dc3e662bae2ebc7bb4716ddd7ad56"  # SHA-256 of it
STRIDES = {"0": 1, "2": 2, "4": 1}  # of its convolutions
MAPS = {"conv1": 12, "conv2": 24}  # that the first convolutions give
_SEED = 0  # of the noise, and of the split, half of which the network has learnt
HELD_OUT = (7, 8, 9)
NEAR = frozenset({"held-out-digits", "rotated"})
SIDE = 8  # of an image
INK = 16  # the darkest pixel: each of the 8x8 counts the inked ones among 4x4 finer pixels
NOISE_ROWS = 500


def load() -> FeatureSuite:
    """Return what the network makes of every set: features, (n, 48) float32.

    Sums are made in float64 and rounded once, so that all processors give the same features.

    Examples
    --------
    >>> suite = load()
    >>> len(suite.train), {name: len(features) for name, features in suite.ood.items()}
    (632, {'held-out-digits': 533, 'rotated': 271, 'inverted': 316, 'photos': 520, 'noise': 500})
    >>> suite.accuracy > 0.98
    True
    """
    splits = split()
    shown = images()
    ood = [name for name in shown if name != "test"]
    shown |= {name: pixels for name, (pixels, _) in splits.items()}
    learnt = network()
    layers = {name: _layers(learnt, pixels) for name, pixels in shown.items()}
    return with_accuracy(
        FeatureSuite(
            name="digits",
            title="Handwritten digits 0-6, small convolutional network",
            train=layers["train"][PENULTIMATE],
            train_labels=splits["train"][1],
            calibration=layers["calibration"][PENULTIMATE],
            calibration_labels=splits["calibration"][1],
            test=layers["test"][PENULTIMATE],
            test_labels=splits["test"][1],
            ood={name: layers[name][PENULTIMATE] for name in ood},
            near=NEAR,
            head_weight=np.ascontiguousarray(learnt.head.weight),
            head_bias=learnt.head.bias,
            classes=learnt.head.classes,
            accuracy=None,
            layers={
                layer: {name: layers[name][layer] for name in ("train", "test", *ood)}
                for layer in ("pixels", *MAPS)
            },
        )
    )


def network() -> Perceptron:
    """Return the network as NumPy runs it; it takes images (n, 8, 8) with ink from 0 to 1.

    Examples
    --------
    >>> found = network()(images()["test"] / INK)
    >>> found.features.shape, found.logits.shape
    ((316, 48), (316, 7))
    """
    stored = load_file(WEIGHTS)
    weights, biases, side = [], [], SIDE
    for name, stride in STRIDES.items():
        weights.append(_as_matrix(stored[f"{name}.weight"], side, stride))
        side //= stride
        biases.append(np.repeat(stored[f"{name}.bias"], side * side))
    head = stored["8.weight"].T
    mean = np.kron(np.eye(len(head)), np.full((side * side, 1), 1 / side**2))
    weights += [mean, head]
    biases += [np.zeros(len(head)), stored["8.bias"]]
    return Perceptron(weights, biases, range(head.shape[1]))


def images() -> dict[str, NDArray[np.float32]]:
    """The images behind `load()`, row for row: `test` and each OOD set, (n, 8, 8), ink 0 to 16.

    Examples
    --------
    >>> shown = images()
    >>> shown["test"].shape, shown["held-out-digits"].shape
    ((316, 8, 8), (533, 8, 8))
    """
    test, test_labels = split()["test"]
    drawn, labels = _digits()
    sets = {
        "test": test,
        "held-out-digits": drawn[np.isin(labels, HELD_OUT)],
        "rotated": np.rot90(test[test_labels != 0], axes=(1, 2)),
        "inverted": INK - test,
        "photos": _photos(),
        "noise": np.random.default_rng(_SEED).uniform(0, INK, size=(NOISE_ROWS, SIDE, SIDE)),
    }
    return {name: np.ascontiguousarray(shown, dtype=np.float32) for name, shown in sets.items()}


@border
def ascii_art(image: AnyArray) -> str:
    """Draw an image of the suite `digits` for a terminal: 8x8 pixels, ink from 0 to 16.

    It becomes 8 lines of 16 characters, from blank (0) to full (16).

    Examples
    --------
    >>> ramp = np.tile([16, 13, 12, 9, 8, 5, 4, 0], (8, 1))
    >>> print(ascii_art(ramp).splitlines()[0] + "|")
    ████▓▓▓▓▒▒▒▒░░  |
    """
    image = np.asarray(image)
    if image.shape != (8, 8):
        raise InputError(f"the image has shape {image.shape}; pass one of shape (8, 8).")
    if not ((image >= 0) & (image <= INK)).all():
        raise InputError(f"pixels lie outside 0..{INK}; scale the image to that range.")
    shades = np.array(list(" ░▒▓█"))
    # A character is about twice as high as wide, so each pixel is drawn twice.
    drawn = np.repeat(shades[np.ceil(image / INK * 4).astype(int)], 2, axis=1)
    return "\n".join("".join(row) for row in drawn)


def split() -> dict[str, tuple[NDArray[np.float32], AnyArray]]:
    """Images and labels of the digits that stay: half to train, a quarter to calibrate, to test.

    The network has learnt the first half.

    Examples
    --------
    >>> {name: images.shape for name, (images, labels) in split().items()}
    {'train': (632, 8, 8), 'calibration': (316, 8, 8), 'test': (316, 8, 8)}
    """
    shown, labels = _digits()
    kept = ~np.isin(labels, HELD_OUT)
    train, rest, train_labels, rest_labels = train_test_split(
        shown[kept], labels[kept], train_size=0.5, stratify=labels[kept], random_state=_SEED
    )
    calibration, test, calibration_labels, test_labels = train_test_split(
        rest, rest_labels, train_size=0.5, stratify=rest_labels, random_state=_SEED
    )
    return {
        "train": (train, train_labels),
        "calibration": (calibration, calibration_labels),
        "test": (test, test_labels),
    }


def _digits() -> tuple[NDArray[np.float32], AnyArray]:
    digits = load_digits()
    return digits.images.astype(np.float32), digits.target


def _photos() -> AnyArray:
    """Grey 32x32 tiles without overlap, averaged over 4x4 blocks: the way the digits became 8x8."""
    grey = np.stack(load_sample_images().images).mean(axis=3) * (INK / 255)
    count, rows, columns = grey.shape[0], grey.shape[1] // 32, grey.shape[2] // 32
    blocks = (
        grey[:, : rows * 32, : columns * 32]
        .reshape(count, rows, 8, 4, columns, 8, 4)
        .mean(axis=(3, 6))
    )
    tiles: AnyArray = blocks.swapaxes(2, 3).reshape(-1, 8, 8)
    return tiles


def _as_matrix(kernel: AnyArray, side: int, stride: int) -> AnyArray:
    """Write a 3x3 convolution of maps with a border of zeros as a matrix, (inputs, outputs)."""
    outputs, inputs = kernel.shape[:2]
    n = side // stride
    padded = np.zeros((inputs, side + 2, side + 2, outputs, n, n))
    for row, column, i, j in np.ndindex(n, n, 3, 3):
        padded[:, stride * row + i, stride * column + j, :, row, column] = kernel[:, :, i, j].T
    return padded[:, 1:-1, 1:-1].reshape(inputs * side * side, -1)


def _layers(learnt: Perceptron, pixels: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    """Return what each layer gives: the mean of each map."""
    z = pixels.reshape(len(pixels), -1).astype(np.float64) / INK
    found = {"pixels": z}
    names = ("conv1", "conv2", "conv3", PENULTIMATE)
    for name, weight, bias in zip(names, learnt.weights, learnt.biases, strict=False):
        z = np.maximum(z @ weight.astype(np.float64) + bias, 0)
        found[name] = z.reshape(len(z), MAPS[name], -1).mean(axis=2) if name in MAPS else z
    return {name: layer.astype(np.float32) for name, layer in found.items()}
