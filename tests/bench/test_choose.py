"""Choosing a detector without OOD data."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.data import Data
from helpers.watcher import Watcher
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.metrics import roc_auc_score

import typica
from typica.bench import (
    Choice,
    choose_files,
    compare,
    digits,
    leave_classes_out,
    make_detectors,
)
from typica.bench._choice import kind_weights
from typica.bench._resampling import redrawn_aurocs, row_draws, unknown_draws
from typica.bench._unknowns import (
    KnownSplit,
    groups,
    neighbours,
    parts,
    redrawn_rows,
    some_rows,
    swapped_rows,
)
from typica.cli._show import console
from typica.cli.choose import shown_choice
from typica.progress import watched_by


def choose(data: Data, *detectors: typica.Detector, **options):
    named = {detector.kind: detector for detector in detectors}
    held_out_labels = np.arange(len(data.held_out)) % 4
    return leave_classes_out(
        named, data.train, data.labels, data.held_out, held_out_labels, **options
    )


def test_each_class_in_turn_plays_the_unknown(data: Data):
    watcher = Watcher()
    with watched_by(watcher):
        choice = choose(data, typica.CTM(), typica.MSP(data.head))
    assert watcher.begun == [("leaving classes out", 5), *[("comparing", 2)] * 5]
    assert watcher.done == [5, 2, 2, 2, 2, 2] and choice.failed == {}
    held_out_labels = np.arange(len(data.held_out)) % 4
    for k in range(4):
        means = np.array([data.train[data.labels == j].mean(axis=0) for j in range(4) if j != k])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        cosines = (data.held_out @ means.T).max(axis=1) / np.linalg.norm(data.held_out, axis=1)
        assert choice.auroc["ctm"][k] == pytest.approx(
            roc_auc_score(held_out_labels != k, cosines), abs=1e-9
        )
        logits = data.held_out @ np.delete(data.head.weight, k, axis=0).T
        softmax = 1 / np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1)
        assert choice.auroc["msp"][k] == pytest.approx(
            roc_auc_score(held_out_labels != k, softmax), abs=1e-9
        )


def test_a_detector_that_fails_counts_as_done(data: Data):
    watcher = Watcher()
    with watched_by(watcher):
        choice = choose(data, typica.CTM(), typica.KNN(k=10_000))
    assert list(choice.failed) == ["knn"]
    assert watcher.done == [5, 2, 2, 2, 2, 2]


def test_the_leader_has_the_largest_mean_and_says_how_sure_it_is(data: Data):
    choice = choose(data, typica.CTM(), typica.MSP(data.head), typica.CW(data.head))
    assert choice.leader == max(choice.means, key=choice.means.get) == next(iter(choice.means))
    assert sum(choice.certainty.values()) == pytest.approx(1)
    clear = choose(data, typica.CTM())
    assert clear.certainty == {"ctm": 1.0}
    same = {"one": typica.CTM(), "other": typica.CTM()}
    labels = np.arange(len(data.held_out)) % 4
    tied = leave_classes_out(same, data.train, data.labels, data.held_out, labels)
    assert tied.certainty == {"one": 0.5, "other": 0.5}
    document = choice.to_dict()
    assert document["best"] == choice.best and set(document["auroc"]["ctm"]) == {"0", "1", "2", "3"}
    assert (
        choice.to_dict()
        == choose(data, typica.CTM(), typica.MSP(data.head), typica.CW(data.head)).to_dict()
    )


def test_what_fails_is_reported_and_the_others_go_on(data: Data):
    choice = choose(data, typica.CTM(), typica.KNN(k=10_000))
    assert choice.best == "ctm" and "k=10000 exceeds" in choice.failed["knn"]
    with pytest.raises(typica.InputError, match=r"every detector failed, e\.g\. knn: .*exceeds"):
        choose(data, typica.KNN(k=10_000))


def test_classes_without_held_out_rows_take_no_part(data: Data):
    """The choice is the one among the other classes, with a head that lacks them."""
    held_out_labels = np.arange(len(data.held_out)) % 4
    known = held_out_labels != 3
    detectors = {"ctm": typica.CTM(), "msp": typica.MSP(data.head)}
    with pytest.warns(
        typica.InputWarning, match=r"1 class without held-out rows \(3\) took no part"
    ):
        choice = leave_classes_out(
            detectors, data.train, data.labels, data.held_out[known], held_out_labels[known]
        )
    head = typica.Head(data.head.weight[:3], data.head.bias[:3], data.head.classes[:3])
    wanted = leave_classes_out(
        {"ctm": typica.CTM(), "msp": typica.MSP(head)},
        data.train[data.labels != 3],
        data.labels[data.labels != 3],
        data.held_out[known],
        held_out_labels[known],
    )
    assert list(choice.auroc["ctm"]) == [0, 1, 2] and choice.to_dict() == wanted.to_dict()


def test_two_classes_are_chosen_among_by_unknowns_that_need_no_third(data: Data):
    two, held_out_labels = data.labels < 2, np.arange(len(data.held_out)) % 2
    detectors = {"ctm": typica.CTM(), "knn": typica.KNN(), "quorum": typica.Quorum()}
    choice = leave_classes_out(
        detectors, data.train[two], data.labels[two], data.held_out, held_out_labels
    )
    assert list(choice.kinds) == ["swapped", "redrawn"] and choice.auroc == {}
    assert set(choice.means) == set(detectors) and choice.best in detectors
    assert choice.default == "quorum" and choice.verdict and len(shown_choice(choice)) > 3
    assert "each class left out" not in choice.reading


def test_bad_input_is_refused(data: Data):
    with pytest.raises(
        typica.InputError, match="1 class with held-out rows; at least 2 are needed"
    ):
        leave_classes_out(
            {"ctm": typica.CTM()}, data.train, data.labels, data.held_out[:3], np.zeros(3, int)
        )
    named = typica.Head(data.head.weight, classes=list("abcd"))
    with pytest.raises(typica.InputError, match="the head has no class 0"):
        choose(data, typica.MSP(named))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": lambda y: y[:-9]}, "training rows: 231 labels for 240 rows"),
        ({"labels": lambda y: np.tile(y, 2)}, "training rows: 480 labels for 240 rows"),
        ({"labels": lambda y: np.where(y == 0, np.nan, y)}, "training rows: label nan of row 0 is"),
        ({"labels": lambda y: None}, "training rows: label None"),
        ({"held_out_labels": lambda y: y[:-9]}, "held-out rows: 111 labels for 120 rows"),
        ({"held_out_labels": lambda y: np.tile(y, 2)}, "held-out rows: 240 labels for 120 rows"),
        ({"train": lambda z: z[:, 0]}, "training rows: features of shape (240,)"),
        ({"held_out": lambda z: z[:, 1:]}, "held-out rows have 11 features, the training rows 12"),
        ({"seed": lambda seed: -1}, "seed=-1 is not an integer of at least 0"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused_first(data: Data, changes, message):
    given = {
        "train": data.train,
        "labels": data.labels,
        "held_out": data.held_out,
        "held_out_labels": np.arange(len(data.held_out)) % 4,
        "seed": 0,
    }
    given |= {name: change(given[name]) for name, change in changes.items()}
    with pytest.raises(typica.InputError, match=re.escape(f"leave_classes_out: {message}")):
        leave_classes_out({"ctm": typica.CTM()}, **given)


def test_lists_and_tensors_are_rows_too(data: Data):
    labels = np.arange(len(data.held_out)) % 4
    given = [data.train, data.labels, data.held_out, labels]
    near = data.held_out[:5]
    expected = leave_classes_out({"ctm": typica.CTM()}, *given, near={"near": near}).to_dict()
    torch = pytest.importorskip("torch")
    for made in (np.ndarray.tolist, torch.tensor):
        found = leave_classes_out(
            {"ctm": typica.CTM()}, *map(made, given), near={"near": made(near)}
        )
        assert found.to_dict() == expected


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([*range(20)], "class 0 has 1 row, too few to hold a fifth out; pass held_out=FILE"),
        ([*range(20)] * 2, "class 0 has 2 rows, too few to hold a fifth out"),
        ([np.nan, *[0, 1, 2] * 20], "rows.npz: label nan of row 0 is neither"),
    ],
)
def test_files_of_which_no_fifth_can_be_held_out_are_refused(tmp_path, labels, message):
    rows = np.random.default_rng(0).normal(size=(len(labels), 4))
    np.savez(tmp_path / "rows.npz", features=rows, labels=labels)
    with pytest.raises(typica.InputError, match=re.escape(message)):
        choose_files(tmp_path / "rows.npz", names="ctm")


@pytest.mark.parametrize(
    ("labels", "left_out"),
    [([9, *[0, 1, 2] * 20], 1), ([*[0] * 30, *[1] * 30, *[2, 3, 4] * 2], 1)],
    ids=["one row", "two rows"],
)
def test_classes_of_which_no_row_is_held_out_are_left_out(tmp_path, labels, left_out):
    rows = np.random.default_rng(0).normal(size=(len(labels), 4))
    np.savez(tmp_path / "rows.npz", features=rows, labels=labels)
    with pytest.warns(typica.InputWarning, match=rf"^{left_out} class.* without held-out rows"):
        choice = choose_files(tmp_path / "rows.npz", names="ctm")
    assert len(choice.auroc["ctm"]) == len(set(labels)) - left_out


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5])
def test_a_seed_that_cannot_seed_the_split_is_refused_first(tmp_path, seed):
    with pytest.raises(typica.InputError, match=f"seed={seed} is not a seed; pass an integer"):
        choose_files(tmp_path / "nothing.npz", seed=seed)


def test_near_sets_meet_detectors_of_all_classes_and_weigh_as_much_as_every_kind(data: Data):
    rng = np.random.default_rng(0)
    near = {
        "noisy": data.held_out + rng.normal(scale=2, size=data.held_out.shape),
        "strange": data.ood,
    }
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
        kinds = [choice.auroc[name], choice.swapped[name], choice.redrawn[name], choice.near[name]]
        all_kinds = np.mean([np.mean(list(kind.values())) for kind in kinds])
        assert choice.means[name] == pytest.approx(all_kinds, abs=1e-12)
    assert choice.to_dict()["near"]["msp"] == choice.near["msp"]


class ByColumns(BaseEstimator):
    """The largest cosine to a class mean in some of the columns.

    As a detector it is like its twin in all else.
    """

    kind, tags = "by_columns", SimpleNamespace(mergeable=False)

    def __init__(self, first: int = 0, last: int = 0):
        self.first, self.last = first, last

    def fit(self, Z, y):
        means = np.array([Z[y == k, self.first : self.last].mean(axis=0) for k in np.unique(y)])
        self.means_ = means / np.linalg.norm(means, axis=1, keepdims=True)
        return self

    def score_samples(self, Z):
        part = Z[:, self.first : self.last]
        return (part @ self.means_.T).max(axis=1) / np.linalg.norm(part, axis=1)


def drawn_twins(seed: int, classes: int, rows: int, *, better: float = 1.0) -> Choice:
    """Choose between detectors that read one half of the columns each.

    In the first, classes are `better` times apart.
    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, 6))

    def draw(labels: np.ndarray) -> np.ndarray:
        return np.hstack(
            [centres[labels] * by + rng.normal(size=(len(labels), 6)) for by in (better, 1)]
        )

    labels, held_out_labels = np.arange(50 * classes) % classes, np.arange(rows * classes) % classes
    twins = {"first": ByColumns(0, 6), "second": ByColumns(6, 12)}
    return leave_classes_out(
        twins, draw(labels), labels, draw(held_out_labels), held_out_labels, seed=seed
    )


