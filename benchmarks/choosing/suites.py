"""Make folders of features to measure `typica choose` on: networks trained here, and real OOD sets.

    python benchmarks/choosing/suites.py OUT [--mnist DIR] [--fashion DIR] [--clinc DIR]
        [--resnet FILE --cifar FILE --images DIR]

The digits need nothing (scikit-learn has them). DIR of MNIST and Fashion-MNIST holds their idx
files; of CLINC150, features of its sentences as train, val, test and ood.oos (.features.npy,
.labels.npy), its head and data_full.json; of --images, svhn-2000.npz and textures-1200.npz. The
ResNet-18 is a CIFAR-10 state dict for images from 0 to 1; --cifar an .npz of CIFAR-10's training
images and labels. What is not given is left out.

A folder is what `typica bench --features` reads. near.NAME.features.npy are known, held-out images
that were corrupted, as `typica choose --images` makes them.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits, load_sample_images
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from typica.data.corrupt import corrupted_versions

Arrays = dict[str, np.ndarray]
NEAR_IMAGES = 256


class Known(NamedTuple):
    """What a network was trained on, and held-out inputs of the same kind."""

    train: np.ndarray
    train_labels: np.ndarray
    calibration: np.ndarray
    calibration_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray


class Network(NamedTuple):
    """A trained network: images from 0 to 1 to features, and its last layer."""

    features: Callable[[np.ndarray], np.ndarray]
    weight: np.ndarray
    bias: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    for name in ("mnist", "fashion", "clinc", "resnet", "cifar", "images"):
        parser.add_argument(f"--{name}", type=Path)
    given = parser.parse_args()
    digits(given.out)
    if given.mnist and given.fashion:
        mnist_and_fashion(given.out, given.mnist, given.fashion)
    if given.clinc:
        clinc(given.out, given.clinc)
    if given.resnet and given.cifar and given.images:
        resnet(given.out, given.resnet, given.cifar, given.images)


def digits(out: Path) -> None:
    """Small perceptrons that know some of the digits (8x8 pixels)."""
    loaded = load_digits()
    images, labels = loaded.images.astype(np.float32) / 16, loaded.target
    variants = [
        ((7, 8, 9), (128, 64), 0),
        ((7, 8, 9), (128, 64), 1),
        ((0, 1, 2), (128, 64), 2),
        ((3, 4), (64,), 3),
        ((1, 5, 8), (32, 32), 4),
        ((2, 6), (256,), 5),
    ]
    for held_out, layers, seed in variants:
        foreign = np.isin(labels, held_out)
        known = split(images[~foreign], labels[~foreign], 0.5, seed)
        upright = known.test[known.test_labels != 0]
        ood = {
            "held-out-digits": images[foreign],
            "rotated": np.ascontiguousarray(np.rot90(upright, axes=(1, 2))),
            "inverted": 1 - known.test,
            "photos": photos(8),
            "noise": np.random.default_rng(seed).random((500, 8, 8), dtype=np.float32),
        }
        name = f"digits-without-{''.join(map(str, held_out))}-{'x'.join(map(str, layers))}-{seed}"
        write(out / name, known, ood, perceptron(known, layers, seed))


def mnist_and_fashion(out: Path, mnist: Path, fashion: Path) -> None:
    """Perceptrons and small CNNs on MNIST and Fashion-MNIST, each the other's unknown."""
    sets = {"mnist": idx(mnist), "fashion": idx(fashion)}
    for seed, (name, other) in enumerate([("mnist", "fashion"), ("fashion", "mnist")]):
        images, labels = sets[name]
        foreign = np.isin(labels, (7, 8, 9))
        strangers = sets[other][0][:2000]
        noise = np.random.default_rng(seed).random((500, 28, 28), dtype=np.float32)
        far = {other: strangers, "photos": photos(28), "noise": noise}
        known = split(images[:12000], labels[:12000], 2 / 3, seed)
        write(out / f"{name}-mlp", known, far, perceptron(known, (256, 64), seed, epochs=20))
        write(out / f"{name}-cnn", known, far, cnn(known, seed))
        part = np.flatnonzero(~foreign)[:9000]
        known = split(images[part], labels[part], 2 / 3, seed)
        near = {"held-out-classes": images[foreign][:2000]} | far
        write(out / f"{name}-0-6-mlp", known, near, perceptron(known, (128,), seed, epochs=20))
        write(out / f"{name}-0-6-cnn", known, near, cnn(known, seed + 10))


