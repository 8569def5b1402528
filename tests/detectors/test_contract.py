"""The contract of design, checked over every detector in the list."""

from __future__ import annotations

import copy
import pickle

import array_api_strict
import numpy as np
import pandas as pd
import pytest
import torch
from helpers.data import SMALL, Data, case, fitted, make
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import typica
from typica.testing import CHECKS

# scikit-learn's checks that a detector may fail, with the reason.
LABELS = dict.fromkeys(
    ("check_fit_score_takes_y", "check_outliers_fit_predict", "check_outliers_train"),
    "the method is defined by labels, and scikit-learn fits outlier detectors without",
)
COLUMNS = dict.fromkeys(
    (
        "check_estimators_overwrite_params",
        "check_estimators_fit_returns_self",
        "check_readonly_memmap_input",
        "check_classifier_data_not_an_array",
    ),
    "the columns are logits, one a class, and the check has labels of more classes than columns",
)
WIDTH = dict.fromkeys(
    (
        "check_estimators_overwrite_params",
        "check_estimators_fit_returns_self",
        "check_readonly_memmap_input",
        "check_n_features_in_after_fitting",
        "check_positive_only_tag_during_fit",
        "check_estimators_dtypes",
        "check_dtype_object",
        "check_pipeline_consistency",
        "check_estimators_nan_inf",
        "check_estimators_pickle",
        "check_fit2d_1feature",
    ),
    "the columns are logits, and the check has labels of another number of classes than columns",
)
BARE_LOGITS = ("msp", "doctor", "energy", "max_logit", "entropy", "gen", "margin", "kl_matching")
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    **dict.fromkeys(BARE_LOGITS, WIDTH),
    "openmax": LABELS | COLUMNS,
    "prototypes": LABELS,
    "relative_mahalanobis": LABELS,
    "rmds_pp": LABELS,
}


def tolerance(detector: typica.Detector, dtype: type) -> float:
    return detector.tags.tolerance[0 if dtype is np.float32 else 1]


def assert_close(detector, got, wanted, dtype=np.float64):
    scale = np.abs(wanted).max() + 1e-300
    np.testing.assert_allclose(
        np.asarray(got), wanted, rtol=0, atol=tolerance(detector, dtype) * scale
    )


@pytest.mark.filterwarnings(
    "ignore"
)  # scikit-learn fits on a handful of rows, which Typica warns about
def test_sklearn_estimator_checks(name):
    detector = typica.make_detector(name, **SMALL.get(name, {}))
    if detector.tags.needs_head:
        pytest.skip("a head fixes the width of the features; our own checks stand in")
    check_estimator(detector, expected_failed_checks=EXPECTED_FAILURES.get(name, {}))


def test_name_is_the_file_and_the_class_is_exported(name):
    cls = typica.detector_class(name)
    assert cls.kind == name
    assert getattr(typica, cls.__name__) is cls
    assert getattr(typica.detectors, cls.__name__) is cls
    assert cls.__name__ in typica.__all__ and cls.__name__ in typica.detectors.__all__


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(name, data: Data, check):
    check(case(name, data))


def test_half_precision_is_computed_in_single(name, data: Data):
    detector = fitted(name, data)
    half = data.test.astype(np.float16)
    np.testing.assert_array_equal(
        detector.score_samples(half), detector.score_samples(half.astype(np.float32))
    )


def test_integers_are_computed_in_double(name, data: Data):
    detector = fitted(name, data)
    whole = np.rint(data.test).astype(np.int32) + 1
    np.testing.assert_array_equal(
        detector.score_samples(whole), detector.score_samples(whole.astype(np.float64))
    )


def test_small_blocks_do_not_matter(name, data: Data, monkeypatch):
    detector = fitted(name, data)
    whole = detector.score_samples(data.test)
    matches = detector.match(data.test)
    monkeypatch.setattr("typica.arrays.BLOCK_BYTES", 700)
    assert_close(detector, detector.score_samples(data.test), whole)
    if matches is not None:
        np.testing.assert_array_equal(detector.match(data.test).nearest, matches.nearest)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("backend", ["torch", "array_api_strict"])
