"""pNML, NECO, Projection, Relation, WeiPer, NAC and CoRP.

Against float64 loops, and on real features.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from helpers.data import Data
from sklearn.pipeline import make_pipeline

import typica
from typica import (
    NAC,
    NECO,
    PNML,
    Head,
    PCAReconstruction,
    Projection,
    RandomFourier,
    Relation,
    WeiPer,
)
from typica.detectors.weiper import histogram


def softmax(logits):
    weights = [math.exp(v - max(logits)) for v in logits]
    return [weight / sum(weights) for weight in weights]


def unit(z):
    length = math.sqrt(sum(v * v for v in z))
    return z / length if length else z


def reference_pnml(W, b, train, rows):
    X = np.array([unit(z) for z in train])
    P = np.linalg.pinv(X.T @ X, hermitian=True)
    scores = []
    for z in rows:
        u = unit(z)
        q = u @ P @ u
        r = q / (1 + q)
        p = softmax([w @ u + c for w, c in zip(W, b, strict=True)])
        scores.append(-math.log(sum(x / (x + (1 - x) * x**r) for x in p)))
    return scores


def reference_neco(W, b, train, rows, *, dim, standardise):
    mean = sum(train) / len(train)
    sigma = np.sqrt(sum((z - mean) ** 2 for z in train) / len(train))
    sigma = np.where(sigma > 0, sigma, 1.0) if standardise else np.ones(len(mean))
    S = (train - mean) / sigma
    _, s, V = np.linalg.svd(S, full_matrices=False)
    if dim is None:
        dim = next(d for d in range(1, len(s) + 1) if sum(s[:d] ** 2) >= 0.9 * sum(s**2))
    scores = []
    for z in rows:
        own = (z - mean) / sigma
        inside = math.sqrt(sum((v @ own) ** 2 for v in V[:dim]))
        whole = math.sqrt(sum(own**2 if standardise else z**2))
        best = 1.0 if W is None else max(w @ z + c for w, c in zip(W, b, strict=True))
        scores.append(inside / whole * best)
    return scores


def reference_relation(W, b, train, rows, *, power=1.0, cut=0.03):
    known = [(unit(z), softmax(W @ z + b)) for z in train]
    scores = []
    for z in rows:
        u, p = unit(z), softmax(W @ z + b)
        relations = [max(0.0, u @ v) * sum(np.multiply(p, q)) for v, q in known]
        scores.append(sum(r**power for r in relations if r > cut) / len(known))
    return scores


def reference_weiper(W, b, train, rows, *, repeats, bins, smoothing, seed):
    rng = np.random.default_rng(seed)
    copies = []
    for _ in range(repeats):
        noise = rng.normal(size=W.shape)
        copies += [w + 2.1 * np.sqrt(w @ w) * unit(n) for w, n in zip(W, noise, strict=True)]
    views = [lambda z: z, lambda z: np.array([w @ z for w in copies]) + np.tile(b, repeats)]

    def shares(values, low, high):
        counts = [0.0] * bins
        for v in values:
            place = math.floor((v - low) * (bins / (high - low)))
            if 0 <= place < bins:
                counts[place] += 1 / len(values)
        return counts

    def smooth(h):
        left = (smoothing - 1) // 2
        return [
            sum(h[min(max(i - left + j, 0), bins - 1)] for j in range(smoothing)) / smoothing
            for i in range(bins)
        ]

    scores = np.zeros(len(rows))
    for view, floor in zip(views, (0.01, 0.025), strict=True):
        seen = [view(z) for z in train]
        low, high = min(v.min() for v in seen), max(v.max() for v in seen)
        low, high = low - 1e-6 * (high - low), high + 1e-6 * (high - low)
        p = np.mean([shares(v, low, high) for v in seen], axis=0) + floor
        for i, z in enumerate(rows):
            q = np.array(smooth(shares(view(z), low, high))) + floor
            P, Q = p / sum(p), q / sum(q)
            kl = sum(P * np.log(P / Q)) + sum(Q * np.log(Q / P))
            scores[i] -= kl
    for i, z in enumerate(rows):
        logits = views[1](z).reshape(repeats, len(W))
        scores[i] += np.mean([max(softmax(one)) for one in logits])
    return scores


@pytest.fixture
def head(data: Data):
    return Head(data.head.weight.astype(np.float64) - 0.5, np.array([0.5, -1.0, 0.0, 2.0]))


@pytest.fixture
def rows(data: Data):
    return np.concatenate([data.test[:15], data.ood[:15], -data.test[:5]])


def test_pnml_is_the_negated_regret(data: Data, head, rows):
    wanted = reference_pnml(head.weight, head.bias, data.train, rows)
    np.testing.assert_allclose(PNML(head).fit(data.train).score_samples(rows), wanted, rtol=1e-9)
    few = np.repeat(data.train[:5], 5, axis=0)  # fewer than features: the pseudoinverse
    wanted = reference_pnml(head.weight, head.bias, few, rows)
    np.testing.assert_allclose(PNML(head).fit(few).score_samples(rows), wanted, rtol=1e-7)


def test_pnml_of_zero_rows_and_of_certain_ones(data: Data, head):
    sure = Head(1e4 * data.head.weight, None)
    detector = PNML(sure).fit(data.train)
    rows = torch.asarray(np.concatenate([data.test[:5], np.zeros((1, 12))])).requires_grad_()
    scores = detector.score_samples(rows)
    assert torch.isfinite(scores).all() and (scores <= 1e-12).all()
    scores.sum().backward()
    assert torch.isfinite(rows.grad).all()
    with pytest.raises(typica.InputError, match=r"PNML.fit: all 9 training rows are zero"):
        PNML(head).fit(np.zeros((9, 12)))


@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize("dim", [None, 3])
def test_neco_is_the_share_in_the_subspace(data: Data, head, rows, dim, standardise):
    how = {"dim": dim, "standardise": standardise}
    wanted = reference_neco(None, None, data.train, rows, **how)
    detector = NECO(**how).fit(data.train)
    np.testing.assert_allclose(detector.score_samples(rows), wanted, rtol=1e-9)
    assert detector.match(rows) is None
    wanted = reference_neco(head.weight, head.bias, data.train, rows, **how)
    headed = NECO(head, **how).fit(data.train)
    np.testing.assert_allclose(headed.score_samples(rows), wanted, rtol=1e-9)
    assert headed.classify(rows).tolist() == head.predict(rows).tolist()


def test_nac_counts_in_more_bins_than_float32_can_number():
    rng = np.random.default_rng(0)
    head, rows = Head(rng.normal(size=(3, 200))), np.abs(rng.normal(size=(300, 200)))
    detector = NAC(head, bins=100_000, enough=1).fit(rows.astype(np.float32))
    np.testing.assert_array_equal(detector.score_samples(rows.astype(np.float32)), np.ones(300))


def test_neco_at_the_edges(data: Data):
    with pytest.raises(typica.InputError, match=r"dim=12 leaves nothing outside of 12 features"):
        NECO(dim=12).fit(data.train)
    with pytest.raises(typica.InputError, match=r"dim=12 leaves nothing outside of 12 features"):
        NECO(dim=2).fit(data.train).set_params(dim=12).score_samples(data.test)
    with pytest.raises(typica.InputError, match=r"NECO.fit: 1 feature\(s\) leave nothing outside"):
        NECO().fit(data.train[:, :1])
    with pytest.raises(typica.InputError, match=r"NECO.fit: the features do not vary over 4"):
        NECO().fit(np.ones((4, 3)))
    constant = data.train.copy()
    constant[:, 2] = 3.0
    detector = NECO().fit(constant)
    at_mean = torch.asarray(constant.mean(axis=0))[None].requires_grad_()
    score = detector.score_samples(at_mean)
    score.sum().backward()
    assert 0 <= score.item() <= 1 and torch.isfinite(at_mean.grad).all()


def test_projection_is_the_cosine_times_the_length(data: Data, rows):
    means = [data.train[data.labels == k].mean(axis=0) for k in range(4)]
    wanted = [max(z @ mu / math.sqrt(mu @ mu) for mu in means) for z in rows]
    detector = Projection().fit(data.train, data.labels)
    np.testing.assert_allclose(detector.score_samples(rows), wanted, rtol=1e-12)
    cosines = typica.CTM().fit(data.train, data.labels).score_samples(rows)
    lengths = np.sqrt((rows**2).sum(axis=1))
    np.testing.assert_allclose(detector.score_samples(rows), cosines * lengths, rtol=1e-9)


@pytest.mark.parametrize(("power", "cut"), [(1.0, 0.03), (4.0, 0.03), (2.0, 0.0), (1.0, 0.6)])
def test_relation_is_the_mean_over_training_rows(data: Data, head, rows, power, cut):
    detector = Relation(head, power=power, cut=cut).fit(data.train)
    wanted = reference_relation(head.weight, head.bias, data.train, rows, power=power, cut=cut)
    np.testing.assert_allclose(detector.score_samples(rows), wanted, rtol=1e-9, atol=1e-15)


def test_relation_of_a_sample_and_of_a_zero_row(data: Data, head):
    detector = Relation(head, subsample=50).fit(data.train)
    assert len(detector.rows_) == 50
    assert detector.score_samples(np.zeros((1, 12)))[0] == 0
    with pytest.raises(typica.InputError, match=r"cut=1 is not a relation; pass a number from 0"):
        Relation(head, cut=1).fit(data.train)


@pytest.mark.parametrize(("bins", "smoothing"), [(20, 1), (20, 4), (30, 5)])
def test_weiper_compares_histograms(data: Data, head, rows, bins, smoothing):
    how = {"repeats": 7, "bins": bins, "smoothing": smoothing, "seed": 3}
    wanted = reference_weiper(head.weight, head.bias, data.train[:40], rows, **how)
    detector = WeiPer(head, **how).fit(data.train[:40])
    np.testing.assert_allclose(detector.score_samples(rows), wanted, rtol=1e-9)


def test_weiper_weighs_its_terms_and_draws_by_its_seed(data: Data, head, rows):
    def scores(**how):
        return WeiPer(head, repeats=5, bins=20, **how).fit(data.train).score_samples(rows)

    both, first = scores(), scores(lambda_1=0.0, lambda_2=0.0)
    np.testing.assert_allclose(
        both - first, scores(lambda_1=2.0, lambda_2=2.0) - both, rtol=1e-9, atol=1e-12
    )
    assert (first <= 0).all()
    assert np.abs(scores(seed=1) - both).max() > 1e-3
    with pytest.raises(typica.InputError, match=r"WeiPer.fit: the features do not vary over 4"):
        WeiPer(head).fit(np.ones((4, 12)))


@pytest.mark.parametrize("parameters", [(100.0, 50, 50), (2.0, 7, 3), (2.0, 7, None)])
def test_nac_counts_how_often_a_state_was_seen(data: Data, head, rows, parameters):
    W, b = head.weight, head.bias
    alpha, bins, enough = parameters

    def numbers(z):
        z = torch.asarray(z.copy()).requires_grad_()
        logits = torch.asarray(W.copy()) @ z + torch.asarray(b.copy())
        (-torch.log_softmax(logits, 0).mean()).backward()  # KL(uniform || p) but for a constant
        values = [1 / (1 + math.exp(-alpha * v)) for v in (z * z.grad).tolist()]
        return [min(math.floor(v * bins), bins - 1) for v in values]

    seen = [numbers(z) for z in data.train]
    covers = 2 if enough is None else enough  # a hundredth of 240 rows
    wanted = []
    for z in rows:
        parts = []
        for j, number in enumerate(numbers(z)):
            parts.append(min(sum(row[j] == number for row in seen) / covers, 1))
        wanted.append(sum(parts) / len(parts))
    detector = NAC(head, alpha=alpha, bins=bins, enough=enough).fit(data.train)
    np.testing.assert_allclose(detector.score_samples(rows), wanted, rtol=1e-12)
    assert detector.counts_.sum() == data.train.size


def test_histograms_of_all_backends_are_alike():
    V = np.random.default_rng(0).normal(size=(6, 50))
    wanted = [np.histogram(v, bins=8, range=(-1.5, 2.0))[0] / 50 for v in V]
    np.testing.assert_allclose(histogram(V, -1.5, 2.0, 8), wanted)
    np.testing.assert_allclose(histogram(torch.asarray(V), -1.5, 2.0, 8).numpy(), wanted)


def test_corp_is_kernel_pca_with_random_features(data: Data, rows):
    """The error of reconstruction is nearly that of exact kernel PCA with as many components."""
    pipeline = make_pipeline(RandomFourier(width=1500), PCAReconstruction(share=0.8))
    pipeline.fit(data.train[:100])
    got = pipeline.score_samples(rows)
    U, X = (np.array([unit(z) for z in Z]) for Z in (data.train[:100], rows))

    def kernel(A, B):
        return np.exp(-2.0 * ((A[:, None] - B) ** 2).sum(axis=2))

    K, k = kernel(U, U), kernel(X, U)
    centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    values, vectors = np.linalg.eigh(centred)
    values, vectors = values[::-1], vectors[:, ::-1]
    count = 1500 - pipeline[-1]._residuals.basis.shape[1]
    own = 1 - 2 * k.mean(axis=1) + K.mean()
    across = k - k.mean(axis=1)[:, None] - K.mean(axis=0) + K.mean()
    inside = (across @ vectors[:, :count]) ** 2 / values[:count]
    wanted = -np.sqrt(np.maximum(own - inside.sum(axis=1), 0))
    assert np.abs(got - wanted).mean() < 0.03
    np.testing.assert_allclose(got, wanted, atol=0.1)
