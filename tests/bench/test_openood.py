"""OpenOOD's benchmarks: image lists, folders and checkpoints as they are, beside its leaderboard.

None of its data are here. A toy folder of the same layout stands for them: random weights in its
checkpoints' places, and a few images where its lists point to.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.shell import run
from PIL import Image

from typica.bench import (
    Record,
    Suite,
    headline,
    list_suites,
    load_suite,
    named_methods,
    prepare,
    run_experiment,
    tables_of,
    to_terminal,
    write_report,
    write_result,
)
from typica.bench.published import means_of, publications, published
from typica.data import open_images
from typica.detectors import list_detectors
from typica.errors import InputError
from typica.nets import Settings, zoo

SUITES = [name for name in list_suites() if name.startswith("openood-")]
SIZES = {"train": 20, "test": 10, "calibration": 5}
PLAIN = Settings(backend="torch", batch=8, threads=1)


def write_toy(root: Path, name: str, foreign: int = 4) -> None:
    """Write what a suite names: a list per set with the images it points to, and the weights."""
    suite = load_suite(name)
    rng = np.random.default_rng(0)
    own = {"train": suite.train, "test": suite.test, "calibration": suite.calibration}
    for split, source in {**own, **suite.ood}.items():
        lines = []
        for i in range(SIZES.get(split, foreign)):
            label = -1 if split in suite.ood else i % 10
            path = Path(source.path, split, f"class{label}", f"{i:04}.png")
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            colour = np.eye(10, 3)[label] * 120 if label >= 0 else np.zeros(3)
            pixels = rng.integers(0, 120, (36, 32, 3)) + colour
            Image.fromarray(pixels.astype(np.uint8)).save(root / path)
            lines.append(f"{path.relative_to(source.path)} {label}")
        listing = root / source.list
        listing.parent.mkdir(parents=True, exist_ok=True)
        listing.write_text("\n".join(lines) + "\n")
    torch.manual_seed(0)
    classes = {"CIFAR-10": 10, "CIFAR-100": 100, "ImageNet-200": 200, "ImageNet-1k": 1000}
    model = zoo.load(suite.model, None, classes[suite.published.id_set])
    weights = root / suite.weights
    weights.parent.mkdir(parents=True, exist_ok=True)
    state = model.state_dict()
    if "linear.weight" in state:  # the checkpoints call the last layer fc
        state = {key.replace("linear.", "fc."): value for key, value in state.items()}
    torch.save(state, weights)


def quick(suite: Suite, methods: Mapping[str, Any]) -> Suite:
    """Return a suite with these methods alone, and small images."""
    small = {} if suite.model.endswith("cifar") else {"resize": 72, "crop": 64}
    return replace(suite, methods=methods, transform={**suite.transform, **small})


def test_the_suites_are_those_of_the_leaderboard():
    assert SUITES == [
        "openood-cifar10", "openood-cifar100", "openood-imagenet", "openood-imagenet200",
    ]  # fmt: skip
    for name in SUITES:
        suite = load_suite(name)
        assert suite.published.by == "openood" and suite.protocol.full
        printed = published(suite.published.model, suite.published.id_set, "openood")
        assert set(suite.methods) - set(printed) == {"ctm", "quorum"} | (
            {"mds_pp", "rmds_pp"} - set(printed) | {"relation", "weiper"} - set(printed)
        )
        near = means_of(suite.published.model, suite.published.id_set, "openood")["near"]
        assert len(near) == len(suite.near) == 2
        folder = Path(suite.test.list).parent
        assert {Path(source.list).parent for source in suite.ood.values()} == {folder}
        assert all(suite.methods[method] == {} for method in suite.methods)  # nothing is tuned


def test_every_printed_number_is_reached_under_its_name():
    known = publications()["openood"]
    rows = list(
        csv.DictReader((files("typica.bench.publications") / known.file).read_text().splitlines())
    )
    assert len(rows) == 218 and {row["metric"] for row in rows} == {"AUROC"}
    left = set()
    for row in rows:
        if row["method"] not in known.methods:
            left.add(row["method"])
            continue
        found = published(row["model"], row["id_set"], "openood")[known.methods[row["method"]]]
        assert round(100 * found[row["ood_set"]]["auroc"], 2) == float(row["percent"])
    assert left == {"TempScale", "Gram", "RankFeat", "NAC", "AdaSCALE-A", "AdaSCALE-L"}
    ours = {method.split("+")[-1] for method in known.methods.values()}
    assert ours - {"odin", "mahalanobis_layers"} <= set(list_detectors())
    # As the leaderboard has it.
    assert published("ResNet-50", "ImageNet-1k", "openood")["ash+energy"] == {
        "near": {"auroc": 0.7817},
        "far": {"auroc": 0.9574},
    }


@pytest.fixture(scope="module")
def cifar10(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy folder, which keeps the features once they are made."""
    folder = tmp_path_factory.mktemp("openood")
    write_toy(folder, "openood-cifar10")
    return folder


