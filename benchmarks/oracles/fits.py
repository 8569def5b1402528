"""Fits against those of pytorch-ood 0.4, on the CIFAR-10 features of a DenseNet.

Both sides are given the same 50,000 x 342 numbers in float32. A fit here keeps a sample of the rows
as well, for a provisional threshold when it is first asked for. `make bench-oracles` runs
this in the environment of tests/oracles; TYPICA_REAL says where the features are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

# torchvision's compiled operators do not load beside the CPU build of torch, and its import fails
# where these two are unknown. pytorch-ood imports it and calls neither. The declarations last as
# long as the object that made them.
_OPERATORS = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _OPERATORS.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

import pytorch_ood.detector as theirs  # noqa: E402 (which needs the declarations)

import typica  # noqa: E402

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "tests")]
from helpers.real import REAL  # noqa: E402
from timing import ratio  # noqa: E402

DIM = 171  # of ViM's principal subspace: half the features, as here
REPEATS = 9


def main() -> int:
    folder = REAL / "cifar10-densenet"
    if not folder.exists():
        print(f"the CIFAR-10 features are not at {folder} (TYPICA_REAL says where)")
        return 1
    Z = np.load(folder / "train.features.npy").astype(np.float32)
    y = np.load(folder / "train.labels.npy").astype(np.int64)
    weight = np.load(folder / "head.weight.npy").astype(np.float32)
    bias = np.load(folder / "head.bias.npy").astype(np.float32)
    missed = 0
    for name, (ours, other) in pairs(Z, y, weight, bias).items():
        reached, here, there = ratio(ours, other, repeats=REPEATS)
        what = f"{name} fit ({here * 1e3:.0f} ms) / pytorch-ood's ({there * 1e3:.0f} ms)"
        good = reached <= 1
        missed += not good
        print(f"{what:<74} {reached:6.2f}  at most 1  {'ok' if good else 'MISSED'}", flush=True)
    return missed


def pairs(
    Z: np.ndarray, y: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Return for each method a fit here and a fit there."""
    head = typica.Head(weight, bias)
    linear = torch.nn.Linear(weight.shape[1], len(weight))
    linear.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})
    linear.requires_grad_(False)
    features, labels = torch.from_numpy(Z), torch.from_numpy(y)
    logits = np.asarray(head.logits(Z))

    def there(make: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: make().fit_features(features, labels)

    W, b = linear.weight, linear.bias
    return {
        "KNN": (lambda: typica.KNN().fit(Z, y), there(lambda: theirs.KNN(None))),
        "Mahalanobis": (
            lambda: typica.Mahalanobis().fit(Z, y),
            there(lambda: theirs.Mahalanobis(None)),
        ),
        "RelativeMahalanobis": (
            lambda: typica.RelativeMahalanobis().fit(Z, y),
            there(lambda: theirs.RMD(None)),
        ),
        "ViM": (
            lambda: typica.ViM(head, dim=DIM).fit(Z),
            there(lambda: theirs.ViM(None, DIM, W, b)),
        ),
        "SHE": (lambda: typica.SHE(head).fit(Z, y), there(lambda: theirs.SHE(None, linear))),
        "FDBD": (lambda: typica.FDBD(head).fit(Z), there(lambda: theirs.fDBD(None, linear))),
        "NCI": (lambda: typica.NCI(head).fit(Z), there(lambda: theirs.NCI(None, linear))),
        "NNGuide": (
            lambda: typica.NNGuide(head, subsample=None).fit(Z),
            there(lambda: theirs.NNGuide(None, linear)),
        ),
        "PNML": (lambda: typica.PNML(head).fit(Z), there(lambda: theirs.PNML(None, linear))),
        "GMM": (lambda: typica.GMM().fit(Z, y), there(lambda: theirs.GMM(None))),
        "KLMatching": (
            lambda: typica.KLMatching().fit(logits, y),
            lambda: theirs.KLMatching(None).fit_logits(torch.from_numpy(logits), labels),
        ),
    }


if __name__ == "__main__":
    sys.exit(main() > 0)
