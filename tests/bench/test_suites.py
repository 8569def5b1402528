"""Suites as data, and the features that stand behind them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers.data import Data
from helpers.shell import run
from helpers.watcher import Watcher

from typica import CTM, KNN
from typica.bench import (
    PAPER,
    FeatureSuite,
    Suite,
    Workbench,
    builtin_features,
    digits,
    init_text,
    list_suites,
    load_suite,
    named_methods,
    published,
    read_features_folder,
    run_experiment,
    suite_text,
    tables_of,
)
from typica.detectors import Detector, Ensemble
from typica.errors import FormatError, InputError
from typica.metrics import evaluate
from typica.nets import zoo
from typica.progress import watched_by

GOOD = """
model = "resnet-50"
[id]
train = { path = "train" }
test = { set = "imagenet", split = "val" }
[ood]
far = { path = "far" }
[methods.ctm]
"""


@pytest.fixture
def suite(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "my.toml"
        path.write_text(text)
        return path

    return write


def fill(folder: Path, data: Data, dtype=np.float32, ood: tuple[str, ...] = ("far",)) -> Path:
    arrays = {
        "train.features": data.train.astype(dtype),
        "train.labels": data.labels,
        "test.features": data.test.astype(dtype),
        "test.labels": np.arange(len(data.test)) % 4,
        "head.weight": data.head.weight.astype(np.float32),
        "head.bias": data.head.bias.astype(np.float32),
    } | {f"ood.{name}.features": data.ood.astype(dtype) for name in ood}
    folder.mkdir(exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


@pytest.fixture
def filled(data: Data, tmp_path: Path) -> Path:
    return fill(tmp_path / "features", data)


@pytest.fixture
def described() -> Suite:
    return replace(load_suite("cifar10-densenet"), near=("near-by",))


def printed_step(name: str) -> tuple[float, object]:
    """The step of ODIN's printed row and its divisor, as the DICE and ReAct papers have them."""
    step = load_suite(name).methods["odin"]
    return step["epsilon"], step.get("std", "transform")


def test_the_shipped_suites_are_whole():
    assert list_suites() == [
        "cifar10-densenet", "cifar10-wrn", "cifar100-densenet", "cifar100-wrn", "clinc150",
        "digits", "imagenet-lite0", "imagenet-mobilenetv2", "imagenet-resnet50",
        "openood-cifar10", "openood-cifar100", "openood-imagenet", "openood-imagenet200",
    ]  # fmt: skip
    others = ("clinc150", "openood-")
    of_paper = [name for name in list_suites() if not name.startswith(others)]
    for name in of_paper:
        suite = load_suite(name)
        assert suite.name == name and suite.title and "ctm" in suite.methods
        if suite.builtin is None:
            assert suite.model in zoo.list_architectures()
            assert suite.transform == {"exif": False}
            assert suite.train.split == "train" and suite.test.split in ("test", "val")
            assert suite.methods["odin"]["T"] == 1000
        if suite.published is not None:
            printed = published.published(suite.published.model, suite.published.id_set)
            sets = {key for by_set in printed.values() for key in by_set} - {"average"}
            assert sets <= set(map(published.canonical, suite.ood))
            assert printed or published.ablation(suite.published.model, suite.published.id_set)
    assert {name: printed_step(name) for name in of_paper if name != "digits"} == {
        "cifar10-densenet": (0.018, 1),
        "cifar100-densenet": (0.024, 1),
        "imagenet-resnet50": (0.005, 1),
        "imagenet-mobilenetv2": (0.03, 1),
        # Nobody printed a row of these.
        "cifar10-wrn": (0.0014, "transform"),
        "cifar100-wrn": (0.0014, "transform"),
        "imagenet-lite0": (0.0014, "transform"),
    }
    assert load_suite("cifar10-densenet").methods["knn"] == {"k": 50}
    assert load_suite("cifar100-densenet").methods["knn"] == {"k": 200}
    assert set(load_suite("cifar10-densenet").layers) < set(
        published.layers("DenseNet-101", "CIFAR-10")
    )


def test_a_suite_is_frozen_and_json():
    suite = load_suite("digits")
    with pytest.raises(FrozenInstanceError):
        suite.name = "other"  # type: ignore[misc]
    assert suite.to_dict()["protocol"]["knn_grid"] == [5, 10, 20, 50]