@pytest.mark.parametrize(("classes", "rows"), [(3, 6), (6, 4)])
def test_with_few_rows_twins_are_seldom_told_apart(classes, rows):
    choices = [drawn_twins(seed, classes, rows) for seed in range(120)]
    shares = np.array([choice.certainty["first"] for choice in choices])
    assert shares.mean() == pytest.approx(0.5, abs=0.1)
    # By chance alone one of the two is 95 % sure in one draw of ten, at the most.
    assert np.mean(np.maximum(shares, 1 - shares) > 0.95) <= 0.1
    assert np.mean([not choice.rivals for choice in choices]) <= 0.1
    clear = [drawn_twins(seed, classes, rows, better=3) for seed in range(20)]
    assert np.mean([choice.certainty["first"] for choice in clear]) > 0.8


def test_more_rows_make_the_choice_surer():
    sure = [
        np.mean([drawn_twins(seed, 5, rows, better=1.3).certainty["first"] for seed in range(15)])
        for rows in (4, 60)
    ]
    assert sure[1] > sure[0]


def weighted_auroc(known, unknown, known_weights, unknown_weights):
    above = known[:, None] - unknown[None, :]
    told = (above > 0) + (above == 0) / 2
    return known_weights @ told @ unknown_weights / known_weights.sum() / unknown_weights.sum()


