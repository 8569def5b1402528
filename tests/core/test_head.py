"""The last linear layer and the names of its classes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.data import Data
from sklearn.linear_model import LogisticRegression

import typica


@pytest.mark.parametrize(
    "classes", [np.array(["cat", "dog"], dtype=object), np.array([3, 7], dtype=object)]
)
def test_class_names_may_be_python_objects_as_pandas_has_them(classes):
    head = typica.Head(np.eye(2), None, classes)
    assert head.classes.tolist() == classes.tolist() and head.classes.dtype.kind in "iU"
    assert head == typica.Head(np.eye(2), None, classes.tolist())


@pytest.mark.parametrize(
    "classes", [np.array(["a", 1], dtype=object), np.array([1.5, 2.5], dtype=object), [1.5, 2.5]]
)
def test_other_objects_are_no_names(classes):
    with pytest.raises(typica.InputError, match=r"Head: class names of type .*; pass integers or"):
        typica.Head(np.eye(2), None, classes)


def test_the_one_row_of_a_binary_classifier_is_that_of_both_classes():
    rng = np.random.default_rng(0)
    labels = np.array(["cat", "dog"])[np.arange(80) % 2]
    rows = rng.normal(size=(80, 5)) + 2 * np.eye(5)[np.arange(80) % 2]
    classifier = LogisticRegression().fit(rows, labels)
    head = typica.Head(classifier.coef_, classifier.intercept_, classifier.classes_)
    assert head.classes.tolist() == ["cat", "dog"] and head == typica.Head(**head.state())
    np.testing.assert_array_equal(head.predict(rows), classifier.predict(rows))
    largest = classifier.predict_proba(rows).max(axis=1)
    np.testing.assert_allclose(typica.MSP(head).score_samples(rows), largest)
    with pytest.raises(typica.InputError, match=r"names of shape \(3,\) for 1 rows of the weight"):
        typica.Head(classifier.coef_, classifier.intercept_, ["a", "b", "c"])
    with pytest.raises(typica.InputError, match="pass one distinct name per row"):
        typica.Head(classifier.coef_, classifier.intercept_, ["a", "a"])


def test_features_of_another_width_are_named():
    head = typica.Head(np.eye(4))
    for use in (head.logits, head.predict):
        with pytest.raises(
            typica.InputError, match=r"Head\.\w+: the head takes 4 features per row, and"
        ):
            use(np.ones((2, 3)))


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.bool_, object])
def test_features_that_are_no_floats_meet_the_weights_as_they_are(dtype):
    head = typica.Head([[0.5, 0.5], [0.2, 0.9]], [0.25, 0.0])
    rows = np.array([[1, 0], [0, 1]])
    wanted = head.logits(rows.astype(np.float64))
    np.testing.assert_array_equal(head.logits(rows.astype(dtype)), wanted)
    np.testing.assert_array_equal(head.logits(rows.tolist()), wanted)
    np.testing.assert_array_equal(head.predict(rows.astype(dtype)), [0, 1])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_logits_have_the_precision_of_the_features(dtype):
    assert typica.Head(np.eye(2)).logits(np.ones((3, 2), dtype=dtype)).dtype == dtype


def test_what_is_no_matrix_is_refused_in_words():
    head = typica.Head(np.eye(2))
    with pytest.raises(
        typica.InputError, match=r"Head.logits: features of shape \(2,\) have 1 dim"
    ):
        head.logits(np.ones(2))
    with pytest.raises(
        typica.InputError, match=r"Head.predict: expected an array of features, got"
    ):
        head.predict("rows.npy")
    with pytest.raises(typica.InputError, match=r"Head: the weight: the rows do not form a matrix"):
        typica.Head([[1.0, 2.0], [1.0]])


@pytest.mark.parametrize(
    "kind",
    [lambda head: typica.CTM(head, correct_only=True), typica.Quorum, typica.InfluenceKernel],
)
def test_labels_and_classes_are_of_one_kind(kind, data: Data):
    head = typica.Head(data.head.weight, data.head.bias)
    texts = np.array([f"kind {label}" for label in data.labels])
    message = (
        r"labels are texts such as kind \d, the head's classes numbers such as 0; pass head\.named"
    )
    with pytest.raises(typica.InputError, match=message):
        kind(head).fit(data.train, texts)
    named = typica.Head(data.head.weight, data.head.bias, [f"kind {i}" for i in range(4)])
    with pytest.raises(
        typica.InputError, match=r"labels are numbers such as \d, the head's classes texts"
    ):
        kind(named).fit(data.train, data.labels)
    kind(named).fit(data.train, texts)
