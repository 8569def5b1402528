"""Images through a network into a bank, and a detector that remembers the way."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.real import REAL
from helpers.shell import run, started
from helpers.tinynet import MODEL, SOURCE, write_images
from PIL import Image

import typica
from typica.bank import Bank
from typica.cli import main
from typica.data import Preprocessing, open_images
from typica.errors import InputError
from typica.nets import (
    BACKENDS,
    Settings,
    extract,
    features_of,
    make_runner,
    open_model,
    zoo,
)

PLAIN = Settings(backend="torch", batch=4, threads=1)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 20 images of each of three classes, each of a colour of its own."""
    return write_images(tmp_path_factory.mktemp("photos") / "all")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the network's module in it."""
    (tmp_path / "tiny.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tiny", raising=False)
    return tmp_path


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_bank_holds_what_the_network_gives(here: Path, photos: Path):
    images = open_images(photos)
    bank = extract(images, open_model(MODEL), "a.bank", settings=PLAIN)
    model = open_model(MODEL).extractor.model.double()
    for i in (0, 31, 59):
        pixels = np.asarray(Image.open(photos / bank.names[i]))
        x = torch.tensor(pixels.transpose(2, 0, 1)[None] / 255.0)
        with torch.no_grad():
            features = model[0](x)
        np.testing.assert_allclose(bank.features[i], features[0].numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(
            bank.logits[i], model[1](features)[0].detach().numpy(), rtol=1e-5, atol=1e-6
        )
        assert bank.classes[bank.labels[i]] == Path(bank.names[i]).parent.name
    assert len(bank) == 60 and bank.classes == ["blue", "green", "red"] and bank.skipped == []
    np.testing.assert_array_equal(bank.head.weight, model[1].weight.detach().float().numpy())
    right = np.argmax(bank.logits, axis=1) == bank.labels
    assert bank.accuracy == right.mean()


@pytest.mark.parametrize("backend", ["onnx", "openvino", "auto"])
def test_every_backend_gives_the_same_bank_but_for_rounding(here: Path, photos: Path, backend: str):
    images = open_images(photos)
    plain = extract(images, open_model(MODEL), "plain", settings=PLAIN)
    other = extract(images, open_model(MODEL), backend, settings=Settings(backend=backend))
    np.testing.assert_allclose(other.features, plain.features, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(other.logits, plain.logits, rtol=1e-3, atol=1e-4)
    assert list(other.names) == list(plain.names) and (
        backend == "auto" or other.settings["backend"] == backend
    )


def test_layers_beside_the_features(here: Path, photos: Path):
    opened = open_model(MODEL, layers=["0.0", "penultimate"])
    bank = extract(open_images(photos), opened, "a.bank", settings=PLAIN)
    plain = extract(open_images(photos), open_model(MODEL), "b.bank", settings=PLAIN)
    assert bank.layers["0.0"].shape == (60, 12) and bank.head == plain.head
    np.testing.assert_array_equal(bank.features, plain.features)


def test_the_same_again_is_opened_and_anything_else_refused(here: Path, photos: Path, monkeypatch):
    images = open_images(photos)
    first = extract(images, open_model(MODEL), "a.bank", settings=PLAIN)
    before = tree(Path("a.bank"))
    with monkeypatch.context() as patch:
        patch.setattr("typica.nets._start_runner.make_runner", None)  # nothing may be run
        again = extract(images, open_model(MODEL), "a.bank", settings=Settings(backend="openvino"))
    assert again.fingerprint() == first.fingerprint() and tree(Path("a.bank")) == before
    with pytest.raises(InputError, match="weights is"):
        extract(images, open_model(MODEL, "1"), "a.bank", settings=PLAIN)
    with pytest.raises(InputError, match="layer is"):
        extract(images, open_model(MODEL, layer="0.0"), "a.bank", settings=PLAIN)
    with pytest.raises(InputError, match=r"transform\.mean is"):
        extract(
            images,
            open_model(MODEL),
            "a.bank",
            Preprocessing(8, 8, mean=(0.5, 0.5, 0.5)),
            settings=PLAIN,
        )
    with pytest.raises(InputError, match="data is"):
        extract(open_images(photos / "red"), open_model(MODEL), "a.bank", settings=PLAIN)
    assert tree(Path("a.bank")) == before


def test_a_bank_goes_on_with_what_it_was_begun_with(here: Path, photos: Path):
    images = open_images(photos)
    whole = extract(images, open_model(MODEL), "whole", settings=PLAIN, shard_rows=8)
    begin(images, "part", stop_at=40)
    resumed = extract(
        images,
        open_model(MODEL),
        "part",
        settings=Settings(backend="openvino", batch=7),
        shard_rows=8,
    )
    assert resumed.settings["backend"] == "torch" and tree(Path("part")) == tree(Path("whole"))
    assert resumed.fingerprint() == whole.fingerprint()

    begin(images, "later", stop_at=40)
    manifest = Path("later/manifest.json")
    text = manifest.read_text()
    assert json.loads(text)["source_rows"] in (16, 24, 32, 40)
    bank_text = text.replace(torch.__version__, "0.0.1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typica.bank._manifest._checksum", lambda body: json.loads(text)["sha256"])
        manifest.write_text(bank_text)
        with pytest.raises(InputError, match=r"was begun differently \(versions .*0\.0\.1"):
            extract(images, open_model(MODEL), "later", settings=PLAIN, shard_rows=8)


def begin(images, out: str, stop_at: int) -> None:
    """Begin a bank and fail at the image `stop_at`."""
    read = images.read

    def failing(i: int):
        if i == stop_at:
            raise KeyboardInterrupt
        return read(i)

    images.read = failing
    try:
        with pytest.raises(KeyboardInterrupt):
            extract(images, open_model(MODEL), out, settings=PLAIN, shard_rows=8)
    finally:
        del images.read


def test_killed_at_any_moment_it_ends_as_if_it_had_never_been(here: Path, photos: Path):
    script = textwrap.dedent(
        """
        import sys, time
        from typica.data import open_images
        from typica.nets import BACKENDS, Settings, extract, open_model
        images = open_images(sys.argv[1])
        read = images.read
        images.read = lambda i: (time.sleep(float(sys.argv[3])), read(i))[1]
        extract(images, open_model("tiny:network"), sys.argv[2], shard_rows=8,
                settings=Settings(backend="torch", batch=4, threads=1, workers=1))
        """
    )
    command = [sys.executable, "-c", script, str(photos)]
    subprocess.run([*command, "whole", "0"], check=True)
    rng = random.Random(0)
    kills = 0
    for _ in range(2):
        seen = rows_in("part")
        with started([*command, "part", "0.2"]) as child:  # 12 seconds: it does not end before
            while child.poll() is None and rows_in("part") <= seen:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.15))
        kills += child.returncode == -signal.SIGKILL
    assert kills == 2 and 0 < rows_in("part") < 60
    subprocess.run([*command, "part", "0"], check=True)
    assert tree(Path("part")) == tree(Path("whole"))


