"""A guarded model gives what model and detector give apart, in one pass, for every detector."""

from __future__ import annotations

import copy
import io
import threading
import warnings

import numpy as np
import pytest
import torch
from helpers.data import Data, fitted, make_data
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.pipeline import make_pipeline
from torch import nn

import typica
from typica.cosines import max_cosine
from typica.nets import FeatureExtractor, Guard
from typica.rectify.react import ReAct


def classifier(data: Data, dtype: torch.dtype = torch.float32) -> nn.Module:
    """A network whose penultimate features are its (positive) input, with the data's head."""
    head = nn.Linear(*data.head.weight.shape[::-1])
    with torch.no_grad():
        head.weight.copy_(torch.tensor(data.head.weight))
        head.bias.copy_(torch.tensor(data.head.bias))
    return nn.Sequential(nn.ReLU(), nn.Dropout(0.5), head).to(dtype)


def rows(data: Data, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([data.test[:40], data.ood[:40]])).to(dtype)


def test_every_detector_decides_as_it_does_alone(name, data):
    detector = fitted(name, data)
    model = classifier(data)
    x = rows(data)
    with torch.no_grad():
        got = Guard(model, detector)(x)
        assert torch.equal(got.logits, model.eval()(x))
    expected = torch.as_tensor(detector.score_samples(x))
    scale = max(float(expected.abs().max()), 1.0)
    assert torch.allclose(got.score, expected, rtol=1e-5, atol=1e-6 * scale)
    certain = (expected - detector.offset_).abs() > 1e-5 * scale
    assert torch.equal(got.typical[certain], torch.as_tensor(detector.predict(x))[certain] == 1)
    assert got.typical.dtype == torch.bool and got.score.shape == got.typical.shape == (80,)


def test_p_values_are_the_detectors_own(name, data):
    detector = fitted(name, data).calibrate(data.held_out)
    x = rows(data, torch.float64)
    got = Guard(classifier(data, torch.float64), detector)(x)
    wanted = detector.p_values(x)
    # Rounding may put a score before or behind one calibration score.
    assert (got.p_value - wanted).abs().max() <= 1.5 / (len(data.held_out) + 1)
    assert (got.p_value == wanted).double().mean() > 0.95
    assert torch.equal(got.typical, got.p_value > 0.05)


def test_without_a_calibration_there_is_no_p_value(data):
    assert Guard(classifier(data), fitted("ctm", data))(rows(data)).p_value is None


def test_a_guard_takes_in_as_many_calibration_scores_as_are_stored(data):
    one, other = (
        Guard(classifier(data), fitted("ctm", data).calibrate(data.held_out[:n])) for n in (120, 50)
    )
    state = one.state_dict()
    other.load_state_dict(state)
    assert torch.equal(other(rows(data)).p_value, one(rows(data)).p_value)
    del state["known_scores"]  # as those of before had none
    other.load_state_dict(state)
    assert other(rows(data)).p_value is None


def test_detectors_of_logits_read_the_models_own(data):
    x = rows(data)
    model = classifier(data)
    detector = typica.MSP().fit(data.head.logits(data.train), data.labels)
    with torch.no_grad():
        got = Guard(model, detector)(x)
        assert torch.allclose(got.score, torch.softmax(model(x), 1).max(1).values)
    assert set(got.typical.tolist()) == {True, False}


def test_pipelines(data):
    pipeline = make_pipeline(ReAct(), typica.make_detector("energy", head=data.head)).fit(
        data.train, data.labels
    )
    typica.calibrate(pipeline, data.held_out)
    x = rows(data, torch.float64)
    got = Guard(classifier(data, torch.float64), pipeline)(x)
    assert np.allclose(got.score.detach().numpy(), pipeline.score_samples(x.numpy()))
    assert np.array_equal(got.typical.numpy(), got.score.detach().numpy() >= pipeline[-1].offset_)


