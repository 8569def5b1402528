"""What estimators share: one rule for what is derived, and which of them may be merged."""

from __future__ import annotations

import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from helpers.data import Data
from sklearn.base import clone

import typica
from typica import (
    BATS,
    CTM,
    CW,
    DICE,
    KNN,
    LOF,
    NAC,
    PCA,
    SHE,
    CADRef,
    CARef,
    Ensemble,
    Head,
    InfluenceKernel,
    InputError,
    IsolationForest,
    KLMatching,
    LayerEnsemble,
    Mahalanobis,
    MDSpp,
    NNGuide,
    OpenMax,
    Quorum,
    RelativeMahalanobis,
    Residual,
    RMDSpp,
    ViM,
    WeiPer,
)

METHODS = [
    *((typica.make_detector, name) for name in typica.list_detectors()),
    *((typica.make_rectifier, name) for name in typica.list_rectifiers()),
]


def fitted(make, name, data: Data):
    method = make(name)
    if method.tags.needs_head:
        method.set_params(head=data.head)
    elif method.tags.reads == "logits":
        return method.fit(data.head.logits(data.train), data.labels)
    return method.fit(data.train, data.labels)


def used(method, data: Data):
    use = method.transform if hasattr(method, "transform") else method.score_samples
    wants_logits = method.tags.reads == "logits" and method.head is None
    return use(data.head.logits(data.test) if wants_logits else data.test)


def private(method) -> set[str]:
    """Private attributes; the forest is learnt but cannot be stored, the width is the input's."""
    others = {"_forest", "_width", "_decided_with", "_learnt_with"}
    return {name for name in vars(method) if name.startswith("_")} - others


@pytest.mark.parametrize(("make", "name"), METHODS, ids=[name for _, name in METHODS])
def test_what_is_derived_is_neither_pickled_nor_copied_and_soon_made_again(make, name, data: Data):
    method = fitted(make, name, data)
    wanted = used(method, data)
    for again in (
        copy.copy(method),
        copy.deepcopy(method),
        pickle.loads(pickle.dumps(method)),
    ):
        assert private(again) == set()
        np.testing.assert_array_equal(used(again, data), wanted)
    method._drop_derived()
    assert private(method) == set()
    np.testing.assert_array_equal(used(method, data), wanted)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (KNN(k=3), {"k": 30}),
        (LOF(k=5), {"k": 30}),
        (Residual(dim=2), {"dim": 5}),
        (PCA(n_components=2), {"n_components": 3}),
        (DICE("head", percentile=50), {"percentile": 90}),
        (CW("head"), {"head": "reversed"}),
        (NNGuide("head", k=3, subsample=None), {"head": "reversed"}),
        (InfluenceKernel("head"), {"exact": False}),
    ],
    ids=str,
)
def test_a_parameter_that_changes_what_is_derived_counts_at_once(first, other, data: Data):
    heads = {"head": data.head, "reversed": Head(data.head.weight[::-1] + 1, data.head.bias)}

    def with_heads(params):
        return {k: heads.get(v, v) if k == "head" else v for k, v in params.items()}

    method = first.set_params(**with_heads(first.get_params(deep=False)))
    before = used(method.fit(data.train, data.labels), data)
    changed = used(method.set_params(**with_heads(other)), data)
    fresh = type(method)(**method.get_params(deep=False)).fit(data.train, data.labels)
    np.testing.assert_array_equal(changed, used(fresh, data))
    assert changed.shape != before.shape or not np.array_equal(changed, before)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (NAC("head"), {"bins": 10}),
        (NAC("head"), {"alpha": 1.0}),
        (MDSpp(exponent=0.0), {"exponent": 1.0}),
        (RMDSpp(), {"exponent": 0.5}),
        (ViM("head", dim=2), {"dim": 4}),
        (OpenMax("head"), {"distance": "euclidean"}),
        (CARef("head"), {"head": "reversed"}),
        (CADRef("head"), {"head": "reversed"}),
        (SHE("head"), {"head": "reversed"}),
        (KLMatching("head"), {"head": "reversed"}),
        (CTM("head"), {"correct_only": True}),
        (CTM("head", correct_only=True), {"head": "reversed"}),
        (WeiPer("head", repeats=3, bins=20), {"bins": 10}),
        (KNN(k=3, subsample=0.5), {"subsample": None}),
        (Mahalanobis(), {"shrinkage": "ledoit_wolf"}),
        (IsolationForest(), {"trees": 3}),
        (Ensemble(), {"members": [KNN()]}),
        (LayerEnsemble(), {"detector": "ctm"}),
    ],
    ids=str,
)
def test_a_parameter_that_the_fit_went_by_cannot_change_after_it(first, other, data: Data):
    heads = {"head": data.head, "reversed": Head(data.head.weight[::-1] + 1, data.head.bias)}

    def with_heads(params):
        return {k: heads.get(v, v) if k == "head" else v for k, v in params.items()}

    method = clone(first).set_params(**with_heads(first.get_params(deep=False)))
    method.fit(data.train, data.labels)
    given = {name: method.get_params(deep=False)[name] for name in other}
    scores = method.score_samples(data.test)
    for known in (method, pickle.loads(pickle.dumps(method))):
        known.set_params(**with_heads(other))
        for use in (known.score_samples, known.calibrate):
            with pytest.raises(
                InputError, match=f"{next(iter(other))}.* was set after the fit; call"
            ):
                use(data.test)
        known.set_params(**given)
        np.testing.assert_array_equal(known.score_samples(data.test), scores)