def rows_in(bank: str) -> int:
    manifest = Path(bank, "manifest.json")
    return int(json.loads(manifest.read_text())["source_rows"]) if manifest.is_file() else 0


def test_images_that_cannot_be_read_stop_it_or_are_listed(here: Path, photos: Path):
    folder = here / "some"
    shutil.copytree(photos, folder)
    for name in (
        "blue/03.png",
        "green/00.png",
        "green/01.png",
        "green/02.png",
        "green/03.png",
        "red/19.png",
    ):
        (folder / name).write_bytes(b"\x89PNG\r\n\x1a\nno")
    with pytest.raises(InputError, match=r"blue/03\.png"):
        extract(open_images(folder), open_model(MODEL), "new/a.bank", settings=PLAIN)
    assert not Path("new").exists()
    bank = extract(
        open_images(folder),
        open_model(MODEL),
        "b.bank",
        settings=Settings("torch", 4, 1, on_error="skip"),
    )
    assert len(bank) == 54 and [name for name, _ in bank.skipped][:2] == [
        "blue/03.png",
        "green/00.png",
    ]
    assert set(bank.names) | {name for name, _ in bank.skipped} == set(open_images(folder).names)
    np.testing.assert_array_equal(
        bank.labels, [["blue", "green", "red"].index(Path(name).parent.name) for name in bank.names]
    )
    for file in folder.rglob("*.png"):
        file.write_bytes(b"nothing")
    with pytest.raises(InputError, match="none of 60 images can be read"):
        extract(
            open_images(folder),
            open_model(MODEL),
            "c.bank",
            settings=Settings("torch", 4, 1, on_error="skip"),
        )
    assert not Path("c.bank").exists()


