"""What the comparisons with other people's code share.

Their import, and the data on which both sides are run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from helpers.cases import Case
from numpy.typing import NDArray

from typica import Head

# torchvision's compiled operators do not load beside the CPU build of torch, and its import fails
# where these two are unknown. pytorch-ood imports it and calls neither. The declarations last as
# long as the object that made them.
_OPERATORS = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _OPERATORS.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def random_case(n: int, m: int, C: int, seed: int = 0) -> Case:
    """Features after a ReLU; one label in ten is wrong, so the head errs on training rows too."""
    rng = np.random.default_rng(seed)
    directions = np.maximum(rng.normal(loc=0.5, size=(C, m)), 0)
    truth = np.arange(n) % C

    def rows(classes: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.maximum(
            2 * directions[classes] + rng.normal(scale=0.7, size=(len(classes), m)), 0
        )

    labels = np.where(rng.random(n) < 0.1, rng.integers(C, size=n), truth)
    strangers = np.maximum(rng.normal(scale=2, size=(n // 4, m)), 0)
    queries = np.concatenate([rows(truth[: n // 4]), strangers])
    # The linear discriminant of the classes, tempered so that it is not too sure of itself.
    head = Head(directions / 2, -np.sum(directions**2, axis=1) / 2)
    return Case(rows(truth), labels, queries, head)


def real_case(real: dict[str, NDArray[Any]]) -> Case:
    """A sample of the CIFAR-10 features, with strangers of each set."""
    strangers = [real[f"ood.{name}.features"][:200] for name in ("svhn", "textures", "cifar100")]
    return Case(
        real["train.features"][:5000].astype(np.float64),
        real["train.labels"][:5000].astype(np.int64),
        np.concatenate([real["test.features"][:600], *strangers]).astype(np.float64),
        Head(real["head.weight"].astype(np.float64), real["head.bias"].astype(np.float64)),
    )


SHAPES = [(320, 12, 4), (600, 40, 10), (480, 9, 16), (400, 64, 2)]


@pytest.fixture(
    scope="session",
    params=[*SHAPES, pytest.param(None, marks=pytest.mark.real, id="cifar10")],
    ids=str,
)
def case(request: pytest.FixtureRequest) -> Case:
    """Random data of several shapes (rows, features, classes), and real features where present."""
    return (
        real_case(request.getfixturevalue("real"))
        if request.param is None
        else random_case(*request.param)
    )


@pytest.fixture(autouse=True)
def in_double(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run their code in float64 where it asks for float32.

    Definitions are compared here, not rounding. A module that says `AS_IT_IS = True` is left alone.
    """
    if getattr(request.module, "AS_IT_IS", False):
        yield
        return
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(default)
