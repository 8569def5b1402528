"""The built-in suite `digits`: a small real network, and real inputs that it has never met.

Everything comes with scikit-learn, so the suite runs offline in about a second. A network with two
hidden layers learns the handwritten digits 0 to 6 (8x8 pixels, ink from 0 to 16). The
out-of-distribution sets are

| set | inputs | |
|---|---|---|
| `held-out-digits` | the digits 7, 8 and 9, by the same writers | near |
| `rotated` | test digits on their side, without 0, which looks the same | near |
| `inverted` | test digits, light on dark | far |
| `photos` | pieces of two photographs | far |
| `noise` | every pixel uniform from 0 to 16 | far |

7, 8 and 9 are held out because they share their strokes with digits that stay (7 with 4, 8 and 9
with 3), and because the classes that stay then count from 0.

Digits reach the top and bottom of their box but not its sides. Rotated ones do the opposite, and
come nearest to a 4; the network takes them for one, more surely than it recognises real digits.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_sample_images
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from typica.arrays import AnyArray
from typica.bench._feature_suite import FeatureSuite
from typica.checks import sklearn_seed
from typica.errors import InputError, border

HELD_OUT = (7, 8, 9)
NEAR = frozenset({"held-out-digits", "rotated"})
INK = 16  # the darkest pixel: each of the 8x8 counts the inked ones among 4x4 finer pixels
NOISE_ROWS = 500


@border
def load(seed: int = 0) -> FeatureSuite:
    """Train the network and compute its features, (n, 64) float32, on every set.

    The seed fixes split, network and noise: two calls on one machine agree bit for bit. Another
    processor or BLAS rounds differently, and training amplifies that.

    Examples
    --------
    >>> suite = load()
    >>> len(suite.train), {name: len(features) for name, features in suite.ood.items()}
    (632, {'held-out-digits': 533, 'rotated': 271, 'inverted': 316, 'photos': 520, 'noise': 500})
    >>> suite.accuracy > 0.95
    True
    """
    # BLAS threads gain nothing on matrices this small, cost much on a busy machine, alter rounding.
    with threadpool_limits(limits=1, user_api="blas"):
        return _load(seed)


def _load(seed: int) -> FeatureSuite:
    splits = split(seed)
    train, train_labels = splits["train"]
    test, test_labels = splits["test"]
    network = MLPClassifier(hidden_layer_sizes=(128, 64), max_iter=1000, random_state=seed)
    network.fit(_inputs(train), train_labels)
    strange = _ood(test, test_labels, seed)
    return FeatureSuite(
        name="digits",
        title="Handwritten digits 0-6, multilayer perceptron",
        train=_features(network, train),
        train_labels=train_labels,
        calibration=_features(network, splits["calibration"][0]),
        calibration_labels=splits["calibration"][1],
        test=_features(network, test),
        test_labels=test_labels,
        ood={name: _features(network, inputs) for name, inputs in strange.items()},
        near=NEAR,
        head_weight=np.ascontiguousarray(network.coefs_[-1].T),
        head_bias=network.intercepts_[-1],
        classes=network.classes_,
        accuracy=float(network.score(_inputs(test), test_labels)),
        layers=_layers(network, {"train": train, "test": test, **strange}),
    )


@border
def images(seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """The images behind `load(seed)`, row for row: `test` and each OOD set, (n, 8, 8), ink 0 to 16.

    Examples
    --------
    >>> shown = images()
    >>> shown["test"].shape, shown["held-out-digits"].shape
    ((316, 8, 8), (533, 8, 8))
    """
    test, test_labels = split(seed)["test"]
    return {"test": test, **_ood(test, test_labels, seed)}


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


@border
def split(seed: int = 0) -> dict[str, tuple[NDArray[np.float32], AnyArray]]:
    """Images and labels of the digits that stay: half to train, a quarter to calibrate, to test.

    Examples
    --------
    >>> {name: images.shape for name, (images, labels) in split().items()}
    {'train': (632, 8, 8), 'calibration': (316, 8, 8), 'test': (316, 8, 8)}
    """
    sklearn_seed().check("seed", seed)
    shown, labels = _digits()
    kept = ~np.isin(labels, HELD_OUT)
    train, rest, train_labels, rest_labels = train_test_split(
        shown[kept], labels[kept], train_size=0.5, stratify=labels[kept], random_state=seed
    )
    calibration, test, calibration_labels, test_labels = train_test_split(
        rest, rest_labels, train_size=0.5, stratify=rest_labels, random_state=seed
    )
    return {
        "train": (train, train_labels),
        "calibration": (calibration, calibration_labels),
        "test": (test, test_labels),
    }


def _ood(
    test: NDArray[np.float32], test_labels: AnyArray, seed: int
) -> dict[str, NDArray[np.float32]]:
    shown, labels = _digits()
    sets = {
        "held-out-digits": shown[np.isin(labels, HELD_OUT)],
        "rotated": np.rot90(test[test_labels != 0], axes=(1, 2)),
        "inverted": INK - test,
        "photos": _photos(),
        "noise": np.random.default_rng(seed).uniform(0, INK, size=(NOISE_ROWS, 8, 8)),
    }
    return {name: np.ascontiguousarray(shown, dtype=np.float32) for name, shown in sets.items()}


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


def _inputs(shown: NDArray[np.float32]) -> NDArray[np.float32]:
    return shown.reshape(len(shown), -1) / np.float32(INK)


def _features(network: MLPClassifier, shown: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the network's last layer reads: scikit-learn shows only what comes out of it."""
    return _hidden(network, shown, len(network.coefs_) - 1)


def _layers(
    network: MLPClassifier, sets: dict[str, NDArray[np.float32]]
) -> dict[str, dict[str, NDArray[np.float32]]]:
    """What comes before the penultimate features: the pixels, and the first hidden layer."""
    layers = {}
    for layer, depth in {"pixels": 0, "hidden1": 1}.items():
        layers[layer] = {name: _hidden(network, shown, depth) for name, shown in sets.items()}
    return layers


def _hidden(network: MLPClassifier, shown: NDArray[np.float32], depth: int) -> NDArray[np.float32]:
    """What comes out of the first `depth` layers."""
    z = _inputs(shown)
    parameters = list(zip(network.coefs_, network.intercepts_, strict=True))
    for weight, bias in parameters[:depth]:
        z = np.maximum(z @ weight + bias, 0)
    return z