def test_the_template_is_a_suite_and_its_options_are_too(suite):
    path = suite(init_text())
    loaded = load_suite(path)
    assert (loaded.name, loaded.model, loaded.methods["knn"]) == ("my", "resnet-50", {"k": "grid"})
    assert loaded.folder == path.parent
    assert suite_text(str(path)) == init_text()
    # What is commented out is right as well, but for the line that gives `test` twice.
    starts = ("# layer", "# near", "# calibration", "# [published]", "# model", "# id_set")
    lines = [line[2:] if line.startswith(starts) else line for line in init_text().splitlines()]
    opened = load_suite(suite("\n".join(lines)))
    assert (
        opened.layer == "layer4" and opened.near == ("strange",) and opened.calibration is not None
    )
    assert opened.published is not None and opened.published.model == "ResNet-50"


def test_a_short_suite_has_the_papers_protocol(suite):
    protocol = load_suite(suite(GOOD)).protocol
    assert (protocol.tpr, protocol.convention, protocol.subsets, protocol.seed) == (
        0.95,
        "first",
        5,
        0,
    )
    assert protocol.knn_grid == (10, 20, 50, 100, 200, 400)


def test_all_problems_are_said_at_once(suite):
    text = """
titel = "x"
weights = 3
layers = "conv1"
[transform]
mean = [0.5, 0.5]
[id]
trian = { path = "a" }
test = { set = "svhn", path = "b" }
[ood]
far = "folder"
near = { file = "x" }
[methods]
msp = 1
[methods.ctn]
[methods.knn]
kk = 3
[protocol]
tpr = 95
convention = "nearest"
subsets = 0
knn_grid = [0]
[published]
model = "AlexNet"
id_set = "CIFAR-10"
"""
    with pytest.raises(InputError) as error:
        load_suite(suite(text))
    message = str(error.value)
    assert "my.toml: 18 problems; fix the file:" in message
    for line in (
        "titel: unknown key; did you mean 'title'?",
        "weights = 3: expected a text",
        "layers = 'conv1': expected a list of texts",
        "transform.mean = [0.5, 0.5]: expected three numbers",
        "id.trian: unknown key; did you mean 'train'?",
        "id.test: give either set = (a benchmark set) or path = (images, arrays or a bank)",
        "id.train: missing; detectors are fitted on train and judged on test",
        "ood.far = 'folder': expected a table",
        "ood.near.file: unknown key; known are list, path, set, split",
        "methods.msp = 1: expected a table of its parameters",
        "methods.ctn: unknown method; did you mean 'ctm'?",
        "methods.knn.kk: unknown parameter; did you mean 'k'?",
        "protocol.tpr = 95: expected a number above 0 and at most 1",
        "protocol.convention = 'nearest': expected one of first, interpolated, rank",
        "protocol.subsets = 0: expected a whole number of at least 1",
        "protocol.knn_grid = [0]: expected a list of whole numbers of at least 1",
        "published: the paper has no table of AlexNet, CIFAR-10; it has",
        "model: missing; every suite that is not built in has one",
    ):
        assert line in message, line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = \nb = 1", r"my\.toml: not a TOML file \(.*line 1.*\); fix it"),
        ("builtin = 'mnist'", r"builtin = 'mnist': expected one of digits"),
        (
            GOOD.replace("[methods.ctm]", "[protocol]\nseed = true"),
            r"seed = True: expected a whole number",
        ),
        (GOOD.replace("[methods.ctm]", ""), r"1 problem; fix the file:\n  methods: missing"),
        (GOOD.replace('[ood]\nfar = { path = "far" }', "ood = 3"), r"id\.ood: unknown key"),
        (GOOD + "[published]\nmodel = 'ResNet-50'", r"published\.id_set: missing"),
        (
            GOOD + "[methods.ensemble]\nmembers = ['ctn']",
            r"methods\.ensemble: detector 'ctn' is unknown; the closest: ctm",
        ),
        (
            GOOD + "[methods.ensemble]\nmembers = [3]",
            r"methods\.ensemble: members\[0\] is an int; pass names of detectors",
        ),
        (GOOD + "[methods.cw]\nk = 3", r"methods\.cw\.k: unknown parameter; it has none$"),
        (
            GOOD + "[methods.odin]\nstd = 0",
            r"methods\.odin: std=0 cannot divide a step; pass 1, three numbers, or 'transform'",
        ),
        (
            GOOD + "[methods.odin]\nstd = [1, 2]",
            r"methods\.odin: std=\[1, 2\] cannot divide a step",
        ),
        (
            GOOD + "[methods.odin]\nepsilon = -0.1",
            r"methods\.odin: epsilon=-0.1 is not a step; pass a number of at least 0",
        ),
        (GOOD + "[methods.odin]\nT = 0", r"methods\.odin: T=0 is not a positive number"),
        (GOOD + "[methods.knn]\nk = 'Grid'", r"methods\.knn: k='Grid' is not an integer"),
        (GOOD + "[methods.nnguide]\nk = 'grid'", r"methods\.nnguide: k='grid' is not an integer"),
        (
            GOOD + "[methods.'react+knn']\nknn__k = 'grid'",
            r"methods\.react\+knn: knn__k='grid' is not an integer",
        ),
        (
            GOOD + "[methods.energy]\ntemperature = 'grid'",
            r"methods\.energy: temperature='grid' is not a positive number",
        ),
        (GOOD + "[methods.odin]\nepsilon = 'grid'", r"methods\.odin: epsilon='grid' is not a step"),
        (
            GOOD + "[methods.mahalanobis_layers]\nimages = 'grid'",
            r"methods\.mahalanobis_layers: images='grid' is not an integer",
        ),
        (
            GOOD + "[protocol]\nconvention = ['first']",
            r"protocol\.convention = \['first'\]: expected one of first",
        ),
        (
            GOOD + "[published]\nby = ['paper']",
            r"published\.by = \['paper'\]: expected one of paper",
        ),
        (
            GOOD.replace("imagenet", "imagenot"),
            r"id\.test\.set = 'imagenot': unknown benchmark set; did you mean 'imagenet'",
        ),
    ],
)
def test_files_that_are_no_suite(suite, text, message):
    with pytest.raises(InputError, match=message):
        load_suite(suite(text))


