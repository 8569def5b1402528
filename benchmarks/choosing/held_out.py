"""Make folders of features that played no part in the making of `typica choose`.

    python benchmarks/choosing/held_out.py OUT [--mnist DIR] [--fashion DIR] [--clinc DIR]
        [--cifar FILE --images DIR] [--mobilenet FILE] [--segment FILE] [--vowels DIR] [--only KIND]

Other networks, other data, other classes and seeds than those of `suites.py`, which says what the
folders hold. --cifar: an .npz of CIFAR-10's training images and labels; --images: as there;
--mobilenet: torchvision's MobileNetV2 (EfficientNet-Lite0 comes with its package); --segment:
segment.csv.zip of the package river; --vowels: JapaneseVowels of the package aeon. What is not
given is left out.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from suites import Arrays, Known, Network, idx, joined, perceptron, photos, save, split, write

Makers = Mapping[str, tuple[Callable[..., None], tuple[str, ...]]]
Embed = Callable[[list[str]], np.ndarray]
ROWS = 9000  # of MNIST and Fashion-MNIST that are known
CIFAR_ROWS = 18000
TRANSFER_ROWS = 5000  # of CIFAR-10 that go through networks of ImageNet
TRANSFER_SIDE = 112  # to which the images are enlarged


def main() -> None:
    make(__doc__, MAKERS)


def make(said: str, makers: Makers) -> None:
    """Make the suites for which there are files, of all kinds or of one."""
    parser = argparse.ArgumentParser(description=said.splitlines()[0])
    parser.add_argument("out", type=Path)
    for option in sorted({option for _, needed in makers.values() for option in needed}):
        parser.add_argument(f"--{option}", type=Path)
    parser.add_argument("--only", choices=makers, help="one kind of suites; all if not given")
    given = parser.parse_args()
    for name, (maker, needed) in makers.items():
        files = [getattr(given, option) for option in needed]
        if given.only in (None, name) and all(files):
            maker(given.out, *files)


def more_digits(out: Path) -> None:
    """Perceptrons that know other digits than those of `suites.py`."""
    loaded = load_digits()
    images, labels = loaded.images.astype(np.float32) / 16, loaded.target
    for unknown, layers, seed in (((0, 4, 9), (64, 64), 11), ((5, 6), (128,), 12)):
        foreign = np.isin(labels, unknown)
        known = split(images[~foreign], labels[~foreign], 0.5, seed)
        ood = {
            "held-out-digits": images[foreign],
            "mirrored": np.ascontiguousarray(known.test[:, :, ::-1]),
            "photos": photos(8),
            "noise": np.random.default_rng(seed).random((500, 8, 8), dtype=np.float32),
        }
        write(
            out / f"held-digits-without-{named(unknown)}",
            known,
            ood,
            perceptron(known, layers, seed),
        )


def other_classes(out: Path, mnist: Path, fashion: Path) -> None:
    """MNIST and Fashion-MNIST with other classes unknown, deeper and wider networks."""
    sets = {"mnist": idx(mnist), "fashion": idx(fashion)}
    variants = [
        ("mnist", (0, 1, 2), "normed", 21),
        ("mnist", (4, 7, 9), "perceptron", 22),
        ("mnist", (), "normed", 23),
        ("fashion", (1, 5, 8), "normed", 24),
        ("fashion", (2, 4, 6), "perceptron", 25),
        ("fashion", (0, 3, 9), "normed", 26),
        ("fashion", (), "perceptron", 27),
    ]
    for name, unknown, kind, seed in variants:
        images, labels = sets[name]
        other = "fashion" if name == "mnist" else "mnist"
        foreign = np.isin(labels, unknown)
        places = np.random.default_rng(seed).permutation(np.flatnonzero(~foreign))[:ROWS]
        known = split(images[places], labels[places], 2 / 3, seed)
        noise = np.random.default_rng(seed).random((500, 28, 28), dtype=np.float32)
        ood = {other: sets[other][0][-2000:], "photos": photos(28), "noise": noise}
        if unknown:
            ood["held-out-classes"] = images[foreign][:2000]
        if kind == "normed":
            network = normed_cnn(known, seed)
        else:
            network = perceptron(known, (256, 128), seed, epochs=20)
        write(out / f"held-{name}-without-{named(unknown)}-{kind}", known, ood, network)


def segments(out: Path, file: Path) -> None:
    """Patches of outdoor images by 18 numbers each: five kinds known, two unknown."""
    with zipfile.ZipFile(file) as packed:
        text = packed.read(packed.namelist()[0]).decode()
    rows = list(csv.reader(io.StringIO(text)))[1:]
    names = np.array([row[-1] for row in rows])
    numbers = np.array([row[:-1] for row in rows], dtype=np.float64)
    foreign = np.isin(names, ("sky", "cement"))
    _, labels = np.unique(names[~foreign], return_inverse=True)
    scaled = StandardScaler().fit(numbers[~foreign])
    rows_known = scaled.transform(numbers[~foreign]).astype(np.float32)
    known = split(rows_known, labels, 0.6, 41)
    low, high = rows_known.min(axis=0), rows_known.max(axis=0)
    noise = np.random.default_rng(41).uniform(low, high, (500, len(low))).astype(np.float32)
    ood = {"held-out-kinds": scaled.transform(numbers[foreign]).astype(np.float32), "noise": noise}
    write(out / "held-segments", known, ood, perceptron(known, (64, 32), 41), images=False)


def speakers(out: Path, folder: Path) -> None:
    """Two Japanese vowels by nine speakers, 12 coefficients over time: six known, three unknown."""
    series, names = [], []
    for part in ("TRAIN", "TEST"):
        text = (folder / f"JapaneseVowels_eq_{part}.ts").read_text()
        for line in text.split("@data\n")[1].splitlines():
            *channels, name = line.split(":")
            series.append([channel.split(",") for channel in channels])
            names.append(int(name))
    sounds, labels = np.array(series, dtype=np.float32), np.array(names)
    foreign = np.isin(labels, (2, 5, 8))
    _, numbers = np.unique(labels[~foreign], return_inverse=True)
    known = split(sounds[~foreign], numbers, 0.5, 42)
    ood = {
        "held-out-speakers": sounds[foreign],
        "backwards": np.ascontiguousarray(known.test[:, :, ::-1]),
        "noise": np.random.default_rng(42).standard_normal((300, *sounds.shape[1:])) * sounds.std(),
    }
    ood["noise"] = ood["noise"].astype(np.float32)
    write(out / "held-speakers", known, ood, perceptron(known, (64,), 42), images=False)


def intents(out: Path, folder: Path) -> None:
    """Sentences of other intents: embedded, through a perceptron too, and by their letters."""
    known, ood = of_minilm(folder, chosen_intents(60, 51))
    linear(out / "held-clinc60-minilm", known, ood)
    known, ood = of_minilm(folder, chosen_intents(80, 52))
    network = perceptron(known, (128,), 52, epochs=40)
    write(out / "held-clinc80-perceptron", known, ood, network, images=False)
    letters(out, folder)


def letters(out: Path, folder: Path) -> None:
    """Sentences of 100 intents by their groups of letters, through a perceptron."""
    counts = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), max_features=20000)
    counted = counts.fit_transform(spoken(folder)["train"][0])
    axes = TruncatedSVD(200, random_state=53).fit(counted)

    def embed(texts: list[str]) -> np.ndarray:
        return axes.transform(counts.transform(texts)).astype(np.float32)

    known, ood = embedded_intents(folder, embed, chosen_intents(100, 53))
    network = perceptron(known, (200,), 53, epochs=30)
    write(out / "held-clinc100-letters", known, ood, network, images=False)


def of_minilm(folder: Path, kept: np.ndarray) -> tuple[Known, Arrays]:
    """Return embedded sentences of some intents, and of the others and of none as unknowns."""
    parts = {name: np.load(folder / f"{name}.features.npy") for name in ("train", "val", "test")}
    labels = {name: np.load(folder / f"{name}.labels.npy") for name in parts}
    oos = np.load(folder / "ood.oos.features.npy").astype(np.float32)
    foreign = parts["test"][~kept[labels["test"]]][:2000].astype(np.float32)
    return joined(parts, labels, kept), {"oos": oos, "other-intents": foreign}


def linear(folder: Path, known: Known, ood: Arrays, trust: float = 30, steps: int = 300) -> None:
    """Write features as they are, with a logistic regression on them as the last layer."""
    fitted = LogisticRegression(C=trust, max_iter=steps).fit(known.train, known.train_labels)
    save(folder, known, ood, (fitted.coef_, fitted.intercept_))


def embedded_intents(folder: Path, embed: Embed, kept: np.ndarray) -> tuple[Known, Arrays]:
    """Return the sentences of some intents as rows, and of the others and of none as unknowns."""
    parts, labels = {}, {}
    for part, (texts, numbers) in spoken(folder).items():
        parts[part], labels[part] = embed(texts), numbers
    foreign = parts["test"][~kept[labels["test"]]][:2000]
    return joined(parts, labels, kept), {"oos": parts["oos_test"], "other-intents": foreign}


def spoken(folder: Path) -> dict[str, tuple[list[str], np.ndarray]]:
    """Return the sentences of CLINC150 and the numbers of their intents (-1: none), by part."""
    said = json.loads((folder / "data_full.json").read_text())
    names = sorted({intent for _, intent in said["train"]})
    found = {}
    for part in ("train", "val", "test", "oos_test"):
        texts = [text for text, _ in said[part]]
        numbers = [names.index(intent) if intent in names else -1 for _, intent in said[part]]
        found[part] = texts, np.array(numbers)
    return found


def small_cifar(out: Path, cifar: Path, folder: Path) -> None:
    """Small CNNs of CIFAR-10 that are trained here: all classes, and six of them."""
    stored = np.load(cifar)
    images, labels = stored["images"][20000:], stored["labels"][20000:]
    for unknown, seed in (((), 31), ((1, 3, 5, 9), 32)):
        foreign = np.isin(labels, unknown)
        places = np.flatnonzero(~foreign)[:CIFAR_ROWS]
        known = split(images[places] / np.float32(255), labels[places], 2 / 3, seed)
        ood = strangers(folder)
        ood["noise"] = np.random.default_rng(seed).random((500, 32, 32, 3), dtype=np.float32)
        if unknown:
            ood["held-out-classes"] = images[foreign][:2000] / np.float32(255)
        network = normed_cnn(known, seed, epochs=8)
        write(out / f"held-cifar10-without-{named(unknown)}-normed", known, ood, network)


def transferred(out: Path, cifar: Path, folder: Path, name: str, weights: str) -> None:
    """A network of ImageNet whose features of CIFAR-10's images get a new last layer."""
    stored = np.load(cifar)
    images, labels = stored["images"][:TRANSFER_ROWS], stored["labels"][:TRANSFER_ROWS]
    made = imagenet_features(name, weights)
    rows = made(images)
    ood = {key: made(pixels[:1000]) for key, pixels in strangers(folder, scale=1).items()}
    for seed, unknown in ((61, ()), (62, (0, 2, 7))):
        foreign = np.isin(labels, unknown)
        _, numbers = np.unique(labels[~foreign], return_inverse=True)
        known = split(rows[~foreign], numbers, 0.6, seed)
        strange = dict(ood)
        if unknown:
            strange["held-out-classes"] = rows[foreign]
        folder_of = out / f"held-cifar10-without-{named(unknown)}-{name}"
        linear(folder_of, known, strange, trust=0.1, steps=500)