def test_aurocs_of_rows_drawn_anew_vary_as_those_that_are_counted():
    rng = np.random.default_rng(5)
    common = rng.normal(size=60)
    scores = np.stack([common + rng.normal(scale=0.5, size=60) for _ in range(4)])
    scores[2] = scores[1].round()  # with ties
    known, unknown = scores[:, :40] + 1, scores[:, 40:]
    known[3] += 10  # perfect
    draws, other_draws = row_draws(np.zeros(40), rng), row_draws(np.zeros(20), rng)
    found = redrawn_aurocs(list(known), list(unknown), draws, other_draws)
    pairs = list(zip(draws.astype(float), other_draws.astype(float), strict=True))
    counted = np.array(
        [[weighted_auroc(known[d], unknown[d], *weights) for d in range(4)] for weights in pairs]
    )
    assert np.all(found[:, 3] == 1) and found.max() <= 1
    np.testing.assert_allclose(np.cov(found[:, :3].T), np.cov(counted[:, :3].T), rtol=0.1)
    assert np.abs(found - counted).mean() < 0.1 * counted[:, :3].std()


def test_aurocs_of_rows_drawn_anew_stay_shares_where_most_pairs_are_in_the_wrong_order():
    rng = np.random.default_rng(0)
    known = rng.normal(size=10)
    draws = [row_draws(np.zeros(10), rng) for _ in range(2)]
    found = redrawn_aurocs([known], [known + 1.2], *draws)
    assert found.min() == 0 and found.max() <= 1


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=9),
    st.lists(st.integers(0, 5), min_size=1, max_size=9),
    st.data(),
)
def test_redrawing_one_side_is_exact(known, unknown, drawn):
    known, unknown = np.array(known), np.array(unknown)
    for side, other in ((known, unknown), (unknown, known)):
        counts = np.array(
            drawn.draw(
                st.lists(st.integers(0, 3), min_size=len(side), max_size=len(side)).filter(any)
            )
        )
        draws = [counts[None].astype(np.uint8), np.ones((1, len(other)), dtype=np.uint8)]
        if side is unknown:
            draws.reverse()
        expected = weighted_auroc(
            known, unknown, draws[0][0].astype(float), draws[1][0].astype(float)
        )
        assert redrawn_aurocs([known], [unknown], *draws)[0, 0] == pytest.approx(
            expected, abs=1e-12
        )


