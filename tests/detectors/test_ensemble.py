"""Ensemble: ranks, members of every kind, the promise of its threshold.

The ranks are compared with a reference in plain Python.
"""

from __future__ import annotations

import math
import pickle

import array_api_strict
import numpy as np
import pytest
import torch
from helpers.data import Data
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import typica
from typica import CTM, CW, KNN, MSP
from typica.arrays import to_numpy
from typica.detectors._ranks import Ranks
from typica.detectors.ensemble import Ensemble
from typica.detectors.mahalanobis import Mahalanobis
from typica.rectify.react import ReAct


def quantile(ordered, p):
    place = (len(ordered) - 1) * p
    low = math.floor(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def rank(observed, score):
    """F of one score, by the text at the head of the method's file."""
    ordered = sorted(float(s) for s in observed)
    n, lowest, highest = len(ordered), min(ordered), max(ordered)

    def level(value):
        return (sum(s < value for s in ordered) + sum(s == value for s in ordered) / 2) / n

    w = (quantile(ordered, 0.5) - quantile(ordered, 0.05)) or (highest - lowest) or abs(lowest) or 1
    if score < lowest:
        return level(lowest) - 0.45 * math.log(1 + (lowest - score) / w)
    if score > highest:
        return 1 - (1 - level(highest)) / (1 + (score - highest) / w)
    a, b = max(s for s in ordered if s <= score), min(s for s in ordered if s >= score)
    return level(a) if a == b else level(a) + (level(b) - level(a)) * (score - a) / (b - a)


@pytest.mark.parametrize(
    "observed",
    [
        [0.0, 1.0, 5.0],
        [2.0],
        [3.0, 3.0, 3.0],
        [0.0] * 50 + [1.0],
        [-1.0] + [4.0] * 50,
        [1e-300, 2e-300],
        [1e300, 3e300],
    ],
    ids=str,
)
def test_ranks_equal_the_reference(observed):
    low, high = min(observed), max(observed)
    spread = (high - low) or abs(low) or 1.0
    scores = np.array(
        [
            low - 9 * spread,
            low - spread,
            *observed,
            (low + high) / 2,
            high + spread / 3,
            high + 9 * spread,
        ]
    )
    wanted = [rank(observed, float(score)) for score in scores]
    np.testing.assert_allclose(Ranks.of(np.sort(observed))(scores), wanted, rtol=1e-12, atol=1e-12)


def test_ranks_without_bound_and_without_nan():
    ranks = Ranks.of(np.array([0.0, 1.0, 2.0]))
    far = ranks(np.array([-np.inf, -1e300, -1e6, -10.0, 0.0, 10.0, 1e300, np.inf]))
    assert far[0] == -np.inf and (np.diff(far[:-1]) > 0).all() and far[-1] == 1
    assert Ranks.of(np.array([0.0, 5e-324]))(np.array([-1e300, 0.0, 5e-324])).tolist()[1:] == [
        0.25,
        0.75,
    ]


finite = st.floats(-1e6, 1e6, width=32)


@settings(max_examples=60)
@given(st.lists(finite, min_size=1, max_size=60), st.lists(finite, min_size=2, max_size=20))
def test_ranks_keep_the_order(observed, scores):
    scores = np.sort(scores)
    got = Ranks.of(np.sort(observed))(scores)
    assert np.isfinite(got).all() and (got <= 1).all() and (np.diff(got) >= 0).all()
    below = scores < min(observed)
    steps = np.diff(scores[below]) > 1e-6 * (1 + max(map(abs, observed)) + np.abs(scores).max())
    assert (np.diff(got[below])[steps] > 0).all()


@settings(max_examples=60)
@given(st.lists(finite, min_size=2, max_size=40), finite, st.sampled_from([0.25, 8.0]))
def test_ranks_ignore_units(observed, score, factor):
    observed = np.sort(observed)
    assume(observed[0] != observed[-1])
    one, other = Ranks.of(observed), Ranks.of(factor * observed)
    np.testing.assert_allclose(
        one(np.array([score])), other(np.array([factor * score])), rtol=1e-12
    )


def test_ranks_of_every_backend_and_their_gradient():
    ranks = Ranks.of(np.sort(np.random.default_rng(0).normal(size=50)))
    scores = np.array([-5.0, -1.5, 0.123, 0.9, 4.0])
    for xp in (torch, array_api_strict):
        np.testing.assert_allclose(to_numpy(ranks(xp.asarray(scores))), ranks(scores), rtol=1e-14)
    Z = torch.asarray(scores).requires_grad_()
    ranks(Z).sum().backward()
    np.testing.assert_allclose(
        Z.grad, (ranks(scores + 1e-7) - ranks(scores - 1e-7)) / 2e-7, rtol=1e-5
    )


def halves(rows):
    """The held-out rows that `calibrate` compares with, and those that calibrate."""
    order = np.random.default_rng(0).permutation(len(rows))
    return rows[order[: len(rows) // 2]], rows[order[len(rows) // 2 :]]


def members(data: Data):
    return [
        CTM(),
        MSP(data.head, temperature=2.0),
        make_pipeline(ReAct(percentile=95), CW(data.head)),
    ]


@pytest.mark.parametrize("calibrated", [False, True], ids=["fit", "calibrate"])
def test_score_is_the_mean_rank_among_what_was_observed(data: Data, calibrated):
    ensemble = Ensemble(members(data)).fit(data.train, data.labels)
    if calibrated:
        ensemble.calibrate(data.held_out)
    known = halves(data.held_out)[0] if calibrated else data.train
    rows = np.concatenate([data.test[:20], data.ood[:20], 100 * data.ood[:3]])
    wanted = np.zeros(len(rows))
    for member in members(data):
        member.fit(data.train, data.labels)
        observed = member.score_samples(known)
        wanted += [rank(observed, score) for score in member.score_samples(rows)]
    np.testing.assert_allclose(ensemble.score_samples(rows), wanted / 3, rtol=1e-9, atol=1e-9)


def test_many_observations_are_thinned(data: Data):
    rng = np.random.default_rng(0)
    train = rng.normal(size=(4000, 3)) + 3
    ensemble = Ensemble([CTM()]).fit(train)
    ensemble.observe(ensemble.member_scores(train))
    assert [len(observed) for observed in ensemble.observed_] == [2048]
    scores = CTM().fit(train).score_samples(train)
    assert ensemble.observed_[0][[0, -1]].tolist() == [scores.min(), scores.max()]
    exact = np.searchsorted(np.sort(scores), scores) / 4000
    np.testing.assert_allclose(ensemble.score_samples(train), exact, atol=2 / 2048)


def test_one_member_decides_as_it_does_alone(data: Data):
    _, calibrating = halves(data.held_out)
    alone = Mahalanobis().fit(data.train, data.labels).calibrate(calibrating, tpr=0.9)
    ensemble = (
        Ensemble([Mahalanobis()]).fit(data.train, data.labels).calibrate(data.held_out, tpr=0.9)
    )
    rows = np.concatenate([data.test, data.ood, 1e6 * data.ood])
    np.testing.assert_array_equal(
        np.argsort(ensemble.score_samples(rows)), np.argsort(alone.score_samples(rows))
    )
    np.testing.assert_array_equal(ensemble.predict(rows), alone.predict(rows))


def test_members_see_what_others_miss():
    """Directions tell one kind of stranger, distances the other; the ensemble tells both."""
    rng = np.random.default_rng(0)
    y = np.arange(600) % 2

    def rows(shift):
        return (
            rng.normal(size=(600, 6)) * np.array([3, 3, 1, 1, 1, 0.02]) + 10 * np.eye(6)[y] + shift
        )

    train, test = rows(0), rows(0)
    turned, lifted = rows(-8 * np.eye(6)[y] + 6 * np.eye(6)[2]), rows(0.2 * np.eye(6)[5])
    fused = Ensemble([CTM(), Mahalanobis()]).fit(train, y).calibrate(rows(0))
    ctm = CTM().fit(train, y)
    assert typica.evaluate(ctm.score_samples(test), ctm.score_samples(lifted)).auroc < 0.6
    for strange in (turned, lifted):
        assert typica.evaluate(fused.score_samples(test), fused.score_samples(strange)).auroc > 0.9


def test_the_promise_of_the_threshold():
    """Over many calibrations the share kept is tpr, give or take 1 / rows."""
    rng = np.random.default_rng(0)
    train = rng.normal(size=(300, 4)) + 2
    ensemble = Ensemble([CTM(), Mahalanobis()]).fit(train)
    kept = [
        (
            ensemble.calibrate(rng.normal(size=(99, 4)) + 2, tpr=0.9).predict(
                rng.normal(size=(300, 4)) + 2
            )
            == 1
        ).mean()
        for _ in range(150)
    ]
    error = np.std(kept) / np.sqrt(len(kept))
    assert abs(np.mean(kept) - 0.9) < 1 / 99 + 3 * error


@pytest.mark.parametrize(
    ("n", "message"),
    [
        (30, "15 calibration inputs \\(the other half is .* too few .*; pass at least 38"),
        (1, "1 calibration inputs \\(.* pass at least 38"),
    ],
)
def test_too_few_rows_for_two_halves_are_said_to_be(data: Data, n, message):
    ensemble = Ensemble().fit(data.train, data.labels)
    with pytest.warns(typica.CalibrationWarning, match=message):
        ensemble.calibrate(data.held_out[:n])
    assert ensemble.calibration_.n == -(-n // 2)


def test_predicted_classes_go_with_the_rows_that_calibrate(data: Data):
    classes = np.where(np.arange(len(data.held_out)) % 2, "odd", "even")
    ensemble = Ensemble([Mahalanobis()]).fit(data.train, data.labels)
    ensemble.calibrate(data.held_out, by_class=True, predicted=classes)
    _, calibrating = halves(data.held_out)
    _, of_these = halves(classes)
    for name in ("odd", "even"):
        rows = calibrating[of_these == name]
        scores = np.sort(ensemble.score_samples(rows))
        rank = int(0.05 * (len(rows) + 1))
        assert ensemble.offsets_[name] == scores[rank - 1]
    with pytest.raises(typica.InputError, match=r"predicted has shape \(3,\) for"):
        ensemble.calibrate(data.held_out, by_class=True, predicted=classes[:3])


def test_a_refused_calibration_changes_nothing(data: Data):
    ensemble = Ensemble().fit(data.train, data.labels).calibrate(data.held_out)
    before, offset = ensemble.score_samples(data.test), ensemble.offset_
    with pytest.raises(typica.InputError, match=r"Ensemble.calibrate: tpr=2 is not a share"):
        ensemble.calibrate(data.ood, tpr=2)
    with pytest.raises(typica.InputError, match=r"too few for alpha=0.05 with confidence=0.999"):
        ensemble.calibrate(data.ood[:50], confidence=0.999)
    np.testing.assert_array_equal(ensemble.score_samples(data.test), before)
    assert ensemble.offset_ == offset


def test_a_member_that_gives_no_finite_score_is_named(data: Data):
    class Broken(CTM):
        def _score(self, Z):
            return Z[:, 0] - np.inf

    with pytest.raises(
        typica.InputError,
        match=r"Ensemble.fit: member broken: no training row has a finite score; rescale",
    ):
        Ensemble([CTM(), Broken()]).fit(data.train, data.labels)


def test_scores_that_are_not_finite_rank_last(data: Data):
    class Rejecting(CTM):
        def _score(self, Z):
            return np.where(Z[:, 0] > 1, super()._score(Z), -np.inf)

    ensemble = Ensemble([CTM(), Rejecting()]).fit(data.train, data.labels)
    scores = ensemble.score_samples(data.test)
    np.testing.assert_array_equal(np.isneginf(scores), data.test[:, 0] <= 1)
    assert not np.isnan(scores).any()


def test_members_are_copied_and_fitted_on_the_same_rows(data: Data):
    given_members = members(data)
    ensemble = Ensemble(given_members).fit(data.train, data.labels)
    assert not hasattr(given_members[0], "n_features_in_") and len(ensemble.members_) == 3
    np.testing.assert_array_equal(ensemble.members_[0].classes_, np.arange(4))


def test_save_load_pickle_clone(data: Data, tmp_path):
    ensemble = Ensemble(members(data)).fit(data.train, data.labels).calibrate(data.held_out)
    ensemble.save(tmp_path / "ensemble.safetensors")
    for again in (
        typica.load(tmp_path / "ensemble.safetensors"),
        pickle.loads(pickle.dumps(ensemble)),
    ):
        np.testing.assert_array_equal(
            again.score_samples(data.ood), ensemble.score_samples(data.ood)
        )
        np.testing.assert_array_equal(again.predict(data.test), ensemble.predict(data.test))
        assert again.explain(data.test[:2]) == ensemble.explain(data.test[:2])
        assert str(again.get_params()) == str(ensemble.get_params())
    fresh = clone(ensemble)
    assert not hasattr(fresh, "members_") and str(fresh.get_params()) == str(ensemble.get_params())
    with pytest.raises(NotFittedError, match=r"Ensemble.score_samples: .* not fitted yet"):
        fresh.score_samples(data.test)


def test_parameters_of_members_are_reached_by_name(data: Data):
    ensemble = Ensemble([*members(data), CTM(), Ensemble([CTM()])])
    params = ensemble.get_params()
    names = {"ctm-1", "ctm-2", "msp", "react+cw", "ensemble"}
    assert names <= set(params) and params["react+cw__react__percentile"] == 95
    assert ensemble.get_params(deep=False) == {"members": ensemble.members, "combine": "mean"}
    other = MSP(data.head)
    ensemble.set_params(
        **{
            "ctm-2__correct_only": True,
            "react+cw__react__percentile": 80,
            "msp": other,
            "msp__temperature": 5,
        }
    )
    assert [m.correct_only for m in (ensemble.members[0], ensemble.members[3])] == [False, True]
    assert ensemble.members[2][0].percentile == 80
    assert ensemble.members[1] is other and other.temperature == 5
    with pytest.raises(ValueError, match="Invalid parameter 'nope'"):
        ensemble.set_params(nope=1)
    assert Ensemble().set_params(members=[CTM()]).get_params()["ctm__correct_only"] is False
    assert clone(ensemble).members[3].correct_only


def test_members_may_be_named(data: Data, tmp_path):
    named = Ensemble(["ctm", "Mahalanobis", KNN(k=7)]).fit(data.train, data.labels)
    same = Ensemble([CTM(), Mahalanobis(), KNN(k=7)]).fit(data.train, data.labels)
    np.testing.assert_array_equal(named.score_samples(data.ood), same.score_samples(data.ood))
    assert str(clone(named).members) == "['ctm', 'Mahalanobis', KNN(k=7)]"
    named.save(tmp_path / "named.safetensors")
    again = typica.load(tmp_path / "named.safetensors")
    np.testing.assert_array_equal(again.score_samples(data.ood), same.score_samples(data.ood))
    changed = Ensemble(["ctm", "knn"]).set_params(knn__k=3)
    assert str(changed.members) == "[CTM(), KNN(k=3)]"
    assert set(Ensemble(["ctn", "ctm"]).get_params()) >= {"ctm", "ctm__head"}


def test_the_note_tells_the_ranks(data: Data):
    ensemble = Ensemble(members(data)).fit(data.train, data.labels).calibrate(data.held_out)
    answer = ensemble.explain(data.ood[:1])[0]
    words = answer.note.removeprefix("ranks: ").split(", ")
    assert [word.rsplit(" ", 1)[0] for word in words] == ["ctm", "msp", "react+cw"]
    assert np.mean([float(word.rsplit(" ", 1)[1]) for word in words]) == pytest.approx(
        answer.score, abs=0.01
    )


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], r"Ensemble.fit: members=\[\] is not a list of detectors; pass at least one, e\.g\."),
        ("ctm", r"Ensemble.fit: members='ctm' is not a list of detectors"),
        (3, r"Ensemble.fit: members=3 is not a list of detectors"),
        (
            [CTM(), StandardScaler()],
            r"Ensemble.fit: members\[1\] is a StandardScaler; pass names of detectors",
        ),
        (
            [make_pipeline(CTM(), StandardScaler())],
            r"Ensemble.fit: members\[0\] is a StandardScaler",
        ),
        (
            ["ctn"],
            r"Ensemble.fit: detector 'ctn' is unknown; the closest: ctm.*; typica\.list_",
        ),
        ([CTM], r"Ensemble.fit: members\[0\] is a type|Ensemble.fit: members\[0\] is a ABCMeta"),
        ([CW()], r"Ensemble.fit: member cw: no head; pass head=typica.Head"),
    ],
    ids=str,
)
def test_bad_members_are_refused(data: Data, bad, message):
    with pytest.raises(typica.InputError, match=message):
        Ensemble(bad).fit(data.train, data.labels)


