"""What a network's input and the images tell of the preprocessing, and the order of its classes."""

from __future__ import annotations

import itertools
import json
import warnings
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
import torch
from helpers.watcher import Watcher
from torch import nn

from typica.data import Preprocessing, in_order, open_images, read_classes
from typica.errors import InputError, InputWarning
from typica.nets import Settings, extract, open_model, transform_for
from typica.nets._class_order import best_order
from typica.progress import watched_by

# What was read off is said as a warning where nobody watches: one test looks at it.
pytestmark = pytest.mark.filterwarnings("ignore:transform .* read off:typica.InputWarning")

PLAIN = Settings("torch", 8, 1)


def conv(channels: int = 1, *first: nn.Module) -> nn.Module:
    body = (nn.Conv2d(channels, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*first, *body, nn.Linear(4, 3))


def flat(width: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(width, 4), nn.ReLU(), nn.Linear(4, 3))


def some(*sizes: tuple[int, int]):
    rng = np.random.default_rng(0)
    return open_images([rng.integers(256, size=(*size, 3), dtype=np.uint8) for size in sizes])


@pytest.mark.parametrize(
    ("model", "sizes", "expected"),
    [
        (conv(1), [(8, 8)], Preprocessing(8, 8, mode="L")),
        (conv(3), [(8, 8), (8, 8)], Preprocessing(8, 8)),
        (conv(3), [(6, 9)], Preprocessing((6, 9))),
        (flat(64), [(5, 5)], Preprocessing(8, 8, mode="L")),
        (flat(784), [(30, 20), (99, 50)], Preprocessing(28, 28, mode="L")),
        (flat(3072), [(32, 40)], Preprocessing(32, 32)),
        (flat(120), [(10, 12), (30, 30)], Preprocessing((10, 12), mode="L")),
    ],
    ids=["grey", "colour", "oblong", "8x8", "28x28", "32x32", "its own"],
)
def test_channels_and_size_are_read_off(model, sizes, expected):
    assert transform_for(open_model(model), some(*sizes)) == expected


def test_what_is_read_off_is_said_once_to_who_watches_or_to_all():
    opened, images = open_model(conv(1)), some((8, 8))
    with pytest.warns(InputWarning, match=r"transform .* read off model and images"):
        transform_for(opened, images)
    watcher = Watcher()
    with watched_by(watcher), warnings.catch_warnings(action="error"):
        transform_for(opened, images)
    assert any("read off model and images" in text for text in watcher.notes)


def test_the_range_is_read_off_a_first_normalisation():
    first = nn.BatchNorm2d(3)
    first.running_mean += 120
    assert transform_for(open_model(conv(3, first)), some((8, 8))).scale == 1
    assert transform_for(open_model(conv(3, nn.BatchNorm2d(3))), some((8, 8))).scale == 255


@pytest.mark.parametrize(
    ("model", "sizes", "message"),
    [
        (conv(1), [(8, 8), (9, 9)], "it takes images of any size, and these are 8 x 8 and 9 x 9"),
        (conv(3), [(2000, 3000)], "it takes images of any size, and these are 3000 x 2000"),
        (flat(7), [(8, 8)], "it takes no images of 1 or 3 channels and a usual size"),
    ],
    ids=["sizes differ", "large", "no image"],
)
def test_what_cannot_be_read_off_is_asked_for_with_an_example(model, sizes, message):
    with pytest.raises(InputError, match=message) as error:
        transform_for(open_model(model), some(*sizes))
    assert 'e.g. transform \'{"resize": 28, "crop": 28, "mode": "L"' in str(error.value)


def test_no_transform_is_asked_for_where_none_would_do():
    wanted = "takes 5 channels, where images have 1 or 3; make its features yourself, and pass"
    with pytest.raises(InputError, match=wanted) as error:
        transform_for(open_model(conv(5)), some((8, 8)))
    assert "transform" not in str(error.value.args[0])


def test_what_is_given_goes_before_what_is_read_off():
    opened, images = open_model(conv(1)), some((8, 8))
    assert transform_for(opened, images, {"mean": 0.5, "std": 0.25}) == Preprocessing(
        8, 8, mean=0.5, std=0.25, mode="L"
    )
    assert transform_for(opened, images, {"resize": 10, "crop": 9}) == Preprocessing(
        10, 9, mode="L"
    )
    assert transform_for(opened, images, {"resize": None}) == Preprocessing(None, mode="L")
    own = opened._replace(transform=Preprocessing(9, 8, mean=0.5, mode="L"))
    assert transform_for(own, images) == own.transform
    assert transform_for(own, images, {"exif": False}) == Preprocessing(
        9, 8, mean=0.5, mode="L", exif=False
    )
    with pytest.raises(InputError, match="size unknown; pass resize and crop"):
        transform_for(opened, images, {"size": 8})


def test_what_was_read_off_is_said_with_an_example():
    notes = Watcher()
    with watched_by(notes):
        transform_for(open_model(conv(1)), some((8, 8)))
    [said] = notes.notes
    read = json.loads(said[len("transform ") : said.index("}") + 1])
    assert read["resize"] == 8 and read["mode"] == "L"
    assert Preprocessing.from_dict(json.loads(said[said.rindex("{") : said.rindex("}") + 1]))


ONNX = """<ir_version: 8, opset_import: ["" : 17]>
    tiny ({type}[n, 1, 4, 6] x) => (float[n, 2] y)
    <float[24, 2] w = {{{ones}}}, float[2] b = {{0, 1}}>
    {{ f = Cast <to = 1> (x)  g = Flatten (f)  h = Relu (g)  y = Gemm (h, w, b) }}"""


@pytest.mark.parametrize(("type_", "scale"), [("float", 255.0), ("uint8", 1.0)])
def test_an_onnx_model_states_its_input(tmp_path: Path, type_: str, scale: float):
    model = onnx.parser.parse_model(ONNX.format(type=type_, ones=", ".join(["1"] * 48)))
    (tmp_path / "tiny.onnx").write_bytes(model.SerializeToString())
    opened, images = open_model(tmp_path / "tiny.onnx"), some((9, 9), (5, 7))
    transform = transform_for(opened, images)
    assert transform == Preprocessing((4, 6), scale=scale, mode="L")
    white = transform.normalised(np.full((1, 4, 6, 1), 255, dtype=np.uint8))
    assert opened.extractor(white).features[0, 0] == 255 / scale
    if type_ == "uint8":
        with pytest.raises(InputError, match=r"takes uint8 and got float32; .* with scale 1"):
            opened.extractor(white / 255)


def test_class_files(tmp_path: Path):
    for name, text in (
        ("a.txt", "cat\n\n dog \nowl\n"),
        ("b.json", '["cat", "dog", "owl"]'),
        ("c.json", '{"dog": 1, "owl": 2, "cat": 0}'),
        ("d.json", '{"1": "dog", "0": "cat", "2": "owl"}'),
    ):
        (tmp_path / name).write_text(text)
        assert read_classes(tmp_path / name) == ["cat", "dog", "owl"]
    for text, message in (
        ("", "no class names; write one per line"),
        ("cat\ndog\ncat", "'cat' comes twice"),
    ):
        (tmp_path / "bad.txt").write_text(text)
        with pytest.raises(InputError, match=message):
            read_classes(tmp_path / "bad.txt")
    for text, message in (
        ('{"cat": 0, "dog": 2}', "not 0, 1, 2"),
        ("3", "bad.json: holds an int"),
        ('{"0": ["n01440764", "tench"]}', r"bad.json: \['n01440764', 'tench'\] is not a name; wri"),
        ('["cat", null]', "bad.json: None is not a name; write one text for each output"),
        ("[", "not a file of class names"),
    ):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(InputError, match=message):
            read_classes(tmp_path / "bad.json")
    with pytest.raises(InputError, match="there is no such file"):
        read_classes(tmp_path / "nowhere.txt")


def test_labels_are_brought_into_the_order_of_the_outputs():
    pixels = np.zeros((3, 8, 8, 3), dtype=np.uint8)
    images = open_images(pixels, labels=["b", "a", "b"])
    before = images.fingerprint()
    ordered = in_order(images, ["c", "b", "a"])
    assert ordered.labels.tolist() == [1, 2, 1] and ordered.classes == ["c", "b", "a"]
    assert images.labels.tolist() == [1, 0, 1] and images.fingerprint() == before
    assert ordered.fingerprint() != before
    assert in_order(open_images(pixels), ["a"]).classes == ["a"]
    numbered = open_images(pixels, labels=[0, 1, 2])
    assert in_order(numbered, ["a", "b", "c"]).labels.tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="labels up to 2 for 2 classes"):
        in_order(numbered, ["a", "b"])
    with pytest.raises(InputError, match=r"class 'a', which is not among the 2 given; closest: aa"):
        in_order(images, ["aa", "b"])