def test_rows_are_drawn_within_their_group_and_unknowns_one_less_than_there_are():
    rng = np.random.default_rng(0)
    groups = np.array([3, 1, 3, 3, 1, 7])
    counts = row_draws(groups, rng, resamples=3000)
    for group in (1, 3, 7):
        n = np.sum(groups == group)
        assert np.all(counts[:, groups == group].sum(axis=1) == n)
        assert counts[:, groups == group].var() == pytest.approx(1 - 1 / n, abs=0.05)
    weights = unknown_draws(3, rng, resamples=20_000)
    assert np.allclose(weights.sum(axis=1), 1) and set(np.unique(weights)) == {0, 0.5, 1}
    values = np.array([0.5, 0.7, 0.9])
    assert (weights @ values).std() == pytest.approx(np.std(values, ddof=1) / np.sqrt(3), rel=0.03)
    assert np.all(unknown_draws(1, rng) == 1)


def choice_of(certainty: dict[str, float], ahead: dict[str, float]) -> Choice:
    """A choice whose detectors have means of 90, 89, ... % in this order."""
    auroc = {name: {0: 0.9 - i / 100, 1: 0.9 - i / 100} for i, name in enumerate(certainty)}
    return Choice(auroc, certainty, {}, ahead=ahead)


def test_the_verdict_names_one_detector_and_says_why():
    clear = choice_of({"ctm": 0.98, "knn": 0.015, "msp": 0.005}, {"knn": 0.02, "msp": 0.001})
    assert clear.rivals == [] and clear.told and clear.best == "ctm"
    assert clear.verdict == (
        "ctm is recommended: it has the best mean AUROC, 90.00 %, "
        "and is ahead of every other in 98 % of resamples."
    )
    assert choice_of({"ctm": 1.0}, {}).verdict == (
        "ctm is the only detector that took part, with a mean AUROC of 90.00 %."
    )
    assert choice_of({"knn": 1.0}, {}).verdict == (
        "knn is the only detector that took part, with a mean AUROC of 90.00 %. "
        "Or take quorum or ctm, which were not compared."
    )


def test_within_the_noise_it_cannot_tell_and_names_the_default():
    close = choice_of({"knn": 0.6, "ctm": 0.38, "msp": 0.02}, {"ctm": 0.4, "msp": 0.03})
    assert close.rivals == ["ctm"] and not close.told
    assert close.leader == "knn" and close.best == "ctm"
    assert close.verdict == (
        "Cannot tell which is best of knn and ctm: knn has the best mean AUROC, 90.00 %, "
        "but not clearly (ctm is 1.00 points behind, and ahead in 40 % of resamples). "
        "Take ctm, the default."
    )
    both = choice_of({"ctm": 0.6, "quorum": 0.4}, {"quorum": 0.4})
    assert both.best == both.default == "quorum" and not both.told
    assert both.verdict.endswith(
        "Take quorum, which does not rely on a single sign of the unknown."
    )
    many = choice_of(
        dict.fromkeys("abcdef", 1 / 6), {"b": 0.3, "c": 0.1, "d": 0.45, "e": 0.2, "f": 0.05}
    )
    assert many.rivals == ["d", "b", "e", "c", "f"]
    assert many.verdict.startswith("Cannot tell which is best of a, d, b and 3 others: a has")
    assert many.verdict.endswith("a may do. Or take quorum or ctm, which were not compared.")
    assert many.best == "a" and not many.told and many.to_dict()["told"] is False


def test_it_departs_from_ctm_where_others_are_clearly_ahead():
    ahead = choice_of({"vim": 0.7, "gmm": 0.29, "ctm": 0.01}, {"gmm": 0.3, "ctm": 0.01})
    assert ahead.told and ahead.best == "vim" and ahead.rivals == ["gmm"]
    assert ahead.verdict == (
        "vim is recommended: it has the best mean AUROC, 90.00 %, "
        "and is ahead of ctm in 99 % of resamples. "
        "There is no clear winner between vim and gmm."
    )


def test_it_departs_from_quorum_only_by_a_lead_on_every_kind_with_images_among_them():
    close = choice_of({"vim": 0.99, "quorum": 0.01}, {"quorum": 0.01})
    assert close.leader == "vim" and close.best == "quorum" and not close.told
    assert close.verdict == (
        "Cannot tell: vim has the best mean AUROC, 90.00 %, but against unknowns made of features "
        "alone, which does not justify leaving quorum; with the images, changed ones can say more. "
        "Take quorum, which does not rely on a single sign of the unknown."
    )
    near = {"vim": {"blur": 0.7}, "quorum": {"blur": 0.705}}
    behind = replace(close, near=near)
    assert behind.leader == "vim" and behind.best == "quorum" and not behind.told
    assert "is behind quorum on some kinds of unknowns (images)" in behind.verdict
    leads = replace(close, near={"vim": {"blur": 0.72}, "quorum": {"blur": 0.7}})
    assert leads.told and leads.best == "vim"
    assert leads.verdict == (
        "vim is recommended: it has the best mean AUROC, 81.00 %, "
        "and is ahead of quorum in 99 % of resamples."
    )
    assert replace(leads, ahead={"quorum": 0.2}).best == "quorum"


def choice_among(classes: int, leader: str = "rmds_pp", lead: float = 0.02, ahead: float = 0.01):
    """A choice between a leader, at 90 %, and Quorum, so much behind it."""
    auroc = {leader: dict.fromkeys(range(classes), 0.9)}
    auroc["quorum"] = dict.fromkeys(range(classes), 0.9 - lead)
    return Choice(auroc, {leader: 1 - ahead, "quorum": ahead}, {}, ahead={"quorum": ahead})