def lite0(out: Path, cifar: Path, folder: Path) -> None:
    transferred(out, cifar, folder, "efficientnet-lite0", "bundled")


def mobilenet(out: Path, cifar: Path, folder: Path, weights: Path) -> None:
    transferred(out, cifar, folder, "mobilenet-v2", str(weights))


def strangers(folder: Path, scale: int = 255) -> dict[str, np.ndarray]:
    """Return images of house numbers and textures, from 0 to 255 / scale."""
    found = {}
    for name, file in (("svhn", "svhn-2000"), ("textures", "textures-1200")):
        found[name] = np.load(folder / f"{file}.npz")["images"] / np.float32(scale)
    return found


def imagenet_features(name: str, weights: str) -> Any:
    """Return what makes features of 8-bit images, enlarged."""
    import torch  # noqa: PLC0415 (an extra)
    from torch.nn.functional import interpolate  # noqa: PLC0415

    from typica.nets import zoo  # noqa: PLC0415

    model = zoo.load(name, weights).eval()
    *_, last = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)]
    seen: list[Any] = []
    last.register_forward_pre_hook(lambda _, given: seen.append(given[0]))

    def features(pixels: np.ndarray) -> np.ndarray:
        found = []
        for start in range(0, len(pixels), 50):
            batch = torch.from_numpy(pixels[start : start + 50].astype(np.float32))
            batch = (batch.permute(0, 3, 1, 2) - 127) / 128
            side = (TRANSFER_SIDE, TRANSFER_SIDE)
            with torch.no_grad():
                model(interpolate(batch, side, mode="bilinear"))
            found.append(seen.pop().numpy())
        return np.concatenate(found)

    return features