def clinc(out: Path, folder: Path) -> None:
    """150 intents in sentences; also 100 of them, where the other domains are unknown."""
    parts = {name: np.load(folder / f"{name}.features.npy") for name in ("train", "val", "test")}
    labels = {name: np.load(folder / f"{name}.labels.npy") for name in parts}
    oos = np.load(folder / "ood.oos.features.npy")
    head = (np.load(folder / "head.weight.npy"), np.load(folder / "head.bias.npy"))
    known = joined(parts, labels, np.ones(150, dtype=bool))
    save(out / "clinc150-minilm", known, {"oos": oos}, head)
    for seed, count in ((0, 100), (1, 30)):
        kept = np.zeros(150, dtype=bool)
        kept[np.random.default_rng(seed).permutation(150)[:count]] = True
        known = joined(parts, labels, kept)
        foreign = parts["test"][~kept[labels["test"]]][:2000]
        fitted = LogisticRegression(C=30, max_iter=300).fit(known.train, known.train_labels)
        ood = {"oos": oos, "other-intents": foreign}
        save(out / f"clinc{count}-minilm", known, ood, (fitted.coef_, fitted.intercept_))
    words_of_clinc(out, folder)


def words_of_clinc(out: Path, folder: Path) -> None:
    """The same sentences by their words alone, through a perceptron trained on them."""
    said = json.loads((folder / "data_full.json").read_text())
    counts = TfidfVectorizer(sublinear_tf=True).fit([text for text, _ in said["train"]])
    axes = TruncatedSVD(256, random_state=0)
    axes.fit(counts.transform([text for text, _ in said["train"]]))

    def embed(sentences: list[list[str]]) -> np.ndarray:
        return axes.transform(counts.transform([text for text, _ in sentences]))

    names = sorted({intent for _, intent in said["train"]})
    parts, labels = {}, {}
    for part in ("train", "val", "test"):
        parts[part] = embed(said[part])
        labels[part] = np.array([names.index(intent) for _, intent in said[part]])
    known = joined(parts, labels, np.ones(150, dtype=bool))
    network = perceptron(known, (256,), 0, epochs=30)
    ood = {"oos": embed(said["oos_test"]).astype(np.float32)}
    write(out / "clinc150-words", known, ood, network, images=False)


def resnet(out: Path, weights: Path, cifar: Path, folder: Path) -> None:
    """A ResNet-18 of CIFAR-10 that others trained."""
    import torch  # noqa: PLC0415 (an extra)

    from typica.nets import zoo  # noqa: PLC0415

    model = zoo.load("resnet-18-cifar", str(weights), num_classes=10).eval()
    stored = np.load(cifar)
    images, labels = stored["images"][:6000] / np.float32(255), stored["labels"][:6000]
    test = np.load(folder / "cifar10-test-2000.npz")
    shown, told = test["images"] / np.float32(255), test["labels"]
    known = Known(images, labels, shown[:1000], told[:1000], shown[1000:], told[1000:])
    ood = {}
    for name, file in (("svhn", "svhn-2000"), ("textures", "textures-1200")):
        ood[name] = np.load(folder / f"{file}.npz")["images"][:1200] / np.float32(255)
    last = model.linear
    seen: list[Any] = []
    last.register_forward_pre_hook(lambda _, given: seen.append(given[0]))

    def features(pixels: np.ndarray) -> np.ndarray:
        parts = []
        for start in range(0, len(pixels), 50):
            batch = torch.from_numpy(pixels[start : start + 50]).permute(0, 3, 1, 2)
            with torch.no_grad():
                model(batch.contiguous())
            parts.append(seen.pop().numpy())
        return np.concatenate(parts)

    network = Network(features, last.weight.detach().numpy(), last.bias.detach().numpy())
    write(out / "cifar10-resnet18", known, ood, network)


def split(images: np.ndarray, labels: np.ndarray, train: float, seed: int) -> Known:
    """Split what is known: some to train, half of the rest to calibrate and to test."""
    options = {"random_state": seed}
    x, rest, y, of_rest = train_test_split(
        images, labels, train_size=train, stratify=labels, **options
    )
    held_out, test, of_held_out, of_test = train_test_split(
        rest, of_rest, train_size=0.5, stratify=of_rest, **options
    )
    return Known(x, y, held_out, of_held_out, test, of_test)


def joined(parts: Arrays, labels: Arrays, kept: np.ndarray) -> Known:
    """Return the parts of a data set, of the classes that are kept, which then count from 0."""
    number = np.cumsum(kept) - 1
    arrays = []
    for part in ("train", "val", "test"):
        rows = kept[labels[part]]
        arrays += [parts[part][rows].astype(np.float32), number[labels[part][rows]]]
    return Known(*arrays)


def perceptron(known: Known, layers: tuple[int, ...], seed: int, epochs: int = 300) -> Network:
    network = MLPClassifier(hidden_layer_sizes=layers, max_iter=epochs, random_state=seed)
    network.fit(known.train.reshape(len(known.train), -1), known.train_labels)

    def features(images: np.ndarray) -> np.ndarray:
        z = images.reshape(len(images), -1)
        for weight, bias in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
            z = np.maximum(z @ weight + bias, 0)
        return z.astype(np.float32)

    return Network(features, network.coefs_[-1].T, network.intercepts_[-1])