@pytest.mark.real
def test_fusion_on_real_features_beats_the_mean_of_its_members(real):
    head = typica.Head(real["head.weight"], real["head.bias"])
    fused = Ensemble([CTM(), MSP(head)]).fit(real["train.features"], real["train.labels"])
    fused.calibrate(real["test.features"][:5000])
    test = real["test.features"][5000:]
    for name in ("svhn", "textures", "cifar100"):
        ood = real[f"ood.{name}.features"]
        alone = [
            typica.evaluate(m.score_samples(test), m.score_samples(ood)).auroc
            for m in fused.members_
        ]
        together = typica.evaluate(fused.score_samples(test), fused.score_samples(ood)).auroc
        assert together > np.mean(alone)


# Other ways to make one score of several


def p_value(observed, score):
    """The p-value of one score and how it goes on below.

    By the text at the head of the method's file.
    """
    ordered = sorted(float(s) for s in observed)
    n, lowest = len(ordered), min(ordered)

    def level(value):
        return (1 + sum(s <= value for s in ordered)) / (n + 1)

    w = quantile(ordered, 0.5) - quantile(ordered, 0.05)
    if score < lowest:
        return level(lowest) / (1 + (lowest - score) / w)
    a = max(s for s in ordered if s <= score)
    above = [s for s in ordered if s >= score]
    if not above or min(above) == a:
        return level(a)
    share = (score - a) / (min(above) - a)
    return level(a) ** (1 - share) * level(min(above)) ** share


