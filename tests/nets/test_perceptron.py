"""A multilayer perceptron that NumPy runs: as a network like any other, and as a file."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from sklearn.neural_network import MLPClassifier

import typica
from typica.errors import InputError
from typica.kinds import kind_of
from typica.nets import Perceptron, Settings, extract, judge_images, make_runner, open_model

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, size=(90, 4, 4), dtype=np.uint8)
LABELS = np.arange(90) % 3
IMAGES[LABELS == 1, :2] //= 8
IMAGES[LABELS == 2, :, 2:] //= 8
ROWS = IMAGES.reshape(90, 16) / 255
TRANSFORM = {"resize": 4, "crop": 4, "mode": "L"}


@pytest.fixture(scope="module")
def learnt() -> MLPClassifier:
    return MLPClassifier((12, 7), max_iter=3000, random_state=0).fit(ROWS, LABELS)


@pytest.fixture(scope="module")
def file(learnt, tmp_path_factory):
    path = tmp_path_factory.mktemp("perceptron") / "network.safetensors"
    Perceptron.of(learnt).save(path)
    return path


def layers_by_loops(network: MLPClassifier, row: np.ndarray) -> list[np.ndarray]:
    """Each layer's numbers of one image, in float64, one sum after the other."""
    found, z = [], [float(number) for number in row]
    for depth, (weight, bias) in enumerate(zip(network.coefs_, network.intercepts_, strict=True)):
        sums = [
            float(bias[j]) + sum(z[i] * float(weight[i, j]) for i in range(len(z)))
            for j in range(len(bias))
        ]
        z = sums if depth == len(network.coefs_) - 1 else [max(number, 0.0) for number in sums]
        found.append(np.array(z))
    return found


def test_features_and_logits_are_those_of_the_network(learnt):
    found = Perceptron.of(learnt).giving(layers=["hidden1", "penultimate"])(
        ROWS.reshape(90, 1, 4, 4)
    )
    for i in (0, 17, 89):
        first, second, logits = layers_by_loops(learnt, ROWS[i])
        np.testing.assert_allclose(found.layers["hidden1"][i], first, atol=1e-5)
        np.testing.assert_allclose(found.features[i], second, atol=1e-5)
        np.testing.assert_allclose(found.logits[i], logits, atol=1e-5)
    assert found.features.dtype == np.float32
    assert np.array_equal(np.argmax(found.logits, axis=1), learnt.predict(ROWS))


def test_a_file_of_it_is_a_model(file, learnt, tmp_path):
    opened = open_model(file)
    assert kind_of(file) == "holds a network"
    assert opened.identity.weights == Perceptron.of(learnt).fingerprint()
    assert "(3 classes)" in opened.extractor.describe()
    bank = extract(IMAGES, file, tmp_path / "bank", TRANSFORM, labels=LABELS)
    assert bank.settings["backend"] == "numpy" and bank.head == opened.extractor.head
    again = extract(
        IMAGES, file, tmp_path / "other", TRANSFORM, labels=LABELS, settings=Settings(batch=7)
    )
    np.testing.assert_allclose(again.features, bank.features, atol=1e-6)
    assert again.accuracy == pytest.approx(learnt.score(ROWS, LABELS))

    detector = typica.CTM().fit(bank).calibrate(2 * bank.features, alpha=0.1)
    detector.save(tmp_path / "ctm.safetensors")
    image = tmp_path / "one.png"
    Image.fromarray(IMAGES[5]).save(image)
    verdict = judge_images(typica.load(tmp_path / "ctm.safetensors"), image)
    np.testing.assert_allclose(verdict.score, detector.score_samples(bank.features[5:6]), atol=1e-6)


def test_a_bank_goes_on_where_it_stopped(file, tmp_path, monkeypatch):
    whole = extract(IMAGES, file, tmp_path / "whole", TRANSFORM, shard_rows=16)
    runs = []

    def broken(self, images):
        if len(runs) == 2:
            raise KeyboardInterrupt
        runs.append(len(images))
        return infer(self, images)

    from typica.nets.runtimes.plain import NumpyEngine

    infer = NumpyEngine.infer
    monkeypatch.setattr(NumpyEngine, "infer", broken)
    settings = Settings(batch=16)
    with pytest.raises(KeyboardInterrupt):
        extract(IMAGES, file, tmp_path / "b", TRANSFORM, shard_rows=16, settings=settings)
    monkeypatch.setattr(NumpyEngine, "infer", infer)
    rest = extract(IMAGES, file, tmp_path / "b", TRANSFORM, shard_rows=16, settings=settings)
    np.testing.assert_allclose(rest.features, whole.features, atol=1e-6)