def test_a_model_without_preprocessing_takes_images_as_they_are(here: Path, photos: Path):
    opened = open_model(MODEL)
    unknown = opened._replace(transform=None)
    with pytest.warns(typica.InputWarning, match="read off model and images"):
        bank = extract(open_images(photos), unknown, "a.bank", settings=PLAIN)
    assert bank.origin.transform == Preprocessing(8, 8).to_dict()
    own = extract(open_images(photos), opened, "b.bank", settings=PLAIN)
    assert np.array_equal(bank.features, own.features)


def bank_and_detector(capsys, photos: Path, *more: str) -> None:
    run(
        capsys,
        "extract",
        "--model",
        MODEL,
        str(photos),
        "-o",
        "a.bank",
        "--backend",
        "torch",
        *more,
    )
    run(capsys, "fit", "a.bank", "-o", "ctm.safetensors")


def test_from_images_to_verdicts_in_the_shell(here: Path, photos: Path, capsys):
    bank_and_detector(capsys, photos)
    out = run(capsys, "info", "a.bank")
    assert "60" in out and "tiny:network" in out and "3: blue, green, red" in out
    assert run(capsys, "info", "ctm.safetensors").count("tiny:network") == 1
    photo = str(photos / "red" / "07.png")
    out = run(capsys, "score", "ctm.safetensors", photo, str(photos / "blue"), "--model", MODEL)
    assert out.splitlines()[0].split() == [
        "file",
        "verdict",
        "score",
        "nearest",
        "runner-up",
        "margin",
    ]
    assert "of 21 images are atypical" in out and max(map(len, out.splitlines())) <= 80

    document = json.loads(
        run(capsys, "score", "ctm.safetensors", str(photos), "--model", MODEL, "--json", "-")
    )
    detector, bank = typica.load("ctm.safetensors"), Bank.open("a.bank")
    scores = detector.score_samples(bank.features)
    np.testing.assert_allclose([row["score"] for row in document["rows"]], scores, atol=1e-5)
    named = {row["file"]: row["nearest"] for row in document["rows"]}
    assert {Path(name).name for name in named} == {f"{i:02d}.png" for i in range(20)}
    assert all(answer in ("blue", "green", "red") for answer in named.values())


def test_a_file_cannot_make_code_run_or_pass_for_another_model(here: Path, photos: Path, capsys):
    bank_and_detector(capsys, photos)
    photo = str(photos / "red" / "07.png")
    assert "only if you name it here: --model tiny:network." in run(
        capsys, "score", "ctm.safetensors", photo, code=2
    )
    Path("tiny.py").write_text(SOURCE.replace('seed="0"', 'seed="1"'))
    sys.modules.pop("tiny")
    error = run(capsys, "score", "ctm.safetensors", photo, "--model", MODEL, code=2)
    assert "tiny:network holds other weights than the detector was fitted with" in error
    run(capsys, "fit", "a.bank", "-o", "plain.safetensors", "--detector", "mahalanobis")
    np.save("z.npy", Bank.open("a.bank").features)
    run(capsys, "fit", "z.npy", "-o", "features.safetensors")
    error = run(capsys, "score", "features.safetensors", photo, code=2)
    assert "was fitted on features and remembers no model" in error
    assert "2 files of features; pass one" in run(
        capsys, "score", "ctm.safetensors", "z.npy", "z.npy", code=2
    )
    assert "no such" in run(
        capsys, "score", "ctm.safetensors", "nowhere.jpg", "--model", MODEL, code=2
    )


def test_a_bank_that_is_whole_is_not_said_to_be_written(here: Path, photos: Path, capsys):
    command = ("extract", str(photos), "--model", MODEL, "-o", "a.bank", "--backend", "torch")
    assert run(capsys, *command).startswith("wrote a.bank\n")
    assert run(capsys, *command).startswith("a.bank: is whole already\n")
    assert run(capsys, *command, "--fresh").startswith("wrote a.bank\n")