def cnn(known: Known, seed: int, epochs: int = 4) -> Network:
    """Train two convolutions and a hidden layer."""
    import torch  # noqa: PLC0415 (an extra)
    from torch import nn  # noqa: PLC0415

    torch.manual_seed(seed)
    body = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 64),
        nn.ReLU(),
    )
    head = nn.Linear(64, len(np.unique(known.train_labels)))
    optimiser = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=2e-3)
    x = torch.from_numpy(known.train)[:, None]
    y = torch.from_numpy(known.train_labels.astype(np.int64))
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(head(body(x[rows])), y[rows]).backward()
            optimiser.step()

    def features(images: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return body(torch.from_numpy(images)[:, None]).numpy()

    return Network(features, head.weight.detach().numpy(), head.bias.detach().numpy())


def write(
    folder: Path, known: Known, ood: Mapping[str, np.ndarray], network: Network, images: bool = True
) -> None:
    """Write what a network makes of every set, and of corrupted images if these are images."""
    made = network.features
    names = np.unique(known.train_labels)
    numbered = {name: np.searchsorted(names, getattr(known, f"{name}_labels")) for name in PARTS}
    of_known = []
    for part in PARTS:
        of_known += [made(getattr(known, part)), numbered[part]]
    strange = {name: made(inputs) for name, inputs in ood.items()}
    near = {}
    if images:
        some, labels = known.calibration[:NEAR_IMAGES], numbered["calibration"][:NEAR_IMAGES]
        changed = corrupted_versions(as_pixels(some), labels, seed=0)
        near = {name: made(as_inputs(pixels, some)) for name, pixels in changed.items()}
    save(folder, Known(*of_known), strange, (network.weight, network.bias), near)


PARTS = ("train", "calibration", "test")


def save(
    folder: Path,
    known: Known,
    ood: Mapping[str, np.ndarray],
    head: tuple[np.ndarray, np.ndarray],
    near: Mapping[str, np.ndarray] | None = None,
) -> None:
    weight, bias = head
    folder.mkdir(parents=True, exist_ok=True)
    arrays: Arrays = {"head.weight": weight, "head.bias": bias}
    for part in PARTS:
        arrays[f"{part}.features"] = getattr(known, part)
        arrays[f"{part}.labels"] = getattr(known, f"{part}_labels")
    arrays |= {f"ood.{name}.features": features for name, features in ood.items()}
    arrays |= {f"near.{name}.features": features for name, features in (near or {}).items()}
    for name, array in arrays.items():
        kind = array.dtype if name.endswith("labels") else np.float32
        np.save(folder / f"{name}.npy", np.ascontiguousarray(array, dtype=kind))
    right = (known.test @ weight.T + bias).argmax(axis=1) == known.test_labels
    print(f"{folder.name}: {len(known.train)} x {known.train.shape[1]}, top-1 {right.mean():.3f}")


def as_pixels(images: np.ndarray) -> np.ndarray:
    """Return images from 0 to 1, grey or not, as 8-bit colours."""
    pixels = np.rint(images * 255).astype(np.uint8)
    return pixels if pixels.ndim == 4 else np.repeat(pixels[..., None], 3, axis=3)


def as_inputs(pixels: np.ndarray, like: np.ndarray) -> np.ndarray:
    images = pixels.astype(np.float32) / 255
    return images if like.ndim == 4 else images.mean(axis=3)


def photos(side: int) -> np.ndarray:
    """Return grey tiles of two photographs, their pixels averaged in blocks of 4 x 4."""
    grey = np.stack(load_sample_images().images).mean(axis=3).astype(np.float32) / 255
    step = side * 4
    count, rows, columns = grey.shape[0], grey.shape[1] // step, grey.shape[2] // step
    cut = grey[:, : rows * step, : columns * step]
    blocks = cut.reshape(count, rows, side, 4, columns, side, 4).mean(axis=(3, 6))
    return np.ascontiguousarray(blocks.swapaxes(2, 3).reshape(-1, side, side))


def idx(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read images (from 0 to 1) and labels of a training set in MNIST's format."""
    arrays = []
    for name, header in (("train-images-idx3-ubyte", 16), ("train-labels-idx1-ubyte", 8)):
        packed = folder / f"{name}.gz"
        raw = gzip.decompress(packed.read_bytes()) if packed.exists() else None
        content = raw if raw is not None else (folder / name).read_bytes()
        arrays.append(np.frombuffer(content, dtype=np.uint8, offset=header))
    images = arrays[0].reshape(-1, 28, 28).astype(np.float32) / 255
    return images, arrays[1].astype(np.int64)


if __name__ == "__main__":
    main()