@pytest.mark.parametrize(
    ("choice", "best"),
    [
        (choice_among(20), "rmds_pp"),
        (choice_among(150, "relative_mahalanobis"), "relative_mahalanobis"),
        (choice_among(19), "quorum"),
        (choice_among(20, lead=0.01), "rmds_pp"),
        (choice_among(20, lead=0.0099), "quorum"),
        (choice_among(20, ahead=0.05), "quorum"),  # a rival
        (choice_among(20, "vim", lead=0.2), "quorum"),
        (choice_among(20, "mds_pp", lead=0.2), "quorum"),
        (choice_among(20, "mahalanobis", lead=0.2), "quorum"),
    ],
)
def test_among_many_classes_a_relative_distance_that_leads_by_a_point_is_taken(choice, best):
    assert choice.best == best and choice.told == (best != "quorum")
    assert ("There are many classes" in choice.verdict) == choice.told
    assert choice.verdict.startswith(f"{best} is" if choice.told else "Cannot tell")


def test_the_verdict_says_why_it_departs_from_quorum_among_many_classes():
    choice = choice_among(25, lead=0.0146)
    assert choice.verdict == (
        "rmds_pp is recommended: it has the best mean AUROC, 90.00 %, "
        "and is ahead of quorum in 99 % of resamples. "
        "There are many classes (25), and a relative Mahalanobis distance leads quorum by 1.46 "
        "points: there such a lead has held against real unknowns so far."
    )
    kin = dict.fromkeys(range(25), 0.899)
    rival = replace(
        choice,
        auroc={**choice.auroc, "relative_mahalanobis": kin},
        ahead={"quorum": 0.01, "relative_mahalanobis": 0.4},
    )
    assert rival.best == "rmds_pp"
    assert rival.verdict.endswith(
        "so far. There is no clear winner between rmds_pp and relative_mahalanobis."
    )
    # In the mean it leads by more than a point, whatever it does on one kind.
    mixed = replace(choice, swapped={"rmds_pp": {"all": 0.70}, "quorum": {"all": 0.69}})
    assert mixed.best == "rmds_pp" and "by 1.23 points" in mixed.verdict
    behind = replace(
        choice_among(25, lead=0.05), redrawn={"rmds_pp": {0: 0.8}, "quorum": {0: 0.82}}
    )
    assert behind.best == "rmds_pp" and "by 1.50 points" in behind.verdict
    images = replace(choice, near={"rmds_pp": {"blur": 0.9}, "quorum": {"blur": 0.8}})
    assert images.best == "rmds_pp" and "There are many classes" not in images.verdict
    over_ctm = choice_of({"rmds_pp": 0.99, "ctm": 0.01}, {"ctm": 0.01})
    wide = {name: dict.fromkeys(range(25), values[0]) for name, values in over_ctm.auroc.items()}
    assert "There are many classes" not in replace(over_ctm, auroc=wide).verdict


def test_classes_that_are_left_out_several_at_a_time_are_counted_one_by_one():
    known = known_rows(21)
    detectors = {"ctm": typica.CTM(), "rmds_pp": typica.RMDSpp()}
    choice = leave_classes_out(
        detectors, known.train, known.labels, known.held_out, known.held_out_labels
    )
    assert all(len(by_class) == 21 for by_class in choice.auroc.values())


@pytest.mark.parametrize(
    ("kinds", "weights"),
    [
        (["classes", "swapped"], [1 / 2, 1 / 2]),
        (["classes", "neighbours", "swapped", "redrawn"], [1 / 6, 1 / 6, 1 / 3, 1 / 3]),
        (["classes", "neighbours", "swapped", "redrawn", "images"], [1 / 8, 1 / 8, *[1 / 4] * 3]),
    ],
)
def test_kinds_weigh_the_same_but_those_that_leave_classes_out_share_a_weight(kinds, weights):
    assert list(kind_weights(kinds).values()) == pytest.approx(weights)
    choice = choice_of({"knn": 0.5, "ctm": 0.5}, {})
    other = {"knn": {"a": 0.4, "b": 0.6}, "ctm": {"a": 0.8}}
    mixed = replace(choice, neighbours=other, swapped=other, redrawn=other)
    assert mixed.means == pytest.approx(
        {"ctm": 0.89 / 6 + 0.8 * 5 / 6, "knn": 0.9 / 6 + 0.5 * 5 / 6}
    )


def test_a_tie_at_the_ceiling_tells_nothing():
    auroc = {name: {0: 1.0, 1: 1.0} for name in ("knn", "msp")} | {"ctm": {0: 1.0, 1: 0.999}}
    tied = Choice(auroc, {"knn": 0.5, "msp": 0.5, "ctm": 0}, {}, ahead={"msp": 0.5, "ctm": 0.0})
    # However sure resampling is, a twentieth of a point between made-up unknowns is no evidence.
    assert tied.rivals == ["msp", "ctm"] and not tied.told and tied.best == "ctm"
    assert tied.verdict == (
        "Cannot tell which is best of knn, msp and ctm: knn and msp have the same mean AUROC, "
        "100.00 % (ctm is 0.05 points behind, and ahead in 0 % of resamples). "
        "Take ctm, the default."
    )
    del auroc["ctm"]
    tied = Choice(auroc, {"knn": 0.5, "msp": 0.5}, {}, ahead={"msp": 0.5})
    assert tied.verdict == (
        "Cannot tell which is best of knn and msp: knn and msp have the same mean AUROC, 100.00 %. "
        "knn may do. Or take quorum or ctm, which were not compared."
    )