@pytest.mark.parametrize("name", SUITES)
def test_a_toy_folder_of_the_same_layout_runs(name, tmp_path, cifar10):
    if name == "openood-cifar10":
        tmp_path = cifar10
    else:
        write_toy(tmp_path, name)
    suite = load_suite(name, data=tmp_path, check_paths=True)
    # DICE gives logits of all classes, and the toy has ten.
    more = ",dice+energy" if name == "openood-cifar10" else ""
    wanted = named_methods(suite, f"msp,energy,ctm,react+energy,mds_pp{more}")
    suite = quick(suite, wanted)
    sets = prepare(suite, tmp_path, cache=tmp_path / "banks", settings=PLAIN)
    assert (len(sets.train), len(sets.test), len(sets.calibration)) == tuple(SIZES.values())
    assert sorted(set(sets.train_labels.tolist())) == list(range(10))
    assert {len(rows) for rows in sets.ood.values()} == {4} and sets.near == set(suite.near)
    record = run_experiment("main", suite, sets, wanted).record
    assert set(record.rows) == set(wanted) and not record.skipped
    assert record.protocol.full and record.published_by == "openood"
    far = [each for each in suite.ood if each not in suite.near]
    assert record.compared == [list(suite.near), far]
    (table,) = tables_of(record, against="openood")
    headings = [column.heading for column in table.columns]
    assert headings == ["method", "FPR95", "AUROC", "openood", "diff", "AUPR-in", "AUPR-out"]
    assert [heading.split(" (")[0] for heading, _ in table.sections] == [
        "Mean of 2 near OOD sets", f"Mean of {len(far)} far OOD sets",
    ]  # fmt: skip
    printed = published(suite.published.model, suite.published.id_set, "openood")
    rows = [cell.value for cell in table.columns[0].cells]
    for kind, start in (("near", 0), ("far", len(wanted))):
        place = rows.index("react+energy", start)
        assert table.columns[3].cells[place].value == printed["react+energy"][kind]["auroc"]
        own = record.means("react+energy", list(suite.near) if kind == "near" else far)
        assert table.columns[2].cells[place].value == own["auroc"].value
    assert any("chosen on OOD images" in note for note in table.notes)
    assert "which OpenOOD's leaderboard has too" in str(headline(record, against="openood"))


def test_a_result_keeps_whose_numbers_stand_beside(cifar10, tmp_path):
    suite = load_suite("openood-cifar10")
    suite = quick(suite, named_methods(suite, "msp,ctm"))
    sets = prepare(suite, cifar10, cache=cifar10 / "banks", settings=PLAIN)
    outcome = run_experiment("main", suite, sets, suite.methods)
    record = outcome.record
    assert Record.from_dict(json.loads(json.dumps(record.to_dict()))) == record
    assert tables_of(record, against="paper")[0].columns[-1].heading != "diff"
    shown = to_terminal(tables_of(record, against="openood")[0])
    assert shown is not None
    write_result(tmp_path / "result", outcome)
    page = write_report(tmp_path / "result", tmp_path / "a.html", against="openood").read_text()
    for share in ("2 of 6", "4 of 6"):
        assert f"Beside the published numbers: mean of {share} OOD sets" in page
    (detail,) = tables_of(
        run_experiment("detail", suite, sets, named_methods(suite, "msp")).record,
        against="openood",
    )
    headings = [heading for heading, _ in detail.sections]
    assert headings[-2:] == [
        "mean of 4 far OOD sets (mnist, svhn, texture, places365)",
        "mean of 2 near OOD sets (cifar100, tin)",
    ]


