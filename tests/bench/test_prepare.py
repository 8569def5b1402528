"""A suite on images: run once into banks, measured from them, shown in a report."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.networks import torch_is_talkative
from helpers.real import REAL
from helpers.shell import run
from helpers.tinynet import MODEL, SOURCE, write_images, write_noise

from typica.bank import Bank
from typica.bench import load_suite, prepare, run_experiment
from typica.detectors import LayerEnsemble
from typica.errors import InputError
from typica.nets import ODIN, LayerPerturb, Settings, _start_runner, open_model

SUITE = f"""
title = "Colours"
model = "{MODEL}"
layers = ["0.0"]

[id]
train = {{ path = "train" }}
test = {{ path = "test" }}

[ood]
noise = {{ path = "noise" }}
svhn = {{ set = "svhn" }}

[methods.msp]
[methods.odin]
[methods.ctm]
"""
PLAIN = Settings(backend="torch", batch=8, threads=1)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a network, images and a suite."""
    (tmp_path / "tiny.py").write_text(SOURCE)
    (tmp_path / "colours.toml").write_text(SUITE)
    write_images(tmp_path / "train", 12, seed=1)
    write_images(tmp_path / "test", 10, seed=2)
    write_noise(tmp_path / "noise")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TYPICA_HOME", str(tmp_path / "home"))
    monkeypatch.delitem(sys.modules, "tiny", raising=False)
    return tmp_path


def test_every_bank_is_opened_once(here: Path, monkeypatch: pytest.MonkeyPatch):
    suite = load_suite("colours.toml")
    prepare(suite, None, settings=PLAIN, model=MODEL)
    opened: Counter[str] = Counter()
    open_bank = Bank.open.__func__

    def counting(cls, path):
        opened[Path(path).name.rpartition("-")[0]] += 1
        return open_bank(cls, path)

    monkeypatch.setattr(Bank, "open", classmethod(counting))
    sets = prepare(suite, None, settings=PLAIN, model=MODEL)
    sets.images["noise"][0]
    assert opened == {"train": 1, "test": 1, "noise": 1, "test-odin": 1, "noise-odin": 1}


def test_features_layers_scores_and_images_of_every_set(here: Path):
    suite = load_suite("colours.toml")
    sets = prepare(suite, None, settings=PLAIN, model=MODEL)
    banks = {path.name.rpartition("-")[0]: Bank.open(path) for path in Path("home/banks").iterdir()}
    assert set(banks) == {"train", "test", "noise", "test-odin", "noise-odin"}
    assert (
        sets.train.shape == (36, 12) and sets.test.shape == (30, 12) and set(sets.ood) == {"noise"}
    )
    np.testing.assert_array_equal(sets.ood["noise"], banks["noise"].features)
    assert set(sets.layers["0.0"]) == {"train", "test", "noise"} and sets.layers["0.0"][
        "test"
    ].shape == (30, 12)
    assert sets.classes.tolist() == ["blue", "green", "red"] and set(sets.test_labels) == {
        "blue",
        "green",
        "red",
    }
    assert "typica data get svhn" in sets.missing["svhn"]

    opened = open_model(MODEL)
    model, transform = opened.extractor, opened.transform
    pixels = transform([sets.images["noise"][row][1] for row in range(30)])
    expected = ODIN(model, std=transform.std).score_samples(pixels).numpy()
    np.testing.assert_allclose(sets.scores["odin"]["noise"], expected, rtol=1e-5)
    assert sets.images["noise"][7][0] == "07.png"