def test_features_of_another_layer(data):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 4),
    )
    x = torch.randn(40, 3, 6, 6)
    extractor = FeatureExtractor(model, "0")
    Z = extractor(x).features
    detector = typica.CTM().fit(Z, np.arange(40) % 4)
    got = Guard(extractor, detector)(x)
    with torch.no_grad():
        assert torch.allclose(got.logits, model(x))
    assert torch.allclose(got.score, detector.score_samples(Z), atol=1e-6)


@settings(max_examples=50)
@given(
    hnp.arrays(np.float64, (4, 5), elements=st.floats(-1e150, 1e150)),
    st.sampled_from([1e-300, 1e-150, 1.0]),
)
def test_the_kernel_without_branches_is_the_cosine(Z, scale):
    """Against float128 where NumPy has it: squares that overflow or underflow must not show."""
    Z = Z * scale
    D = np.random.default_rng(0).normal(size=(3, 5))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    got = max_cosine(torch.from_numpy(Z), torch.from_numpy(D)).numpy()
    for z, score in zip(Z, got, strict=True):
        if not z.any():
            assert score == -1
            continue
        wide = z.astype(np.longdouble)
        wide /= np.abs(wide).max()
        cosines = [
            float(np.dot(d.astype(np.longdouble), wide) / np.sqrt(np.dot(wide, wide))) for d in D
        ]
        assert score == pytest.approx(max(cosines), abs=1e-12)


@pytest.mark.parametrize("method", ["ctm", "quorum", "knn", "mahalanobis", "energy", "lof"])
def test_rows_that_are_not_finite_are_not_typical(method, data):
    guard = Guard(classifier(data), fitted(method, data).calibrate(data.held_out))
    x = rows(data)[:3]
    x[0, 0], x[1, 0] = float("nan"), float("inf")
    found, usual = guard(x), guard(rows(data)[:3])
    assert found.typical[:2].tolist() == [False, False]
    assert found.typical[2] == usual.typical[2]
    least = 1 / (len(guard.known_scores) + 1)
    assert found.p_value[:2].tolist() == pytest.approx([least, least])
    assert found.p_value[2] == usual.p_value[2]
    assert guard(torch.full_like(x, torch.nan)).typical.tolist() == [False] * 3


def test_gradients_reach_the_input(data):
    x = rows(data).requires_grad_(True)
    guard = Guard(classifier(data), fitted("ctm", data))
    x.data[0] = 0
    guard(x).score.sum().backward()
    assert torch.isfinite(x.grad).all() and x.grad[1:].any(1).all()


def test_precision_is_kept(data):
    detector = fitted("ctm", data)
    double = Guard(classifier(data, torch.float64), detector)
    x = rows(data, torch.float64)
    assert double(x).score.dtype == torch.float64
    assert np.allclose(
        double(x).score.detach().numpy(), detector.score_samples(x.numpy()), rtol=0, atol=1e-14
    )
    assert np.array_equal(double(x).typical.numpy(), detector.predict(x.numpy()) == 1)
    half = Guard(classifier(data), detector).to(torch.bfloat16)
    assert half.model[2].weight.dtype == torch.bfloat16
    assert half.threshold.dtype == half.directions.dtype == torch.float32
    assert float(half.threshold) == np.float32(detector.offset_)
    assert torch.allclose(half(x).score.double(), double(x).score, atol=2e-2)


def test_copies_and_state_dicts_carry_the_detector(data):
    x = rows(data)
    guard = Guard(classifier(data), fitted("ctm", data))
    expected = guard(x)
    assert all(torch.equal(a, b) for a, b in zip(copy.deepcopy(guard)(x), expected, strict=True))
    file = io.BytesIO()
    torch.save(guard.state_dict(), file)
    file.seek(0)
    other = Guard(classifier(make_data(seed=1)), fitted("ctm", make_data(seed=1)))
    assert not torch.equal(other(x).score, expected.score)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert all(torch.equal(a, b) for a, b in zip(other(x), expected, strict=True))