def test_a_detector_of_logits_reads_logits_of_images(here: Path, photos: Path, capsys):
    run(
        capsys,
        "extract",
        "--model",
        MODEL,
        str(photos),
        "-o",
        "a.bank",
        "--backend",
        "torch",
    )
    run(capsys, "fit", "a.bank", "-o", "energy.safetensors", "--detector", "energy")
    document = json.loads(
        run(capsys, "score", "energy.safetensors", str(photos), "--model", MODEL, "--json", "-")
    )
    logits = np.asarray(Bank.open("a.bank").logits, dtype=np.float64)
    np.testing.assert_allclose(
        [row["score"] for row in document["rows"]], np.log(np.exp(logits).sum(1)), rtol=1e-5
    )
    opened, images = open_model(MODEL), open_images(photos)
    seen = features_of(
        opened, images, opened.transform, typica.MSP().fit(Bank.open("a.bank")), PLAIN
    )
    np.testing.assert_allclose(
        seen.rows, logits, rtol=1e-4, atol=1e-5
    )  # no head: its input is the model's logits


@pytest.mark.parametrize("ending", ["onnx", "pt2", "pt"])
def test_models_from_files(here: Path, photos: Path, capsys, ending: str):
    model = open_model(MODEL).extractor.model.eval()
    example = torch.zeros(4, 3, 8, 8)
    file = f"net.{ending}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters deprecate each other
        if ending == "pt":
            torch.jit.trace(model, example).save(file)
        elif ending == "pt2":
            shape = {0: torch.export.Dim("n", min=1, max=64)}
            torch.export.save(torch.export.export(model, (example,), dynamic_shapes=(shape,)), file)
        else:
            torch.onnx.export(model, (example,), file, dynamo=True, verbose=False)
    transform = '{"resize": 8, "crop": 8}'
    options = (str(photos), "-o", "a.bank", "--transform", transform)
    trust = () if ending == "onnx" else ("--trust",)
    named = ("--model", file, *trust)
    run(capsys, "extract", *named, str(photos), "-o", "read-off.bank")
    assert Bank.open("read-off.bank").origin.transform == Preprocessing(8, 8).to_dict()
    run(capsys, "extract", *named, *options)
    plain = extract(open_images(photos), open_model(MODEL), "plain", settings=PLAIN)
    bank = Bank.open("a.bank")
    np.testing.assert_allclose(bank.features, plain.features, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(bank.head.weight, plain.head.weight, rtol=1e-6)
    run(capsys, "fit", "a.bank", "-o", "ctm.safetensors")
    photo = str(photos / "red" / "07.png")
    if trust:
        assert "can run any code" in run(capsys, "score", "ctm.safetensors", photo, code=2)
    assert "of 1 images are atypical" in run(capsys, "score", "ctm.safetensors", photo, *trust)


def test_bad_options_of_extract(here: Path, photos: Path, capsys):
    def failing(*more: str) -> str:
        return run(
            capsys,
            "extract",
            "--model",
            MODEL,
            str(photos),
            "-o",
            "a.bank",
            *more,
            code=2,
        )

    for option, value, choices in (
        ("--on-error", "ignore", "stop, skip"),
        ("--backend", "quick", ", ".join(BACKENDS)),
        ("--dtype", "float64", "float32, float16"),
        ("--reduce", "sum", "mean, max, cls, flatten, mean+std"),
        ("--split", "dev", "train, test, val"),
    ):
        error = failing(
            "--model", "nowhere:f", "nowhere", option, value
        )  # before either is looked at
        assert error == f"error: {option} {value}: unknown; choose one of {choices}.\n"
    Path("other").mkdir()
    Path("other/file").touch()
    assert "holds something that is not a bank" in failing("-o", "other", "--fresh")
    assert "there is no module 'nowhere'" in run(
        capsys, "extract", "--model", "nowhere:f", str(photos), "-o", "b.bank", code=2
    )
    bank_and_detector(capsys, photos)
    first = tree(here / "a.bank")
    run(capsys, "extract", "--model", MODEL, "--weights", "1", str(photos),
        "-o", "a.bank", "--backend", "torch", "--fresh", "--dtype", "float16")  # fmt: skip
    assert tree(here / "a.bank") != first and Bank.open("a.bank").features.dtype == np.float16


def test_classes_of_the_same_name_are_refused_before_the_network_runs(here: Path, monkeypatch):
    pixels, labels = np.zeros((9, 8, 8, 3), np.uint8), np.arange(9) % 3
    np.savez("a.npz", images=pixels, labels=labels, classes=["crane", "maillot", "crane"])
    monkeypatch.setattr("typica.nets._extract.start_runner", None)
    with pytest.raises(InputError, match="extract: the images have classes of the same name; give"):
        extract("a.npz", MODEL, "a.bank", settings=PLAIN)
    assert not Path("a.bank").exists()


def test_the_backends_to_choose_from_are_those_there_are(here: Path):
    sample = np.zeros((16, 3, 8, 8), np.float32)
    with pytest.raises(InputError, match=f"choose {', '.join(BACKENDS)}"):
        make_runner(open_model(MODEL).extractor, "quick", sample=sample)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{resize}", "not JSON (Expecting property name"),
        ("resnet-5", "unknown; pass a name of the zoo (densenet-bc-100, "),
        (
            '{"resize": 8, "crop": 8, "size": 3}',
            "size unknown; pass resize and crop, and any of mean, std, ",
        ),
        ('{"crop": 8}', "resize missing; pass resize and crop, and any of mean, std, "),
        ('{"resize": 8, "crop": 9}', "crop=9 of resize=8; pass 0 < crop <= resize."),
        ('{"resize": 8, "crop": 8, "mean": null}', "mean=None is not a number; pass one number,"),
        ('{"resize": 8, "crop": 8, "mean": "x"}', "mean='x' is not a number; pass one number, or"),
        ('{"resize": 8, "crop": 8, "exif": 1}', "exif=1; pass True or False."),
    ],
)
def test_a_bad_transform_is_told_as_the_option(here: Path, capsys, text: str, message: str):
    error = run(
        capsys,
        "extract",
        "--model",
        "no:f",
        "no",
        "-o",
        "a",
        "--transform",
        text,
        code=2,
    )
    assert error.startswith(f"error: --transform {text}: {message}")
    assert "dict" not in error and "Preprocessing" not in error
    for words in ("unknown", "missing", "not JSON"):
        assert words not in error or "mean, std, interpolation, scale, exif" in error


