import hashlib
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.datasets import load_digits, load_sample_image
from sklearn.metrics import roc_auc_score
from torch import nn

import typica
from typica.bench import digits
from typica.errors import InputError

OOD_ROWS = {"held-out-digits": 533, "rotated": 271, "inverted": 316, "photos": 520, "noise": 500}


# Of the images that the network has learnt: another split would put them among test digits.
LEARNT = "e28e22a4059e16a7d07a3db38e2a51d1bf5a48c529b52c29ecfe37235bf6e4e9"


@pytest.fixture(scope="module")
def suite():
    return digits.load()


@pytest.fixture(scope="module")
def by_torch():
    """The network as PyTorch runs it."""
    network = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(),
        nn.Conv2d(12, 24, 3, padding=1, stride=2), nn.ReLU(),
        nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 7),
    )  # fmt: skip
    network.load_state_dict(load_file(digits.WEIGHTS))
    return network.double()


def given(network, images, last):
    """What comes out of the layer `last` in float64; of maps, their means."""
    with torch.inference_mode():
        found = network[: last + 1](torch.from_numpy(images[:, None] / 16).double())
    return found.flatten(2).mean(2).numpy() if found.ndim == 4 else found.numpy()


@pytest.fixture(scope="module")
def images():
    return digits.images()


def arrays(suite):
    found = {f.name: getattr(suite, f.name) for f in fields(suite)} | dict(suite.ood)
    return {name: a for name, a in found.items() if isinstance(a, np.ndarray)}


def rows(images):
    return {image.tobytes() for image in images}


def digest(suite):
    found = hashlib.sha256()
    for name, a in sorted(arrays(suite).items()):
        found.update(name.encode() + a.tobytes())
    return found.hexdigest()


def test_the_weights_are_those_that_were_trained():
    assert hashlib.sha256(digits.WEIGHTS.read_bytes()).hexdigest() == digits.DIGEST
    learnt, labels = digits.split()["train"]
    found = hashlib.sha256(learnt.astype(np.uint8).tobytes() + labels.astype(np.uint8).tobytes())
    assert found.hexdigest() == LEARNT


@pytest.mark.parametrize("kernels", ["Prescott", "Nehalem"])  # which every x86-64 has
def test_other_processors_and_threads_give_the_same_bits(suite, kernels):
    code = "from test_digits import digest, digits; print(digest(digits.load()))"
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernels, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env=environment, cwd=Path(__file__).parent,
    )  # fmt: skip
    assert done.stdout.strip() == digest(suite)


def test_shapes_and_types(suite):
    assert suite.name == "digits"
    assert suite.train.shape == (632, 48)
    assert suite.calibration.shape == suite.test.shape == (316, 48)
    assert {name: len(z) for name, z in suite.ood.items()} == OOD_ROWS
    assert suite.near == {"held-out-digits", "rotated"}
    assert suite.far == {"inverted", "photos", "noise"}
    assert suite.head_weight.shape == (7, 48)
    assert suite.classes.tolist() == list(range(7))
    for name, a in arrays(suite).items():
        assert a.flags.c_contiguous, name
        if a.ndim == 2 or name == "head_bias":
            assert a.dtype == np.float32, name
            assert np.isfinite(a).all(), name


def test_accuracy_is_high_and_is_the_heads_own(suite):
    logits = suite.test @ suite.head_weight.T + suite.head_bias
    assert suite.accuracy == np.mean(suite.classes[logits.argmax(1)] == suite.test_labels)
    assert suite.accuracy > 0.95


def test_features_head_and_layers_are_the_network(suite, images, by_torch):
    for name, z in {"test": suite.test, **suite.ood}.items():
        np.testing.assert_allclose(z, given(by_torch, images[name], 7), rtol=1e-6, atol=1e-7)
        logits = z @ suite.head_weight.T + suite.head_bias
        np.testing.assert_allclose(logits, given(by_torch, images[name], 8), atol=1e-4)
        pixels = suite.layers["pixels"][name]
        np.testing.assert_array_equal(pixels, images[name].reshape(-1, 64) / np.float32(16))
        for layer, last in {"conv1": 1, "conv2": 3}.items():
            wanted = given(by_torch, images[name], last)
            np.testing.assert_allclose(suite.layers[layer][name], wanted, rtol=1e-6, atol=1e-7)


def test_the_network_that_numpy_runs_is_the_same(suite, images):
    found = digits.network()(images["photos"] / 16)
    np.testing.assert_allclose(found.features, suite.ood["photos"], atol=1e-5)
    assert digits.network().head == typica.Head(suite.head_weight, suite.head_bias, suite.classes)


def test_splits_are_stratified_share_no_row_and_hold_out_three_classes(suite):
    data = load_digits()
    splits = digits.split()
    seen = [rows(images) for images, _ in splits.values()]
    kept = data.images[data.target < 7].astype(np.float32)
    assert set.union(*seen) == rows(kept)
    assert sum(map(len, seen)) == len(kept) == 1264
    label_of = {
        image.astype(np.float32).tobytes(): y
        for image, y in zip(data.images, data.target, strict=True)
    }
    for (name, (images, labels)), share in zip(splits.items(), (0.5, 0.25, 0.25), strict=True):
        assert [label_of[image.tobytes()] for image in images] == labels.tolist()
        np.testing.assert_array_equal(getattr(suite, f"{name}_labels"), labels)
        for c in range(7):
            assert abs((labels == c).sum() - share * (data.target == c).sum()) <= 1