COMBINED = {
    "fisher": lambda p: 2 * sum(map(math.log, p)),
    "simes": lambda p: min(math.log(len(p) * v / (i + 1)) for i, v in enumerate(sorted(p))),
    "twice_mean": lambda p: 2 * sum(p) / len(p),
}
WAYS = ["mean", *COMBINED, "stouffer", "linear"]


@pytest.mark.parametrize("how", COMBINED)
def test_p_values_of_members_are_combined(data: Data, how):
    ensemble = Ensemble([CTM(), Mahalanobis()], combine=how).fit(data.train, data.labels)
    ensemble.calibrate(data.held_out)
    rows = np.concatenate([data.test[:20], data.ood[:20], 100 * data.ood[:3]])
    columns = []
    for member in (CTM(), Mahalanobis()):
        member.fit(data.train, data.labels)
        known = member.score_samples(halves(data.held_out)[0])
        columns.append([p_value(known, float(score)) for score in member.score_samples(rows)])
    wanted = [COMBINED[how](pair) for pair in zip(*columns, strict=True)]
    np.testing.assert_allclose(ensemble.score_samples(rows), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("how", ["fisher", "stouffer", "simes", "twice_mean"])
def test_combined_p_values_are_those_of_the_members(data: Data, how):
    members = [CTM(), Mahalanobis()]
    ensemble = Ensemble(members, combine=how).fit(data.train, data.labels)
    ensemble.calibrate(data.held_out)
    table = {}
    known, _ = halves(data.held_out)
    for name, rows in (("known", known), ("test", known[::3])):
        fitted = [m.fit(data.train, data.labels).calibrate(known) for m in members]
        table[name] = np.stack([member.p_values(rows) for member in fitted], axis=1)
    if how == "stouffer":  # whose deviate of a p-value of 1 is infinite
        limit = 1 - 0.5 / (len(known) + 1)
        table = {name: np.minimum(P, limit) for name, P in table.items()}
    wanted = typica.combine_p_values(table["test"], how, table["known"])
    got = ensemble.combined_p_values(known[::3])
    np.testing.assert_allclose(got, wanted, rtol=0.02, atol=1e-3)
    assert "; together " in ensemble.explain(data.ood[:1])[0].note


@pytest.mark.parametrize("how", WAYS)
def test_every_way_keeps_its_promise_and_tells_strangers(how):
    rng = np.random.default_rng(1)
    ensemble = Ensemble([CTM(), Mahalanobis()], combine=how).fit(rng.normal(size=(300, 4)) + 2)
    kept = []
    for _ in range(60):
        ensemble.calibrate(rng.normal(size=(99, 4)) + 2, tpr=0.9)
        kept.append(np.mean(ensemble.predict(rng.normal(size=(300, 4)) + 2) == 1))
    error = np.std(kept) / np.sqrt(len(kept))
    assert abs(np.mean(kept) - 0.9) < 1 / 99 + 3 * error
    far = rng.normal(size=(300, 4)) - 2
    known = rng.normal(size=(300, 4)) + 2
    assert typica.evaluate(ensemble.score_samples(known), ensemble.score_samples(far)).auroc > 0.97
    # Farther is stranger: p-values would end here, and scores do not.
    further = ensemble.score_samples(np.array([[-9.0] * 4, [-90.0] * 4, [-9e5] * 4]))
    assert (np.diff(further) < 0).all()


@pytest.mark.parametrize("how", WAYS)
def test_every_way_on_every_backend_and_from_disk(data: Data, tmp_path, how):
    ensemble = Ensemble([CTM(), Mahalanobis()], combine=how).fit(data.train, data.labels)
    ensemble.calibrate(data.held_out)
    rows = np.concatenate([data.test[:9], data.ood[:9]])
    scores = ensemble.score_samples(rows)
    for xp in (torch, array_api_strict):
        np.testing.assert_allclose(
            to_numpy(ensemble.score_samples(xp.asarray(rows))), scores, rtol=1e-9, atol=1e-12
        )
    Z = torch.asarray(rows).requires_grad_()
    (slope,) = torch.autograd.grad(ensemble.score_samples(Z).sum(), Z)
    assert slope.isfinite().all() and (slope[9:] != 0).any(dim=1).all()
    typica.save(ensemble, tmp_path / "e.safetensors")
    again = typica.load(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(again.score_samples(rows), scores)
    assert again.explain(rows[:1])[0].note == ensemble.explain(rows[:1])[0].note


def test_weights_are_learnt_from_rows_that_were_moved(data: Data):
    """Where strange rows have other lengths but known directions, distance gets the weight."""
    ensemble = Ensemble([CTM(), Mahalanobis()], combine="linear").fit(data.train, data.labels)
    known, longer = data.held_out, 1.6 * data.held_out
    before = typica.evaluate(*map(ensemble.score_samples, (data.test, 1.6 * data.test))).auroc
    ensemble.learn_weights(known, longer)
    assert not hasattr(ensemble, "training_offset_")
    after = typica.evaluate(*map(ensemble.score_samples, (data.test, 1.6 * data.test))).auroc
    S = ensemble.member_scores(known)
    share = np.abs(ensemble.weights_) * S.std(axis=0)
    assert after > before and share[1] > 2 * share[0]
    ensemble.calibrate(known)
    assert np.mean(ensemble.predict(1.6 * data.test) == -1) > 0.9


def test_scores_made_elsewhere_are_combined_alike(data: Data):
    ensemble = Ensemble(combine="fisher").fit(data.train, data.labels).calibrate(data.held_out)
    S = ensemble.member_scores(data.test)
    np.testing.assert_array_equal(ensemble.combine_scores(S), ensemble.score_samples(data.test))
    other = Ensemble(combine="fisher").fit(data.train, data.labels)
    other.observe(other.member_scores(halves(data.held_out)[0]))
    np.testing.assert_array_equal(other.score_samples(data.test), ensemble.score_samples(data.test))


def test_scores_to_combine_may_be_a_list(data: Data):
    ensemble = Ensemble().fit(data.train, data.labels)
    S = ensemble.member_scores(data.test)
    np.testing.assert_array_equal(ensemble.combine_scores(S.tolist()), ensemble.combine_scores(S))


@pytest.mark.parametrize("ways", [("stouffer", "fisher"), ("fisher", "stouffer")])
def test_what_is_known_of_one_sum_is_not_taken_for_another(data: Data, ways, tmp_path):
    first, other = ways
    changed = Ensemble(combine=first).fit(data.train, data.labels).set_params(combine=other)
    changed.save(tmp_path / "e.safetensors")
    unknown = Ensemble(combine=other).fit(data.train, data.labels)
    del unknown.null_
    wanted = unknown.combined_p_values(data.test)
    for ensemble in (changed, typica.load(tmp_path / "e.safetensors")):
        np.testing.assert_array_equal(ensemble.combined_p_values(data.test), wanted)


def test_what_a_combination_refuses(data: Data):
    ensemble = Ensemble().fit(data.train, data.labels)
    for call, message in {
        lambda: Ensemble(combine="harmonic").fit(data.train): "combine='harmonic' is unknown",
        lambda: ensemble.combined_p_values(data.test): "combine='mean' gives no p-value; choose",
        lambda: ensemble.learn_weights(data.test, data.ood): "combine='mean' has no weights",
        lambda: ensemble.observe(np.zeros((3, 5))): r"shape \(3, 5\); pass \(n, 2\)",
        lambda: ensemble.observe([["a", "b"]]): "scores: features must be numbers",
        lambda: ensemble.combine_scores(np.zeros((2, 1))): r"shape \(2, 1\); pass \(n, 2\)",
        lambda: ensemble.combine_scores(np.zeros((2, 3))): r"shape \(2, 3\); pass \(n, 2\)",
        lambda: ensemble.combine_scores([[0.1, np.nan]]): "a score is NaN; pass what member_scores",
        lambda: ensemble.set_weights("abc"): "weights='abc'; pass 2 finite numbers",
        lambda: ensemble.set_weights(
            [1, 2]
        ): "combine='mean' has no weights; make it with 'linear'",
        lambda: ensemble.set_weights([1.0]): "pass 2 finite numbers, one per member",
        lambda: (
            Ensemble(combine="linear").fit(data.train).learn_weights(data.test[:3], data.test)
        ): "3 known rows",
    }.items():
        with pytest.raises(typica.InputError, match=message):
            call()
    with pytest.raises(NotFittedError):
        Ensemble().set_weights([1.0, 1.0])