def test_backends_agree(name, data: Data, backend, dtype):
    detector = fitted(name, data)
    test = data.test.astype(dtype)
    wanted = detector.score_samples(test)
    xp = torch if backend == "torch" else array_api_strict
    got = detector.score_samples(xp.asarray(test))
    assert type(got) is type(xp.asarray(test))
    assert_close(detector, typica.arrays.to_numpy(got), wanted, dtype)
    np.testing.assert_array_equal(
        typica.arrays.to_numpy(detector.predict(xp.asarray(test))), detector.predict(test)
    )


def test_fit_on_tensors_equals_fit_on_arrays(name, data: Data):
    detector = make(name, data).fit(torch.asarray(data.train), torch.asarray(data.labels))
    assert_close(
        detector, detector.score_samples(data.test), fitted(name, data).score_samples(data.test)
    )


def test_gradient_flows_and_is_right(name, data: Data):
    detector = fitted(name, data)
    if not detector.tags.differentiable:
        pytest.skip("the score has no useful gradient")
    Z = torch.asarray(data.test[:5].copy(), dtype=torch.float64).requires_grad_()
    detector.score_samples(Z).sum().backward()
    assert torch.isfinite(Z.grad).all()
    step, direction = 1e-6, np.random.default_rng(1).normal(size=Z.shape)
    ahead = detector.score_samples(data.test[:5] + step * direction)
    behind = detector.score_samples(data.test[:5] - step * direction)
    slopes = (Z.grad.numpy() * direction).sum(axis=1)
    np.testing.assert_allclose(slopes, (ahead - behind) / (2 * step), rtol=1e-4, atol=1e-6)


def layouts(X, tmp_path):
    read_only = X.copy()
    read_only.flags.writeable = False
    wide = np.zeros((len(X) * 2, X.shape[1] * 2), dtype=X.dtype)
    wide[::2, ::2] = X
    np.save(tmp_path / "x.npy", X)
    return {
        "read-only": read_only,
        "Fortran": np.asfortranarray(X),
        "strided": wide[::2, ::2],
        "reversed": np.ascontiguousarray(X[::-1])[::-1],
        "memory-mapped": np.load(tmp_path / "x.npy", mmap_mode="r"),
        "big-endian": X.astype(X.dtype.newbyteorder(">")),
        "list": X.tolist(),
    }


def test_layouts_do_not_matter_and_input_is_not_written_to(name, data: Data, tmp_path):
    wanted = fitted(name, data).score_samples(data.test)
    for X in layouts(data.train, tmp_path).values():
        before = copy.deepcopy(X)
        detector = make(name, data).fit(X, data.labels)
        np.testing.assert_array_equal(np.asarray(X), np.asarray(before))
        assert_close(detector, detector.score_samples(data.test), wanted)
    detector = fitted(name, data)
    for X in layouts(data.test, tmp_path).values():
        before = copy.deepcopy(X)
        assert_close(detector, detector.score_samples(X), wanted)
        np.testing.assert_array_equal(np.asarray(X), np.asarray(before))


def test_data_frames_are_taken_with_their_column_names(name, data: Data):
    columns = [f"f{i}" for i in range(data.train.shape[1])]
    detector = make(name, data).fit(pd.DataFrame(data.train, columns=columns), data.labels)
    frame = pd.DataFrame(data.test, columns=columns)
    assert_close(
        detector, detector.score_samples(frame), fitted(name, data).score_samples(data.test)
    )
    with pytest.raises(ValueError, match="feature names should match"):
        detector.score_samples(frame[columns[::-1]])


