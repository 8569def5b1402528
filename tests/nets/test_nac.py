"""LayerNAC against loops in float64 that import nothing from typica."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import typica
from typica.errors import InputError
from typica.nets import FeatureExtractor, LayerNAC


def network(seed: int = 0, inplace: bool = False) -> nn.Module:
    torch.manual_seed(seed)
    first = [nn.Conv2d(2, 4, 2), nn.ReLU(inplace), nn.Conv2d(4, 3, 2), nn.Tanh()]
    return nn.Sequential(
        *first, nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 3)
    ).double()


def images(n: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, 2, 4, 4)))


def products(model: nn.Module, x: torch.Tensor, ends: list[int]) -> list[np.ndarray]:
    """Return z g of the outputs of model[:end], one input at a time, maps averaged over places."""
    found = []
    for end in ends:
        rows = []
        for one in x:
            z = model[:end](one[None]).detach().requires_grad_(True)
            p = torch.softmax(model[end:](z), dim=1)
            divergence = (torch.log(torch.tensor(1 / 3)) - torch.log(p)).mean()
            (g,) = torch.autograd.grad(divergence, z)
            z, g = z[0].detach().numpy(), g[0].numpy()
            places = tuple(range(1, z.ndim))
            rows.append(z.mean(axis=places) * g.mean(axis=places) if places else z * g)
        found.append(np.array(rows))
    return found


def coverage(known: np.ndarray, rows: np.ndarray, alpha: float, bins: int, enough: int) -> list:
    def number(v):
        return min(int(np.floor(bins / (1 + np.exp(-alpha * v)))), bins - 1)

    scores = []
    for row in rows:
        total = 0.0
        for j, v in enumerate(row):
            alike = sum(number(other) == number(v) for other in known[:, j])
            total += min(alike / enough, 1)
        scores.append(total / len(row))
    return scores


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("alpha", [None, 30.0, [5.0, 80.0, 10.0]])
def test_the_score_is_that_of_loops(alpha, inplace):
    model, known, rows = network(inplace=inplace), images(60), images(15, seed=1)
    layers, ends = ["0", "3", "penultimate"], [1, 4, 7]
    detector = LayerNAC(model, layers, alpha, bins=12, enough=7).fit(known, batch_size=17)
    plain = network()
    seen, new = products(plain, known, ends), products(plain, rows, ends)
    if alpha is None:
        sizes = [np.sort(np.abs(layer[layer != 0])) for layer in seen]
        alphas = [1 / size[(len(size) - 1) // 2] for size in sizes]
        np.testing.assert_allclose(detector.alphas_, alphas, rtol=1e-12)
    else:
        alphas = alpha if isinstance(alpha, list) else [alpha] * 3
    expected = np.array([
        coverage(one, other, a, 12, 7) for one, other, a in zip(seen, new, alphas, strict=True)
    ])  # fmt: skip
    np.testing.assert_allclose(detector.layer_scores(rows, batch_size=4).T, expected, rtol=1e-9)
    np.testing.assert_allclose(detector.score_samples(rows), expected.mean(axis=0), rtol=1e-9)


def test_the_last_layer_alone_is_the_detector_of_features():
    model, known, rows = network(), images(80), images(20, seed=1)
    extractor = FeatureExtractor(model)
    features = extractor(known).features
    detector = typica.NAC(extractor.head, alpha=40.0, bins=10, enough=9).fit(features)
    over = LayerNAC(model, ["penultimate"], 40.0, bins=10, enough=9).fit(known)
    expected = detector.score_samples(extractor(rows).features)
    np.testing.assert_allclose(over.score_samples(rows), expected, rtol=1e-9)


def test_the_model_is_left_as_it_was():
    model = network().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    detector = LayerNAC(model, ["0", "penultimate"]).fit(images(30))
    with torch.inference_mode():
        detector.score_samples(images(3))
    assert model.training and all(p.requires_grad and p.grad is None for p in model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_second_fit_counts_anew():
    model = network()
    detector = LayerNAC(model, ["0"]).fit(images(40))
    again = detector.fit(images(40)).score_samples(images(5, seed=1))
    assert torch.equal(again, LayerNAC(model, ["0"]).fit(images(40)).score_samples(images(5, 1)))


class Aside(nn.Module):
    """A network with a part that its logits do not depend on."""

    def __init__(self) -> None:
        super().__init__()
        self.aside = nn.Linear(3, 2)
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        self.aside(x)
        return self.head(x)


def test_what_it_refuses():
    model = network()
    for bad in ({"bins": 1}, {"bins": True}, {"enough": 0}, {"alpha": -1.0}, {"alpha": [1.0]}):
        (name,) = bad
        with pytest.raises(InputError, match=f"{name}="):
            LayerNAC(model, ["0", "3"], **bad)
    with pytest.raises(InputError, match="no module 'nine'"):
        LayerNAC(model, ["nine"])
    with pytest.raises(InputError, match="not fitted yet"):
        LayerNAC(model, ["0"]).score_samples(images(2))
    with pytest.raises(InputError, match="no known inputs"):
        LayerNAC(model, ["0"]).fit(images(0))
    bad, detector = images(20), LayerNAC(model, ["0"]).fit(images(20))
    bad[3, 0, 0, 0] = torch.nan
    for use in (detector.fit, detector.score_samples, detector.layer_scores):
        with pytest.raises(InputError, match="image 3 holds NaN or infinity"):
            use(bad)
        with pytest.raises(InputError, match="images of type uint8, in which no step can be made"):
            use(images(20).to(torch.uint8))
        with pytest.raises(InputError, match="batch_size=0 is not an integer of at least 1"):
            use(images(20), batch_size=0)
    with pytest.raises(InputError, match="the logits do not depend on layer 'aside'"):
        LayerNAC(Aside(), ["aside"]).fit(torch.rand(5, 3))