def test_the_model_is_in_eval_mode_and_bears_no_hooks(data):
    model = classifier(data).train()
    guard = Guard(model, fitted("ctm", data))
    guard(rows(data))
    assert not model.training and not any(m._forward_hooks for m in guard.modules())
    with pytest.raises(RuntimeError):
        guard(rows(data)[:, :3])
    assert not any(m._forward_hooks for m in guard.modules())


def test_the_model_runs_once(data):
    model = classifier(data)
    runs = []
    model.register_forward_hook(lambda *_: runs.append(1))
    guard = Guard(model, fitted("ctm", data))
    guard(rows(data))
    guard(rows(data))
    assert len(runs) == 2


def test_threads_do_not_mix_their_batches(data):
    """Two passes, each of which waits for the other before its head and after it."""
    together = threading.Barrier(2)

    class Meeting(nn.Module):
        def forward(self, x):
            together.wait()
            return x

    guard = Guard(nn.Sequential(Meeting(), *classifier(data), Meeting()), fitted("ctm", data))
    alone = Guard(classifier(data), fitted("ctm", data))
    batches = [rows(data)[:10], rows(data)[10:30]]
    results: dict[int, torch.Tensor] = {}

    def work(i: int) -> None:
        try:
            for _ in range(5):
                results[i] = guard(batches[i]).score
        except Exception:
            together.abort()  # or the other would wait for ever
            raise

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(results[i], alone(batches[i]).score) for i in range(2))


