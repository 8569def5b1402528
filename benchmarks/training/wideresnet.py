"""Train WideResNet-40-2 on CIFAR-10 or CIFAR-100, whose weights no one publishes.

    python benchmarks/training/wideresnet.py cifar-10-python.tar.gz -o wideresnet-40-2-cifar10.pt

SGD with Nesterov momentum under a one-cycle schedule; flips and crops of images padded by 4. The
state is kept after each epoch, beside the output: run the same command again and it goes on. Ten
epochs take some two hours on two cores; --bf16 multiplies in bfloat16, which halves that where the
processor can. The output is a bare state dict, as the suites `cifar10-wrn` and `cifar100-wrn` read
it.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from typica.data import Preprocessing, image_batches, open_images
from typica.files import atomic_path
from typica.nets import zoo

NAME = "wideresnet-40-2"
PAD = 4


class Split(NamedTuple):
    """Images (n, 32, 32, 3) and their classes (n,)."""

    pixels: NDArray[np.uint8]
    labels: torch.Tensor


def read(source: Path, split: str | None, transform: Preprocessing) -> Split:
    """Read all images of a split, as the network takes them."""
    images = open_images(source, split=split)
    if images.labels is None:
        raise SystemExit(f"{source}: has no labels; pass CIFAR's own archive.")
    pixels = [batch.pixels for batch in image_batches(images, transform, 1000)]
    return Split(np.concatenate(pixels), torch.from_numpy(images.labels))


def augmented(pixels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return each image moved by up to 4 pixels, over black, and half of them mirrored."""
    side = pixels.shape[1]
    padded = np.pad(pixels, ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0)))
    moved = np.empty_like(pixels)
    tops, lefts = rng.integers(0, 2 * PAD + 1, (2, len(pixels)))
    mirrored = rng.random(len(pixels)) < 0.5
    for i, (top, left) in enumerate(zip(tops, lefts, strict=True)):
        crop = padded[i, top : top + side, left : left + side]
        moved[i] = crop[:, ::-1] if mirrored[i] else crop
    return moved


class Training:
    """A network on its way, whose state can be kept and taken up again."""

    def __init__(self, classes: int, steps: int, rate: float, bf16: bool) -> None:
        self.model = zoo.load(NAME, weights=None, num_classes=classes)
        self.model.to(memory_format=torch.channels_last)
        self.optimiser = torch.optim.SGD(
            self.model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4, nesterov=True
        )
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimiser, max_lr=rate, total_steps=steps, pct_start=0.3
        )
        self.epoch = 0
        self.bf16 = bf16

    def parts(self) -> dict[str, Any]:
        """Return what has a state, by name."""
        return {"model": self.model, "optimiser": self.optimiser, "schedule": self.schedule}

    def save(self, path: Path) -> None:
        """Keep the state: whole, or as it was."""
        state = {name: part.state_dict() for name, part in self.parts().items()}
        with atomic_path(path) as temporary:
            torch.save(state | {"epoch": self.epoch}, temporary)

    def resume(self, path: Path) -> None:
        """Take up a state that was kept."""
        state = torch.load(path, map_location="cpu", weights_only=True)
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
        self.epoch = state["epoch"]

    def train(self, split: Split, transform: Preprocessing, batch: int, seed: int) -> float:
        """Run one epoch, whose order and crops its number decides; return the mean loss."""
        rng = np.random.default_rng([seed, self.epoch])
        order = rng.permutation(len(split.pixels))
        whole = len(order) // batch * batch
        self.model.train()
        total = 0.0
        for rows in order[:whole].reshape(-1, batch):
            pixels = transform.normalised(augmented(split.pixels[rows], rng))
            with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
                logits = self.model(tensor(pixels))
            loss = cross_entropy(logits.float(), split.labels[rows])
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()
            self.schedule.step()
            total += loss.item() * batch
        self.epoch += 1
        return total / whole

    def accuracy(self, split: Split, transform: Preprocessing) -> float:
        """Return the share of images whose class has the largest logit, in per cent."""
        self.model.eval()
        right = 0
        with torch.inference_mode():
            for start in range(0, len(split.pixels), 500):
                rows = slice(start, start + 500)
                logits = self.model(tensor(transform.normalised(split.pixels[rows])))
                right += int((logits.argmax(1) == split.labels[rows]).sum())
        return 100 * right / len(split.pixels)


def tensor(pixels: NDArray[np.float32]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(pixels)).to(memory_format=torch.channels_last)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("images", type=Path, help="CIFAR's own archive, or training images")
    parser.add_argument("--test", type=Path, help="test images, where the first has no splits")
    parser.add_argument("-o", "--output", type=Path, required=True, help="where the weights go")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rate", type=float, default=0.2, help="the largest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bf16", action="store_true", help="multiply in bfloat16")
    given = parser.parse_args()

    transform = zoo.transform(NAME)
    one_file = given.test is None
    train = read(given.images, "train" if one_file else None, transform)
    test = read(given.test or given.images, "test" if one_file else None, transform)

    torch.manual_seed(given.seed)
    steps = given.epochs * (len(train.pixels) // given.batch)
    training = Training(int(train.labels.max()) + 1, steps, given.rate, given.bf16)
    kept = given.output.with_suffix(".training")
    if kept.is_file():
        training.resume(kept)
    while training.epoch < given.epochs:
        start = time.perf_counter()
        loss = training.train(train, transform, given.batch, given.seed)
        training.save(kept)
        accuracy = training.accuracy(test, transform)
        spent = time.perf_counter() - start
        print(
            f"epoch {training.epoch} of {given.epochs}: loss {loss:.4f}, "
            f"test accuracy {accuracy:.2f} %, {spent / 60:.1f} min",
            flush=True,
        )
    with atomic_path(given.output) as temporary:
        torch.save(training.model.state_dict(), temporary)


if __name__ == "__main__":
    main()
