"""A step per layer: against a loop by hand, learnt from known images alone, and in verdicts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.real import REAL
from helpers.shell import run
from helpers.tinynet import MODEL, SOURCE, write_images
from torch import nn

import typica
from typica import CTM, LayerEnsemble
from typica.nets import (
    FeatureExtractor,
    LayerPerturb,
    Settings,
    extract,
    judge_images,
    mislead,
    zoo,
)

STD = (0.2, 0.3, 0.4)
LAYERS = ["0", "2", "penultimate"]


def network(seed: int = 0) -> nn.Module:
    """Smooth, and in double precision, so that signs are certain."""
    torch.manual_seed(seed)
    trunk = [nn.Conv2d(3, 6, 3), nn.Tanh(), nn.Conv2d(6, 5, 3), nn.Flatten(), nn.Linear(5, 8)]
    return nn.Sequential(*trunk, nn.Softplus(), nn.Linear(8, 4)).double().eval()


def batch(n: int = 6, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, 3, 5, 5)))


def by_hand(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """The three layers' features, averaged over space."""
    first = model[0](x)
    second = model[2](model[1](first))
    last = model[5](model[4](model[3](second)))
    return [first.mean((2, 3)), second.mean((2, 3)), last]


def scores_by_hand(train: np.ndarray, y: np.ndarray, z: torch.Tensor) -> torch.Tensor:
    """Minus half the least squared Mahalanobis distance, one tied covariance of all rows."""
    means = np.stack([train[y == k].mean(axis=0) for k in range(4)])
    centred = train - means[y]
    inverse = torch.from_numpy(np.linalg.inv(centred.T @ centred / len(train)))
    gaps = z[:, None] - torch.from_numpy(means)
    return -torch.einsum("nki,ij,nkj->nk", gaps, inverse, gaps).amin(1) / 2


@pytest.fixture(scope="module")
def fitted() -> tuple[nn.Module, LayerEnsemble]:
    model, y = network(), np.arange(160) % 4
    rows = FeatureExtractor(model, layers=LAYERS)(batch(160, seed=1)).layers
    table = {name: rows[name].numpy() for name in LAYERS}
    return model, LayerEnsemble(combine="linear").fit(table, y)


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_each_layer_is_scored_where_its_own_step_leads(fitted, epsilon):
    model, ensemble = fitted
    x, y = batch(), np.arange(160) % 4
    known = [rows.detach().numpy() for rows in by_hand(model, batch(160, seed=1))]
    wanted = []
    for i in range(3):
        moving = x.clone().requires_grad_(True)
        scores_by_hand(known[i], y, by_hand(model, moving)[i]).sum().backward()
        up = (
            torch.where(moving.grad > 0, 1.0, -1.0)
            / torch.tensor(STD, dtype=torch.float64)[:, None, None]
        )
        moved = x + epsilon * up
        wanted.append(scores_by_hand(known[i], y, by_hand(model, moved)[i]).detach())
    detector = LayerPerturb(model, ensemble, epsilon=epsilon, std=STD)
    S = detector.member_scores(x, batch_size=4)
    np.testing.assert_allclose(S, torch.stack(wanted, dim=1), rtol=1e-6)
    np.testing.assert_allclose(detector.score_samples(x.numpy()), ensemble.combine_scores(S))
    if epsilon:
        plain = LayerPerturb(model, ensemble, std=STD).member_scores(x)
        assert (plain < S).mean() > 0.9


@pytest.mark.parametrize("labels", [None, [0, 1, 2, 3, 0, 1]])
def test_misleading_images_raise_the_loss(labels):
    model, x = network(), batch()
    targets = model(x).argmax(1) if labels is None else torch.tensor(labels)
    moving = x.clone().requires_grad_(True)
    nn.functional.cross_entropy(model(moving), targets, reduction="sum").backward()
    wanted = x + 0.01 * moving.grad.sign() / torch.tensor(STD, dtype=torch.float64)[:, None, None]
    moved = mislead(model, x, labels, epsilon=0.01, std=STD, batch_size=4)
    assert torch.allclose(moved, wanted, rtol=0, atol=1e-14)
    loss = nn.functional.cross_entropy
    assert loss(model(moved), targets) > loss(model(x), targets)