def test_on_the_demos_features_no_detector_wins_by_a_tie():
    suite = digits.load()
    names = ["nnguide", "nci", "msp", "energy", "vim", "quorum", "ctm"]
    choice = leave_classes_out(
        make_detectors(names, suite.head),
        suite.train,
        suite.train_labels,
        suite.calibration,
        suite.calibration_labels,
    )
    assert choice.best == "quorum"
    assert choice.means["quorum"] > max(choice.means.values()) - 0.002
    # Classes alone do not tell detectors apart here, nor find that Energy is worse.
    classes = {name: np.mean(list(choice.auroc[name].values())) for name in names}
    assert min(classes.values()) > 0.998 and choice.means["energy"] < 0.98
    assert set(choice.kinds) == {"classes", "neighbours", "swapped", "redrawn"}


def known_rows(classes: int, rows: int = 12) -> KnownSplit:
    rng = np.random.default_rng(0)
    labels = np.arange(rows * classes) % classes
    centres = rng.normal(size=(classes, 5))
    train, held_out = (centres[labels] + rng.normal(size=(len(labels), 5)) for _ in range(2))
    return KnownSplit(train, labels, held_out, labels)


@pytest.mark.parametrize(
    ("classes", "fits", "together"), [(4, 4, 0), (7, 7, 3), (10, 10, 5), (33, 10, 4)]
)
def test_every_class_is_left_out_once_alone_and_once_with_its_neighbours(classes, fits, together):
    known = known_rows(classes)
    alone, grouped = parts(known.classes, np.random.default_rng(0)), groups(known)
    assert (len(alone), len(grouped)) == (fits, together)
    assert sorted(label for part in alone for label in part) == list(range(classes))
    if together:
        assert sorted(label for group in grouped for label in group) == list(range(classes))
        assert all(2 <= len(group) <= max(3, classes // 2) for group in grouped)


def test_of_many_classes_each_has_its_own_auroc():
    known = known_rows(12)
    choice = leave_classes_out(
        {"ctm": typica.CTM()}, known.train, known.labels, known.held_out, known.held_out_labels
    )
    assert set(choice.auroc["ctm"]) == set(choice.swapped["ctm"]) == set(range(12))
    (left_out,) = [part for part in parts(known.classes, draws_after(known)) if 0 in part]
    assert len(choice.neighbours["ctm"]) == 4
    kept = ~np.isin(known.labels, left_out)
    scores = typica.CTM().fit(known.train[kept], known.labels[kept]).score_samples(known.held_out)
    inside, zero = ~np.isin(known.held_out_labels, left_out), known.held_out_labels == 0
    truth = np.repeat([1, 0], [inside.sum(), zero.sum()])
    expected = roc_auc_score(truth, np.concatenate([scores[inside], scores[zero]]))
    assert choice.auroc["ctm"][0] == pytest.approx(expected, abs=1e-9)


def draws_after(known: KnownSplit) -> np.random.Generator:
    """The generator as it is once rows and classes are drawn."""
    rng = np.random.default_rng(0)
    row_draws(known.held_out_labels, rng)
    unknown_draws(len(known.classes), rng)
    return rng


def test_neighbours_are_those_whose_means_point_the_same_way():
    angles = np.radians([0, 90, 180, 270, 5, 95, 185, 275])
    means = np.stack([np.cos(angles), np.sin(angles)], axis=1) + 7
    assert sorted(neighbours(means)) == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_swapped_rows_have_each_feature_from_the_row_or_from_one_of_a_class_nearby():
    known = known_rows(6)
    swapped = swapped_rows(known, np.random.default_rng(3))
    means = np.array([known.train[known.labels == k].mean(axis=0) for k in range(6)])
    for row, own, label in zip(swapped, known.held_out, known.held_out_labels, strict=True):
        distances = np.linalg.norm(means - means[label], axis=1)
        near = np.argsort(distances)[1:4]
        others = known.held_out[np.isin(known.held_out_labels, near)]
        taken = row != own
        assert np.any(np.all(others[:, taken] == row[taken], axis=1))
    assert 0.3 < np.mean(swapped != known.held_out) < 0.7


def test_redrawn_rows_have_the_mean_and_covariance_of_all_rows_and_are_no_row():
    rng = np.random.default_rng(7)
    mixing = rng.normal(size=(4, 4))
    labels = np.arange(3000) % 3
    rows = (4 * np.eye(3, 4)[labels] + rng.normal(size=(3000, 4))) @ mixing
    known = KnownSplit(rows[:9], labels[:9], rows.astype(np.float32), labels)
    drawn = redrawn_rows(known, rng)
    assert drawn.dtype == np.float32 and drawn.shape == (1500, 4)
    covariance = np.cov(rows.T, bias=True)
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    np.testing.assert_allclose(np.cov(drawn.T) / scale, covariance / scale, atol=0.1)
    deviations = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((drawn.mean(axis=0) - rows.mean(axis=0)) / deviations, 0, atol=0.1)
    again = redrawn_rows(known, np.random.default_rng(1))
    assert np.array_equal(again, redrawn_rows(known, np.random.default_rng(1)))


def test_redrawn_rows_are_never_below_zero_where_no_feature_is():
    known = known_rows(4)
    assert redrawn_rows(known, np.random.default_rng(0)).min() < 0
    lifted = replace(known, held_out=np.maximum(known.held_out, 0))
    drawn = redrawn_rows(lifted, np.random.default_rng(0))
    assert drawn.min() == 0 and drawn.max() > 0
    whole = replace(known, held_out=np.rint(known.held_out).astype(int))
    assert redrawn_rows(whole, np.random.default_rng(0)).dtype == np.float64


def test_rows_are_bounded_and_every_class_stays(monkeypatch):
    labels = np.repeat([0, 1, 2], [9000, 900, 3])
    kept = some_rows(labels, 1000, 20, np.random.default_rng(0))
    assert np.all(np.diff(kept) > 0)
    assert np.unique(labels[kept], return_counts=True)[1].tolist() == [909, 91, 3]
    monkeypatch.setattr("typica.bench._unknowns.TRAIN_ROWS", 20)
    monkeypatch.setattr("typica.bench._unknowns.TRAIN_ROWS_OF_CLASS", 2)
    known = known_rows(4).bounded(np.random.default_rng(0))
    assert len(known.train) == 20 and len(known.held_out) == 48


def test_no_detector_is_refused(data: Data):
    with pytest.raises(typica.InputError, match="no detector to compare; name some"):
        choose(data)


def test_held_out_rows_of_another_class_are_refused(data: Data):
    labels = np.arange(len(data.held_out)) % 5
    with pytest.raises(typica.InputError, match="held-out rows are of class 4, which the training"):
        leave_classes_out({"ctm": typica.CTM()}, data.train, data.labels, data.held_out, labels)


def test_what_is_shown(capsys):
    console.width = 80
    close = choice_of({"ctm": 0.6, "knn": 0.4}, {"knn": 0.4})
    near = {"ctm": {"blur": 0.7}, "knn": {"blur": 0.6}}
    choice = Choice(close.auroc, close.certainty, {"msp": "failed [so]"}, near, close.ahead)
    for part in shown_choice(choice):
        console.print(part)
    out = capsys.readouterr().out
    text = " ".join(out.split())
    assert text.startswith(
        "Cannot tell which is best of ctm and knn: ctm has the best mean AUROC, 80.00 %, but not"
    )
    assert (
        "msp: failed [so]" in text
        and "images: images changed (blur)" in text
        and "how often ahead of ctm" in text
        and "What this cannot see" in text
    )
    rows = {
        line.split()[0]: line.split()[1:]
        for line in out.splitlines()
        if line.startswith(("ctm  ", "knn  "))
    }
    assert rows == {
        "ctm": ["80.00", "90.00", "70.00", "60.00"],
        "knn": ["74.50", "89.00", "60.00", "40.00", "40.00"],
    }
    assert max(map(len, out.splitlines())) <= 80
    halves = "all kinds weigh the same, but classes and neighbours half each."
    assert "all kinds weigh the same. classes:" in choice.reading
    assert halves in replace(choice, neighbours=choice.auroc).reading


def test_every_row_counts_wherever_it_plays_a_part(monkeypatch):
    """A row is known in some rounds and unknown in its own.

    Near sets of one size are drawn together.
    """
    rng = np.random.default_rng(1)
    y = np.arange(24) % 3
    train, held_out = (np.eye(3, 4)[y] + 0.5 * rng.normal(size=(24, 4)) for _ in range(2))
    near = {
        key: held_out[:n] + rng.normal(size=(n, 4))
        for key, n in (("blur", 8), ("noise", 6), ("jpeg", 8))
    }
    resamples, means = 24 + 8 + 6 + 10, []

    def doubled(groups, rng):  # one row at a time, so that one side of each AUROC stays as it is
        offset = {24: 0, 6: 24, 8: 30, 10: 38}[len(groups)]
        return 1 + np.eye(resamples, len(groups), -offset, dtype=np.uint8)

    monkeypatch.setattr("typica.bench._choose.RESAMPLES", resamples)
    monkeypatch.setattr("typica.bench._choose.row_draws", doubled)
    monkeypatch.setattr(
        "typica.bench._choose.unknown_draws", lambda n, rng: np.full((resamples, n), 1 / n)
    )
    monkeypatch.setattr(
        "typica.bench._choose.certainties", lambda names, found: means.append(found) or {}
    )
    swapped = rng.permuted(held_out, axis=0)
    monkeypatch.setattr("typica.bench._choose.swapped_rows", lambda known, rng: swapped)
    redrawn = rng.normal(size=(10, 4))
    monkeypatch.setattr("typica.bench._choose.redrawn_rows", lambda known, rng: redrawn)
    leave_classes_out(
        {"one": ByColumns(0, 4), "two": ByColumns(0, 2)}, train, y, held_out, y, near=near
    )

    def mean(columns, weights):
        by_class, by_set = [], []
        for k in range(3):
            scores = ByColumns(0, columns).fit(train[y != k], y[y != k]).score_samples(held_out)
            by_class.append(
                weighted_auroc(
                    scores[y != k], scores[y == k], weights[:24][y != k], weights[:24][y == k]
                )
            )
        whole = ByColumns(0, columns).fit(train, y)
        scores, strange = whole.score_samples(held_out), whole.score_samples(swapped)
        by_swapped = []
        for k in range(3):  # the same rows are on both sides, so that the two factor
            beyond = strange[None, y == k] - scores[:, None]
            wrong = (beyond > 0) + (beyond == 0) / 2
            of_known = weights[:24] @ wrong.mean(axis=1) / weights[:24].sum()
            of_unknown = weights[:24][y == k] @ wrong.mean(axis=0) / weights[:24][y == k].sum()
            by_swapped.append(1 - of_known * of_unknown / wrong.mean())
        for rows in near.values():
            strange = whole.score_samples(rows)
            own = weights[24:30] if len(rows) == 6 else weights[30:38]
            by_set.append(weighted_auroc(scores, strange, weights[:24], own))
        strange = whole.score_samples(redrawn)
        by_lot = weighted_auroc(scores, strange, weights[:24], weights[38:])
        return np.mean([np.mean(by_class), np.mean(by_swapped), by_lot, np.mean(by_set)])

    expected = [[mean(columns, 1 + row) for columns in (4, 2)] for row in np.eye(resamples)]
    np.testing.assert_allclose(means[0], expected, atol=1e-12)


def test_the_others_are_compared_with_the_best_wherever_it_stands():
    for names in (("first", "second"), ("second", "first")):
        twins = {"first": ByColumns(0, 6), "second": ByColumns(6, 12)}
        rng = np.random.default_rng(0)
        y = np.arange(60) % 4
        train, held_out = (
            np.hstack([np.eye(4, 6)[y] * by + rng.normal(size=(60, 6)) for by in (3, 1)])
            for _ in range(2)
        )
        choice = leave_classes_out({name: twins[name] for name in names}, train, y, held_out, y)
        assert choice.best == "first" and set(choice.ahead) == {"second"}
        assert (
            choice.ahead["second"] == pytest.approx(choice.certainty["second"])
            and choice.ahead["second"] < 0.5
        )


@pytest.mark.parametrize(
    ("backend", "settings", "tried"),
    [
        (None, {"backend": "torch", "batch": 8, "threads": 1}, [("torch", 8, 1)]),
        (
            None,
            {"backend": "absent", "batch": 8, "threads": 1},
            [("absent", 8, 1), ("auto", None, None)],
        ),
        (None, {}, [("auto", None, None)]),
        ("onnx", {"backend": "torch", "batch": 8, "threads": 1}, [("onnx", None, None)]),
    ],
)
def test_near_features_come_by_the_banks_own_backend_if_it_is_there(
    monkeypatch, backend, settings, tried
):
    """The quickest is another on another day, and with it the features in their last digits."""
    near = pytest.importorskip("typica.bench._changed_images")
    calls = []

    def make_runner(extractor, backend, *, sample, batch=None, threads=None):
        calls.append((backend, batch, threads))
        if backend == "absent":
            raise typica.InputError("no such backend")
        return backend

    monkeypatch.setattr(near, "make_runner", make_runner)
    assert (
        near._runner(None, SimpleNamespace(settings=settings), backend, np.zeros((1, 3)))
        == tried[-1][0]
    )
    assert calls == tried


def test_errors_name_the_function_that_was_called(data: Data):
    detectors = {"ctm": typica.CTM()}
    few = np.zeros(len(data.held_out), dtype=int)
    with pytest.raises(typica.InputError, match=r"^leave_classes_out: 1 class with held-out rows"):
        leave_classes_out(detectors, data.train, data.labels, data.held_out, few)
    with pytest.raises(typica.InputError, match=r"^compare: labels of shape \(3,\) for"):
        compare(detectors, data.train, data.labels[:3], data.test, {"x": data.test})


def test_rounds_do_not_warn_of_classes_that_are_small():
    rng = np.random.default_rng(0)
    rows, labels = rng.random((240, 6)), np.arange(240) % 12
    held_out, held_labels = rng.random((120, 6)), np.arange(120) % 12
    with warnings.catch_warnings():
        warnings.simplefilter("error", typica.InputWarning)
        leave_classes_out({"knn": typica.KNN()}, rows, labels, held_out, held_labels)


@pytest.mark.parametrize(("held_out", "split"), [(None, "train"), ("held", None)])
def test_held_out_images_are_taken_whole(data: Data, tmp_path, monkeypatch, held_out, split):
    from typica.bench import _evaluate_files as files
    from typica.bench._fit_files import OpenedInputs
    from typica.data import open_features

    monkeypatch.chdir(tmp_path)
    typica.write_bank("train.bank", data.train, labels=data.labels)
    typica.write_bank("held.bank", data.train, labels=data.labels)
    splits, opened, changed = {}, {}, []

    def open_inputs(path: str, *_: object, **options: object) -> OpenedInputs:
        splits[path], opened[path] = options.get("split"), object()
        return OpenedInputs(open_features(f"{path}.bank"), opened[path])

    def near(parts: object, images: object, **_: object) -> dict[str, np.ndarray]:
        changed.append(images)
        return {}

    monkeypatch.setattr(files, "open_inputs", open_inputs)
    monkeypatch.setattr(files, "_near", near)
    files.choose_files("train", held_out=held_out, split="train", names="ctm")
    assert changed == [opened[held_out or "train"]]  # the very images, opened once
    assert splits[held_out or "train"] == split