def test_a_suite_gives_the_order_of_the_outputs(here: Path):
    names = ["red", "blue", "green"]
    Path("colours.toml").write_text(f"classes = {names}\n{SUITE}")
    suite = load_suite("colours.toml")
    assert suite.to_dict()["classes"] == names
    sets = prepare(suite, None, settings=PLAIN, model=MODEL)
    assert sets.classes.tolist() == names
    told = [sets.images["test"][row][0].split("/")[0] for row in range(30)]
    assert sets.test_labels.tolist() == told
    Path("colours.toml").write_text(f"classes = {['red', 'green']}\n{SUITE}")
    with pytest.raises(InputError, match="a class 'blue', which is not among the 2 given"):
        prepare(load_suite("colours.toml"), None, settings=PLAIN, model=MODEL)
    Path("colours.toml").write_text(f"classes = {[*names, 'grey']}\n{SUITE}")
    with pytest.raises(InputError, match="4 classes for the network's 3 outputs"):
        prepare(load_suite("colours.toml"), None, settings=PLAIN, model=MODEL)


@pytest.mark.parametrize(("written", "meant"), [("1", 1.0), ("[0.5, 1, 2]", [0.5, 1.0, 2.0])])
def test_a_step_is_divided_by_what_the_suite_says(here: Path, written, meant):
    step = f"[methods.odin]\nepsilon = 0.05\nstd = {written}\n"
    Path("colours.toml").write_text(SUITE.replace("[methods.odin]\n", step))
    sets = prepare(load_suite("colours.toml"), None, settings=PLAIN, model=MODEL)
    opened = open_model(MODEL)
    pixels = opened.transform([sets.images["noise"][row][1] for row in range(30)])
    expected = ODIN(opened.extractor, epsilon=0.05, std=meant).score_samples(pixels).numpy()
    np.testing.assert_allclose(sets.scores["odin"]["noise"], expected, rtol=1e-5)


def test_mahalanobis_over_layers_from_images(here: Path):
    """Weights from training images and copies of them that mislead; no OOD image is looked at."""
    step = "[methods.mahalanobis_layers]\nepsilon = 0.01\nimages = 24\n[methods.layer_ensemble]\n"
    Path("colours.toml").write_text(SUITE + step)
    suite = load_suite("colours.toml")
    sets = prepare(suite, None, settings=PLAIN, model=MODEL)
    bank = Bank.open(next(Path("home/banks").glob("train-*")))
    opened = open_model(MODEL, layers=["0.0", "penultimate"])
    ensemble = LayerEnsemble(combine="linear").fit(bank)
    detector = LayerPerturb(opened.extractor, ensemble, 0.01, opened.transform.std)
    rows = np.linspace(0, 35, 24).round().astype(int)
    known = opened.transform([sets.images["train"][row][1] for row in rows.tolist()])
    pixels = opened.transform([sets.images["noise"][row][1] for row in range(30)])
    expected = detector.learn(known, steps=None).score_samples(pixels)
    np.testing.assert_allclose(sets.scores["mahalanobis_layers"]["noise"], expected, rtol=1e-3)
    record = run_experiment("main", suite, sets, suite.methods).record
    assert {"mahalanobis_layers", "layer_ensemble"} <= set(record.rows)
    without = run_experiment("main", suite, replace(sets, layers={}, scores={}), suite.methods)
    assert without.record.skipped["layer_ensemble"].tag == "needs layers"
    assert without.record.skipped["mahalanobis_layers"].tag == "needs images"


def test_a_second_run_opens_the_banks(here: Path, monkeypatch):
    suite = load_suite("colours.toml")
    first = prepare(suite, None, cache=Path("cache"), settings=PLAIN, model=MODEL)
    monkeypatch.setattr("typica.nets._start_runner.make_runner", None)  # nothing may be run
    monkeypatch.setattr("typica.nets.ODIN.score_samples", None)
    again = prepare(suite, None, cache=Path("cache"), settings=PLAIN, model=MODEL)
    for name in ("train", "test"):
        np.testing.assert_array_equal(getattr(again, name), getattr(first, name))
    np.testing.assert_array_equal(again.scores["odin"]["noise"], first.scores["odin"]["noise"])
    assert len(list(Path("cache").iterdir())) == 5


