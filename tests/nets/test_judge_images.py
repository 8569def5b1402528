"""Images to verdicts in Python: every kind of image, consent to code, one decode and one pass."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.networks import torch_is_talkative
from helpers.shell import run
from helpers.tinynet import MODEL, SOURCE, write_images
from helpers.watcher import Watcher
from PIL import Image
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import typica
from typica.data import Preprocessing, open_images
from typica.errors import InputError
from typica.nets import Settings, extract, judge_images, open_model
from typica.progress import watched_by

PLAIN = Settings(backend="torch", batch=4, threads=1)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("photos") / "all")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tiny.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tiny", raising=False)
    return tmp_path


@pytest.fixture
def bank(here: Path, photos: Path):
    return extract(photos, MODEL, "a.bank", settings=PLAIN)


def test_every_kind_of_image_gets_the_verdict_of_its_features(bank, photos: Path):
    detector = typica.CTM().fit(bank).calibrate(2 * bank.features, alpha=0.1)
    names = list(bank.names)
    rows = [names.index(f"{kind}/07.png") for kind in ("blue", "red")]
    expected = detector.judge(np.asarray(bank.features)[rows])
    paths = [photos / "blue" / "07.png", photos / "red" / "07.png"]
    loose = [Image.open(path) for path in paths]
    arrays = [np.asarray(image) for image in loose]
    for images in (paths, loose, arrays, np.stack(arrays), [loose[0], arrays[1]]):
        found = judge_images(detector, images, model=MODEL)
        np.testing.assert_allclose(found.score, expected.score, rtol=1e-5)
        np.testing.assert_array_equal(found.verdict, expected.verdict)
        np.testing.assert_array_equal(found.nearest, expected.nearest)
        np.testing.assert_allclose(found.p_value, expected.p_value)
    assert found.file.tolist() == ["images[0]", "images[1]"]
    assert judge_images(detector, paths, model=MODEL).file.tolist() == [str(p) for p in paths]
    one = judge_images(detector, loose[1], model=MODEL)
    assert len(one) == 1 and one[0].nearest == expected[1].nearest and one[0].file == "images[0]"
    assert next(iter(one.to_dict())) == "file" and "images[0]" in one._repr_html_()
    folder = judge_images(detector, photos, model=MODEL)
    assert len(folder) == 60 and set(folder.file) == set(names)


def test_a_detector_that_was_saved_and_a_pipeline_judge_images_too(bank, photos: Path):
    typica.CTM().fit(bank).save("ctm.safetensors")
    photo = photos / "red" / "07.png"
    loaded = typica.load("ctm.safetensors")
    direct = judge_images(typica.CTM().fit(bank), photo, model=MODEL)
    np.testing.assert_array_equal(judge_images(loaded, photo, model=MODEL).score, direct.score)
    energy = typica.Energy().fit(bank)
    logits = np.asarray(bank.logits, dtype=np.float64)
    found = judge_images(energy, photos, model=MODEL)
    np.testing.assert_allclose(found.score, np.log(np.exp(logits).sum(1)), rtol=1e-5)
    pipeline = make_pipeline(StandardScaler(), typica.CTM())
    pipeline.fit(np.asarray(bank.features), bank.labels)
    pipeline[-1].origin_ = bank.origin
    found = judge_images(pipeline, photos, model=MODEL)
    wanted = pipeline.score_samples(np.asarray(bank.features))
    np.testing.assert_allclose(found.score, wanted, rtol=1e-4)


def test_code_runs_only_where_it_is_named(bank, photos: Path):
    photo = photos / "red" / "07.png"
    detector = typica.CTM().fit(bank)
    sys.modules.pop("tiny")
    with pytest.raises(InputError, match=r"^judge_images: CTM: its network is the function tiny:n"):
        judge_images(detector, photo)
    with pytest.raises(InputError, match="its network is the function tiny:network"):
        judge_images(detector, photo, trust=True)
    assert "tiny" not in sys.modules
    with pytest.raises(InputError, match="was fitted on features and remembers no model"):
        judge_images(typica.CTM().fit(bank.features, bank.labels), photo)
    Path(MODEL).touch()  # a file of that very name is no consent
    with pytest.raises(InputError, match="its network is the function tiny:network"):
        judge_images(detector, photo)
    Path("tiny.py").write_text(SOURCE.replace('seed="0"', 'seed="1"'))
    with pytest.raises(InputError, match="tiny:network holds other weights than the detector"):
        judge_images(detector, photo, model=MODEL)


def test_a_module_of_your_own_makes_banks_and_verdicts(here: Path, photos: Path):
    model = open_model(MODEL).extractor.model
    transform = Preprocessing(8, 8)
    bank = extract(photos, model, "m.bank", transform, settings=PLAIN)
    assert bank.origin.model == "torch.nn.modules.container.Sequential"
    detector = typica.CTM().fit(bank)
    photo = photos / "red" / "07.png"
    assert len(judge_images(detector, photo, model=model)) == 1
    with pytest.raises(
        InputError,
        match=r"CTM: was fitted on the features of a module, torch\.nn.*; "
        "pass that module, model=M",
    ):
        judge_images(detector, photo)
    other = open_model(MODEL, "1").extractor.model
    with pytest.raises(InputError, match="Sequential holds other weights than the detector"):
        judge_images(detector, photo, model=other)
    with pytest.raises(InputError, match="settings are of type dict; pass Settings"):
        judge_images(detector, photos, settings={"batch": 4})
    with pytest.raises(InputError, match="weights for a module, which has its own"):
        extract(photos, model, "n.bank", transform, weights="w.pth")


def test_a_module_stands_for_the_function_that_made_it(bank, photos: Path):
    Path("0").write_text("seed")  # weights that the bank remembers, and a module brings itself
    seeded = extract(photos, MODEL, "seeded.bank", weights="0", settings=PLAIN)
    for made in (bank, seeded):
        detector = typica.CTM().fit(made)
        assert len(judge_images(detector, photos, model=open_model(MODEL).extractor.model)) == 60
        with pytest.raises(InputError, match="Sequential holds other weights than the detector"):
            judge_images(detector, photos, model=open_model(MODEL, "1").extractor.model)


def largest(x):
    return x.amax((2, 3))


def test_rows_that_a_function_made_of_maps(here: Path, photos: Path):
    made = {"layer": "0.0", "reduce": largest}
    detector = typica.CTM().fit(extract(photos, MODEL, "a.bank", **made, settings=PLAIN))
    with pytest.raises(InputError, match=r"reduce=.*:largest; extract these images with it, and j"):
        judge_images(detector, photos)
    again = extract(photos, MODEL, "b.bank", **made, settings=PLAIN)
    assert len(detector.judge(again.features)) == 60


def test_images_that_cannot_be_read(bank, photos: Path, here: Path):
    detector = typica.CTM().fit(bank)
    bad = here / "bad.png"
    bad.write_bytes(b"\x89PNG\r\n\x1a\nno")
    good = photos / "red" / "07.png"
    with pytest.raises(InputError, match=r"bad\.png"):
        judge_images(detector, [good, bad], model=MODEL)
    skipping = Settings(on_error="skip")
    watcher = Watcher()
    with watched_by(watcher):
        found = judge_images(detector, [bad, good], model=MODEL, settings=skipping)
    assert [note.split(":")[0] for note in watcher.notes] == ["skipped"]
    assert str(bad) in watcher.notes[0]
    assert found.file.tolist() == [str(good)]
    with pytest.raises(InputError, match="none of 1 image can be read"):
        judge_images(detector, bad, model=MODEL, settings=skipping)
    with pytest.raises(InputError, match=r"images\[0\]: type float64; pass uint8"):
        judge_images(detector, [np.zeros((8, 8, 3))], model=MODEL)
    with pytest.raises(InputError, match=r"does not take images of \(3, 2, 2\)"):
        small = typica.CTM().fit(bank)
        small.origin_ = open_model(MODEL).origin(Preprocessing(2, 2))
        judge_images(small, good, model=MODEL)


def test_images_that_belong_to_something(bank, photos: Path, here: Path):
    """Frames of videos: an image that cannot be read leaves its group as it is."""
    detector = typica.CTM().fit(bank).calibrate(2 * bank.features, alpha=0.1)
    bad = here / "bad.png"
    bad.write_bytes(b"\x89PNG\r\n\x1a\nno")
    good = [photos / kind / "07.png" for kind in ("red", "blue", "red")]
    found = judge_images(
        detector,
        [bad, *good],
        groups=["a", "a", "b", "b"],
        model=MODEL,
        settings=Settings(on_error="skip"),
    )
    assert found.group.tolist() == ["a", "b", "b"] and found.groups.rows.tolist() == [1, 2]
    assert found.groups.strangest[0] == 1 and set(found.groups.strangest[1:]) <= {2, 3}
    with pytest.raises(InputError, match=r"groups of shape \(2,\) for 3 images"):
        judge_images(detector, good, groups=["a", "b"], model=MODEL)


class Counter:
    """Counts what a function is called with, and calls it."""

    def __init__(self, function) -> None:
        self.function = function
        self.calls = 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)


def counted(monkeypatch, where: str) -> Counter:
    module, _, name = where.rpartition(".")
    counter = Counter(getattr(sys.modules[module], name))
    monkeypatch.setattr(where, counter)
    return counter


@pytest.fixture
def forwards(monkeypatch):
    """The batches that went through a network by its first convolution.

    With a function as the network the first is the fixed image, by which it is recognised.
    """
    batches: list[int] = []
    forward = torch.nn.Conv2d.forward

    def counting(self, x):
        batches.append(len(x))
        return forward(self, x)

    monkeypatch.setattr(torch.nn.Conv2d, "forward", counting)
    return batches


def test_one_image_is_decoded_once_and_run_once(bank, photos: Path, monkeypatch, forwards):
    detector = typica.CTM().fit(bank)
    detector.save("ctm.safetensors")
    photo = photos / "red" / "07.png"
    decodes = counted(monkeypatch, "typica.data._image_sets.decode")
    forwards.clear()
    judge_images(detector, photo, model=MODEL)
    assert decodes.calls == 1 and forwards == [1, 1]


@pytest.mark.parametrize(
    "settings",
    [Settings(backend="torch"), Settings(device="cpu"), Settings(batch=np.int64(1))],
    ids=["backend", "device", "batch"],
)
def test_one_image_is_run_once_by_the_settings_too(
    settings, bank, photos: Path, monkeypatch, forwards
):
    detector = typica.CTM().fit(bank)
    decodes = counted(monkeypatch, "typica.data._image_sets.decode")
    forwards.clear()
    verdicts = judge_images(detector, photos / "red" / "07.png", model=MODEL, settings=settings)
    assert decodes.calls == 1 and forwards == [1, 1] and len(verdicts) == 1


def test_in_the_shell_one_image_is_decoded_once_and_run_once(
    bank, photos: Path, monkeypatch, forwards, capsys
):
    typica.CTM().fit(bank).save("ctm.safetensors")
    photo = photos / "red" / "07.png"
    decodes = counted(monkeypatch, "typica.data._image_sets.decode")
    forwards.clear()
    assert "1 images" in run(capsys, "score", "ctm.safetensors", str(photo), "--model", MODEL)
    assert decodes.calls == 1 and forwards == [1, 1]


def test_few_images_go_through_once_each(bank, photos: Path, monkeypatch, forwards):
    decodes = counted(monkeypatch, "typica.data._image_sets.decode")
    forwards.clear()
    judge_images(typica.CTM().fit(bank), photos, model=MODEL)
    assert decodes.calls == 60 and sum(forwards) == 1 + 60


def test_an_onnx_file_is_run_once_as_well(here: Path, photos: Path, monkeypatch):
    ort = pytest.importorskip("onnxruntime", reason="needs the extra 'onnx'")
    model = open_model(MODEL).extractor.model.eval()
    names = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}}
    with torch_is_talkative():
        example = (torch.zeros(4, 3, 8, 8),)
        torch.onnx.export(model, example, "net.onnx", dynamo=False, verbose=False, **names)
    bank = extract(photos, "net.onnx", "o.bank", Preprocessing(8, 8))
    detector = typica.CTM().fit(bank)
    sizes: list[int] = []

    class Session(ort.InferenceSession):
        def run(self, outputs, given, *rest):
            sizes.append(len(next(iter(given.values()))))
            return super().run(outputs, given, *rest)

    monkeypatch.setattr(ort, "InferenceSession", Session)
    photo = photos / "red" / "07.png"
    found = judge_images(detector, photo)
    row = list(bank.names).index("red/07.png")
    np.testing.assert_allclose(
        found.score, detector.score_samples(np.asarray(bank.features)[row : row + 1]), rtol=1e-4
    )
    assert sizes == [1]


def test_images_in_memory_are_told_apart_by_what_they_show():
    array = np.arange(192, dtype=np.uint8).reshape(8, 8, 3)
    image = Image.fromarray(array)
    turned = Image.fromarray(array)
    turned.getexif()[0x0112] = 6
    palette = Image.fromarray(array[..., 0]).convert("P")
    other_colours = palette.copy()
    other_colours.putpalette([7] * 768)
    sets = ([image], [array], [array[..., 0]], [image, image], [turned], [palette], [other_colours])
    prints = [open_images(images).fingerprint() for images in sets]
    assert len(set(prints)) == len(sets)
    assert open_images([image.copy()]).fingerprint() == prints[0]
    assert open_images([image, array], labels=["a", "b"]).classes == ["a", "b"]
    with pytest.raises(InputError, match="a list with an Image in it; pass paths"):
        open_images([image, "photo.jpg"])
    for loose in (image, [image, array]):
        with pytest.raises(InputError, match="images in memory have no split 'train'; leave"):
            open_images(loose, split="train")
