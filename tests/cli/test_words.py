"""One vocabulary in every command.

Data are arguments, levels are alpha, and files are called what they are.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.data import Data
from helpers.shell import run
from PIL import Image
from safetensors.numpy import save_file

import typica
from typica import Monitor
from typica.cli import main
from typica.data import ImageError, Preprocessing, image_batches, open_images
from typica.errors import InputError, in_shell
from typica.kinds import kind_of


@pytest.fixture
def folder(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("train", "held_out", "test", "ood", "labels"):
        np.save(f"{name}.npy", getattr(data, name))
    detector = typica.CTM().fit(data.train, data.labels).calibrate(data.held_out)
    detector.save("ctm.safetensors")
    return tmp_path


def document(capsys, *arguments: str) -> tuple[dict, str]:
    """Return what a command gives as JSON, and what it says beside."""
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--json", "-"])
    captured = capsys.readouterr()
    assert stop.value.code == 0, captured.err
    return json.loads(captured.out), captured.err


LEVELS = {
    "fit": "fit train.npy --labels labels.npy -o a.safetensors --calibrate held_out.npy",
    "calibrate": "calibrate ctm.safetensors held_out.npy -o a.safetensors",
    "evaluate": "evaluate ctm.safetensors test.npy --ood ood.npy",
    "score": "score ctm.safetensors test.npy",
}


@pytest.mark.parametrize("command", LEVELS)
def test_alpha_and_tpr_are_one_choice_in_every_command(folder, capsys, command):
    arguments = LEVELS[command].split()
    by_alpha, _ = document(capsys, *arguments, "--alpha", "0.2")
    by_tpr, _ = document(capsys, *arguments, "--tpr", "0.8")
    assert by_alpha == by_tpr != document(capsys, *arguments)[0]
    error = run(capsys, *arguments, "--alpha", "0.2", "--tpr", "0.8", code=2)
    assert "--alpha 0.2 and --tpr 0.8 say the same thing twice; pass one of them." in error
    error = run(capsys, *arguments, "--alpha", "7", code=2)
    assert "--alpha 7 is not a share; pass a number at least 0 and below 1." in error


@pytest.fixture
def files(folder: Path, data: Data, capsys, monkeypatch) -> Path:
    """One file of every kind."""
    Image.new("RGB", (8, 8)).save("photo.png")
    np.save("photos.npy", np.zeros((2, 8, 8, 3), dtype=np.uint8))
    typica.write_bank("train.bank", data.train.astype(np.float32), labels=data.labels)
    typica.save(data.head, "head.safetensors")
    save_file({"weight": data.head.weight, "bias": data.head.bias}, "layer.safetensors")
    Monitor(typica.load("ctm.safetensors")).save("watch.safetensors")
    run(capsys, "suite", "init", "my.toml")
    run(capsys, "score", "ctm.safetensors", "test.npy", "-o", "rows.csv")
    (folder / "results").mkdir()
    (folder / "results" / "result.json").write_text('{"suite": "x", "protocol": {}, "results": {}}')
    (folder / "photos").mkdir()
    (folder / "net.onnx").write_bytes(b"\x08\x07")
    (folder / "table.parquet").write_bytes(b"PAR1\x15\x04\x15")
    return folder


KINDS = {  # what each of the files is called
    "train.npy": "holds features",
    "labels.npy": "holds labels",
    "test.npy": "holds features",
    "photos.npy": "holds images",
    "photo.png": "is an image",
    "train.bank": "is a bank",
    "head.safetensors": "holds a head",
    "layer.safetensors": "holds a head",
    "ctm.safetensors": "holds a detector",
    "watch.safetensors": "holds a monitor's state",
    "my.toml": "is a suite",
    "rows.csv": "holds verdicts",
    "results": "is the result of a benchmark",
    "photos": "is a folder",
    "net.onnx": "holds a network",
    "table.parquet": "holds a table",
}


def test_every_kind_of_file_is_known(files):
    assert {name: kind_of(name) for name in KINDS} == KINDS
    Path("odd.npy").write_bytes(b"\x93NUMPY")
    Path("odd.safetensors").write_bytes(b"\xff" * 64)
    assert kind_of("odd.npy") is kind_of("odd.safetensors") is kind_of("absent") is None


WRONG = [  # a command with {} for the file, what it wants there, and files that are something else
    ("score {} test.npy", "a detector", [name for name in KINDS if name != "ctm.safetensors"]),
    ("calibrate {} held_out.npy", "a detector", ["train.npy", "watch.safetensors"]),
    ("evaluate {} test.npy --ood ood.npy", "a detector", ["train.npy", "train.bank"]),
    ("explain {} test.npy", "a detector", ["test.npy", "head.safetensors"]),
    ("monitor {}", "a detector", ["train.npy", "head.safetensors"]),
    ("info {}", "a detector", ["train.npy", "photo.png", "my.toml", "watch.safetensors"]),
    ("fit {} -o x.safetensors", "features", ["ctm.safetensors", "labels.npy"]),
    ("fit {} -o x.safetensors", "features", ["my.toml", "results", "net.onnx"]),
    ("score ctm.safetensors {}", "features", ["ctm.safetensors", "labels.npy"]),
    ("fit train.npy --labels {} -o x.safetensors", "labels", ["train.npy", "ctm.safetensors"]),
    (
        "fit train.npy --detector msp --head {} -o x.safetensors",
        "a head",
        ["ctm.safetensors", "train.npy"],
    ),
    ("bench {}", "a suite", ["train.npy", "ctm.safetensors", "train.bank"]),
    ("report {}", "the result of a benchmark", ["train.bank", "train.npy"]),
    ("extract {} --model nowhere:f -o x.bank", "images", ["ctm.safetensors", "train.npy"]),
]


@pytest.mark.parametrize(
    ("command", "wanted", "file"),
    [(command, wanted, file) for command, wanted, files in WRONG for file in files],
)
def test_the_wrong_kind_of_file_is_called_what_it_is(files, capsys, command, wanted, file):
    before = {path.name for path in files.iterdir()}
    error = " ".join(run(capsys, *command.format(file).split(), code=2).split())
    assert error.startswith(f"error: {file} {KINDS[file]}, not {wanted}; "), error
    assert {path.name for path in files.iterdir()} == before


SHELL = [  # what is typed, and how the message ends
    (
        "fit train.npy --detector cw -o x.safetensors",
        "error: train.npy: no head; pass --head FILE.",
    ),
    (
        "fit train.npy --labels labels.npy --detector msp -o x.safetensors",
        "for features pass --head FILE, for logits leave out the labels.",
    ),
    (
        "fit train.npy --labels labels.npy --param correct_only=true -o x.safetensors",
        "correct_only needs a head to tell what is correct; pass --head FILE.",
    ),
    (
        "fit train.npy --detector relative_mahalanobis",
        "error: train.npy: needs labels; pass --labels FILE.",
    ),
    ("choose train.npy --labels labels.npy --detectors cw", "pass --head FILE, or name others."),
    (
        "score part.safetensors test.npy --only atypical",
        "run `typica calibrate` with held-out inputs.",
    ),
    ("score ctm.safetensors test.npy --fdr 0.1 --alpha 0.2", "leave out --alpha and --confidence."),
    (
        "score ctm.safetensors nan.npy",
        "error: nan.npy: row 3 of the features holds NaN or infinity",
    ),
    (
        "explain ctm.safetensors nan.npy",
        "error: nan.npy: row 3 of the features holds NaN or infinity",
    ),
    (
        "explain ctm.safetensors test.npy --row 0 --bank narrow.npy",
        "error: --bank: X has 5 features",
    ),
    (
        "calibrate knn.safetensors test.npy --by-class",
        "matches no classes; leave out --by-class, or",
    ),
    ("monitor ctm.safetensors --alpha 5", "error: --alpha 5 is not a share"),
]


@pytest.mark.parametrize(("command", "message"), SHELL)
def test_the_shell_speaks_of_its_own_options(folder, data: Data, capsys, command, message):
    typica.CTM().partial_fit(data.train, data.labels).save("part.safetensors")
    typica.KNN(k=3).fit(data.train).save("knn.safetensors")
    holed = data.test.copy()
    holed[3, 2] = np.nan
    np.save("nan.npy", holed)
    np.save("narrow.npy", data.test[:, :5])
    error = " ".join(run(capsys, *command.split(), code=2).split())
    assert message in error
    assert "typica.Head" not in error and "head=" not in error
    assert ".fit:" not in error and "judge:" not in error  # functions that nobody has typed


def test_python_hears_of_functions_and_arguments(data: Data):
    with pytest.raises(InputError, match=r"^CW.fit: no head; pass head=typica.Head\(weight, bias"):
        typica.CW().fit(data.train)


def test_without_a_threshold_the_scores_are_given_as_json(folder, data: Data, capsys):
    typica.CTM().partial_fit(data.train, data.labels).save("part.safetensors")
    told, _ = document(capsys, "score", "part.safetensors", "test.npy")
    assert told["detector"] == "ctm" and set(told["rows"][0]) >= {"row", "score", "nearest"}


def test_an_image_that_cannot_be_read_names_the_way_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.png").write_bytes(b"no image")
    Image.new("RGB", (8, 8)).save("b.png")
    batches = {"one": open_images(["a.png"]), "two": open_images(["a.png", "b.png"])}
    with pytest.raises(ImageError, match=r"leave it out\. With on_error='skip' such images are"):
        list(image_batches(batches["two"], Preprocessing(8, 8), 2))
    with (
        in_shell(),
        pytest.raises(ImageError, match=r"\. With --on-error skip such images are left out\.$"),
    ):
        list(image_batches(batches["two"], Preprocessing(8, 8), 2))
    with pytest.raises(ImageError) as alone:
        list(image_batches(batches["one"], Preprocessing(8, 8), 2))
    assert "skip" not in str(alone.value)