def test_the_transform_says_whether_images_are_turned(here: Path, photos: Path, capsys):
    assert "resize, crop, mean, std" in " ".join(
        run(capsys, "extract", "--help").replace("│", " ").split()
    )
    for number, (exif, option, wanted) in enumerate(
        [
            ("false", (), False),
            ("true", (), True),
            ("false", ("--exif",), True),
            ("true", ("--no-exif",), False),
        ]
    ):
        transform = f'{{"resize": 8, "crop": 8, "exif": {exif}}}'
        bank = f"{number}.bank"
        run(capsys, "extract", "--model", MODEL, str(photos / "red"), "-o", bank,
            "--backend", "torch", "--batch", "8", "--threads", "1",
            "--transform", transform, *option)  # fmt: skip
        assert Bank.open(bank).identity["transform"]["exif"] is wanted


def test_choosing_with_images_corrupted_and_mixed(here: Path, photos: Path, capsys):
    run(
        capsys,
        "extract",
        "--model",
        MODEL,
        str(photos),
        "-o",
        "a.bank",
        "--backend",
        "torch",
    )
    arguments = (
        "choose",
        "a.bank",
        "--detectors",
        "ctm,energy,mahalanobis",
        "--images",
        str(photos),
    )
    document = json.loads(run(capsys, *arguments, "--model", MODEL, "--json", "-"))
    kinds = {
        "blur",
        "contrast",
        "gaussian_noise",
        "jpeg",
        "patch_shuffle",
        "pixelate",
        "rotated",
        "mixed",
        "halves",
    }
    assert set(document["near"]["ctm"]) == kinds and document["best"] in (
        "ctm",
        "energy",
        "mahalanobis",
    )
    assert document == json.loads(run(capsys, *arguments, "--model", MODEL, "--json", "-"))
    out = run(capsys, *arguments, "--model", MODEL)
    assert (
        "images changed (blur" in " ".join(out.split())
        and "weigh the same" in " ".join(out.split())
        and max(map(len, out.splitlines())) <= 80
    )
    error = run(capsys, *arguments[:-1], str(photos / "red"), "--model", MODEL, code=2)
    assert "not the images that the bank was made of" in error
    np.savez("z.npz", features=Bank.open("a.bank").features, labels=Bank.open("a.bank").labels)
    error = run(capsys, "choose", "z.npz", "--images", str(photos), code=2)
    assert "is not a bank of `typica extract`" in error