def normed_cnn(known: Known, seed: int, epochs: int = 12) -> Network:
    """Train three convolutions with batch normalisation, whose mean map is the feature."""
    import torch  # noqa: PLC0415 (an extra)
    from torch import nn  # noqa: PLC0415

    torch.manual_seed(seed)
    shown = torch.from_numpy(as_channels(known.train))
    layers: list[Any] = []
    before = shown.shape[1]
    for width in (32, 64, 96):
        convolution = nn.Conv2d(before, width, 3, padding=1, bias=False)
        layers += [convolution, nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
        before = width
    body = nn.Sequential(*layers[:-1], nn.AdaptiveAvgPool2d(1), nn.Flatten())
    names = np.unique(known.train_labels)
    head = nn.Linear(before, len(names))
    optimiser = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=2e-3)
    y = torch.from_numpy(np.searchsorted(names, known.train_labels))
    for _ in range(epochs):
        for rows in torch.randperm(len(shown)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(head(body(shown[rows])), y[rows]).backward()
            optimiser.step()
    body.eval()

    def features(images: np.ndarray) -> np.ndarray:
        batches = torch.from_numpy(as_channels(images)).split(500)
        with torch.no_grad():
            return np.concatenate([body(batch).numpy() for batch in batches])

    return Network(features, head.weight.detach().numpy(), head.bias.detach().numpy())


def as_channels(images: np.ndarray) -> np.ndarray:
    """Return grey (n, h, w) or coloured (n, h, w, 3) images with their channels first."""
    if images.ndim == 3:
        return images[:, None]
    return np.ascontiguousarray(np.moveaxis(images, 3, 1))


def chosen_intents(count: int, seed: int) -> np.ndarray:
    kept = np.zeros(150, dtype=bool)
    kept[np.random.default_rng(seed).permutation(150)[:count]] = True
    return kept


def named(unknown: tuple[int, ...]) -> str:
    return "".join(map(str, unknown)) or "none"


MAKERS = {
    "digits": (more_digits, ()),
    "classes": (other_classes, ("mnist", "fashion")),
    "segments": (segments, ("segment",)),
    "speakers": (speakers, ("vowels",)),
    "intents": (intents, ("clinc",)),
    "cifar": (small_cifar, ("cifar", "images")),
    "lite0": (lite0, ("cifar", "images")),
    "mobilenet": (mobilenet, ("cifar", "images", "mobilenet")),
}


if __name__ == "__main__":
    main()
