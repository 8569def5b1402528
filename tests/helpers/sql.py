"""What every dialect of SQL must do, checked on a server: `run(statement)` gives rows, or None."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import typica
from typica.scale.sql import fit_sql, score_sql

Run = Callable[[str], list]

M = 6
NAMES = np.array(
    [
        "cat",
        "l'été",
        '"; DROP TABLE typica_means; --',
        "${env:HOME}",
        "a\\'b\n\t",
        "日本 \u202e x",
        ":p %s $1",
        "",
    ]
)
TABLE = 'em"b`e; --'
FEATURES = "ve'c`\"tor"
ID = 'select "id`'


BAD = [None, [1.0, 2.0], [1.0, 2.0, 3.0, 4.0, 5.0, None], [1.0, 2.0, 3.0, 4.0, 5.0, np.nan]]


def rows_and_labels():
    rng = np.random.default_rng(0)
    labels = rng.integers(len(NAMES), size=400)
    centres = 3 * rng.normal(size=(len(NAMES), M)) + 5
    return rng.normal(size=(400, M)) + centres[labels], labels


def queries():
    rng = np.random.default_rng(1)
    Z = 4 * rng.normal(size=(40, M)) + 5
    Z[3] = 0.0
    Z[4] *= 1e30
    Z[5] *= 1e-30
    return Z


def head():
    rng = np.random.default_rng(2)
    return typica.Head(rng.normal(size=(len(NAMES), M)), rng.normal(size=len(NAMES)), NAMES)


def cosine(a, b):
    product = sum(x * y for x, y in zip(a, b, strict=True))
    size = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return product / size if size else -1.0


def logits(z):
    h = head()
    return [
        sum(w * x for w, x in zip(row, z, strict=True)) + b
        for row, b in zip(h.weight, h.bias, strict=True)
    ]


def means(X, labels):
    return [X[labels == k].mean(axis=0) for k in range(len(NAMES))]


def mahalanobis(z, X, labels):
    mu = means(X, labels)
    centred = X - np.array(mu)[labels]
    P = np.linalg.inv(centred.T @ centred / len(X))
    return -min((z - m) @ P @ (z - m) for m in mu) / 2


def references():
    """Return detectors by name, each with a function of one row that imports nothing of Typica."""
    X, labels = rows_and_labels()
    h, mu, named = head(), means(X, labels), NAMES[labels]
    return {
        "ctm": (typica.CTM().fit(X, named), lambda z: max(cosine(z, m) for m in mu)),
        "cw": (typica.CW(h), lambda z: max(cosine(z, w) for w in h.weight)),
        "mahalanobis": (typica.Mahalanobis().fit(X, named), lambda z: mahalanobis(z, X, labels)),
        "msp": (typica.MSP(h, temperature=5.0), lambda z: 1 / spread(logits(z), 5.0)),
        "energy": (
            typica.Energy(h, temperature=5.0),
            lambda z: max(logits(z)) + 5 * math.log(spread(logits(z), 5.0)),
        ),
        "max_logit": (typica.MaxLogit(h), lambda z: max(logits(z))),
        "bare msp": (typica.MSP(), lambda z: 1 / spread(z, 1.0)),
        "bare energy": (typica.Energy(), lambda z: max(z) + math.log(spread(z, 1.0))),
    }


def spread(values, temperature):
    return sum(math.exp((x - max(values)) / temperature) for x in values)


KINDS = sorted(references())
LARGE = (4, 5)  # rows whose squares leave float32


def scored(run: Run, detector, dialect: str, **options) -> dict:
    """Return the rows of the result by their id."""
    script = score_sql(detector, dialect, **options)
    for statement in script.setup:
        run(statement)
    return {row[0]: row[1:] for row in run(script.query)}


def check_scores(run: Run, dialect: str, kind: str, **named) -> None:
    detector, reference = references()[kind]
    Z = queries()
    found = scored(run, detector, dialect, replace=True, **named)
    verdicts = detector.judge(Z)
    assert sorted(found) == list(range(len(Z) + 4))
    for i, z in enumerate(Z):
        score, nearest = found[i][:2]
        assert score == pytest.approx(reference(z), rel=1e-6, abs=1e-6)
        assert score == pytest.approx(verdicts.score[i], rel=1e-6, abs=1e-6)
        assert nearest == verdicts.nearest[i]
        if verdicts.typical is not None:
            assert found[i][2] == verdicts.typical[i]
    width = len(found[0])
    for i in range(len(Z), len(Z) + 4):  # NULL, too short, with NULL, with NaN
        short_logits = kind.startswith("bare") and i == len(Z) + 1
        assert short_logits or found[i] == (None,) * width


def check_thresholds_of_classes(run: Run, dialect: str, **named) -> None:
    X, labels = rows_and_labels()
    numbers = labels * 10 - 30
    groups = {-30: "low", -20: "low"}
    detector = typica.CTM().fit(X, numbers)
    detector.calibrate(2 * X, by_class=True, groups=groups, alpha=0.4)
    Z = queries()
    verdicts = detector.judge(Z)
    found = scored(run, detector, dialect, replace=True, **named)
    assert len(set(verdicts.threshold)) > 3 and 0 < verdicts.n_atypical < len(Z)
    assert [found[i][2] for i in range(len(Z))] == verdicts.typical.tolist()
    assert [found[i][1] for i in range(len(Z))] == verdicts.nearest.tolist()


def check_fit(run: Run, dialect: str, train: str, **named) -> None:
    X, labels = rows_and_labels()
    script = fit_sql(dialect, table=train, features="embedding", labels="label", replace=True)
    for statement in script.setup:
        run(statement)
    found = {name: (n, mean) for name, n, mean in run(script.query)}
    assert sorted(found) == sorted(NAMES)
    for k, mean in enumerate(means(X, labels)):
        n, vector = found[NAMES[k]]
        assert n == np.sum(labels == k)
        np.testing.assert_allclose(vector, mean, rtol=1e-9)
    again = typica.CTM().partial_fit([mean for _, mean in found.values()], list(found))
    Z = queries()
    scores = scored(run, "ctm", dialect, **named)
    for i, score in enumerate(again.score_samples(Z)):
        assert scores[i][0] == pytest.approx(score, abs=1e-9)
    assert [scores[len(Z) + i][0] for i in range(4)] == [None] * 4