@pytest.mark.real
def test_the_real_network_on_real_images(checkpoint: Path, real, tmp_path: Path):
    opened = open_model("densenet-bc-100", checkpoint)
    pixels = np.load(REAL / "images" / "cifar10-test-2000.npz")
    images = open_images(pixels["images"][:100], labels=pixels["labels"][:100])
    bank = extract(images, opened, tmp_path / "test", settings=Settings(backend="openvino"))
    stored = real["test.features"][:100]
    assert np.abs(bank.features - stored).max() <= 1e-3 * stored.max()
    assert bank.accuracy == (real["test.labels"][:100] == np.argmax(bank.logits, axis=1)).mean()
    assert bank.identity["transform"] == zoo.transform("densenet-bc-100").to_dict()


def test_another_network_behind_the_same_weights_gets_no_old_bank(here: Path, photos: Path):
    extract(open_images(photos), open_model(MODEL), "a.bank", settings=PLAIN)
    Path("tiny.py").write_text(SOURCE.replace("nn.ReLU()", "nn.GELU()"))
    sys.modules.pop("tiny")
    with pytest.raises(InputError, match="weights is"):
        extract(open_images(photos), open_model(MODEL), "a.bank", settings=PLAIN)
    bent = "class ReLU(nn.Module):\n    def forward(self, x):\n        return abs(x)\n\n\n"
    source = SOURCE.replace("def network", bent + "def network").replace("nn.ReLU()", "ReLU()")
    Path("tiny.py").write_text(source)
    sys.modules.pop("tiny")
    with pytest.raises(InputError, match="tiny:network has changed"):
        extract(open_images(photos), open_model(MODEL), "a.bank", settings=PLAIN)


def test_features_of_another_network_are_refused(here: Path, photos: Path, capsys):
    bank_and_detector(capsys, photos)
    options = ("extract", "--model", MODEL, str(photos), "--backend", "torch")
    run(capsys, *options, "--weights", "1", "-o", "other.bank")
    for arguments in (
        ("score", "ctm.safetensors", "other.bank"),
        ("calibrate", "ctm.safetensors", "other.bank"),
        ("fit", "a.bank", "-o", "x.safetensors", "--calibrate", "other.bank"),
        ("evaluate", "ctm.safetensors", "a.bank", "--ood", "other.bank"),
        ("compare", "a.bank", "other.bank", "--ood", "a.bank"),
        ("choose", "a.bank", "--held-out", "other.bank"),
    ):
        assert "features of another network, weights" in run(capsys, *arguments, code=2), arguments
    run(
        capsys, *options, "--layers", "0.0", "-o", "more.bank"
    )  # with other layers beside: the features are the same
    run(capsys, "score", "ctm.safetensors", "more.bank")


def test_names_are_shown_as_they_are(here: Path, photos: Path, capsys):
    shutil.copytree(photos, here / "odd[")
    (here / "odd[" / "red").rename(here / "odd[" / "[bold]red")
    (here / "odd[" / "notes.txt").write_text("no image")
    run(
        capsys,
        "extract",
        "--model",
        MODEL,
        "odd[",
        "-o",
        "a.bank",
        "--backend",
        "torch",
    )
    run(capsys, "fit", "a.bank", "-o", "ctm.safetensors")
    assert "[bold]red" in run(capsys, "info", "ctm.safetensors")
    assert main_errors(
        capsys, "score", "ctm.safetensors", "odd[", "--model", MODEL, "--limit", "60"
    ).count("left out, not an image: odd[/notes.txt")