def test_a_set_that_is_not_there_is_not_compared(cifar10, tmp_path, capsys):
    shutil.copytree(cifar10, tmp_path / "part", ignore=shutil.ignore_patterns("tin"))
    out = run(
        capsys,
        *("bench", "openood-cifar10", "--data", str(tmp_path / "part"), "--methods", "msp,ctm"),
        *("--cache", str(tmp_path / "part" / "banks"), "--backend", "torch"),
        *("--against", "openood", "--json", str(tmp_path / "found.json")),
    )
    text = " ".join(out.split())
    assert "the first of data/benchmark_imglist/cifar10/test_tin.txt, is not there" in text
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["absent"] == ["tin"]
    assert [mean["sets"] for mean in found["published"]["msp"]["means"]] == [
        [], ["mnist", "svhn", "texture", "places365"],
    ]  # fmt: skip


def test_another_publication_says_that_it_has_nothing(tmp_path, capsys):
    err = run(capsys, "bench", "digits", "--methods", "ctm", "--against", "nobody", code=2)
    assert "--against nobody: unknown; choose one of paper, openood" in " ".join(err.split())
    run(capsys, "bench", "digits", "--methods", "ctm", "--against", "openood")


def write_list(root: Path, *lines: str) -> Path:
    for name in ("a/1.png", "a/2.png", "b/3.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), len(name), dtype=np.uint8)).save(root / name)
    listing = root / "list.txt"
    listing.write_text("\n".join(lines))
    return listing


def test_a_list_of_images(tmp_path):
    listing = write_list(tmp_path, "b/3.png 7", "", "a/1.png 2")
    images = open_images(tmp_path, listing=listing)
    assert list(images.names) == ["b/3.png", "a/1.png"] and images.labels.tolist() == [7, 2]
    assert images.classes is None and images.read(1).size == (4, 4)
    listing.write_text("b/3.png -1\na/1.png 2\n")
    foreign = open_images(tmp_path, listing=listing)
    assert foreign.labels is None and foreign.fingerprint() != images.fingerprint()
    missing = write_list(tmp_path, "b/3.png 0", "b/4.png 1")
    with pytest.raises(InputError, match=r"b/4\.png"):
        open_images(tmp_path, listing=missing).read(1)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["a/1.png 0", "a/2.png"], "line 2 is 'a/2.png'; expected a path, a space and a whole"),
        (["a/1.png cat"], "line 1 is 'a/1.png cat'"),
        (["/etc/passwd 0"], "line 1 leaves the folder"),
        (["a/../../x.png 0"], "line 1 leaves the folder"),
        (["", "  "], "lists no images"),
    ],
)
def test_lists_that_are_none(tmp_path, lines, said):
    listing = write_list(tmp_path, *lines)
    with pytest.raises(InputError, match=said):
        open_images(tmp_path, listing=listing)


def test_a_list_goes_with_a_folder(tmp_path):
    listing = write_list(tmp_path, "a/1.png 0")
    with pytest.raises(InputError, match="there is no such folder"):
        open_images(tmp_path / "none", listing=listing)
    with pytest.raises(InputError, match="leave out the split"):
        open_images(tmp_path, split="train", listing=listing)
    with pytest.raises(InputError, match="needs the path of one folder, and got list; pass that"):
        open_images([tmp_path], listing=listing)
    with pytest.raises(InputError, match=r"none\.txt"):
        open_images(tmp_path, listing=tmp_path / "none.txt")
    suite = tmp_path / "my.toml"
    suite.write_text(
        'model = "resnet-18"\n[methods.ctm]\n'
        '[id]\ntrain = { path = "a", list = "l.txt", split = "train" }\n'
        'test = { set = "cifar10", list = "l.txt" }\n[ood]\nx = { path = "b" }\n'
        '[published]\nby = "me"\nmodel = "ResNet-18"\nid_set = "CIFAR-10"\n'
    )
    with pytest.raises(InputError) as error:
        load_suite(suite)
    told = str(error.value)
    assert told.count("list: needs path") == 2
    assert "published.by = 'me': expected one of paper, openood" in told