def test_what_other_parameters_learnt_is_neither_stored_nor_mixed(data: Data, tmp_path):
    detector = NAC(data.head).partial_fit(data.train)
    detector.set_params(bins=10)
    for use in (
        lambda: detector.partial_fit(data.train),
        lambda: detector.merge(NAC(data.head, bins=10).fit(data.train)),
        lambda: detector.save(tmp_path / "nac.safetensors"),
    ):
        with pytest.raises(InputError, match="bins was set after the fit; call fit again"):
            use()
    detector.set_params(bins=50).save(tmp_path / "nac.safetensors")
    loaded = typica.load(tmp_path / "nac.safetensors").set_params(bins=10)
    with pytest.raises(InputError, match="bins was set after the fit"):
        loaded.score_samples(data.test)


def test_a_refused_batch_changes_nothing(data: Data):
    rows = np.tile(data.train, (12, 1))  # so many that the threshold comes from a sample, later
    detector = CTM().fit(rows, np.tile(data.labels, 12))
    bad = np.full((2, data.train.shape[1]), np.nan)
    with pytest.raises(InputError, match="row 0 of the features holds NaN"):
        detector.partial_fit(bad, [0, 1])
    with pytest.raises(InputError, match="labels are strings after integers"):
        detector.merge(CTM().fit(data.train, data.labels.astype(str)))
    fresh = CTM().fit(rows, np.tile(data.labels, 12))
    assert detector.offset_ == fresh.offset_


def test_columns_in_another_order_are_an_input_error(data: Data):
    names = [f"f{i}" for i in range(data.train.shape[1])]
    frame = pd.DataFrame(data.train, columns=names)
    detector = CTM().fit(frame, data.labels)
    for call in ("score_samples", "partial_fit"):
        with pytest.raises(InputError, match=rf"CTM.{call}: The feature names should match"):
            getattr(detector, call)(frame[names[::-1]])


def test_a_dtype_that_changes_between_calls_meets_its_own_copy(data: Data):
    detector = CTM().fit(data.train, data.labels)
    for dtype in (np.float32, np.float64, np.float32):
        scores = detector.score_samples(data.test.astype(dtype))
        assert scores.dtype == dtype
        np.testing.assert_allclose(scores, detector.score_samples(data.test), atol=1e-6)


@pytest.mark.parametrize("kind", [Mahalanobis, RelativeMahalanobis, RMDSpp, Quorum, CARef])
def test_threads_that_ask_first_all_get_an_answer(kind, data: Data):
    detector = kind(data.head) if kind.tags.needs_head else kind()
    detector.fit(data.train, data.labels)
    wanted = detector.score_samples(data.test)
    pickled = pickle.dumps(detector)
    switch = sys.getswitchinterval()
    try:
        sys.setswitchinterval(1e-6)  # so that threads meet in the middle of what they derive
        for _ in range(20):
            loaded = pickle.loads(pickled)
            with ThreadPoolExecutor(8) as pool:
                for scores in pool.map(loaded.score_samples, [data.test] * 16):
                    np.testing.assert_array_equal(scores, wanted)
    finally:
        sys.setswitchinterval(switch)