def test_an_ensemble_names_its_members(suite):
    described = load_suite(suite(GOOD + "[methods.ensemble]\nmembers = ['ctm', 'knn']"))
    sets = digits.load()
    scored = Workbench(sets).scored(named_methods(described, "ensemble"))["ensemble"]
    assert scored.params["members"] == ["ctm", "knn"]
    own = Ensemble([CTM(), KNN()]).fit(sets.train, sets.train_labels)
    np.testing.assert_array_equal(scored.scores.test, own.score_samples(sets.test))


def test_an_unknown_name_lists_the_known(tmp_path):
    with pytest.raises(
        InputError,
        match=r"suite 'cifar11': neither a file nor a suite of Typica; choose one of cifar10-d",
    ):
        load_suite("cifar11")
    binary = tmp_path / "x.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a text file in UTF-8"):
        load_suite(binary)


def test_the_shell_lists_problems_a_line_each(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    lines = run(capsys, "bench", "openood-cifar10", "--data", "empty", code=2).splitlines()
    assert lines[0] == "error: openood-cifar10: 19 problems; get what is missing:"
    assert lines[1] == "  id.train.path = 'data/images_classic' is not in empty"
    assert len(lines) == 20


def test_missing_paths_are_said_together_with_the_rest(suite, tmp_path):
    text = 'weights = "w.pth"\n' + GOOD
    (tmp_path / "train").mkdir()
    data = tmp_path / "data"
    data.mkdir()
    with pytest.raises(InputError) as error:
        load_suite(suite(text + "kk = 1"), data=data, check_paths=True)
    message = str(error.value)
    assert "3 problems" in message and "methods.ctm.kk: unknown parameter" in message
    assert f"ood.far.path = 'far' is not in {tmp_path} or {data}" in message
    assert "weights = 'w.pth' is not in" in message
    assert "train" not in message.split("problems", 1)[1].replace("trained", "")
    (data / "far").mkdir()
    (data / "w.pth").touch()
    loaded = load_suite(suite(text), data=data, check_paths=True)
    assert (
        loaded.find("far", data) == data / "far"
        and loaded.find("train", data) == tmp_path / "train"
    )
    assert loaded.find("nowhere", data) is None
    with pytest.raises(
        InputError, match=r"weights = .* is not in a data folder; name one with data=DIR"
    ):
        load_suite("cifar10-densenet", check_paths=True)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_folder_of_features_is_read_as_it_is(data, described, tmp_path, dtype):
    folder = fill(tmp_path, data, dtype, ("mine", "DTD", "near-by", "svhn"))
    sets = read_features_folder(described, folder)
    expected = np.float64 if dtype == np.float64 else np.float32
    for name, array in {"train": sets.train, "test": sets.test, **sets.ood}.items():
        assert array.dtype == expected, name
    np.testing.assert_array_equal(sets.train, data.train.astype(dtype).astype(expected))
    assert list(sets.ood) == [
        "svhn",
        "DTD",
        "mine",
        "near-by",
    ]  # the suite's order, then the alphabet
    assert sets.near == {"near-by"} and sets.calibration is None
    assert set(sets.missing) == {"lsun-c", "lsun-r", "isun", "places365"}
    assert f"no ood.isun.features.npy in {folder}" in sets.missing["isun"]
    logits = data.test @ data.head.weight.T
    assert sets.accuracy == pytest.approx(
        np.mean(logits.argmax(1) == np.arange(len(data.test)) % 4), abs=0.01
    )


def test_what_is_chosen_on_training_data_may_be_a_grid(suite):
    text = GOOD + "[methods.knn]\nk = 'grid'\n[methods.mahalanobis_layers]\nepsilon = 'grid'\n"
    methods = load_suite(suite(text)).methods
    assert methods["knn"] == {"k": "grid"}
    assert methods["mahalanobis_layers"] == {"epsilon": "grid"}


def test_a_head_that_does_not_know_the_labels_has_no_accuracy(data, described, tmp_path):
    folder = fill(tmp_path, data)
    for split in ("train", "test"):
        labels = np.load(folder / f"{split}.labels.npy")
        np.save(folder / f"{split}.labels.npy", np.array(list("abcd"))[labels])
    sets = read_features_folder(described, folder)
    assert sets.head is not None and sets.accuracy is None
    record = run_experiment("detail", described, sets, {"ctm": {}, "msp": {}}).record
    assert "the classes of the head are not those of the labels" in record.skipped["accuracy"].why
    for experiment in ("main", "detail", "misclassification"):
        [table] = tables_of(replace(record, experiment=experiment))
        rows = [str(row[0].value) for row in table.rows]
        assert not any(row.startswith("accuracy") for row in rows), rows
        assert any(note.startswith("accuracy: the classes of the head") for note in table.notes)


def test_without_a_head_the_rest_goes_on(data, described, tmp_path):
    folder = fill(tmp_path, data)
    (folder / "head.bias.npy").unlink()
    assert read_features_folder(described, folder).head is not None
    (folder / "head.weight.npy").unlink()
    sets = read_features_folder(described, folder)
    assert sets.head is None and sets.accuracy is None
    scored = Workbench(sets, described.protocol).scored(named_methods(described, "msp,ctm,odin"))
    assert str(scored["msp"].skipped) == "needs a head: give head.weight.npy and head.bias.npy"
    assert scored["odin"].skipped.tag == "needs images" and scored["ctm"].skipped is None


def test_missing_files_are_named_all_at_once(described, tmp_path):
    with pytest.raises(
        InputError,
        match=r"nowhere: there is no such folder; pass one that holds train\.features\.npy",
    ):
        read_features_folder(described, tmp_path / "nowhere")
    np.save(tmp_path / "test.labels.npy", np.zeros(3))
    np.save(tmp_path / "calibration.features.npy", np.zeros((3, 2)))
    with pytest.raises(InputError) as error:
        read_features_folder(described, tmp_path)
    assert str(error.value).endswith(
        "lacks train.features.npy, train.labels.npy, test.features.npy, calibration.labels.npy, "
        "ood.NAME.features.npy (at least one); write them there, one row per input."
    )


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        (
            "test.features",
            np.zeros((5, 3)),
            r"test\.features\.npy: 3 columns, but train\.features\.npy has 12; take one",
        ),
        ("ood.far.features", np.zeros(12), r"ood\.far\.features\.npy: features of shape \(12,\)"),
        (
            "test.labels",
            np.zeros(3),
            r"test_labels has shape \(3,\); give one label for each of the 120 rows",
        ),
        ("head.weight", np.zeros((4, 5)), r"head\.weight\.npy: 5 columns"),
        ("head.bias", np.zeros(3), r"bias of shape \(3,\) for 4 classes"),
        ("head.bias", np.zeros((1, 4)), r"bias of shape \(1, 4\) for 4 classes"),
        ("head.bias", np.array([{}] * 4), r"head\.bias\.npy: not a whole \.npy file"),
        (
            "ood.test.features",
            np.zeros((3, 12)),
            r"OOD sets are named \['test'\]; choose other names",
        ),
        (
            "train.layer.conv1",
            np.zeros((240, 5)),
            r"lacks test\.layer\.conv1\.npy, ood\.far\.layer\.conv1\.npy; every",
        ),
    ],
)
def test_files_that_do_not_fit(described, filled, name, array, message):
    np.save(filled / f"{name}.npy", array)
    with pytest.raises(InputError, match=message):
        read_features_folder(described, filled)


