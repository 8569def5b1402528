"""Counts of images and parameters may be NumPy's integers, small ones too.

They give what Python's give.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from typica.detectors import LayerEnsemble
from typica.errors import InputError
from typica.nets import ODIN, AdaSCALE, FeatureExtractor, Gram, LayerNAC, LayerPerturb, mislead

LAYERS = ["0", "2"]


@pytest.fixture(scope="module")
def network() -> nn.Module:
    torch.manual_seed(0)
    pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), *pooled, nn.Linear(4, 3)).eval()


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.rand(150, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def perturbed_layers(network: nn.Module, images: torch.Tensor) -> LayerPerturb:
    extractor = FeatureExtractor(network, layers=LAYERS)
    layers = {name: rows.detach().numpy() for name, rows in extractor(images).layers.items()}
    return LayerPerturb(
        extractor, LayerEnsemble().fit(layers, np.arange(len(images)) % 3), epsilon=0.001
    )


@pytest.mark.parametrize(
    "scores",
    [
        lambda net, x, size: Gram(net, LAYERS).fit(x, size).score_samples(x, size),
        lambda net, x, size: LayerNAC(net, LAYERS).fit(x, size).score_samples(x, size),
        lambda net, x, size: AdaSCALE(net).fit(x, size).score_samples(x, size),
        lambda net, x, size: ODIN(net).score_samples(x, size),
        lambda net, x, size: perturbed_layers(net, x).score_samples(x, size),
        lambda net, x, size: mislead(FeatureExtractor(net), x, batch_size=size),
    ],
    ids=["gram", "nac", "adascale", "odin", "layers", "mislead"],
)
def test_batch_sizes(network, images, scores):
    found, expected = (scores(network, images, size) for size in (np.int8(7), 7))
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    with pytest.raises(InputError, match=r"batch_size=0 is not an integer of at least 1"):
        scores(network, images, 0)


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ({"bins": np.int8(100), "enough": np.int8(5)}, {"bins": 100, "enough": 5}),
        ({"alpha": np.array([2.0, 3.0])}, {"alpha": [2.0, 3.0]}),
        ({"alpha": np.array(2.0)[()]}, {"alpha": 2.0}),
    ],
)
def test_parameters_of_nac(network, images, given, plain):
    found, expected = (LayerNAC(network, LAYERS, **params).fit(images) for params in (given, plain))
    assert torch.equal(found.score_samples(images), expected.score_samples(images))


def test_what_is_no_list_of_steepnesses(network):
    for alpha in (np.array([[2.0, 3.0]]), np.array([2.0, -1.0]), ["a", "b"]):
        with pytest.raises(InputError, match="pass a positive number, or one for each layer"):
            LayerNAC(network, LAYERS, alpha=alpha)
    with pytest.raises(InputError, match="for 2 layers; pass a positive number, or one for each"):
        LayerNAC(network, LAYERS, alpha=np.array([2.0]))


def test_powers_of_gram(network, images):
    found = Gram(network, LAYERS, powers=np.array([1, 9], dtype=np.int8)).fit(images)
    expected = Gram(network, LAYERS, powers=(1, 9)).fit(images)
    assert found.powers == (1, 9) and all(type(power) is int for power in found.powers)
    assert torch.equal(found.score_samples(images), expected.score_samples(images))
