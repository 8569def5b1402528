"""CTM and CW against loops in float64, at the edges, and on real features."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from helpers.data import Data
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.model_selection import GridSearchCV, StratifiedKFold

import typica
from typica import CTM, CW, Head


def reference_scores(directions, Z):
    """The largest cosine, written out, in exact-as-possible float64."""
    scores = []
    for z in Z.astype(np.float64).tolist():
        length = math.sqrt(math.fsum(x * x for x in z))
        if length == 0:
            scores.append(-1.0)
            continue
        cosines = []
        for d in directions.astype(np.float64).tolist():
            dot = math.fsum(a * b for a, b in zip(d, z, strict=True))
            cosines.append(dot / length / math.sqrt(math.fsum(a * a for a in d)))
        scores.append(max(cosines))
    return np.array(scores)


def reference_means(Z, labels):
    return np.array([Z[labels == k].astype(np.float64).mean(axis=0) for k in np.unique(labels)])


@pytest.mark.parametrize(("dtype", "atol"), [(np.float32, 1e-6), (np.float64, 1e-12)])
def test_scores_equal_the_loop(data: Data, dtype, atol):
    train, test = data.train.astype(dtype), data.test.astype(dtype)
    wanted = reference_scores(reference_means(train, data.labels), test)
    np.testing.assert_allclose(
        CTM().fit(train, data.labels).score_samples(test), wanted, rtol=0, atol=atol
    )
    wanted = reference_scores(data.head.weight, test)
    np.testing.assert_allclose(CW(data.head).score_samples(test), wanted, rtol=0, atol=atol)


@settings(max_examples=60)
@given(
    arrays(np.float64, (5, 3), elements=st.floats(-1e3, 1e3, width=32)),
    st.floats(-37, 37),
    st.sampled_from([np.float32, np.float64]),
)
def test_score_does_not_depend_on_the_length_of_a_row(Z, exponent, dtype):
    detector = CW(Head(np.array([[1.0, 2.0, 0.5], [-1.0, 0.1, 3.0]])))
    Z[np.abs(Z) < 1e-3] = 0
    lengths = np.abs(Z).max(axis=1, keepdims=True)
    Z = Z / np.where(lengths > 0, lengths, 1)
    scaled = (Z * 10.0**exponent).astype(dtype)
    scores = detector.score_samples(scaled)
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(scores, reference_scores(detector.head.weight, Z), atol=2e-6)


@pytest.mark.parametrize("backend", [np.asarray, torch.asarray])
@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1.0, 1e19, 1e37])
def test_tiny_and_huge_rows_beside_ordinary_ones(backend, scale):
    rows = np.array([[3.0, 4.0], [3.0 * scale, 4.0 * scale], [0.0, 0.0]], dtype=np.float32)
    scores = CW(Head(np.eye(2))).score_samples(backend(rows))
    np.testing.assert_allclose(np.asarray(scores), [0.8, 0.8, -1.0], atol=1e-6)


def test_zero_row_scores_minus_one_and_says_why(data: Data):
    detector = CTM().fit(data.train, data.labels).calibrate(data.held_out)
    rows = np.concatenate([data.test[:1], np.zeros((1, data.test.shape[1]))])
    scores = detector.score_samples(rows)
    assert scores[1] == -1 and np.isfinite(scores).all()
    fine, zero = detector.explain(rows)
    assert zero.typical is False and zero.similarity == -1
    assert "the feature vector is zero and has no direction" in str(zero)
    assert fine.note == ""
    Z = torch.asarray(rows).requires_grad_()
    detector.score_samples(Z).sum().backward()
    assert torch.isfinite(Z.grad).all() and not Z.grad[1].any()


def test_explain_names_the_features_that_are_missing_or_in_excess(data: Data):
    detector = CTM().fit(data.train, data.labels).calibrate(data.held_out)
    z = detector.means_[0].copy()
    z[8], z[0] = z[8] + 3, z[0] / 2
    answer = detector.explain(z[None])[0]
    assert [(c.feature, c.excess) for c in answer.contributions[:2]] in (
        [(8, True), (0, False)],
        [(0, False), (8, True)],
    )
    mean = detector.means_[detector.classes_.tolist().index(answer.nearest)]
    parts = [
        (a / np.linalg.norm(z) - b / np.linalg.norm(mean)) ** 2 / 2
        for a, b in zip(z, mean, strict=True)
    ]
    assert sum(parts) == pytest.approx(1 - answer.similarity, abs=1e-12)
    assert [c.amount for c in answer.contributions] == pytest.approx(
        sorted(parts, reverse=True)[:5], abs=1e-12
    )
    assert answer.to_dict()["contributions"][0]["feature"] == answer.contributions[0].feature
    assert not answer.typical and "in excess: feature" in str(answer)


def test_classify_is_the_nearest_mean(data: Data):
    names = np.array(["ape", "bee", "cat", "dog"])
    detector = CTM().fit(data.train, names[data.labels])
    means = reference_means(data.train, data.labels)
    wanted = [int(np.argmax([m @ z / np.linalg.norm(m) for m in means])) for z in data.test]
    assert detector.classify(data.test).tolist() == names[wanted].tolist()
    assert detector.classes_.tolist() == names.tolist()
    np.testing.assert_allclose(detector.means_, means, atol=1e-12)
    assert CW(Head(means, classes=names)).classify(data.test).tolist() == names[wanted].tolist()


def test_without_labels_all_is_one_class(data: Data):
    detector = CTM().fit(data.train)
    wanted = reference_scores(data.train.mean(axis=0, keepdims=True), data.test)
    np.testing.assert_allclose(detector.score_samples(data.test), wanted, atol=1e-12)
    answer = detector.explain(data.test[:1])[0]
    assert answer.runner_up is None and answer.margin is None


def test_correct_only_leaves_out_what_the_head_gets_wrong(data: Data):
    names = np.array(["ape", "bee", "cat", "dog"])
    labels = data.labels.copy()
    labels[:10] = (labels[:10] + 1) % 4
    head = Head(data.head.weight, np.zeros(4), names)
    correct = np.argmax(data.train @ data.head.weight.T, axis=1) == labels
    assert 0 < correct.sum() < len(labels) - 5
    detector = CTM(head, correct_only=True).fit(data.train, names[labels])
    np.testing.assert_allclose(
        detector.means_, reference_means(data.train[correct], labels[correct]), atol=1e-12
    )
    streamed = CTM(head, correct_only=True)
    streamed.partial_fit(data.train[:99], names[labels[:99]]).partial_fit(
        data.train[99:], names[labels[99:]]
    )
    np.testing.assert_allclose(streamed.means_, detector.means_, atol=1e-12)


def test_correct_only_says_what_it_lacks(data: Data):
    with pytest.raises(typica.InputError, match=r"CTM.fit: correct_only needs a head"):
        CTM(correct_only=True).fit(data.train, data.labels)
    with pytest.raises(typica.InputError, match=r"CTM.fit: correct_only needs labels"):
        CTM(data.head, correct_only=True).fit(data.train)
    with pytest.raises(typica.InputError, match=r"CTM.fit: 3 labels for 240 rows"):
        CTM(data.head, correct_only=True).fit(data.train, [1, 2, 3])
    for bad in (np.nan, np.inf):
        rows = data.train.copy()
        rows[1] = bad
        with pytest.raises(typica.InputError, match=r"CTM.partial_fit: row 1 of .* holds NaN or"):
            CTM(data.head, correct_only=True).partial_fit(rows, data.labels)
    with pytest.raises(
        typica.InputError, match=r"class 0 of the head has no correctly classified samples"
    ):
        CTM(data.head, correct_only=True).fit(
            data.train, (data.labels + 1) % 4 + 4 * (data.labels == 3)
        )


def test_a_class_of_the_head_without_samples_is_an_error(data: Data):
    kept = data.labels != 2
    with pytest.raises(typica.InputError, match=r"CTM.fit: class 2 of the head has no samples"):
        CTM(data.head).fit(data.train[kept], data.labels[kept])
    assert CTM().fit(data.train[kept], data.labels[kept]).classes_.tolist() == [0, 1, 3]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_class_whose_mean_is_zero_is_an_error(dtype):
    rng = np.random.default_rng(0)
    half = rng.normal(size=(50, 8)).astype(dtype)
    rows = np.concatenate([half + 5, half, -half])
    labels = ["up"] * 50 + ["nowhere"] * 100
    with pytest.raises(
        typica.InputError,
        match=r"CTM.fit: the mean of class nowhere is zero relative to its features",
    ):
        CTM().fit(rows, labels)
    with pytest.raises(typica.InputError, match="the mean of class 0 is zero"):
        CTM().fit(np.zeros((30, 4), dtype=dtype))
    # In the midst of a stream it is no error: the mean may yet come off zero.
    CTM().partial_fit(half, ["a"] * 50).partial_fit(-half, ["a"] * 50).partial_fit(
        half, ["a"] * 50
    ).match(half)


def test_cw_is_ready_without_fit_and_follows_its_head(data: Data):
    detector = CW(data.head).calibrate(data.held_out)
    assert detector.predict(data.test).mean() > 0.5
    other = Head(data.head.weight[::-1][:2])
    scores = detector.set_params(head=other).score_samples(data.test)
    np.testing.assert_allclose(scores, reference_scores(other.weight, data.test), atol=1e-12)
    with pytest.raises(typica.InputError, match="weight for class 1 is zero"):
        CW(Head(np.array([[1.0], [0.0]]))).score_samples(np.ones((1, 1)))


def test_fit_threshold_comes_from_a_bounded_sample_of_training_rows(data: Data, monkeypatch):
    detector = CTM().fit(data.train, data.labels)
    scores = np.sort(detector.score_samples(data.train))
    assert detector.offset_ == pytest.approx(
        scores[12 - 1], abs=1e-11
    )  # 240 rows, k = floor(241 * 0.05)
    assert detector.offset_ < scores[12 - 1]  # by less than anything but rounding
    assert not hasattr(detector, "calibration_")
    monkeypatch.setattr("typica.detectors._training_threshold.TRAINING_SAMPLE", 100)
    sampled = CTM().fit(data.train, data.labels)
    chosen = np.sort(np.random.default_rng(0).choice(240, 100, replace=False))
    wanted = np.sort(sampled.score_samples(data.train[chosen]))[5 - 1]
    assert sampled.offset_ == pytest.approx(wanted, abs=1e-11)
    assert sampled.offset_ == CTM().fit(data.train, data.labels).offset_


def test_merge_needs_equal_parameters_and_width(data: Data):
    detector = CTM(data.head).fit(data.train, data.labels)
    with pytest.raises(
        typica.InputError, match=r"CTM.merge: the two were made with different parameters"
    ):
        detector.merge(CTM().fit(data.train, data.labels))
    equal = Head(data.head.weight)
    assert detector.merge(CTM(equal).fit(data.train, data.labels)).moments_.n == 2 * len(data.train)
    with pytest.raises(typica.InputError, match=r"CTM.merge: 12 features here, 5 there"):
        CTM().fit(data.train, data.labels).merge(CTM().fit(data.train[:, :5], data.labels))


def test_grid_search_maximises_auroc_against_ood(data: Data):
    search = GridSearchCV(
        CTM(data.head), {"correct_only": [False, True]}, scoring=typica.ood_scorer(data.ood),
        cv=StratifiedKFold(3, shuffle=True, random_state=0),
    )  # fmt: skip
    search.fit(data.train, data.labels)
    train, test = next(
        StratifiedKFold(3, shuffle=True, random_state=0).split(data.train, data.labels)
    )
    detector = CTM(data.head).fit(data.train[train], data.labels[train])
    known, strange = detector.score_samples(data.train[test]), detector.score_samples(data.ood)
    wanted = np.mean(known[:, None] > strange) + np.mean(known[:, None] == strange) / 2
    assert search.cv_results_["split0_test_score"][0] == pytest.approx(wanted, abs=1e-12)
    lower = typica.ood_scorer(data.ood, "fpr")
    assert -1 <= lower(detector, data.train[test]) <= 0
    with pytest.raises(typica.InputError, match="metric 'accuracy' is unknown"):
        typica.ood_scorer(data.ood, "accuracy")


def test_head_checks_its_parts():
    weight = np.ones((2, 3))
    for arguments, message in [
        ((weight, np.ones(3)), r"bias of shape \(3,\) for 2 classes"),
        ((weight, [np.nan, 0]), "the bias holds NaN"),
        ((weight * np.inf,), "NaN or infinity"),
        ((weight[0],), "Reshape your data"),
        ((weight, None, ["a"]), r"class names of shape \(1,\) for 2 rows"),
        ((weight, None, ["a", "a"]), "one distinct name per row"),
        ((weight, None, [0.5, 1.5]), "pass integers or strings"),
    ]:
        with pytest.raises(typica.InputError, match=message):
            Head(*arguments)
    head = Head(torch.ones((2, 3), requires_grad=True), torch.ones(2))
    assert head == Head(np.ones((2, 3), np.float32), np.ones(2, np.float32))
    assert (
        head != Head(weight)
        and head != 3
        and hash(head) == hash(Head(torch.ones((2, 3)), torch.ones(2)))
    )
    with pytest.raises(ValueError, match="read-only"):
        head.weight[0, 0] = 3
    np.testing.assert_array_equal(head.logits(torch.ones((1, 3))).numpy(), [[4, 4]])


@pytest.mark.real
def test_real_cifar10_features_give_the_papers_numbers(real):
    head = Head(real["head.weight"], real["head.bias"])
    train, labels = real["train.features"], real["train.labels"]
    test, truth = real["test.features"], real["test.labels"]
    ctm, cw = CTM().fit(train, labels), CW(head)
    # The paper's ablation: 94.52 / 94.55 / 94.40 % top-1 with the head, CW and CM.
    assert np.mean(head.predict(test) == truth) == pytest.approx(0.9452, abs=0.001)
    assert np.mean(cw.classify(test) == truth) == pytest.approx(0.9455, abs=0.001)
    assert np.mean(ctm.classify(test) == truth) == pytest.approx(0.9440, abs=0.001)
    for name, auroc, within in [("svhn", 0.9908, 0.005), ("textures", 0.9670, 0.015)]:
        result = typica.evaluate(
            ctm.score_samples(test), ctm.score_samples(real[f"ood.{name}.features"])
        )
        assert result.auroc == pytest.approx(auroc, abs=within)
    sample = np.random.default_rng(0).choice(len(test), 50)
    wanted = reference_scores(reference_means(train, labels), test[sample])
    np.testing.assert_allclose(ctm.score_samples(test[sample]), wanted, atol=1e-6)
