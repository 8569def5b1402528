"""Gram against loops in float64 that import nothing from typica."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.real import REAL
from torch import nn

import typica
from typica.nets import Gram, zoo
from typica.nets._gram import gram_sums


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    first = [nn.Conv2d(2, 4, 2), nn.Tanh(), nn.Conv2d(4, 3, 2), nn.ReLU()]
    return nn.Sequential(*first, nn.Flatten(), nn.Linear(12, 3)).double().eval()


def images(n: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, 2, 4, 4)))


def sums(F, powers):
    """Return the rows' sums of (F^p F^p T), their roots, power by power."""
    F = F.reshape(len(F), -1)
    out = []
    for p in powers:
        G = np.array([[sum(a**p * b**p) for b in F] for a in F])
        out += [np.sign(row.sum()) * abs(row.sum()) ** (1 / p) for row in G]
    return np.array(out)


def seen(model, x, powers):
    """Return the predicted class, and the sums of the two layers."""
    with torch.no_grad():
        one, two = model[:2](x[None])[0].numpy(), model[:4](x[None])[0].numpy()
        return int(model(x[None]).argmax()), [sums(one, powers), sums(two, powers)]


def deviation(values, rows):
    low, high = np.min(rows, axis=0), np.max(rows, axis=0)
    total = 0.0
    for v, a, b in zip(values, low, high, strict=True):
        total += max(a - v, 0) / max(abs(a), 1e-6) + max(v - b, 0) / max(abs(b), 1e-6)
    return total


def reference(model, known, rows, powers):
    found = [seen(model, x, powers) for x in known]
    fitted = [pair for i, pair in enumerate(found) if i % 10 != 9]

    def deltas(k, layers):
        alike = [theirs for c, theirs in fitted if c == k] or [theirs for _, theirs in fitted]
        return [deviation(layers[i], [theirs[i] for theirs in alike]) for i in range(2)]

    usual = np.mean([deltas(*pair) for pair in found[9::10]], axis=0)
    return [-sum(deltas(*seen(model, x, powers)) / usual) for x in rows]


@pytest.mark.parametrize("powers", [(1, 2, 3), tuple(range(1, 11))])
def test_scores_are_those_of_the_reference(one_thread, powers):
    model = network()
    known, rows = images(60, seed=1), 1.5 * images(12, seed=2)
    gram = Gram(model, ["1", "3"], powers=powers).fit(known, batch_size=7)
    wanted = reference(model, known, rows, powers)
    np.testing.assert_allclose(gram.score_samples(rows, batch_size=5).numpy(), wanted, rtol=1e-9)
    fitted = known[torch.arange(60) % 10 != 9]
    assert (gram.score_samples(fitted) > -1e-12).all()  # within their own ranges, but for rounding


def test_high_powers_neither_overflow_nor_vanish(one_thread):
    maps = torch.rand(2, 3, 4, 4)
    plain = gram_sums(maps.double())
    for factor in (1e-12, 1e12):
        scaled = gram_sums(maps * factor)
        np.testing.assert_allclose(scaled.numpy() / factor**2, plain.numpy(), rtol=1e-4)
    assert (gram_sums(torch.zeros(1, 3, 2, 2)) == 0).all()


def test_a_class_that_was_never_predicted_has_the_ranges_of_all(one_thread):
    model = network()
    with torch.no_grad():
        model[-1].bias += torch.tensor([0.0, 0.0, -1e3])
    gram = Gram(model, ["3"]).fit(images(60))
    with torch.no_grad():
        model[-1].bias += torch.tensor([0.0, 0.0, 2e3])
    assert torch.isfinite(gram.score_samples(images(5, seed=3))).all()


def test_what_cannot_be_is_refused(one_thread):
    with pytest.raises(typica.InputError, match=r"Gram: powers=\(0,\); pass whole numbers"):
        Gram(network(), ["1"], powers=(0,))
    with pytest.raises(typica.InputError, match=r"Gram.fit: 5 known inputs; pass at least 20"):
        Gram(network(), ["1"]).fit(images(5))
    with pytest.raises(typica.InputError, match=r"score_samples: .* not fitted yet; call fit"):
        Gram(network(), ["1"]).score_samples(images(5))
    bad, fitted = images(40), Gram(network(), ["1"]).fit(images(40))
    bad[3, 0, 0, 0] = torch.inf
    for use in (fitted.fit, fitted.score_samples):
        with pytest.raises(typica.InputError, match="image 3 holds NaN or infinity"):
            use(bad)


def test_a_fit_that_fails_leaves_none():
    detector = Gram(network(), ["1"]).fit(images(40))
    with pytest.raises(RuntimeError, match="channels"):
        detector.fit(images(40)[:, :1])
    with pytest.raises(typica.InputError, match="not fitted yet"):
        detector.score_samples(images(5))


@pytest.mark.real
def test_the_real_network_takes_it(checkpoint, one_thread):
    model, transform = zoo.load("densenet-bc-100", checkpoint), zoo.transform("densenet-bc-100")
    arrays = [
        np.load(REAL / "images" / f"{name}-2000.npz")["images"]
        for name in ("cifar10-train", "cifar10-test", "svhn")
    ]
    train, known, strange = (torch.from_numpy(transform(a[:40])) for a in arrays)
    gram = Gram(model, ["trans1", "trans2", "block3"]).fit(train)
    assert gram.score_samples(known).median() > gram.score_samples(strange).median()


def test_its_powers_are_its_own():
    powers = [1, 2]
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2))
    known = torch.rand(40, 1, 5, 5)
    gram = Gram(model, ["1"], powers=powers).fit(known)
    expected = gram.score_samples(known)
    powers.append(3)
    assert gram.powers == (1, 2)
    assert torch.equal(gram.score_samples(known), expected)