def test_a_data_frame_is_explained_by_the_names_of_its_columns(name, data: Data):
    columns = [f"petal_{i}" for i in range(data.train.shape[1])]
    train = pd.DataFrame(data.train, columns=columns)
    detector = (
        make(name, data)
        .fit(train, data.labels)
        .calibrate(pd.DataFrame(data.held_out, columns=columns))
    )
    # A warning about names would be an error here.
    answers = detector.explain(pd.DataFrame(data.ood[:2], columns=columns))
    plain = fitted(name, data).calibrate(data.held_out).explain(data.ood[:2])
    for answer, wanted in zip(answers, plain, strict=True):
        assert answer.score == pytest.approx(wanted.score)
        for part, other in zip(answer.contributions, wanted.contributions, strict=True):
            assert part.name == f"petal_{part.feature}" and part.feature == other.feature
        if answer.contributions and not answer.typical:
            assert "petal_" in str(answer)


def test_save_and_load_give_the_same_detector(name, data: Data, tmp_path):
    detector = fitted(name, data).calibrate(data.held_out)
    path = tmp_path / "detector.safetensors"
    if not detector.tags.saveable:
        with pytest.raises(typica.InputError, match=r"only pickle can store"):
            detector.save(path)
        assert list(tmp_path.iterdir()) == []
        return
    detector.save(path)
    loaded = typica.load(path)
    assert type(loaded) is type(detector)
    np.testing.assert_array_equal(
        loaded.score_samples(data.test), detector.score_samples(data.test)
    )
    np.testing.assert_array_equal(loaded.predict(data.ood), detector.predict(data.ood))
    assert loaded.explain(data.test[:3]) == detector.explain(data.test[:3])
    assert str(loaded.get_params()) == str(detector.get_params())


def test_pickle_and_clone(name, data: Data):
    detector = fitted(name, data).calibrate(data.held_out)
    again = pickle.loads(pickle.dumps(detector))
    np.testing.assert_array_equal(again.predict(data.test), detector.predict(data.test))
    fresh = clone(detector)
    assert not hasattr(fresh, "offset_")
    assert str(fresh.get_params()) == str(detector.get_params())


def test_merge_equals_single_fit(name, data: Data):
    detector = make(name, data)
    if not detector.tags.mergeable:
        assert not hasattr(detector, "merge") and not hasattr(detector, "partial_fit")
        return
    whole = fitted(name, data)
    parts = [make(name, data).partial_fit(data.train[i::3], data.labels[i::3]) for i in range(3)]
    untouched = copy.deepcopy(parts[1])
    merged = make(name, data).merge(parts[0]).merge(parts[1]).merge(parts[2])
    assert_close(whole, merged.score_samples(data.test), whole.score_samples(data.test))
    np.testing.assert_array_equal(
        parts[1].score_samples(data.test), untouched.score_samples(data.test)
    )
    streamed = make(name, data)
    for start in range(0, len(data.train), 50):
        streamed.partial_fit(data.train[start : start + 50], data.labels[start : start + 50])
    assert_close(whole, streamed.score_samples(data.test), whole.score_samples(data.test))


def test_learning_more_invalidates_the_threshold(name, data: Data):
    detector = fitted(name, data)
    if not detector.tags.mergeable:
        return
    others = [
        lambda d: d.partial_fit(data.train, data.labels),
        lambda d: d.merge(fitted(name, data)),
    ]
    for learn_more in others:
        detector = learn_more(fitted(name, data))
        for method in (detector.predict, detector.decision_function):
            with pytest.raises(NotFittedError, match="call calibrate with held-out"):
                method(data.test)
        assert detector.explain(data.test[:1])[0].typical is None
        assert detector.calibrate(data.held_out).predict(data.test).mean() > 0


def test_merge_refuses_what_does_not_fit(name, data: Data):
    detector = fitted(name, data)
    if not detector.tags.mergeable:
        return
    with pytest.raises(typica.InputError, match=r"merge: got StandardScaler; pass another"):
        detector.merge(StandardScaler())
    with pytest.raises(NotFittedError, match="not fitted yet"):
        detector.merge(make(name, data))