def test_a_broken_file_is_named(data, described, tmp_path):
    (fill(tmp_path, data) / "ood.far.features.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(FormatError, match=r"ood\.far\.features\.npy: not a whole \.npy file"):
        read_features_folder(described, tmp_path)


def test_layers_and_calibration_are_read(data, described, tmp_path):
    folder = fill(tmp_path, data, ood=("far", "a.b"))
    rows = {"train": 240, "test": 120, "ood.far": 60, "ood.a.b": 60}
    rows["ood.far"] = rows["ood.a.b"] = len(data.ood)
    for layer, width in (("trans2", 3), ("conv1", 5), ("my.own", 2)):
        for key, n in rows.items():
            np.save(folder / f"{key}.layer.{layer}.npy", np.ones((n, width), dtype=np.float16))
    np.save(folder / "calibration.features.npy", data.held_out)
    np.save(folder / "calibration.labels.npy", np.arange(len(data.held_out)) % 4)
    sets = read_features_folder(described, folder)
    assert list(sets.layers) == ["conv1", "trans2", "my.own"]  # as in the suite, others last
    assert {name: a.shape for name, a in sets.layers["conv1"].items()} == {
        "train": (240, 5), "test": (120, 5), "far": (len(data.ood), 5), "a.b": (len(data.ood), 5),
    }  # fmt: skip
    assert sets.calibration.shape == data.held_out.shape
    assert "120 calibration" in repr(sets)


def test_features_on_the_spot():
    sets = builtin_features(load_suite("digits"))
    assert sets.name == "digits"
    name, image = sets.images["inverted"][3]
    assert name == "inverted[3]" and image.shape == (8, 8) and image.dtype == np.uint8
    assert image[0, 0] == 0  # the digits' blank corner, inverted: full of ink, which is black
    with pytest.raises(
        InputError, match="suite 'imagenet-lite0': not built in; pass its features or its data"
    ):
        builtin_features(load_suite("imagenet-lite0"))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "layers",
            {"a": {"train": np.zeros((2, 1))}},
            r"layer 'a' lacks \['noise', 'test'\]; give it for each of",
        ),
        (
            "layers",
            {"a": {k: np.zeros((3, 1)) for k in ("train", "test", "noise")}},
            r"layer 'a' has shape \(3, 1\) for",
        ),
        ("scores", {"odin": {"test": np.zeros(2)}}, r"score 'odin' lacks \['noise'\]"),
        (
            "scores",
            {"odin": {"test": np.zeros((2, 1)), "noise": np.zeros(2)}},
            r"score 'odin' has shape \(2, 1\) for",
        ),
    ],
)
def test_layers_and_scores_must_fit(field, value, message):
    z, y = np.eye(2), np.array([0, 1])
    with pytest.raises(InputError, match=message):
        FeatureSuite(
            "t",
            "T",
            z,
            y,
            None,
            None,
            z,
            y,
            {"noise": z},
            frozenset(),
            None,
            None,
            None,
            None,
            **{field: value},
        )