def main_errors(capsys, *arguments: str) -> str:
    """Return what a command that succeeds says on standard error."""
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    captured = capsys.readouterr()
    assert stop.value.code == 0 and "[bold]red" in captured.out
    return captured.err


def test_skipped_images_are_not_forgotten_by_a_stricter_run(here: Path, photos: Path):
    folder = here / "some"
    shutil.copytree(photos, folder)
    (folder / "blue" / "03.png").write_bytes(b"\x89PNG\r\n\x1a\nno")
    lenient = Settings("torch", 4, 1, on_error="skip")
    extract(open_images(folder), open_model(MODEL), "a.bank", settings=lenient)
    with pytest.raises(InputError, match=r"1 image skipped, e\.g\. .*03\.png"):
        extract(open_images(folder), open_model(MODEL), "a.bank", settings=PLAIN)
    assert len(extract(open_images(folder), open_model(MODEL), "a.bank", settings=lenient)) == 59


def test_a_network_that_refuses_the_images_and_a_model_that_moved(here: Path, photos: Path, capsys):
    options = (
        "extract",
        "--model",
        MODEL,
        str(photos),
        "-o",
        "a.bank",
        "--backend",
        "torch",
    )
    error = run(capsys, *options, "--transform", '{"resize": 2, "crop": 2}', code=2)
    assert (
        "the network does not take images of (3, 2, 2)" in error and "check the transform" in error
    )
    model = open_model(MODEL).extractor.model.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(model, torch.zeros(4, 3, 8, 8)).save("net.pt")
    transform = ("--transform", '{"resize": 8, "crop": 8}')
    run(
        capsys,
        "extract",
        "--model",
        "net.pt",
        "--trust",
        str(photos),
        "-o",
        "b.bank",
        *transform,
    )
    run(capsys, "fit", "b.bank", "-o", "ctm.safetensors")
    Path("net.pt").rename("moved.pt")
    photo = str(photos / "red" / "07.png")
    assert "is not there any more; say where it is, --model FILE" in run(
        capsys, "score", "ctm.safetensors", photo, code=2
    )
    run(capsys, "score", "ctm.safetensors", photo, "--model", "moved.pt", "--trust")
    assert "is a folder, not a bank" in run(capsys, "info", str(photos), code=2)


def test_what_was_found_in_the_network_is_said(here: Path, photos: Path, capsys):
    for number, (more, told, layer, head) in enumerate(
        (
            (
                (),
                "features are the input of the head (12 wide); the head is '1' (3 classes)",
                "penultimate",
                "3 classes x 12 features",
            ),
            (("--layer", "0.0"), "features are the output of '0.0' (12 wide); ", "0.0", "none"),
            (
                ("--layers", "0.0"),
                "features are the input of the head (12 wide)",
                "penultimate",
                "3 classes x 12 features",
            ),
        )
    ):
        arguments = [
            "extract",
            "--model",
            MODEL,
            str(photos),
            "-o",
            f"{number}.bank",
            *more,
        ]
        with pytest.raises(SystemExit):
            main([*arguments, "--backend", "torch", "--batch", "8", "--json", "a.json"])
        lines = capsys.readouterr().err.splitlines()
        assert [line for line in lines if line.startswith("Sequential: ") and told in line]
        assert [line for line in lines if line.startswith("torch, batch 8, ")]
        document = json.loads(Path("a.json").read_text())
        assert (document["layer"], document["head"]) == (layer, head)
        assert f"{layer}" in run(capsys, "info", f"{number}.bank") and head in run(
            capsys, "info", f"{number}.bank"
        )


def test_images_for_a_detector_of_logits_of_another_layer(here: Path, photos: Path, capsys):
    options = (
        "extract",
        "--model",
        MODEL,
        str(photos),
        "-o",
        "a.bank",
        "--backend",
        "torch",
    )
    run(capsys, *options, "--layer", "0.0")
    bank = Bank.open("a.bank")
    bank.to_parquet("a.parquet")
    logits = np.asarray(bank.logits, dtype=np.float64)
    for file in ("a.bank", "a.parquet"):
        run(capsys, "fit", file, "-o", "msp.safetensors", "--detector", "msp")
        document = json.loads(
            run(capsys, "score", "msp.safetensors", str(photos), "--model", MODEL, "--json", "-")
        )
        shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        np.testing.assert_allclose(
            [row["score"] for row in document["rows"]], shares.max(1), rtol=1e-5
        )


