"""Images per second by what `make_runner` chooses, against the best plain PyTorch loop."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from typica.nets import FeatureExtractor, Runner, make_runner, zoo

TURNS = 9  # of which the median counts: the machine may change its pace from one to the next
CLOSE = 1.25  # times the quickest loop's time: batch sizes that stay after the first turn


def run() -> Iterator[tuple[str, float, float, str]]:
    torch.manual_seed(0)
    yield from measured("densenet-bc-100", side=32, images=200, batches=(10, 50, 100), target=1.8)
    yield (
        "densenet-bc-100, Runner's time over OpenVINO's own queue",
        overhead("densenet-bc-100", 32, 200),
        1.05,
        "at most",
    )
    yield from measured("wideresnet-40-2", side=32, images=200, batches=(10, 50, 100), target=1.8)
    yield from measured("resnet-50", side=224, images=100, batches=(10, 50, 100), target=1.5)


def measured(
    name: str, side: int, images: int, batches: Sequence[int], target: float
) -> Iterator[tuple[str, float, float, str]]:
    model = zoo.load(name, weights=None)
    x = pixels(images, side)
    runner = make_runner(FeatureExtractor(model), sample=x[:32])
    through(runner, x)
    plain(model, x[: batches[0]], batches[0])  # both are warm now
    first = {size: seconds(lambda size=size: plain(model, x, size)) for size in batches}
    sizes = [size for size in batches if first[size] <= CLOSE * min(first.values())]
    ours: list[float] = []
    best: list[float] = []
    for _ in range(TURNS):
        ours.append(seconds(lambda: through(runner, x)))
        best.append(min(seconds(lambda size=size: plain(model, x, size)) for size in sizes))
    speedup = statistics.median(b / a for a, b in zip(ours, best, strict=True))
    rate, plain_rate = (images / statistics.median(times) for times in (ours, best))
    rates = f"{rate:.0f} images/s by {runner.name}, {plain_rate:.0f} by the best PyTorch loop"
    yield f"{name}, {rates}", speedup, target, "at least"


def pixels(images: int, side: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(images, 3, side, side)).astype(np.float32)


def plain(model: Any, x: NDArray[np.float32], size: int) -> None:
    with torch.inference_mode():
        for start in range(0, len(x), size):
            model(torch.from_numpy(x[start : start + size]))


def through(runner: Runner, x: NDArray[np.float32]) -> None:
    for _ in runner(x[start : start + runner.batch] for start in range(0, len(x), runner.batch)):
        pass


def overhead(name: str, side: int, images: int) -> float:
    """Return the runner's time by that of OpenVINO's own queue over the same compiled model."""
    import openvino  # noqa: PLC0415 (an extra)

    x = pixels(images, side)
    runner = make_runner(FeatureExtractor(zoo.load(name, weights=None)), "openvino", sample=x[:32])
    whole = x[: len(x) // runner.batch * runner.batch]
    queue = openvino.AsyncInferQueue(runner._engine.compiled, runner.jobs)
    found: dict[int, list[NDArray[np.float32]]] = {}

    def keep(request: Any, start: int) -> None:
        found[start] = [np.array(output.data) for output in request.output_tensors]

    queue.set_callback(keep)

    def raw() -> None:
        for start in range(0, len(whole), runner.batch):
            queue.start_async({0: whole[start : start + runner.batch]}, start)
        queue.wait_all()

    through(runner, whole)
    raw()
    return statistics.median(
        seconds(lambda: through(runner, whole)) / seconds(raw) for _ in range(TURNS)
    )


def seconds(function: Callable[[], Any]) -> float:
    start = perf_counter()
    function()
    return perf_counter() - start


if __name__ == "__main__":
    for what, reached, target, direction in run():
        print(f"{what}: {reached:.2f} ({direction} {target})")