def test_fit_predict_uses_the_labels(name, data: Data):
    wanted = fitted(name, data).predict(data.train)
    np.testing.assert_array_equal(make(name, data).fit_predict(data.train, data.labels), wanted)


def test_pipeline_is_calibrated_explained_and_stored(name, data: Data, tmp_path):
    if make(name, data).tags.needs_head:
        scaler = StandardScaler(with_mean=False, with_std=False)
    else:
        scaler = StandardScaler(with_mean=False)
    pipeline = make_pipeline(scaler, make(name, data)).fit(data.train, data.labels)
    assert typica.calibrate(pipeline, data.held_out, tpr=0.9) is pipeline
    np.testing.assert_array_equal(
        pipeline.predict(data.test), pipeline[-1].predict(scaler.transform(data.test))
    )
    answers = typica.explain(pipeline, data.test[:2])
    assert [answer.score for answer in answers] == pipeline.score_samples(data.test[:2]).tolist()
    if pipeline[-1].tags.saveable:
        typica.save(pipeline, tmp_path / "pipeline.safetensors")
        loaded = typica.load(tmp_path / "pipeline.safetensors")
        np.testing.assert_array_equal(loaded.predict(data.test), pipeline.predict(data.test))


def test_explain_agrees_with_scores_and_verdicts(name, data: Data):
    detector = fitted(name, data).partial_calibrate(data.held_out)
    rows = np.concatenate([data.test[:4], data.ood[:4]])
    answers = detector.explain(rows)
    np.testing.assert_allclose([a.score for a in answers], detector.score_samples(rows), rtol=1e-12)
    assert [1 if a.typical else -1 for a in answers] == detector.predict(rows).tolist()
    ranks = np.mean(
        detector.score_samples(data.held_out)[:, None] <= detector.score_samples(rows), axis=0
    )
    np.testing.assert_allclose([a.percentile for a in answers], 100 * ranks, atol=1e-9)
    matches = detector.match(rows)
    if matches is not None:
        assert [a.nearest for a in answers] == detector.classify(rows).tolist()
        assert all(a.margin >= 0 and a.nearest != a.runner_up for a in answers)
        assert f"nearest class {answers[0].nearest}" in str(answers[0])
    else:
        with pytest.raises(typica.InputError, match="matches no classes"):
            detector.classify(rows)


@pytest.mark.parametrize(
    "method", ["score_samples", "predict", "decision_function", "explain", "calibrate", "match"]
)
def test_unfitted_use_is_refused(name, data: Data, method):
    detector = make(name, data)
    if not detector.tags.needs_fit:
        if method in ("predict", "decision_function"):
            with pytest.raises(
                NotFittedError, match=f"{type(detector).__name__}.{method}: there is no threshold"
            ):
                getattr(detector, method)(data.test)
        return
    with pytest.raises(
        NotFittedError, match=f"{type(detector).__name__}.{method}: .* not fitted yet; call fit"
    ):
        getattr(detector, method)(data.test)


