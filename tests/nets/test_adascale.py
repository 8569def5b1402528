"""AdaSCALE against a loop over inputs in float64 that imports nothing from typica."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.real import REAL
from torch import nn

import typica
from typica.nets import AdaSCALE, FeatureExtractor, zoo


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    trunk = [nn.Conv2d(3, 6, 3), nn.Tanh(), nn.Flatten(), nn.Linear(54, 40), nn.Softplus()]
    return nn.Sequential(*trunk, nn.Linear(40, 4)).double().eval()


def images(n: int = 8, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, 3, 5, 5)))


def moved_features(model, x):
    """Return the features of one input, and after the step on its least salient numbers."""
    x = x[None].clone().requires_grad_(True)
    model(x).max().backward()
    g = x.grad.numpy().ravel()
    step = np.zeros(g.size)
    for place in sorted(range(g.size), key=lambda i: abs(g[i]))[: int(0.05 * g.size)]:
        step[place] = 0.5 * np.sign(g[place])
    with torch.no_grad():
        after = model[:-1](x + torch.from_numpy(step).reshape(x.shape))
        return model[:-1](x)[0].numpy(), after[0].numpy()


def shift(z, after, k1, k2):
    order = sorted(range(len(z)), key=lambda j: -z[j])
    sizes = sum(max(after[j], 0) for j in order[: max(1, int(len(z) * k1 / 100))])
    apart = sum(abs(z[j] - after[j]) for j in order[: max(1, int(len(z) * k2 / 100))])
    return sizes + 10 * apart


def reference(model, known, rows, *, variant, low, high, k1, k2):
    W, b = (p.detach().numpy() for p in model[-1].parameters())
    seen = [shift(*moved_features(model, x), k1, k2) for x in known]
    scores = []
    for x in rows:
        z, after = moved_features(model, x)
        below = np.mean([q <= shift(z, after, k1, k2) for q in seen])
        p = low + (high - low) * (1 - below)
        positive = sorted((max(v, 0.0) for v in z), reverse=True)
        r = sum(positive) / sum(positive[: len(z) - round(len(z) * p / 100)])
        logits = W @ (z * np.exp(r)) + b if variant == "a" else (W @ z + b) * r**2
        scores.append(logits.max() + np.log(np.exp(logits - logits.max()).sum()))
    return scores


OWN = {"low": 75, "high": 85, "k1": 5, "k2": 1}
OTHER = {"low": 10, "high": 90, "k1": 30, "k2": 20}


@pytest.mark.parametrize("variant", ["a", "l"])
@pytest.mark.parametrize("parameters", [OWN, OTHER], ids=["own", "other"])
def test_scores_are_those_of_the_reference(one_thread, variant, parameters):
    model = network()
    known, rows = images(20, seed=1), 2 * images(seed=2)
    how = {"variant": variant, **parameters}
    scores = AdaSCALE(model, **how).fit(known, batch_size=7)
    got = scores.score_samples(rows, batch_size=3)
    assert all(p.grad is None for p in model.parameters()) and not got.requires_grad
    wanted = reference(model, known, rows, **how)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-9)
    percentiles = scores.percentiles(rows)
    assert (percentiles >= how["low"]).all() and (percentiles <= how["high"]).all()


def test_with_one_percentile_it_is_scale(one_thread):
    model = network()
    extractor = FeatureExtractor(model)
    detector = AdaSCALE(extractor, low=80, high=80).fit(images(20, seed=1))
    Z = extractor(images()).features.numpy()
    scaled = typica.SCALE(percentile=80).transform(Z)
    wanted = typica.Energy(extractor.head).score_samples(scaled)
    np.testing.assert_allclose(detector.score_samples(images()).numpy(), wanted, rtol=1e-9)


def test_what_cannot_be_is_refused(one_thread):
    model = network()
    for how, message in (
        ({"variant": "x"}, r"AdaSCALE: variant='x' is unknown; choose one of a, l"),
        ({"low": "a"}, r"AdaSCALE: low='a' is not a percentile; pass a number from 0 to 100"),
        ({"low": 90, "high": 80}, r"AdaSCALE: low=90, high=80; pass percentiles"),
        ({"k1": 0}, r"AdaSCALE: k1=0 is not a percentage; pass one above 0"),
    ):
        with pytest.raises(typica.InputError, match=message):
            AdaSCALE(model, **how)
    with pytest.raises(typica.InputError, match=r"score_samples: .* not fitted yet; call fit"):
        AdaSCALE(model).score_samples(images())
    with pytest.raises(typica.InputError, match=r"AdaSCALE\.fit: no known inputs; pass some"):
        AdaSCALE(model).fit(images(0))
    bad, fitted = images(20), AdaSCALE(model).fit(images(20))
    bad[3, 0, 0, 0] = torch.nan
    for use in (AdaSCALE(model).fit, fitted.score_samples, fitted.percentiles):
        with pytest.raises(typica.InputError, match="image 3 holds NaN or infinity"):
            use(bad)
    inner = AdaSCALE(FeatureExtractor(model, "3")).fit(images(20))
    assert inner.shifts_.shape == (20,)  # a layer of the head's width serves
    conv = AdaSCALE(FeatureExtractor(model, "0")).fit(images(20))
    with pytest.raises(typica.InputError, match=r"not the input of the head; leave out layer="):
        conv.score_samples(images())


@pytest.mark.real
def test_the_real_network_takes_it(checkpoint, one_thread):
    model, transform = zoo.load("densenet-bc-100", checkpoint), zoo.transform("densenet-bc-100")
    arrays = [
        np.load(REAL / "images" / f"{name}-2000.npz")["images"] for name in ("cifar10-test", "svhn")
    ]
    known, strange = (torch.from_numpy(transform(a[:24])) for a in arrays)
    detector = AdaSCALE(model).fit(known[:16])
    assert detector.score_samples(known).mean() > detector.score_samples(strange).mean()


def test_percentages_of_any_integer_type():
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
    known = torch.randn(50, 20, generator=torch.Generator().manual_seed(0))
    small = AdaSCALE(model, k1=np.uint8(5), k2=np.uint8(5)).fit(known)
    plain = AdaSCALE(model, k1=5, k2=5).fit(known)
    assert torch.equal(small.score_samples(known), plain.score_samples(known))