def test_another_transform_gets_banks_of_its_own(here: Path):
    prepare(load_suite("colours.toml"), None, cache=Path("cache"), settings=PLAIN, model=MODEL)
    Path("other.toml").write_text(
        SUITE.replace("[id]", "[transform]\nmean = [0.5, 0.5, 0.5]\n\n[id]")
    )
    prepare(load_suite("other.toml"), None, cache=Path("cache"), settings=PLAIN, model=MODEL)
    assert len(list(Path("cache").iterdir())) == 10


def test_an_interrupted_run_goes_on(here: Path, monkeypatch):
    suite = load_suite("colours.toml")
    whole = prepare(suite, None, cache=Path("whole"), settings=PLAIN, model=MODEL)
    score, calls = ODIN.score_samples, []

    def failing(self, images, batch_size=64):
        calls.append(len(images))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return score(self, images, batch_size)

    monkeypatch.setattr(ODIN, "score_samples", failing)
    with pytest.raises(KeyboardInterrupt):
        prepare(suite, None, cache=Path("part"), settings=PLAIN, model=MODEL)
    again = prepare(suite, None, cache=Path("part"), settings=PLAIN, model=MODEL)
    np.testing.assert_array_equal(again.scores["odin"]["test"], whole.scores["odin"]["test"])


def test_bench_on_images_with_a_report(here: Path, capsys):
    arguments = (
        "bench",
        "colours.toml",
        "--model",
        MODEL,
        "--data",
        ".",
        "--cache",
        "cache",
        "--backend",
        "torch",
    )
    first = run(capsys, *arguments, "--report", "--json", "first.json")
    assert "odin" in first and "svhn" in first and max(map(len, first.splitlines())) <= 80
    run(capsys, *arguments, "--json", "second.json")
    assert Path("first.json").read_bytes() == Path("second.json").read_bytes()
    document = json.loads(Path("first.json").read_text())
    assert set(document["results"]) == {"msp", "odin", "ctm"} and "svhn" in document["skipped"]
    gallery = json.loads(Path("colours-result/gallery.json").read_text())
    assert {"typical", "borderline"} <= {entry["kind"] for entry in gallery}
    assert all(entry["nearest"] in ("blue", "green", "red") for entry in gallery)
    assert all(Path("colours-result", entry["file"]).is_file() for entry in gallery)
    page = Path("colours-result/report.html").read_text()
    assert "data:image/png;base64," in page and "Colours" in page
    out = run(capsys, *arguments, "--experiment", "layers")
    assert "0.0" in out and "penultimate" in out


def test_what_is_missing_is_said_before_the_work(here: Path, capsys):
    Path("bad.toml").write_text(SUITE.replace('path = "test"', 'set = "cifar10", split = "test"'))
    error = run(capsys, "bench", "bad.toml", "--data", ".", code=2)
    assert "lacks test (absent:" in error and "typica data get cifar10" in error
    assert not Path("home/banks").exists()
    Path("flat.toml").write_text(SUITE.replace('path = "test"', 'path = "noise"'))
    with pytest.raises(
        InputError, match="test has no labels; keep its images in one folder per class"
    ):
        prepare(load_suite("flat.toml"), None, settings=PLAIN, model=MODEL)
    Path("headless.toml").write_text(SUITE.replace(MODEL, "missing:network"))
    with pytest.raises(InputError, match="there is no module 'missing'"):
        prepare(load_suite("headless.toml"), None, settings=PLAIN, model="missing:network")


def test_a_suite_runs_code_only_where_it_is_agreed_to(here: Path, capsys):
    Path("evil.py").write_text("open('ran', 'w').close()\ndef network(): pass\n")
    Path("evil.toml").write_text(SUITE.replace(MODEL, "evil:network"))
    error = run(capsys, "bench", "evil.toml", "--data", ".", code=2)
    assert "its network is the function evil:network, whose code runs only if you name" in error
    assert "--model evil:network." in error and not Path("ran").exists()