def test_weights_and_step_come_from_known_images_alone(fitted):
    model, ensemble = fitted
    images = batch(60, seed=5)
    detector = LayerPerturb(model, ensemble, std=STD)
    detector.learn(images, steps=(0.0, 0.01), misleading=0.5)
    assert detector.epsilon in (0.0, 0.01) and np.abs(ensemble.weights_).max() > 0
    misled = mislead(model, batch(60, seed=6), epsilon=0.5, std=STD)
    told = typica.evaluate(
        detector.score_samples(batch(60, seed=6)), detector.score_samples(misled)
    )
    assert told.auroc > 0.9
    detector.learn(images, steps=None, misleading=0.5)
    known = detector.member_scores(images)
    np.testing.assert_allclose(
        ensemble.observed_[0], np.sort(known[:, 0]), rtol=1e-9
    )  # what p-values are taken by


def test_p_values_of_moved_images(fitted):
    model, _ = fitted
    rows = FeatureExtractor(model, layers=LAYERS)(batch(160, seed=1)).layers
    table = {name: rows[name].numpy() for name in LAYERS}
    ensemble = LayerEnsemble(combine="fisher").fit(table, np.arange(160) % 4)
    detector = LayerPerturb(model, ensemble, epsilon=0.02, std=STD).observe(batch(80, seed=7))
    far = typica.evaluate(
        detector.score_samples(batch(40, seed=8)), detector.score_samples(4 * batch(40, seed=9))
    )
    assert far.auroc > 0.95


def test_what_is_refused(fitted):
    model, ensemble = fitted
    narrow = FeatureExtractor(model, layers=["0"])
    detector = LayerPerturb(model, ensemble)
    for call, message in {
        lambda: LayerPerturb(model, CTM()): "not a fitted LayerEnsemble",
        lambda: LayerPerturb(model, LayerEnsemble()): "not a fitted LayerEnsemble",
        lambda: LayerPerturb(narrow, ensemble): "the extractor gives 0, and not '2'; make it with",
        lambda: LayerPerturb(model, ensemble, epsilon=-1): "epsilon=-1 is not a step",
        lambda: LayerPerturb(model, ensemble, std=0): "std=0; pass one positive number",
        lambda: mislead(model, batch(), [0, 1]): r"labels of shape \(2,\) for 6 images",
        lambda: mislead(model, batch().to(torch.uint8)): "images of type uint8",
        lambda: mislead(model, batch()[:0]): "no images; pass some",
        lambda: mislead(model, batch() / 0): "image 0 holds NaN or infinity",
        lambda: mislead(model, batch(), batch_size=0): "batch_size=0 is not an integer",
        lambda: mislead(model, batch(), [0, 1, 2, 3, 4, 99]): r"labels from 0 to 99 for \d+ logits",
        lambda: mislead(model, batch(), [0, 1, 2, 3, 0, -1]): r"labels from -1 to 3 for \d+ logits",
        lambda: mislead(model, batch(), [0.5] * 6): "labels of type float64; pass the positions",
        lambda: mislead(model, batch(), ["a"] * 6): "labels of type <U1; pass the positions",
        lambda: detector.score_samples(batch(), batch_size=0): "batch_size=0 is not an integer",
        lambda: detector.learn(batch(), steps=[]): r"steps=\[\]; pass some",
        lambda: detector.learn(batch(), steps=["a"]): "epsilon='a' is not a step",
    }.items():
        with pytest.raises(typica.InputError, match=message):
            call()
    other = LayerEnsemble(combine="simes").fit({"0": np.random.default_rng(0).normal(size=(40, 6))})
    with pytest.raises(typica.InputError, match="combine='simes', which has no weights"):
        LayerPerturb(model, other).learn(batch())