def test_methods_by_name():
    suite = load_suite("cifar100-densenet")
    assert list(named_methods(suite, None)) == list(suite.methods)
    assert list(named_methods(suite, "paper")) == [
        "msp",
        "max_logit",
        "energy",
        "odin",
        "mahalanobis",
        "knn",
        "cw",
        "ctm",
    ]
    assert [name for name in named_methods(suite, "paper") if name != "odin"] == list(PAPER)
    assert {"odin", "vim", "ctm"} <= set(named_methods(suite, "all"))
    assert named_methods(suite, " CTM, max-logit,knn") == {
        "ctm": {},
        "max_logit": {},
        "knn": {"k": 200},
    }
    with pytest.raises(InputError, match=r"methods: 'ctn', 'x' unknown; choose from .*, ctm, "):
        named_methods(suite, "ctn,ctm,x")


def test_scores_that_take_images_are_taken_as_they_are(data, described, tmp_path):
    sets = read_features_folder(described, fill(tmp_path, data))
    rng = np.random.default_rng(0)
    given = {"test": rng.random(len(data.test)), "far": rng.random(len(data.ood))}
    workbench = Workbench(replace(sets, scores={"odin": given}))
    scored = workbench.scored({"odin": {"epsilon": 0.002}})["odin"]
    np.testing.assert_array_equal(scored.scores.ood["far"], given["far"])
    np.testing.assert_array_equal(scored.scores.test, given["test"])
    assert scored.params == {"T": 1000.0, "epsilon": 0.002, "std": "transform"}


