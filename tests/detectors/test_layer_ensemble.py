"""A detector per layer: from mappings, banks and joined columns, each member as it is alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from sklearn.pipeline import make_pipeline

import typica
from typica import CTM, KNN, L2Normalise, LayerEnsemble, Mahalanobis
from typica.bank import BankWriter

WIDTHS = {"early": 3, "middle": 5, "penultimate": 4}


class Layered(NamedTuple):
    train: dict[str, np.ndarray]
    labels: np.ndarray
    held_out: dict[str, np.ndarray]
    test: dict[str, np.ndarray]
    noisy: dict[str, np.ndarray]
    shaped: dict[str, np.ndarray]


@pytest.fixture(scope="module")
def layered() -> Layered:
    """Two kinds of strangers: the first layer tells one, the last the other."""
    rng = np.random.default_rng(0)

    def rows(n: int, early: float = 0.0, late: float = 0.0) -> dict[str, np.ndarray]:
        y = np.arange(n) % 2
        table = {name: rng.normal(size=(n, width)) for name, width in WIDTHS.items()}
        table["middle"] += 3 * np.eye(5)[y]
        table["penultimate"] += 6 * np.eye(4)[y] + late * np.eye(4)[3]
        table["early"] += early
        return table

    labels = np.array(["cat", "dog"])[np.arange(400) % 2]
    return Layered(rows(400), labels, rows(200), rows(200), rows(200, early=5), rows(200, late=8))


def auroc(detector, known, strange) -> float:
    return typica.evaluate(detector.score_samples(known), detector.score_samples(strange)).auroc


def test_each_layer_has_the_scores_of_a_detector_of_its_own(layered):
    ensemble = LayerEnsemble().fit(layered.train, layered.labels)
    assert ensemble.layers_ == list(WIDTHS) and ensemble.widths_ == list(WIDTHS.values())
    S = ensemble.member_scores(layered.test)
    for i, name in enumerate(WIDTHS):
        alone = Mahalanobis().fit(layered.train[name], layered.labels)
        np.testing.assert_array_equal(S[:, i], alone.score_samples(layered.test[name]))


@pytest.mark.parametrize("how", ["fisher", "stouffer", "simes", "linear", "mean"])
def test_strangers_of_any_layer_are_told(layered, how):
    ensemble = LayerEnsemble(combine=how).fit(layered.train, layered.labels)
    ensemble.calibrate(layered.held_out)
    alone = Mahalanobis().fit(layered.train["penultimate"], layered.labels)
    noisy = layered.noisy["penultimate"]
    assert auroc(alone, layered.test["penultimate"], noisy) < 0.6
    for strange in (layered.noisy, layered.shaped):
        assert auroc(ensemble, layered.test, strange) > 0.9


def test_columns_side_by_side_are_the_same(layered):
    ensemble = LayerEnsemble().fit(layered.train, layered.labels).calibrate(layered.held_out)
    columns = np.concatenate(list(layered.test.values()), axis=1)
    np.testing.assert_array_equal(
        ensemble.score_samples(columns), ensemble.score_samples(layered.test)
    )
    tensors = {name: torch.from_numpy(rows) for name, rows in layered.test.items()}
    np.testing.assert_allclose(
        ensemble.score_samples(tensors), ensemble.score_samples(columns), rtol=1e-9
    )


def write(path, table, labels=None):
    """A bank as an extraction of three layers leaves it."""
    identity = {
        "model": "net", "weights": "00", "layer": list(WIDTHS), "reduce": "mean", "transform": {},
    }  # fmt: skip
    columns = {"features": table["penultimate"].astype(np.float32)}
    for name in list(WIDTHS)[:-1]:
        columns[f"layer.{name}"] = table[name].astype(np.float32)
    if labels is not None:
        columns["labels"] = (labels == "dog").astype(np.int64)
    with BankWriter(path, identity, settings={}, dtype="float32") as writer:
        writer.write(columns, None, len(columns["features"]))
        return writer.finish(None, ["cat", "dog"])


def test_banks_with_layers(layered, tmp_path):
    train = write(tmp_path / "train.bank", layered.train, layered.labels)
    test = write(tmp_path / "test.bank", layered.test)
    ensemble = LayerEnsemble(CTM(), layers=["middle", "penultimate"]).fit(train)
    verdicts = ensemble.calibrate(test).judge(test)
    assert ensemble.layers_ == ["middle", "penultimate"] and ensemble.origin_ == train.origin
    assert ensemble.calibration_.n == 100
    assert len(verdicts) == 200 and set(verdicts.nearest) == {"cat", "dog"}
    assert np.mean(verdicts.typical) >= 0.95
    as_stored = {name: rows.astype(np.float32) for name, rows in layered.test.items()}
    np.testing.assert_allclose(
        ensemble.score_samples(as_stored), verdicts.score, rtol=1e-6, atol=1e-6
    )
    known = ensemble.explain({k: v[:1] for k, v in layered.noisy.items()}, bank=train)
    assert len(known[0].examples) == 3 and "middle" in known[0].note


def test_detectors_by_layer_by_name_and_in_a_pipeline(layered, tmp_path):
    by_layer = {"early": KNN(k=3), "penultimate": make_pipeline(L2Normalise(), Mahalanobis())}
    ensemble = LayerEnsemble(by_layer).fit(layered.train, layered.labels)
    assert ensemble.layers_ == ["early", "penultimate"]
    assert ensemble.match(layered.test) is None  # a Pipeline matches no classes here
    ensemble.calibrate(layered.held_out)
    ensemble.save(tmp_path / "e.safetensors")
    again = typica.load(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(
        again.score_samples(layered.test), ensemble.score_samples(layered.test)
    )
    assert isinstance(again.detector["early"], KNN) and again.detector["early"].k == 3
    named = LayerEnsemble("ctm").fit(layered.train, layered.labels)
    assert [type(member) for member in named.members_] == [CTM] * 3
    np.testing.assert_array_equal(
        named.classify(layered.test),
        CTM()
        .fit(layered.train["penultimate"], layered.labels)
        .classify(layered.test["penultimate"]),
    )


def test_thresholds_by_class(layered):
    ensemble = LayerEnsemble().fit(layered.train, layered.labels)
    ensemble.calibrate(layered.held_out, by_class=True)
    assert set(ensemble.offsets_) == {"cat", "dog"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda e, d: LayerEnsemble(layers=["last"]).fit(d.train),
            "there is no layer 'last'; there are early, middle",
        ),
        (
            lambda e, d: e.score_samples({"early": d.test["early"]}),
            "there is no layer 'middle'; there are early",
        ),
        (
            lambda e, d: e.score_samples(d.test["early"]),
            "3 features, but LayerEnsemble is expecting 12",
        ),
        (
            lambda e, d: e.score_samples({**d.test, "early": d.test["early"][:3]}),
            r"layers of \[3, 200\] rows",
        ),
        (lambda e, d: LayerEnsemble().fit({}), "no layers; pass features"),
        (
            lambda e, d: LayerEnsemble(layers=["early"]).fit(d.train["early"]),
            r"layers=\['early'\], and one matrix",
        ),
        (
            lambda e, d: e.score_samples({**d.test, "early": torch.zeros((200, 3))}),
            "layers of kinds Tensor and ndarray",
        ),
        (
            lambda e, d: LayerEnsemble(3).fit(d.train),
            "detector is an int; pass a detector, or a dict",
        ),
        (lambda e, d: LayerEnsemble(layers=["a", "a"]).fit(d.train), "is not a list of names"),
        (
            lambda e, d: LayerEnsemble({"early": CTM()}, layers=["middle"]).fit(d.train),
            "layer 'middle': `detector` has none for it",
        ),
        (lambda e, d: LayerEnsemble("ctn").fit(d.train), "detector 'ctn' is unknown"),
        (lambda e, d: LayerEnsemble().score_samples(d.test), "not fitted yet"),
    ],
)
def test_what_is_refused(layered, call, message):
    ensemble = LayerEnsemble().fit(layered.train, layered.labels)
    with pytest.raises(typica.InputError, match=message):
        call(ensemble, layered)