def test_verdicts_on_images_by_several_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A detector of layers opens its network again and reads them all."""
    (tmp_path / "tiny.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tiny", raising=False)
    pictures = write_images(tmp_path / "pictures")
    plain = Settings(backend="torch", batch=4, threads=1)
    bank = extract(pictures, MODEL, "a.bank", layers=["0.0", "penultimate"], settings=plain)
    detector = LayerEnsemble(CTM()).fit(bank)
    detector.calibrate({name: 2 * rows for name, rows in read(bank).items()})
    detector.save("layers.safetensors")
    path = pictures / "red" / "07.png"
    found = judge_images(typica.load("layers.safetensors"), path, model=MODEL)
    row = list(bank.names).index("red/07.png")
    expected = detector.judge({name: rows[row : row + 1] for name, rows in read(bank).items()})
    np.testing.assert_allclose(found.score, expected.score, rtol=1e-4)
    assert found.nearest[0] == "red"


def test_layers_from_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    """A bank with layers is fitted, calibrated and scored by all of them."""
    (tmp_path / "tiny.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tiny", raising=False)
    plain = Settings(backend="torch", batch=4, threads=1)
    banks = {}
    for seed, name in enumerate(("train", "test")):
        images = write_images(tmp_path / name, seed=seed)
        layers = ["0.0", "penultimate"]
        banks[name] = extract(images, MODEL, f"{name}.bank", layers=layers, settings=plain)
    run(
        capsys,
        *("fit", "train.bank", "--detector", "layer_ensemble", "--param", "detector=ctm"),
        *("--calibrate", "test.bank", "-o", "layers.safetensors"),
    )
    detector = typica.load("layers.safetensors")
    assert detector.layers_ == ["0.0", "penultimate"] and detector.n_features_in_ == 24
    expected = LayerEnsemble(CTM()).fit(banks["train"]).calibrate(banks["test"])
    assert detector.threshold_ == pytest.approx(expected.threshold_)
    story = run(capsys, "explain", "layers.safetensors", "test.bank", "--row", "3")
    assert "test.bank, row 3" in story
    asked = ("explain", "layers.safetensors", "test.bank", "--row", "3")
    story = run(capsys, *asked, "--bank", "train.bank")
    assert "nearest known inputs: " in story
    told = run(capsys, "score", "layers.safetensors", "test.bank", "--json", "-")
    scores = [row["score"] for row in json.loads(told)["rows"]]
    assert sorted(scores) == pytest.approx(sorted(expected.score_samples(banks["test"]).tolist()))


def read(bank: typica.Bank) -> dict[str, np.ndarray]:
    return {**bank.layers, "penultimate": bank.features}


@pytest.mark.real
def test_layers_tell_svhn_from_cifar10(checkpoint, one_thread):
    """CTM on four layers of the real network, fitted on 120 images and calibrated on as many."""
    layers = ["conv1", "trans1", "trans2", "penultimate"]
    transform = zoo.transform("densenet-bc-100")
    extractor = FeatureExtractor(zoo.load("densenet-bc-100", weights=checkpoint), layers=layers)

    def rows(name: str, n: int) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
        stored = np.load(REAL / "images" / f"{name}.npz")
        parts = []
        for start in range(0, n, 20):
            found = extractor(transform(stored["images"][start : min(start + 20, n)])).layers
            parts.append({layer: found[layer].numpy() for layer in layers})
        table = {layer: np.concatenate([part[layer] for part in parts]) for layer in layers}
        return table, stored["labels"][:n] if "labels" in stored else None

    train, y = rows("cifar10-train-2000", 120)
    test, svhn = rows("cifar10-test-2000", 180)[0], rows("svhn-2000", 60)[0]
    held_out = {layer: test[layer][:120] for layer in layers}
    test = {layer: test[layer][120:] for layer in layers}
    ensemble = LayerEnsemble(CTM()).fit(train, y).calibrate(held_out)
    result = typica.evaluate(ensemble.score_samples(test), ensemble.score_samples(svhn))
    assert result.auroc > 0.97 and result.fpr < 0.15
    assert np.mean(ensemble.p_values(svhn) <= 0.05) > 0.85