def test_one_method_that_fails_keeps_its_place(data, described, tmp_path):
    sets = read_features_folder(described, fill(tmp_path, data))
    watcher = Watcher()
    methods = {"knn": {"k": 1000}, "ctm": {}, "msp": {"temperature": "hot"}}
    with watched_by(watcher):
        scored = Workbench(sets, described.protocol).scored(methods)
    assert list(scored) == ["knn", "ctm", "msp"]
    assert (watcher.begun, watcher.done) == ([("measuring", 3)], [3])
    wanted = "KNN.fit: k=1000 exceeds the 240 training rows; pass k<=240."
    assert str(scored["knn"].skipped) == wanted
    assert scored["msp"].skipped.tag == "failed" and scored["msp"].scores is None
    assert evaluate(scored["ctm"].scores.test, scored["ctm"].scores.ood["far"]).auroc > 0.9


def test_a_method_is_fitted_once_whoever_asks(data, described, tmp_path, monkeypatch):
    sets = read_features_folder(described, fill(tmp_path, data))
    fits = []
    monkeypatch.setattr(
        CTM, "fit", lambda self, *rows: fits.append(self) or Detector.fit(self, *rows)
    )
    workbench = Workbench(sets, described.protocol)
    run = partial(run_experiment, suite=described, sets=sets, workbench=workbench)
    main = run("main", methods={"ctm": {}, "msp": {}})
    ablation, analysis = run("ablation", methods={}), run("analysis", methods={})
    assert len(fits) == 1
    assert main.record.rows["ctm"].ood == ablation.record.rows["cm"].ood
    assert analysis.record == run_experiment("analysis", described, sets, {}).record


def test_no_shipped_file_names_a_machine_or_a_person():
    for name in list_suites():
        for word in suite_text(name).split():
            assert not word.strip("\"'").startswith(("/", "~", "http")), word


def test_parameters_are_checked_as_the_method_declares_them(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(
        'model = "resnet-50"\n[methods.knn]\nk = 0\n[methods.energy]\ntemperature = "hot"\n'
    )
    with pytest.raises(InputError) as caught:
        load_suite(path)
    said = " ".join(str(caught.value).split())
    assert "methods.knn: k=0 is not an integer of at least 1; pass k>=1." in said
    assert "methods.energy: temperature='hot' is not a positive number" in said


def test_the_printed_row_of_mahalanobis_stands_beside_both_of_ours(data, tmp_path):
    """On the CIFARs it is one of four layers; on ImageNet of the last."""
    described = load_suite("cifar10-densenet")
    sets = read_features_folder(described, fill(tmp_path, data))
    for name, both in (("cifar10-densenet", True), ("imagenet-resnet50", False)):
        outcome = run_experiment("main", load_suite(name), sets, {"mahalanobis": {}})
        printed = outcome.record.published
        assert "mahalanobis" in printed and ("mahalanobis_layers" in printed) == both
        if both:
            assert printed["mahalanobis_layers"] == printed["mahalanobis"]