@pytest.mark.parametrize("method", [CTM(), BATS()], ids=str)
def test_merge_goes_by_the_names_of_columns(method, data: Data):
    pandas = pytest.importorskip("pandas")
    names = [f"unit {i}" for i in range(data.train.shape[1])]
    frame = pandas.DataFrame(data.train, columns=names)
    one, whole = (clone(method).fit(frame, data.labels) for _ in range(2))
    for blank in (clone(method).merge(whole), clone(method).merge(whole).merge(one)):
        assert list(blank.feature_names_in_) == names
    reordered = clone(method).fit(frame[names[::-1]], data.labels)
    message = rf"merge: column 0 is 'unit 0' here, '{names[-1]}' there; fit both on the same"
    with pytest.raises(InputError, match=message):
        one.merge(reordered)
    unnamed = clone(method).fit(data.train, data.labels)
    assert list(one.merge(unnamed).feature_names_in_) == names
    assert not hasattr(unnamed.merge(whole), "feature_names_in_")


@pytest.mark.parametrize("method", [CTM(), BATS(), KNN(k=3)], ids=str)
def test_merge_with_itself_is_refused(method, data: Data):
    method.fit(data.train, data.labels)
    before = used(method, data)
    with pytest.raises(
        InputError,
        match=r"merge: it cannot merge with itself: its rows would count twice; pass ano",
    ):
        method.merge(method)
    np.testing.assert_array_equal(used(method, data), before)


def test_settings_of_scikit_learn_survive(data: Data):
    rectifier = PCA(n_components=2).set_output(transform="pandas").fit(data.train)
    again = pickle.loads(pickle.dumps(rectifier.set_params(n_components=3)))
    assert list(again.transform(data.test).columns) == ["pca0", "pca1", "pca2"]


def test_a_refused_data_frame_leaves_a_detector_as_it_was(data: Data):
    good = pd.DataFrame(data.train[:, :4], columns=list("abcd"))
    bad = pd.DataFrame(data.train[:, :4], columns=list("dcba")).astype(object)
    bad.iloc[3, 1] = "text"
    detector = CTM().fit(good, data.labels)
    before = detector.score_samples(good)
    with pytest.raises(InputError):
        detector.fit(bad, data.labels)
    np.testing.assert_array_equal(detector.score_samples(good), before)
    blank = CTM()
    for learn in (blank.fit, blank.partial_fit):
        with pytest.raises(InputError):
            learn(bad, data.labels)
    with pytest.raises(InputError, match="is not fitted yet"):
        blank.score_samples(good)
    blank.partial_fit(good, data.labels)


def test_arrays_need_no_names_where_these_came_from_a_file(data: Data, tmp_path):
    frame = pd.DataFrame(data.train, columns=[f"f{i}" for i in range(data.train.shape[1])])
    detector = CTM().fit(frame, data.labels)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        detector.score_samples(data.test)
    detector.save(tmp_path / "d.safetensors")
    read = typica.load(tmp_path / "d.safetensors")
    read.score_samples(data.test)  # and no warning, which would be an error here
    with pytest.raises(InputError, match="feature names"):
        read.score_samples(frame[frame.columns[::-1]])
    with pytest.raises(InputError, match=r"5 features"):
        CTM().fit(data.train[:, :3]).score_samples(frame[frame.columns[:5]])


class LazyFrame:
    """What the lazy frame of polars has."""

    def lazy(self):
        return self

    def collect(self):
        return np.eye(4)


class Column(list):
    """What a column of a Hugging Face data set has: rows, and the types of columns."""

    features = "List(Value('float32'))"


def test_a_lazy_frame_is_to_be_collected_and_a_column_of_a_data_set_is_rows():
    fitted = typica.CTM().fit(np.eye(4).repeat(5, 0), np.arange(20) // 5)
    for call in (fitted.score_samples, fitted.judge, typica.CTM().fit, typica.scale.fit):
        more = (LazyFrame(),) if call is not typica.scale.fit else (typica.CTM(), LazyFrame())
        with pytest.raises(
            typica.InputError, match=r"got a LazyFrame, .* what its \.collect\(\) gives"
        ):
            call(*more)
    rows = Column(np.eye(4).tolist())
    np.testing.assert_array_equal(fitted.score_samples(rows), fitted.score_samples(np.eye(4)))