def test_every_set_of_a_run_goes_through_one_backend(here: Path, monkeypatch):
    tried = []

    def made(*args, **options):
        tried.append(args[1])
        # Were it tried again, another one would be the quickest.
        backend = "torch" if args[1] != "auto" else ["torch", "onnx"][tried.count("auto") - 1]
        size = options.pop("batch") or 3 + len(tried)
        return honest(args[0], backend, **options | {"batch": size, "threads": 1})

    honest = _start_runner.make_runner
    monkeypatch.setattr(_start_runner, "make_runner", made)
    prepare(load_suite("colours.toml"), None, settings=Settings(), model=MODEL)
    banks = [Bank.open(path) for path in Path("home/banks").iterdir() if "odin" not in path.name]
    runs = {(bank.settings["backend"], bank.settings["batch"]) for bank in banks}
    assert len(banks) == 3 and runs == {("torch", 4)}
    assert tried == ["auto", "torch", "torch", "torch"]
    # A set that comes later is run as the others were, even where the choice was forgotten.
    shutil.rmtree("home/backends")
    shutil.rmtree(next(Path("home/banks").glob("noise-[0-9a-f]*")))
    prepare(load_suite("colours.toml"), None, settings=Settings(), model=MODEL)
    assert tried.count("auto") == 1
    again = Bank.open(next(Path("home/banks").glob("noise-[0-9a-f]*")))
    assert (again.settings["backend"], again.settings["batch"]) == ("torch", 4)


def test_a_suite_asks_for_its_function_each_time(here: Path, capsys):
    bench = ("bench", "colours.toml", "--data", ".", "--cache", "cache", "--backend", "torch")
    for _ in range(2):
        sys.modules.pop("tiny", None)
        error = run(capsys, *bench, "--trust", code=2)
        assert "whose code runs only if you name it here: --model tiny:network." in error
        assert "tiny" not in sys.modules
        run(capsys, *bench, "--model", MODEL)
    error = run(capsys, *bench, "--model", "other:network", code=2)
    assert "its model is tiny:network, not other:network; name that, or leave --model out" in error


def test_a_suite_of_another_kind_of_network_takes_no_function(here: Path):
    Path("zoo.toml").write_text(SUITE.replace(MODEL, "resnet-18"))
    with pytest.raises(InputError, match="its model is resnet-18, not tiny:network"):
        prepare(load_suite("zoo.toml"), None, settings=PLAIN, model=MODEL)


def test_banks_of_a_suite_are_made_anew_when_the_code_of_its_network_changes(here: Path):
    suite = load_suite("colours.toml")
    before = prepare(suite, None, settings=PLAIN, model=MODEL)
    kind = "class ReLU(nn.Module):\n    def forward(self, x):\n        return {}\n"
    source = Path("tiny.py").read_text().replace("nn.ReLU()", "ReLU()")
    sums = []
    for act in ("x.relu()", "x.relu() ** 2"):
        made = kind.format(act)
        Path("tiny.py").write_text(source.replace("def network", f"{made}\n\ndef network"))
        sys.modules.pop("tiny", None)
        found = prepare(suite, None, settings=PLAIN, model=MODEL)
        sums.append([float(found.train.sum()), float(found.scores["odin"]["test"].sum())])
    np.testing.assert_allclose(sums[0][0], before.train.sum(), rtol=1e-5)
    assert all(first != second for first, second in zip(*sums, strict=True))
    assert len(list(Path("home/banks").glob("train-*"))) == 1


def test_banks_and_feature_files_are_taken_as_they_are(here: Path):
    prepare(load_suite("colours.toml"), None, cache=Path("cache"), settings=PLAIN, model=MODEL)
    bank = next(
        path
        for path in Path("cache").iterdir()
        if path.name.startswith("noise-") and "odin" not in path.name
    )
    np.save("noise.npy", Bank.open(bank).features)
    for place in (bank, "noise.npy"):
        Path("mixed.toml").write_text(SUITE.replace('path = "noise"', f'path = "{place}"'))
        sets = prepare(
            load_suite("mixed.toml"), None, cache=Path("cache"), settings=PLAIN, model=MODEL
        )
        np.testing.assert_array_equal(sets.ood["noise"], Bank.open(bank).features)
        assert "noise" not in sets.images and sets.scores == {}