def test_its_transform_is_read_off(file, tmp_path):
    with pytest.warns(typica.InputWarning, match="read off model and images"):
        bank = extract(IMAGES, file, tmp_path / "bank")
    assert bank.identity["transform"]["crop"] == 4 and bank.identity["transform"]["mode"] == "L"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Perceptron([], []), "0 weights and 0 biases"),
        (lambda: Perceptron([np.eye(3)], [np.zeros(2)]), r"layer 0: a weight of shape \(3, 3\)"),
        (lambda: Perceptron([np.eye(3), np.eye(2)], [np.zeros(3), np.zeros(2)]), "layer 1"),
        (lambda: Perceptron([np.zeros(3)], [np.zeros(3)]), "layer 0"),
        (lambda: Perceptron([np.full((2, 2), np.nan)], [np.zeros(2)]), "NaN or infinity"),
        (lambda: Perceptron.of(MLPClassifier()), "not a fitted MLPClassifier"),
        (lambda: Perceptron.of(3), "an int that is not"),
        (lambda: Perceptron([np.eye(2)], [np.zeros(2)])(np.ones((1, 3))), "3 numbers, where"),
        (lambda: Perceptron([np.eye(2)], [np.zeros(2)])("text"), "got str"),
        (lambda: Perceptron([np.eye(2)], [np.zeros(2)]).giving("hidden1"), "there is no layer"),
    ],
)
def test_what_it_refuses(call, says):
    with pytest.raises(InputError, match=says):
        call()


def test_other_activations_are_refused():
    for network in (
        MLPClassifier((3,), activation="tanh", max_iter=2),
        MLPClassifier((3,), max_iter=2),
    ):
        labels = LABELS if network.activation == "tanh" else LABELS % 2
        with pytest.warns(Warning, match="converge"):
            network.fit(ROWS, labels)
        with pytest.raises(InputError, match="pass one with relu and three classes"):
            Perceptron.of(network)


def test_other_runners_and_files_are_refused(file, tmp_path):
    sample = np.zeros((2, 1, 4, 4), dtype=np.float32)
    extractor = open_model(file).extractor
    with pytest.raises(InputError, match="backend 'torch' cannot run this model; choose auto"):
        make_runner(extractor, "torch", sample=sample)
    with pytest.raises(InputError, match="NumPy runs on the CPU"):
        make_runner(extractor, device="cuda", sample=sample)
    with pytest.raises(InputError, match="batch=0"):
        make_runner(extractor, batch=0, sample=sample)
    with pytest.raises(InputError, match="holds its own"):
        open_model(file, "weights.pth")
    with pytest.raises(InputError, match="reduce='nonsense' is unknown; choose one of mean"):
        open_model(file, reduce="nonsense")
    with pytest.raises(InputError, match="there is no such file"):
        open_model(tmp_path / "absent.safetensors")
    typica.CTM().fit(np.eye(40), [0, 1] * 20).save(tmp_path / "ctm.safetensors")
    with pytest.raises(InputError, match="holds a detector, not a network"):
        open_model(tmp_path / "ctm.safetensors")


def test_a_network_is_not_a_detector(file):
    from typica.decide import load_detector

    with pytest.raises(InputError, match="holds a network, not a detector"):
        load_detector(file)


@pytest.mark.parametrize("content", [{}, {"weights": 3}, {"weights": [], "biases": []}])
def test_a_file_with_other_content_is_refused(content, tmp_path, monkeypatch):
    network = Perceptron([np.eye(2)], [np.zeros(2)])
    monkeypatch.setattr(Perceptron, "state", lambda self: content)
    network.save(tmp_path / "n.safetensors")
    with pytest.raises(InputError, match="makes no sense"):
        open_model(tmp_path / "n.safetensors")
