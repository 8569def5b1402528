"""Plots for papers: the curves are exact, the files the same every time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.reports import METHODS, copy, write_folder
from helpers.shell import run
from PIL import Image
from sklearn.metrics import precision_recall_curve, roc_curve

from typica.bench import PLOTS, plot
from typica.bench._open_result import open_result
from typica.errors import InputError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("digits") / "result")


def scores_of(folder: Path, method: str, ood: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(folder / "scores" / f"{method}.npz") as arrays:
        return arrays["test"], arrays[f"ood.{ood}"]


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [*((kind, ".svg") for kind in PLOTS), ("curves", ".png"), ("curves", ".pdf")],
)
def test_the_same_folder_gives_the_same_bytes(folder, tmp_path, kind, suffix):
    first, again = (
        plot(folder, tmp_path / f"{name}{suffix}", kind).read_bytes() for name in ("a", "b")
    )
    assert first == again
    if suffix == ".png":
        with Image.open(tmp_path / "a.png") as image:
            assert image.size[0] > 1000
    else:
        assert first.startswith(b"%PDF" if suffix == ".pdf" else b"<?xml") and b"Date" not in first


@pytest.mark.parametrize("method", METHODS)
def test_curves_agree_with_scikit_learn(folder, method):
    result = open_result(folder)
    roc = PLOTS["roc"](result, [method]).axes
    pr = PLOTS["pr"](result, [method]).axes
    assert len(roc) == len(result.record.sets) and len(pr) == 2 * len(result.record.sets)
    for i, name in enumerate(result.record.sets):
        test, ood = scores_of(folder, method, name)
        truth, scores = np.repeat([1, 0], [len(test), len(ood)]), np.concatenate([test, ood])
        fpr, tpr, _ = roc_curve(truth, scores, drop_intermediate=False)
        drawn = roc[i].lines[0].get_xydata()
        assert np.allclose(drawn, np.stack([fpr, tpr], axis=1))
        for axis, positive, sign in (
            (pr[i], truth, 1),
            (pr[i + len(result.record.sets)], 1 - truth, -1),
        ):
            precision, recall, _ = precision_recall_curve(positive, sign * scores)
            expected = np.stack(
                [recall[:-1], precision[:-1]], axis=1
            )  # the last point has no threshold
            drawn = axis.lines[0].get_xydata()
            order = slice(None, None, -1) if sign == 1 else slice(None)
            assert np.allclose(drawn, expected[order])


def test_histograms_hold_every_score(folder):
    result = open_result(folder)
    figure = PLOTS["histogram"](result, ["energy", "ctm"])
    assert len(figure.axes) == 2 * len(result.record.sets)
    for axis in figure.axes:
        for patch in axis.patches:
            xy = patch.get_xy()
            width = np.diff(np.unique(xy[:, 0]))[0]
            area = (
                abs(np.sum(xy[:-1, 0] * xy[1:, 1] - xy[1:, 0] * xy[:-1, 1])) / 2
            )  # the shoelace formula
            assert area / width == pytest.approx(1, rel=1e-6)


def test_heat_map_prints_its_values(folder):
    result = open_result(folder)
    figure = PLOTS["heatmap"](result, ["ctm", "knn"])
    for axis, metric in zip(figure.axes, ("auroc", "fpr"), strict=True):
        names = [*result.record.sets, None]
        expected = [
            f"{100 * result.record.value(m, name, metric):.2f}"
            for m in result.record.ranked
            if m in ("ctm", "knn")
            for name in names
        ]
        assert [text.get_text() for text in axis.texts] == expected


def test_names_are_no_formulas(folder, tmp_path):
    results = json.loads((folder / "result.json").read_text())["results"]
    renamed = {"a $\\frac$ b": results["ctm"]}
    copied = copy(folder, tmp_path / "r", results=renamed)
    (copied / "scores" / "ctm.npz").rename(copied / "scores" / "a $\\frac$ b.npz")
    for kind in ("histogram", "heatmap"):
        plot(copied, tmp_path / "figure.svg", kind)


def test_bad_input_is_named(folder, tmp_path):
    for arguments, message in (
        (("figure.jpg",), "ends in '.jpg'; choose one of .png, .svg, .pdf"),
        (("figure.png", "pie"), "kind='pie'; pass one of histogram, roc, pr, heatmap, curves"),
        (("figure.png", "roc", ["odin"]), "odin not in the result; choose from"),
    ):
        with pytest.raises(InputError, match=message.replace(".", r"\.")):
            plot(folder, tmp_path / arguments[0], *arguments[1:])
    copied = copy(folder, tmp_path / "r")
    (copied / "analysis.json").unlink()
    (copied / "scores" / "ctm.npz").unlink()
    with pytest.raises(InputError, match=r"has no curves in analysis\.json; run `typica bench"):
        plot(copied, tmp_path / "figure.png", "curves")
    with pytest.raises(InputError, match="holds no scores of ctm"):
        plot(copied, tmp_path / "figure.png", "roc", ["ctm"])
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_the_missing_extra_is_named(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"install the extra 'plot': pip install 'typica\[plot\]'"):
        plot(folder, tmp_path / "figure.png")


def test_command(folder, tmp_path, capsys):
    run(
        capsys,
        "plot",
        str(folder),
        "-o",
        str(tmp_path / "a.svg"),
        "--kind",
        "roc",
        "--method",
        "ctm",
        "--method",
        "knn",
    )
    assert (tmp_path / "a.svg").is_file()
    assert "--kind pie: unknown; choose one of histogram" in run(
        capsys, "plot", str(folder), "-o", "a.svg", "--kind", "pie", code=2
    )


@pytest.mark.skipif(os.name != "posix", reason="the size of a file is limited by POSIX's means")
def test_a_full_disk_is_said_with_the_path(folder, tmp_path):
    script = (
        "import resource, sys; from typica.bench import plot; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500)); plot(*sys.argv[1:])"
    )
    target = tmp_path / "curves.pdf"
    command = [sys.executable, "-c", script, str(folder), str(target)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"{target}: the disk is full" in run.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())
