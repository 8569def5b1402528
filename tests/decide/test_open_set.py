"""A classifier that may say unknown."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator

import typica
from typica import CTM, InputError, Mahalanobis, OpenSetClassifier

# Checks that predictions are classes, and the most probable ones.
REASON = "a share alpha of the known rows is called unknown, which is not a class"
EXPECTED = dict.fromkeys(["check_classifiers_classes", "check_classifiers_train"], REASON)


def blobs(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return make_blobs(600, 4, centers=3, random_state=seed)


def model(**options: object) -> OpenSetClassifier:
    return OpenSetClassifier(LogisticRegression(max_iter=500), Mahalanobis(), **options)


@pytest.mark.filterwarnings("ignore::typica.CalibrationWarning")  # of a few rows, which checks use
@pytest.mark.parametrize(("alpha", "expected"), [(1e-6, {}), (0.05, EXPECTED)])
def test_scikit_learns_own_checks_pass(alpha, expected):
    """With an alpha so small that nothing is unknown all of them, else all but two."""
    checked = model(alpha=alpha, unknown=-9)  # one check has a class -1
    check_estimator(checked, expected_failed_checks=expected, on_skip=None)


@pytest.mark.parametrize(
    ("names", "unknown"), [([0, 1, 2], -1), (["a", "bb", "c"], "unknown"), ([0.0, 1.0, 2.0], -1)]
)
def test_far_rows_are_unknown_and_the_others_keep_their_class(names, unknown):
    X, y = blobs()
    classes = np.array(names)[y]
    fitted = model().fit(X, classes)
    own = LogisticRegression(max_iter=500).fit(X, classes)
    said = fitted.predict(X)
    known = said != unknown
    assert 0.9 < known.mean() < 1
    assert (said[known] == own.predict(X)[known]).all()
    assert fitted.predict(X + 1000).tolist() == [unknown] * len(X)
    assert (fitted.predict_proba(X) == own.predict_proba(X)).all()
    assert (fitted.decision_function(X) == own.decision_function(X)).all()
    assert fitted.classes_.tolist() == names


def test_p_values_are_those_of_the_rows_held_out():
    X, y = blobs()
    fitted = model(held_out=0.25).fit(X, y)
    assert fitted.detector_.calibration_.n == sum(int(0.25 * (y == k).sum()) for k in range(3))
    fresh, _ = make_blobs(4000, 4, centers=3, random_state=0)
    p = fitted.p_values(fresh[600:])
    assert abs((p <= 0.2).mean() - 0.2) < 0.08
    assert ((p <= 0.05) == (fitted.predict(fresh[600:]) == -1)).all()
    assert fitted.judge(X[:3]).typical.tolist() == (fitted.predict(X[:3]) != -1).tolist()


def test_without_rows_held_out_the_threshold_is_provisional():
    X, y = blobs()
    fitted = model(held_out=0).fit(X, y)
    assert 0.9 < (fitted.predict(X) != -1).mean() < 1
    with pytest.raises(InputError, match=r"no rows were held out to calibrate on; fit with held_o"):
        fitted.p_values(X)


@pytest.mark.parametrize("unknown", ["unknown", "1"])
def test_numbers_stay_numbers_beside_a_word_for_unknown(unknown):
    X, y = blobs()
    fitted, usual = model(unknown=unknown).fit(X, y), model().fit(X, y)
    said, wanted = fitted.predict(X), usual.predict(X)
    assert said.tolist() == [unknown if name == -1 else name for name in wanted.tolist()]
    assert fitted.score(X, y) == usual.score(X, y) == np.mean(wanted == y)
    weights = np.where(y == 0, 1.0, 0.0)
    assert fitted.score(X, y, weights) == np.mean(wanted[y == 0] == 0)


def test_a_share_may_be_text_as_everywhere():
    X, y = blobs()
    texts, floats = (model(held_out=share, alpha=share).fit(X, y) for share in ("0.2", 0.2))
    assert texts.predict(X).tolist() == floats.predict(X).tolist()


def test_pipelines_and_searches():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), CTM())
    search = GridSearchCV(
        OpenSetClassifier(LogisticRegression(max_iter=500), pipeline),
        {"alpha": [0.05, 0.4], "detector__ctm__correct_only": [False]},
    )
    assert search.fit(X, y).best_params_["alpha"] == 0.05


def test_bad_input_is_named():
    X, y = blobs()
    for wrong, message in (
        (model(unknown=1), "unknown=1 is one of the classes; pass another word"),
        (model(alpha=2), "alpha"),
        (model(held_out=1.0), "held_out"),
        (model(seed=-1), "seed"),
        (OpenSetClassifier(LogisticRegression(), StandardScaler()), "is not a detector"),
    ):
        with pytest.raises(InputError, match=message):
            wrong.fit(X, y)
    with pytest.raises(InputError, match="unknown='unknown' is one of the classes"):
        model().fit(X, np.array(["known", "unknown", "other"])[y])
    with pytest.raises(InputError, match="no usual word for unknown; pass one"):
        model().fit(X, y == 1)
    assert typica.OpenSetClassifier is OpenSetClassifier


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("make", [typica.MSP, typica.Energy, typica.NNGuide])
def test_a_detector_of_logits_takes_the_head_of_the_linear_classifier(classes, make):
    rng = np.random.default_rng(0)
    y = np.arange(300) % classes
    X = 3 * np.eye(4)[y] + rng.normal(size=(300, 4))
    model = OpenSetClassifier(LogisticRegression(), make()).fit(X, np.array(["a", "b", "c"])[y])
    assert model.detector_.head.classes.tolist() == ["a", "b", "c"][:classes]
    probabilities = model.predict_proba(X)
    if make is typica.MSP:
        np.testing.assert_allclose(model.judge(X).score, probabilities.max(axis=1), rtol=1e-9)
    assert model.detector.head is None  # the one that was given stays as it is


def test_a_head_that_was_given_stays_and_other_classifiers_have_none():
    y = np.arange(150) % 3
    X = np.eye(3)[y] + 0.1 * np.random.default_rng(0).normal(size=(150, 3))
    own = typica.Head(2 * np.eye(3))
    model = OpenSetClassifier(LogisticRegression(), typica.MSP(own)).fit(X, y)
    np.testing.assert_array_equal(model.detector_.head.weight, own.weight)
    model = OpenSetClassifier(KNeighborsClassifier(3), typica.MSP())
    assert model.fit(X, y).detector_.head is None  # X is taken as logits


def test_both_of_two_classes_have_logits_that_grow_with_certainty():
    X = np.repeat([[-3.0, 0.0], [3.0, 0.0]], 100, axis=0) + np.random.default_rng(0).normal(
        size=(200, 2)
    )
    model = OpenSetClassifier(LogisticRegression(), typica.MaxLogit()).fit(X, 1 * (X[:, 0] > 0))
    scores = model.judge(X).score
    assert len(np.unique(scores)) == len(X) and scores[:100].mean() > 0


@pytest.mark.parametrize("classes", [3, 4])
def test_rows_that_tell_two_classes_apart_are_no_head(classes):
    y = np.arange(160) % classes
    X = 3 * np.eye(classes)[y] + np.random.default_rng(0).normal(size=(160, classes))
    model = OpenSetClassifier(SVC(kernel="linear"), typica.MSP())
    assert model.fit(X, y).detector_.head is None