def test_beginning_again_spares_the_bank_until_the_network_runs(here: Path, photos: Path, capsys):
    options = (
        "extract",
        "--model",
        MODEL,
        str(photos),
        "-o",
        "a.bank",
        "--backend",
        "torch",
    )
    run(capsys, *options)
    before = tree(Path("a.bank"))
    for more, message in (
        (("--device", "nonsense"), "--device nonsense cannot be used here"),
        (
            ("--transform", '{"resize": 2, "crop": 2}'),
            "the network does not take images of (3, 2, 2)",
        ),
    ):
        assert message in run(capsys, *options, "--fresh", *more, code=2)
        assert tree(Path("a.bank")) == before
    run(capsys, *options, "--fresh", "--layer", "0.0")
    assert Bank.open("a.bank").identity["layer"] == "0.0"
    begun = here / "b.bank"
    begin(open_images(photos), "b.bank", 20)
    extract(
        open_images(photos),
        open_model(MODEL),
        "b.bank",
        settings=Settings("torch", 6, 1),
        fresh=True,
    )
    assert Bank.open(begun).settings["batch"] == 6  # not the one that it was begun with


def test_consent_that_is_not_needed_changes_nothing(here, photos):
    images, network = open_images(photos), open_model(MODEL)
    asked = extract(images, network, "a.bank", settings=PLAIN, trust=True)
    plain = extract(images, network, "b.bank", settings=PLAIN)
    np.testing.assert_array_equal(asked.features, plain.features)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"dtype": "float8"}, "dtype='float8' is unknown; choose one of float16, float32, float64"),
        ({"shard_rows": 0}, "shard_rows=0 is not an integer of at least 1"),
        ({"settings": {"batch": 4}}, r"settings are of type dict; pass Settings, e\.g\."),
        ({"classes": 5}, "classes=5; pass the names of the model's outputs, or a file of them"),
        ({"transform": len}, "transform of type builtin_function_or_method; pass a Preproc"),
        ({"layer": "0.0"}, "layer='0.0' for a model that is open already; pass it to open_model"),
        ({"reduce": "max"}, "reduce='max' for a model that is open already; pass it to open_model"),
    ],
)
def test_wrong_arguments_leave_the_bank_that_is_there(here, photos, wrong, message):
    images, network = open_images(photos), open_model(MODEL)
    extract(images, network, "a.bank", settings=PLAIN)
    before = tree(Path("a.bank"))
    with pytest.raises(InputError, match=f"^extract: {message}"):
        extract(images, network, "a.bank", **{"settings": PLAIN, **wrong}, fresh=True)
    assert tree(Path("a.bank")) == before


@pytest.mark.parametrize("kind", [RuntimeError, ValueError, AssertionError, IndexError])
def test_a_network_refuses_a_size_in_its_own_way(tmp_path, photos, kind):
    class Picky(torch.nn.Linear):
        def forward(self, x):
            raise kind("images of 16 x 16 alone")

    with pytest.raises(
        InputError,
        match=r"^extract: the network does not take images of \(3, 8, 8\) \(images of 16 x 16 al",
    ):
        extract(photos, Picky(4, 3), tmp_path / "a.bank", Preprocessing(8, 8), settings=PLAIN)


def test_a_link_to_nothing_is_a_image_that_cannot_be_read(here: Path, photos: Path, capsys):
    shutil.copytree(photos, "some")
    Path("some/red/gone.png").symlink_to("nowhere.png")
    options = (
        "extract",
        "--model",
        MODEL,
        "some",
        "-o",
        "a.bank",
        "--backend",
        "torch",
    )
    assert "red/gone.png: cannot be read (No such file or directory)" in run(
        capsys, *options, code=2
    )
    assert json.loads(run(capsys, *options, "--on-error", "skip", "--json", "-"))["skipped"] == 1