def test_the_best_relabelling_by_trying_all():
    rng = np.random.default_rng(0)
    labels, predicted = rng.integers(3, size=60), rng.integers(4, size=60)
    found = best_order(labels, predicted, 4)
    orders = [np.array(names) for names in itertools.permutations(range(4), 3)]
    shares = [np.mean(outputs[labels] == predicted) for outputs in orders]
    assert found.best == pytest.approx(max(shares))
    assert found.top_1 == np.mean(labels == predicted)
    assert sorted(name for name in found.names if name is not None) == [0, 1, 2]
    far = best_order(labels + 10**12, predicted, 4)
    assert far.best == found.best and far.top_1 == 0
    assert far.names == tuple(None if name is None else name + 10**12 for name in found.names)


class Coloured(nn.Module):
    """Output k is the mean of channel k: a network that is never wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 3, bias=False)
        nn.init.eye_(self.head.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x.mean((2, 3)))


def test_labels_in_another_order_than_the_outputs_are_told(tmp_path: Path):
    pixels = np.repeat(255 * np.eye(3, dtype=np.uint8), 20, axis=0)[:, None, None, :]
    pixels = np.ascontiguousarray(np.broadcast_to(pixels, (60, 8, 8, 3)))
    labels = np.repeat(["red", "green", "blue"], 20)  # sorted: blue, green, red
    images, notes = open_images(pixels, labels=labels), Watcher()
    with watched_by(notes):
        bank = extract(images, Coloured(), tmp_path / "a.bank", settings=PLAIN)
    told = [text for text in notes.notes if text.startswith("labels and outputs disagree")]
    assert bank.accuracy == pytest.approx(1 / 3)
    assert "33.3% of the labels" in told[0]
    assert "100.0% if the outputs are red, green, blue; " in told[0]
    notes = Watcher()
    with watched_by(notes):
        names = ["red", "green", "blue"]
        bank = extract(images, Coloured(), tmp_path / "b.bank", settings=PLAIN, classes=names)
    assert bank.accuracy == 1 and bank.classes == names
    assert not any("disagree" in text for text in notes.notes)
    with pytest.raises(InputError, match="4 classes for the network's 3 outputs"):
        extract(images, Coloured(), tmp_path / "c.bank", settings=PLAIN, classes=[*names, "x"])
    assert not (tmp_path / "c.bank").exists()


def test_a_network_of_more_classes_is_not_said_to_have_another_order(tmp_path: Path):
    shades = np.repeat(255 * np.eye(3, dtype=np.uint8)[1:], 20, axis=0)[:, None, None, :]
    pixels = np.ascontiguousarray(np.broadcast_to(shades, (40, 8, 8, 3)))
    images, notes = open_images(pixels, labels=np.repeat(["one", "two"], 20)), Watcher()
    with watched_by(notes):
        extract(images, Coloured(), tmp_path / "a.bank", settings=PLAIN)
    assert not any("disagree" in text for text in notes.notes)


def test_an_untrained_network_is_not_said_to_have_another_order(tmp_path: Path):
    rng, notes = np.random.default_rng(0), Watcher()
    pixels = rng.integers(256, size=(40, 8, 8, 3), dtype=np.uint8)
    images = open_images(pixels, labels=rng.integers(3, size=40))
    with watched_by(notes):
        extract(images, Coloured(), tmp_path / "a.bank", settings=PLAIN)
    assert not any("disagree" in text for text in notes.notes)