def test_train_and_calibration_features_belong_to_their_images(suite, by_torch):
    for name in ("train", "calibration"):
        images, labels = digits.split()[name]
        wanted = given(by_torch, images, 7)
        np.testing.assert_allclose(getattr(suite, name), wanted, rtol=1e-6, atol=1e-7)
        assert np.mean(given(by_torch, images, 8).argmax(1) == labels) > 0.95


def test_ood_images_are_what_their_names_say(suite, images):
    assert list(images) == ["test", *suite.ood]
    data = load_digits()
    np.testing.assert_array_equal(images["held-out-digits"], data.images[data.target >= 7])
    np.testing.assert_array_equal(images["inverted"] + images["test"], np.full((316, 8, 8), 16))
    upright = images["test"][suite.test_labels != 0]
    for r in range(8):
        for c in range(8):
            np.testing.assert_array_equal(images["rotated"][:, r, c], upright[:, c, 7 - r])
    assert abs(images["noise"].mean() - 8) < 0.1
    assert abs(images["noise"].std() - 16 / np.sqrt(12)) < 0.1
    for name, shown in images.items():
        assert shown.dtype == np.float32 and shown.flags.c_contiguous
        assert shown.shape[1:] == (8, 8)
        assert shown.min() >= 0 and shown.max() <= 16, name


def test_photos_are_averaged_tiles(images):
    names, tiles_down, tiles_across = ("china.jpg", "flower.jpg"), 13, 20
    for index in (0, 19, 20, 259, 260, 300, 519):
        photo, tile = divmod(index, tiles_down * tiles_across)
        top, left = (32 * n for n in divmod(tile, tiles_across))
        source = load_sample_image(names[photo])[top : top + 32, left : left + 32].astype(float)
        for r in range(8):
            for c in range(8):
                expected = source[4 * r : 4 * r + 4, 4 * c : 4 * c + 4].mean() / 255 * 16
                assert images["photos"][index, r, c] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", ["photos", "noise"])
def test_cosine_to_the_class_means_tells_far_sets_apart(suite, name):
    def score(z):
        return (z / np.linalg.norm(z, axis=1, keepdims=True) @ means.T).max(axis=1)

    means = np.stack([suite.train[suite.train_labels == c].mean(axis=0) for c in suite.classes])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    known, foreign = score(suite.test), score(suite.ood[name])
    is_known = np.r_[np.ones(len(known)), np.zeros(len(foreign))]
    assert (
        roc_auc_score(is_known, np.r_[known, foreign]) > 0.95
    )  # 0.98 to 0.99 where this was written


def test_ascii_art_draws_ink_in_five_shades():
    image = np.zeros((8, 8))
    image[0] = [0, 0.5, 4, 5, 8, 9, 13, 16]
    image[7, 0] = 16
    lines = digits.ascii_art(image).split("\n")
    assert lines[0] == "  ░░░░▒▒▒▒▓▓████"
    assert lines[1:7] == [" " * 16] * 6
    assert lines[7] == "██" + " " * 14


def test_bad_image():
    with pytest.raises(
        InputError, match=r"^ascii_art: the image has shape \(64,\); pass one of shape \(8, 8\)"
    ):
        digits.ascii_art(np.zeros(64))
    for wrong in (-1, 17, np.nan):
        with pytest.raises(
            InputError, match=r"^ascii_art: pixels lie outside 0\.\.16; scale the image"
        ):
            digits.ascii_art(np.full((8, 8), wrong))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("test", np.zeros((316, 63)), r"test has shape \(316, 63\); give it as \(n, 48\)"),
        ("ood", {"train": np.zeros(64)}, r"train has shape \(64,\); give it as \(n, 48\)"),
        (
            "ood",
            {"noise": np.zeros((0, 48))},
            r"noise has shape \(0, 48\); give it as \(n, 48\) with n >= 1",
        ),
        (
            "test_labels",
            np.zeros(3),
            r"test_labels has shape \(3,\); give one label for each of the 316 rows",
        ),
        (
            "head_weight",
            np.zeros((48, 7)),
            r"head_weight has shape \(48, 7\); give it as \(7, 48\)",
        ),
        ("head_bias", np.zeros((7, 1)), r"head_bias has shape \(7, 1\); give it as \(7,\)"),
        ("classes", np.zeros((7, 1)), r"classes has shape \(7, 1\); give it as \(7,\)"),
        (
            "near",
            frozenset({"photo"}),
            r"near names \['photo'\]; name sets of ood, which are \['held-out-digits'",
        ),
    ],
)
def test_a_suite_that_does_not_fit_together(suite, field, value, message):
    with pytest.raises(InputError, match=rf"^FeatureSuite: suite 'digits': {message}"):
        replace(suite, **{field: value})