def test_it_exports_with_any_batch_size(data):
    guard = Guard(classifier(data), fitted("ctm", data))
    x = rows(data)
    expected = guard(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about itself
        program = torch.export.export(
            guard, (x[:4],), dynamic_shapes={"images": {0: torch.export.Dim("n")}}
        )
        got = program.module()(x)
    assert all(torch.allclose(a, b) for a, b in zip(got, expected, strict=True))


def exported(guard: Guard, x: torch.Tensor) -> nn.Module:
    """Export a guard for any number of rows, save it, and load it again."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about itself
        rows = {"images": {0: torch.export.Dim("n")}}
        torch.export.save(torch.export.export(guard, (x[:4],), dynamic_shapes=rows), file)
        file.seek(0)
        return torch.export.load(file).module()


@pytest.mark.parametrize("method", ["ctm", "energy", "mahalanobis", "knn", "vim", "quorum"])
def test_an_exported_guard_can_be_saved_and_decides_alike(method, data):
    guard = Guard(classifier(data), fitted(method, data).calibrate(data.held_out))
    x = rows(data)
    wanted, got = guard(x), exported(guard, x)(x)
    scale = max(float(wanted.score.abs().max()), 1.0)
    assert torch.allclose(got.score, wanted.score, rtol=1e-5, atol=1e-6 * scale)
    assert torch.allclose(got.logits, wanted.logits)
    assert (got.typical == wanted.typical).float().mean() > 0.95
    assert (got.p_value - wanted.p_value).abs().max() < 1.5 / 121
    # The detector itself is as it was.
    assert torch.equal(guard(x).score, wanted.score)


def test_an_exported_pipeline_and_rows_that_are_not_finite(data):
    pipeline = make_pipeline(ReAct(), typica.make_detector("energy", head=data.head))
    typica.calibrate(pipeline.fit(data.train, data.labels), data.held_out)
    x = rows(data)
    guard = Guard(classifier(data), pipeline)
    program = exported(guard, x)
    assert torch.allclose(program(x).score, guard(x).score, atol=1e-5)
    x[0, 0], x[1, 0] = float("nan"), float("inf")
    got = program(x)
    assert got.typical[:2].tolist() == [False, False]
    assert got.p_value[:2].tolist() == pytest.approx([1 / (len(guard.known_scores) + 1)] * 2)
    assert torch.equal(got.typical[2:], program(rows(data)).typical[2:])


@pytest.mark.parametrize("method", ["isolation_forest", "lof"])
def test_a_guard_that_cannot_be_exported_says_so(method, data):
    with pytest.raises(
        typica.InputError,
        match=r"Guard: (LOF|IsolationForest) cannot be traced by torch\.export "
        r"\(.* of scikit-learn has no tensor code to trace.*"
        r"guard the model with another detector, or export this one with",
    ):
        exported(Guard(classifier(data), fitted(method, data)), rows(data))


def test_what_cannot_be(data):
    model = classifier(data)
    with pytest.raises(
        typica.InputError, match="Guard: CTM has no threshold yet; call its calibrate"
    ):
        Guard(model, typica.CTM().partial_fit(data.train, data.labels))
    with pytest.raises(typica.InputError, match="Guard: str is not a detector"):
        Guard(model, "ctm")
    with pytest.raises(typica.InputError, match=r"model is a str; pass a torch\.nn\.Module"):
        Guard("resnet", fitted("ctm", data))
    narrow = fitted("ctm", make_data(m=8))
    with pytest.raises(
        typica.InputError, match="Guard: the detector is expecting 8 features, the model gives 12"
    ):
        Guard(model, narrow)(rows(data))
    with pytest.raises(typica.InputError, match="12 features, but Mahalanobis is expecting 8"):
        Guard(model, fitted("mahalanobis", make_data(m=8)))(rows(data))


@pytest.mark.filterwarnings("ignore::typica.CalibrationWarning")
@pytest.mark.parametrize("name", ["ctm", "mahalanobis", "energy", "pipeline"])
def test_by_class_each_row_has_the_threshold_of_its_nearest_class(name, data):
    groups = {0: "a", 1: "a", 2: "b", 3: "c"}
    detector = fitted("ctm" if name == "pipeline" else name, data)
    if name == "pipeline":
        detector = make_pipeline(ReAct(), typica.CTM()).fit(data.train, data.labels)
    typica.calibrate(detector, data.held_out, by_class=True, groups=groups, alpha=0.2)
    guard = Guard(classifier(data, torch.float64), detector)
    guarded = guard(rows(data, torch.float64))
    wanted = typica.judge(detector, rows(data, torch.float64).numpy())
    far = np.abs(wanted.score - wanted.threshold) > 1e-9  # from where rounding decides
    np.testing.assert_array_equal(guarded.typical[far], wanted.typical[far])
    assert far.mean() > 0.9 and 0 < np.mean(wanted.typical) < 1
    thresholds = typica.detectors.final_detector(detector).offsets_
    assert len(set(thresholds.values())) == 3 and guarded.p_value is None
    assert guard.state_dict()["threshold"].shape == (4,)


@pytest.mark.filterwarnings("ignore::typica.CalibrationWarning")
def test_by_class_without_classes_of_its_own_is_refused(data):
    detector = fitted("knn", data)
    predicted = np.arange(len(data.held_out)) % 4
    detector.calibrate(data.held_out, by_class=True, predicted=predicted)
    with pytest.raises(typica.InputError, match="Guard: KNN is calibrated by class, but finds no"):
        Guard(classifier(data), detector)


@pytest.mark.filterwarnings("ignore::typica.CalibrationWarning")
def test_a_guard_by_class_is_exported(data):
    detector = fitted("ctm", data).calibrate(data.held_out, by_class=True)
    guard = Guard(classifier(data), detector)
    program = torch.export.export(guard, (rows(data)[:4],)).module()
    np.testing.assert_array_equal(program(rows(data)[:4]).typical, guard(rows(data)[:4]).typical)


def test_keywords_are_passed_on(data):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = classifier(data)

        def forward(self, pixel_values):
            return self.inner(pixel_values)

    guard = Guard(Named(), fitted("ctm", data))
    wanted = guard(rows(data))
    found = guard(pixel_values=rows(data))
    assert torch.equal(found.score, wanted.score) and torch.equal(found.logits, wanted.logits)
    extraction = guard.extractor(pixel_values=rows(data))
    assert torch.equal(extraction.logits, wanted.logits)
    with pytest.raises(typica.InputError, match="a batch and the keywords pixel_values; pass one"):
        guard.extractor(rows(data), pixel_values=rows(data))
    with pytest.raises(typica.InputError, match="no batch; pass one"):
        guard.extractor()
