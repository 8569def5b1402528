"""Prototypes: MCM and NegLabel against float64 loops, with prototypes given and learnt."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from helpers.export import assert_alike
from helpers.shell import run
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import typica
from typica import InputError, Prototypes
from typica.testing import CHECKS, Case, Data

RNG = np.random.default_rng(7)


def cosine(a, b):
    dot = sum(float(x) * float(y) for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(float(x) ** 2 for x in a) * sum(float(y) ** 2 for y in b))


def mcm(z, positive, T=1.0):
    weights = [math.exp(cosine(z, p) / T) for p in positive]
    return max(weights) / sum(weights)


def neglabel(z, positive, negative, T=0.01, parts=1):
    ours = sum(math.exp(cosine(z, p) / T) for p in positive)
    shares = []
    for part in range(parts):
        theirs = sum(math.exp(cosine(z, n) / T) for n in negative[part::parts])
        shares.append(ours / (ours + theirs))
    return sum(shares) / parts


@given(st.integers(2, 5), st.sampled_from([0.05, 0.5, 1.0, 4.0]), st.integers(0, 10**6))
def test_mcm_is_the_largest_softmax_of_the_cosines(classes, T, seed):
    rng = np.random.default_rng(seed)
    P, Z = rng.normal(size=(classes, 6)), rng.normal(size=(4, 6))
    got = Prototypes(P, temperature=T).score_samples(Z)
    np.testing.assert_allclose(got, [mcm(z, P, T) for z in Z], rtol=1e-11)


@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), st.integers(0, 10**6))
def test_neglabel_is_the_mean_share_of_the_positive(classes, strange, parts, seed):
    rng = np.random.default_rng(seed)
    P, N, Z = (rng.normal(size=(n, 6)) for n in (classes, strange, 4))
    got = Prototypes(P, N, temperature=0.1, parts=parts).score_samples(Z)
    wanted = [neglabel(z, P, N, 0.1, min(parts, strange)) for z in Z]
    np.testing.assert_allclose(got, wanted, rtol=1e-11)


def test_the_defaults_are_those_of_the_authors():
    P, N, Z = (RNG.normal(size=(n, 8)) for n in (5, 350, 6))
    np.testing.assert_allclose(Prototypes(P).score_samples(Z), [mcm(z, P) for z in Z], rtol=1e-12)
    close = Z + 20 * P[:1]
    wanted = [neglabel(z, P, N, parts=4) for z in close]  # one part for each hundred
    np.testing.assert_allclose(Prototypes(P, N).score_samples(close), wanted, rtol=1e-9)


def test_a_cold_temperature_neither_overflows_nor_is_lost():
    P, N = np.eye(4)[:2], np.eye(4)[2:]
    rows = np.vstack([np.eye(4), -np.eye(4)[:1]]).astype(np.float32)
    for parts in (1, 2):
        scores = Prototypes(P, N, temperature=1e-4, parts=parts).score_samples(rows)
        np.testing.assert_allclose(scores[:2], 1)
        assert np.isfinite(scores).all() and (scores[2:4] <= 0.5).all()


def test_lengths_do_not_matter_and_a_zero_row_scores_least():
    P, N, Z = (RNG.normal(size=(n, 8)) for n in (3, 5, 6))
    for detector, scaled in (
        (Prototypes(P), Prototypes(7 * P)),
        (Prototypes(P, N), Prototypes(P, 9 * N)),
    ):
        np.testing.assert_allclose(
            scaled.score_samples(1e5 * Z), detector.score_samples(Z), rtol=1e-9
        )
        scores = detector.score_samples(np.vstack([Z, np.zeros(8)]))
        assert scores[-1] == 0 and scores[:-1].min() > 0
        told = detector.calibrate(Z, alpha=0.5).explain(np.zeros((1, 8)))[0]
        assert "has no direction, so it scores 0" in str(told)


def given_prototypes(data: Data) -> dict[str, object]:
    means = np.array([data.train[data.labels == k].mean(axis=0) for k in range(4)])
    return {"positive": means, "classes": ["a", "b", "c", "d"]}


# With prototypes it is ready without a fit: the check that refuses that is for those without.
CHECKED = [check for check in CHECKS if check.__name__ != "use_before_fit_is_refused"]


@pytest.mark.parametrize("check", CHECKED, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", ["mcm", "neglabel"])
def test_the_contract_with_given_prototypes(kind, check, data: Data):
    params = given_prototypes(data)
    if kind == "neglabel":
        params |= {"negative": np.eye(12)[4:], "parts": 3, "temperature": 0.1}
    check(Case(lambda: Prototypes(**params), data))


def test_the_means_of_the_classes_are_prototypes_too(data: Data):
    params = given_prototypes(data)
    learnt = Prototypes().fit(data.train, np.array(params["classes"])[data.labels])
    ready = Prototypes(**params)
    np.testing.assert_allclose(learnt.score_samples(data.test), ready.score_samples(data.test))
    assert learnt.classes_.tolist() == ready.classes_.tolist() == params["classes"]
    strange = np.eye(12)[6:]
    both = Prototypes(negative=strange).fit(data.train, data.labels)
    wanted = Prototypes(params["positive"], strange).score_samples(data.test)
    np.testing.assert_allclose(both.score_samples(data.test), wanted)


def test_it_is_ready_without_a_fit_and_names_classes(data: Data, tmp_path):
    detector = Prototypes(**given_prototypes(data)).calibrate(data.held_out, alpha=0.1)
    verdicts = detector.judge(data.test)
    assert set(verdicts.nearest) <= set("abcd") and verdicts[0].nearest == "a"
    assert detector.explain(data.test[:1])[0].nearest == "a"
    detector.save(tmp_path / "p.safetensors")
    again = typica.load(tmp_path / "p.safetensors")
    assert again.judge(data.test).to_dict() == verdicts.to_dict()
    assert repr(detector.fit(data.train)).endswith("from training rows")
    assert "positive=array of 4 x 12" in repr(detector)
    assert "array of 4 x 12" in detector._repr_html_()


def test_tensors_lists_and_frames_are_prototypes_as_well(data: Data, tmp_path):
    P = given_prototypes(data)["positive"]
    wanted = Prototypes(P).score_samples(data.test)
    for same in (torch.asarray(P), P.tolist()):
        detector = Prototypes(same)
        np.testing.assert_allclose(detector.score_samples(data.test), wanted)
        detector.save(tmp_path / "p.safetensors")
        np.testing.assert_allclose(
            typica.load(tmp_path / "p.safetensors").score_samples(data.test), wanted
        )


def test_another_matrix_makes_what_was_derived_stale(data: Data):
    P = given_prototypes(data)["positive"]
    detector = Prototypes(P).calibrate(data.held_out)
    before = detector.score_samples(data.test)
    detector.set_params(positive=P.copy())
    assert hasattr(detector, "calibration_")  # the same numbers
    np.testing.assert_array_equal(detector.score_samples(data.test), before)
    detector.set_params(positive=P[::-1] ** 2)
    assert not np.allclose(detector.score_samples(data.test), before)
    assert not hasattr(detector, "calibration_")
    assert clone(detector).merge(detector.fit(data.train)).n_features == 12
    with pytest.raises(InputError, match="different parameters"):
        Prototypes(P).merge(detector)


def test_what_is_wrong_is_said(data: Data):
    P = given_prototypes(data)["positive"]
    cases = {
        "positive is a str and not a matrix; pass one row per prototype": {"positive": "names.npy"},
        "positive is a list and not a matrix": {"positive": [[1.0, 2.0], [3.0]]},
        "positive: row 1 is zero and has no direction": {"positive": P * [[1], [0], [1], [1]]},
        "negative: row 0 of the features holds NaN": {"positive": P, "negative": P * np.nan},
        "negative: 5 features, and the others have 12": {
            "positive": P,
            "negative": np.ones((2, 5)),
        },
        "3 names for 4 prototypes; pass one per row": {"positive": P, "classes": ["a", "b", "c"]},
        "classes is a list and not a list of distinct names": {"positive": P, "classes": ["a"] * 4},
        "classes name the rows of positive, which is None": {"classes": ["a"]},
        "one class, and no negative prototypes: every row": {"positive": P[:1]},
        "parts=0 is not an integer of at least 1": {"positive": P, "parts": 0},
    }
    for words, params in cases.items():
        with pytest.raises(InputError, match=words):
            Prototypes(**params).fit(data.train, data.labels)
    with pytest.raises(InputError, match=r"X has 5 features, but Prototypes is expecting 12"):
        Prototypes(P).score_samples(data.test[:, :5])
    with pytest.raises(InputError, match=r"X has 5 features, but Prototypes is expecting 12"):
        Prototypes(P).fit(data.train[:, :5])


# The scores of rows that resemble no negative prototype round to 1.
@pytest.mark.filterwarnings("ignore:.* calibration scores equal:typica.CalibrationWarning")
def test_it_exports_with_negative_prototypes(data: Data):
    from typica.export import to_onnx

    strange = np.eye(12)[4:]
    for parts in (1, 3):
        detector = Prototypes(**given_prototypes(data), negative=strange, parts=parts)
        detector.calibrate(data.held_out.astype(np.float32), alpha=0.1)
        rows = np.concatenate([data.test[:40], data.ood[:40]]).astype(np.float32)
        assert_alike(detector, to_onnx(detector), rows)


def test_files_of_prototypes_in_the_shell(data: Data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    P = given_prototypes(data)["positive"]
    np.savez("texts.npz", features=P, labels=np.array(["a", "b", "c", "d"]))
    np.save("texts.npy", P)
    np.save("others.npy", np.eye(12)[4:])
    np.save("train.npy", data.train)
    np.save("held_out.npy", data.held_out)
    (tmp_path / "names.txt").write_text("w\nx\ny\nz\n")
    fit = "fit train.npy --detector prototypes --calibrate held_out.npy --json - -o p.safetensors"
    for options, names in (
        ("--param positive=texts.npz --param negative=others.npy", "abcd"),
        ("--param positive=texts.npy --param classes=names.txt", "wxyz"),
        ("--param classes=names.txt --param positive=texts.npz", "wxyz"),
        ("--param positive=texts.npy", [0, 1, 2, 3]),
    ):
        answer = json.loads(run(capsys, *fit.split(), *options.split()))
        assert answer["classes"]["names"] == list(names)
        assert answer["params"]["positive"] == "array of 4 x 12"
        assert typica.load("p.safetensors").classes_.tolist() == list(names)
    refused = run(capsys, *fit.split(), "--param", "positive=absent.npy", code=2)
    assert "absent.npy: there is no such file" in refused


def test_prototypes_may_be_a_list_of_arrays():
    rows = np.random.default_rng(0).normal(size=(60, 4))
    detector = Prototypes([*rows[:3]]).fit(rows)
    changed = detector.set_params(positive=[*rows[3:6]]).score_samples(rows)
    np.testing.assert_array_equal(changed, Prototypes(rows[3:6]).score_samples(rows))
    detector.merge(Prototypes([*rows[3:6].copy()]).fit(rows))
    with pytest.raises(InputError, match="made with different parameters"):
        detector.merge(Prototypes([*rows[:3]]).fit(rows))