@pytest.mark.parametrize("method", ["fit", "score_samples", "predict", "explain", "calibrate"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_named(name, data: Data, method, bad):
    detector = make(name, data) if method == "fit" else fitted(name, data)
    rows = data.train.copy()
    rows[17, 3] = bad
    with pytest.raises(
        typica.InputError, match=rf"{type(detector).__name__}.{method}: row 17 .* NaN or infinity"
    ):
        getattr(detector, method)(rows) if method != "fit" else detector.fit(rows, data.labels)


def test_a_failed_fit_leaves_nothing_behind(name, data: Data):
    bad = np.where(np.arange(len(data.train))[:, None] == 5, np.nan, data.train)
    detector = fitted(name, data)
    methods = [detector.fit, *([make(name, data).partial_fit] if detector.tags.mergeable else [])]
    for learn in methods:
        with pytest.raises(typica.InputError, match="row 5"):
            learn(bad, data.labels)
        if detector.tags.needs_fit:
            with pytest.raises(NotFittedError, match="not fitted yet"):
                learn.__self__.score_samples(data.test)


@pytest.mark.parametrize("method", ["score_samples", "predict", "explain", "calibrate", "match"])
def test_wrong_shapes_are_refused(name, data: Data, method):
    detector = fitted(name, data)
    call, where = getattr(detector, method), f"{type(detector).__name__}.{method}"
    width = data.test.shape[1]
    with pytest.raises(
        typica.InputError, match=rf"{where}: X has 3 features, .* expecting {width} features"
    ):
        call(data.test[:, :3])
    with pytest.raises(
        typica.InputError,
        match=rf"{where}: .* shape \({width},\) .* a single input is x\[None, :\]",
    ):
        call(data.test[0])
    with pytest.raises(typica.InputError, match=rf"{where}: 0 feature"):
        call(data.test[:, :0])
    if method == "calibrate":
        with pytest.raises(typica.InputError, match=rf"{where}: 0 sample"):
            call(data.test[:0])
    with pytest.raises(
        typica.InputError, match=rf"{where}: expected an array of features, got None"
    ):
        call(None)


def test_a_head_is_asked_for(name, data: Data):
    cls = typica.detector_class(name)
    if not cls.tags.needs_head:
        return
    with pytest.raises(typica.InputError, match=r"no head; pass head=typica.Head"):
        cls().fit(data.train, data.labels)
    with pytest.raises(typica.InputError, match=r"head is a list; pass typica.Head"):
        cls(head=[1, 2]).fit(data.train, data.labels)
    with pytest.raises(typica.InputError, match=r"X has 5 features"):
        make(name, data).fit(data.train[:, :5], data.labels)


def test_features_in_place_of_logits_are_told_where_labels_may_lack_classes(data: Data):
    told = "OpenMax.fit: no head, and labels of 4 classes; X is taken as logits of 12 classes"
    with pytest.warns(typica.InputWarning, match=told):
        typica.OpenMax().fit(np.abs(data.train) + 20 * np.eye(12)[data.labels], data.labels)


@pytest.mark.parametrize("name", BARE_LOGITS)
def test_features_are_not_taken_for_logits(name, data: Data):
    detector = typica.make_detector(name)
    labels_of_4 = rf"{type(detector).__name__}.fit: labels of 4 classes and 12 columns, which would"
    with pytest.raises(
        typica.InputError, match=labels_of_4 + r".* head=typica.Head\(weight, bias\)"
    ):
        detector.fit(data.train, data.labels)
    with pytest.raises(typica.InputError, match="labels of 4 classes and 12 columns"):
        detector.fit(data.train, data.labels.astype(str))
    logits = data.head.logits(data.train)
    assert detector.fit(logits, data.labels).classes_.tolist() == [0, 1, 2, 3]
    if detector.tags.mergeable:
        detector.partial_fit(logits, np.zeros(len(logits)))  # a batch may lack classes
    if not detector.tags.needs_fit:
        with pytest.warns(typica.InputWarning, match=r"fit: no head and no labels; .* 4 classes"):
            detector.fit(logits)


def test_a_bank_tells_which_of_its_rows_are_logits(data: Data, tmp_path):
    few = data.labels < 3
    logits = data.head.logits(data.train)[few]
    rows = {"labels": data.labels[few], "classes": list("abcd")}
    known = typica.write_bank(tmp_path / "a.bank", data.train[few], logits=logits, **rows)
    assert typica.MSP().fit(known).classes_.tolist() == [0, 1, 2, 3]
    unknown = typica.write_bank(tmp_path / "b.bank", data.train[few], **rows)
    with pytest.raises(typica.InputError, match="the bank has no logits; pass head="):
        typica.MSP().fit(unknown)


def test_a_fitted_detector_says_what_it_knows(name, data: Data):
    unfitted = make(name, data)
    assert repr(unfitted).startswith(f"{type(unfitted).__name__}(")  # scikit-learn's own
    detector = fitted(name, data)
    assert repr(detector).startswith(type(detector).__name__)
    assert repr(detector).endswith(
        f"12 features, threshold {detector.offset_:.4g} from training rows"
    )
    detector.calibrate(data.held_out, tpr=0.9)
    n = 60 if hasattr(detector, "member_scores") else 120  # the other half is compared with
    threshold = f"threshold {detector.offset_:.4g}, keeps 90 % (n={n})"
    assert repr(detector).endswith(threshold) and "\n" not in repr(detector)
    assert repr(clone(detector)) == repr(unfitted)


def test_p_values_are_of_the_kind_of_the_input(data: Data):
    detector = fitted("ctm", data).calibrate(data.held_out)
    wanted = detector.p_values(data.test)
    assert isinstance(wanted, np.ndarray)
    for get in (detector.p_values, lambda X: typica.p_values(detector, X)):
        found = get(torch.asarray(data.test))
        assert isinstance(found, torch.Tensor) and found.dtype == torch.float64
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_the_line_names_classes_and_parameters(data: Data):
    ctm = fitted("ctm", data).calibrate(data.held_out)
    assert repr(ctm).startswith("CTM: 4 classes, 12 features, threshold 0.")
    assert repr(fitted("knn", data)).startswith("KNN(k=3): ")
    with pytest.warns(typica.CalibrationWarning, match="share one threshold"):
        ctm.calibrate(data.held_out, by_class=True)
    assert "thresholds by class, keeps 95 %" in repr(ctm)


def test_foreign_things_are_refused(data: Data, tmp_path):
    for call in (typica.calibrate, typica.explain):
        with pytest.raises(typica.InputError, match="StandardScaler is not a detector"):
            call(StandardScaler(), data.test)
    pipeline = make_pipeline(FunctionTransformer(), typica.CTM()).fit(data.train, data.labels)
    with pytest.raises(
        typica.InputError, match="a FunctionTransformer cannot be stored without pickle"
    ):
        typica.save(pipeline, tmp_path / "x.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [np.asarray, torch.asarray], ids=["numpy", "torch"])
def test_no_rows_give_no_verdicts(name, data: Data, kind):
    detector = fitted(name, data).calibrate(data.held_out)
    none, some = kind(data.test[:0]), kind(data.test[:2])
    for method in ("score_samples", "decision_function", "predict", "p_values"):
        found, like = getattr(detector, method)(none), getattr(detector, method)(some)
        assert tuple(found.shape) == (0,) and type(found) is type(like)
        assert found.dtype == like.dtype
    assert detector.discoveries(none).tolist() == detector.explain(none) == []
    verdicts = detector.judge(none)
    assert list(verdicts) == [] and set(verdicts.to_dict()) == set(detector.judge(some).to_dict())
    assert not any(verdicts.to_dict().values()) and len(verdicts.to_pandas()) == 0
    assert repr(verdicts) == "0 verdicts: 0 typical, 0 atypical" and verdicts._repr_html_()
    assert len(verdicts.sort()) == len(verdicts.only("typical")) == verdicts.n_atypical == 0
    assert len(detector.judge(none, fdr=0.1)) == 0
    assert len(detector.judge(none, groups=[])) == 0


def test_no_rows_are_still_too_few_to_learn_from(name, data: Data):
    detector = fitted(name, data)
    with pytest.raises(typica.InputError, match="0 sample"):
        detector.fit(data.train[:0], data.labels[:0])
    if detector.tags.mergeable:
        with pytest.raises(typica.InputError, match="0 sample"):
            fitted(name, data).partial_fit(data.train[:0], data.labels[:0])
    with pytest.raises(typica.InputError, match="0 sample"):
        fitted(name, data).partial_calibrate(data.test[:0])