@pytest.mark.real
def test_deeper_layers_of_the_real_network_tell_more(
    checkpoint: Path, tmp_path: Path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name, rows in {
        "cifar10-train": 300,
        "cifar10-test": 200,
        "svhn": 200,
        "textures": 200,
    }.items():
        size = 1200 if name == "textures" else 2000
        file = np.load(REAL / "images" / f"{name}-{size}.npz")
        np.savez(f"{name}.npz", **{key: file[key][:rows] for key in file.files})
    Path("real.toml").write_text(
        f"""
        model = "densenet-bc-100"
        weights = "{checkpoint}"
        layers = ["conv1", "trans1", "trans2", "block3"]
        id.train.path = "cifar10-train.npz"
        id.test.path = "cifar10-test.npz"
        ood.svhn.path = "svhn.npz"
        ood.textures.path = "textures.npz"
        transform.exif = false
        [methods.ctm]
        """
    )
    arguments = (
        "bench",
        "real.toml",
        "--data",
        ".",
        "--cache",
        "cache",
        "--experiment",
        "layers",
        "--json",
        "-",
    )
    results = json.loads(run(capsys, *arguments, "--backend", "openvino"))["results"]
    means = [
        results[layer]["average"]["auroc"] for layer in ("conv1", "trans1", "trans2", "block3")
    ]
    assert means == sorted(means) and means[0] < means[-1]


def test_images_that_are_left_out_are_named(here: Path, capsys):
    (here / "noise" / "00.png").write_bytes(b"\x89PNG\r\n\x1a\nno")
    (here / "noise" / "readme.txt").write_text("no image")
    arguments = (
        "bench",
        "colours.toml",
        "--model",
        MODEL,
        "--data",
        ".",
        "--cache",
        "cache",
        "--backend",
        "torch",
    )
    assert "00.png" in run(capsys, *arguments, code=2)
    document = json.loads(run(capsys, *arguments, "--on-error", "skip", "--json", "-"))
    assert document["n"]["noise"] == 29 and len(document["left_out"]["noise"]) == 2
    assert (
        "readme.txt" in document["left_out"]["noise"][0]
        and "00.png" in document["left_out"]["noise"][1]
    )
    assert "1 image skipped" in run(capsys, *arguments, code=2)


def test_only_what_an_experiment_needs_is_run(here: Path, capsys):
    run(
        capsys,
        "bench",
        "colours.toml",
        "--model",
        MODEL,
        "--data",
        ".",
        "--cache",
        "cache",
        "--experiment",
        "layers",
    )
    assert not [path for path in Path("cache").iterdir() if "odin" in path.name]


def test_without_any_ood_set_nothing_starts(here: Path, capsys):
    Path("none.toml").write_text(SUITE.replace('noise = { path = "noise" }', ""))
    named = ("bench", "none.toml", "--model", MODEL)
    error = run(capsys, *named, "--data", ".", "--cache", "cache", code=2)
    assert "has none of its OOD sets: svhn (absent: " in error and not Path("cache").exists()


def test_a_bank_of_another_network_is_no_set_of_a_suite(here: Path):
    prepare(load_suite("colours.toml"), None, cache=Path("cache"), settings=PLAIN, model=MODEL)
    bank = next(
        path
        for path in Path("cache").iterdir()
        if path.name.startswith("noise-") and "odin" not in path.name
    )
    Path("other.toml").write_text(
        SUITE.replace('path = "noise"', f'path = "{bank}"').replace("[id]", 'weights = "1"\n[id]')
    )
    Path("1").touch()
    with pytest.raises(InputError, match="features of another network, weights"):
        prepare(load_suite("other.toml"), None, cache=Path("cache"), settings=PLAIN, model=MODEL)


def test_names_that_leave_the_folder_are_refused(here: Path):
    Path("bad.toml").write_text('name = "../up"\n' + SUITE.replace("noise =", '"../noise" ='))
    with pytest.raises(InputError) as error:
        load_suite("bad.toml")
    assert "name = '../up': expected a text that can be a file's name" in str(error.value)
    assert "ood.../noise: give it a name that can be a file's" in str(error.value)


def test_a_head_of_other_classes_judges_nothing(here: Path, capsys):
    write_images(here / "more", 6, seed=3)
    for split in ("train", "test"):
        (here / split / "red").rename(here / split / "rot")
        for i in range(4):
            shutil.copytree(here / "more" / "green", here / split / f"extra{i}")
    arguments = (
        "bench",
        "--model",
        MODEL,
        "colours.toml",
        "--data",
        ".",
        "--cache",
        "cache",
        "--backend",
        "torch",
        "--json",
        "-",
    )
    document = json.loads(run(capsys, *arguments))
    assert set(document["accuracy"]) == {"cm"} and "aurc" not in document["results"]["ctm"]
    assert "the classes of the head are not those of the labels" in document["skipped"]["accuracy"]
    np.savez("test.npz", images=np.zeros((4, 8, 8, 3), np.uint8), labels=[0, 1, 2, 0])
    Path("mixed.toml").write_text(SUITE.replace('path = "test"', 'path = "test.npz"'))
    with pytest.raises(InputError, match=r"test has the label .* which train lacks"):
        prepare(load_suite("mixed.toml"), None, settings=PLAIN, model=MODEL)


def test_an_earlier_gallery_goes_and_other_files_stay(here: Path, capsys):
    arguments = ("bench", "digits", "-o", "out", "--methods", "ctm")
    run(capsys, *arguments)
    Path("out/gallery/holiday.jpg").write_text("mine")
    first = len(list(Path("out/gallery").iterdir()))
    run(capsys, *arguments)
    assert (
        len(list(Path("out/gallery").iterdir())) == first
        and Path("out/gallery/holiday.jpg").exists()
    )


def test_a_report_without_a_head(here: Path, capsys):
    sets = prepare(load_suite("colours.toml"), None, settings=PLAIN, model=MODEL)
    Path("plain").mkdir()
    for name, rows in {
        "train": sets.train,
        "test": sets.test,
        "ood.noise": sets.ood["noise"],
    }.items():
        np.save(f"plain/{name}.features.npy", rows)
    np.save("plain/train.labels.npy", sets.train_labels)
    np.save("plain/test.labels.npy", sets.test_labels)
    run(capsys, "bench", "colours.toml", "--features", "plain", "--report", "--methods", "ctm")
    assert (
        Path("colours-result/report.html").exists()
        and not Path("colours-result/analysis.json").exists()
    )


def test_a_model_file_lies_beside_its_suite(here: Path, monkeypatch):
    model = open_model(MODEL).extractor.model.eval()
    with torch_is_talkative():
        torch.jit.trace(model, torch.zeros(8, 3, 8, 8)).save("net.pt")
    text = (
        SUITE.replace(MODEL, "net.pt").replace('layers = ["0.0"]', "").replace("[methods.odin]", "")
    )
    Path("file.toml").write_text(text.replace("[id]", "[transform]\nresize = 8\ncrop = 8\n\n[id]"))
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    with pytest.raises(InputError, match=r"can run any code .* agree with trust=True"):
        prepare(load_suite("../file.toml"), None, settings=PLAIN)
    sets = prepare(load_suite("../file.toml"), None, settings=PLAIN, trust=True)
    assert sets.test.shape == (30, 12)


def test_options_of_bench_that_make_no_sense(here: Path, capsys):
    assert "needs data; pass --data DIR" in run(capsys, "bench", "cifar10-densenet", code=2)
    Path("bad.toml").write_text(SUITE.replace("noise =", "average ="))
    assert "ood.average: the name is reserved" in run(
        capsys, "bench", "bad.toml", "--data", ".", code=2
    )
