"""Choosing a detector without OOD data."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import Data
from sklearn.metrics import roc_auc_score

import typica
from typica.bench.choose import leave_classes_out


def choose(data: Data, *detectors: typica.Detector, **options):
    named = {detector.kind: detector for detector in detectors}
    held_out_labels = np.arange(len(data.held_out)) % 4
    return leave_classes_out(named, data.train, data.labels, data.held_out, held_out_labels, **options)


def test_each_class_in_turn_plays_the_unknown(data: Data):
    done: list[str] = []
    choice = choose(data, typica.CTM(), typica.MSP(data.head), on_done=done.append)
    assert done == ["0", "1", "2", "3"] and choice.failed == {}
    held_out_labels = np.arange(len(data.held_out)) % 4
    for k in range(4):
        means = np.array([data.train[data.labels == j].mean(axis=0) for j in range(4) if j != k])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        cosines = (data.held_out @ means.T).max(axis=1) / np.linalg.norm(data.held_out, axis=1)
        assert choice.auroc["ctm"][k] == pytest.approx(roc_auc_score(held_out_labels != k, cosines), abs=1e-9)
        logits = data.held_out @ np.delete(data.head.weight, k, axis=0).T
        softmax = 1 / np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1)
        assert choice.auroc["msp"][k] == pytest.approx(roc_auc_score(held_out_labels != k, softmax), abs=1e-9)


def test_the_best_has_the_largest_mean_and_says_how_sure_it_is(data: Data):
    choice = choose(data, typica.CTM(), typica.MSP(data.head), typica.CW(data.head))
    assert choice.best == max(choice.means, key=choice.means.get) == next(iter(choice.means))
    assert sum(choice.certainty.values()) == pytest.approx(1)
    clear = choose(data, typica.CTM())
    assert clear.certainty == {"ctm": 1.0}
    same = {"one": typica.CTM(), "other": typica.CTM()}
    labels = np.arange(len(data.held_out)) % 4
    tied = leave_classes_out(same, data.train, data.labels, data.held_out, labels)
    assert tied.certainty == {"one": 0.5, "other": 0.5}
    document = choice.to_dict()
    assert document["best"] == choice.best and set(document["auroc"]["ctm"]) == {"0", "1", "2", "3"}
    assert choice.to_dict() == choose(data, typica.CTM(), typica.MSP(data.head), typica.CW(data.head)).to_dict()


def test_what_fails_is_reported_and_the_others_go_on(data: Data):
    choice = choose(data, typica.CTM(), typica.KNN(k=10_000))
    assert choice.best == "ctm" and "k=10000 exceeds" in choice.failed["knn"]
    with pytest.raises(typica.InputError, match="every detector failed"):
        choose(data, typica.KNN(k=10_000))


def test_bad_input_is_refused(data: Data):
    two = data.labels < 2
    with pytest.raises(typica.InputError, match="2 classes; at least 3 are needed"):
        leave_classes_out({"ctm": typica.CTM()}, data.train[two], data.labels[two], data.held_out, data.labels[:120])
    with pytest.raises(typica.InputError, match="class 3 has no held-out rows"):
        leave_classes_out({"ctm": typica.CTM()}, data.train, data.labels, data.held_out[:3], np.arange(3))
    named = typica.Head(data.head.weight, classes=list("abcd"))
    with pytest.raises(typica.InputError, match="the head has no class 0"):
        choose(data, typica.MSP(named))


def test_near_sets_meet_detectors_of_all_classes_and_weigh_as_much_as_the_classes(data: Data):
    rng = np.random.default_rng(0)
    near = {"noisy": data.held_out + rng.normal(scale=2, size=data.held_out.shape), "strange": data.ood}
    choice = choose(data, typica.CTM(), typica.MSP(data.head), near=near)
    means = np.array([data.train[data.labels == j].mean(axis=0) for j in range(4)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)

    def cosine(rows):
        return (rows @ means.T).max(axis=1) / np.linalg.norm(rows, axis=1)

    for name, rows in near.items():
        truth = np.repeat([1, 0], [len(data.held_out), len(rows)])
        expected = roc_auc_score(truth, np.concatenate([cosine(data.held_out), cosine(rows)]))
        assert choice.near["ctm"][name] == pytest.approx(expected, abs=1e-9)
    plain = choose(data, typica.CTM(), typica.MSP(data.head))
    assert plain.near == {} and plain.auroc == choice.auroc
    for name in ("ctm", "msp"):
        both = (np.mean(list(choice.auroc[name].values())) + np.mean(list(choice.near[name].values()))) / 2
        assert choice.means[name] == pytest.approx(both, abs=1e-12)
    assert choice.to_dict()["near"]["msp"] == choice.near["msp"]
