"""The commands that decide: calibrate, score with a level, monitor, choose."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from helpers.data import Data
from helpers.shell import run
from safetensors.numpy import save_file

import typica


@pytest.fixture
def folder(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("train", "held_out", "test", "ood"):
        np.save(f"{name}.npy", getattr(data, name))
    np.savez("bank.npz", features=data.train, labels=data.labels)
    save_file({"weight": data.head.weight, "bias": data.head.bias}, "head.safetensors")
    typica.CTM().fit(data.train, data.labels).save("ctm.safetensors")
    return tmp_path


def run_json(capsys, *arguments: str, code: int = 0):
    return json.loads(run(capsys, *arguments, "--json", "-", code=code))


def test_calibrate_then_score_with_p_values(folder, data: Data, capsys):
    out = run(
        capsys,
        "calibrate",
        "ctm.safetensors",
        "held_out.npy",
        "--alpha",
        "0.1",
        "-o",
        "sure.safetensors",
    )
    assert "rejects at most 0.1 of ID, on average over calibration draws" in out and "120" in out
    detector = typica.CTM().fit(data.train, data.labels)
    calibration = detector.score_samples(data.held_out)
    scores = detector.score_samples(data.ood)
    document = run_json(capsys, "score", "sure.safetensors", "ood.npy")
    wanted = [(1 + sum(calibration <= score)) / 121 for score in scores]
    assert [row["p_value"] for row in document["rows"]] == pytest.approx(wanted)
    assert [row["verdict"] for row in document["rows"]] == [
        "atypical" if p <= 0.1 else "typical" for p in wanted
    ]
    assert document["alpha"] == 0.1
    stricter = run_json(capsys, "score", "sure.safetensors", "ood.npy", "--alpha", "0.02")
    assert [row["verdict"] for row in stricter["rows"]] == [
        "atypical" if p <= 0.02 else "typical" for p in wanted
    ]
    assert "p-value" in run(capsys, "score", "sure.safetensors", "ood.npy")
    assert re.search(
        r"calibration.*alpha +0\.1 ", run(capsys, "info", "sure.safetensors"), re.DOTALL
    )
    run(capsys, "evaluate", "sure.safetensors", "test.npy", "--ood", "ood.npy")


def test_calibrate_in_place_by_class_and_with_confidence(folder, capsys):
    document = run_json(
        capsys,
        "calibrate",
        "ctm.safetensors",
        "held_out.npy",
        "--alpha",
        "0.2",
        "--confidence",
        "0.9",
    )
    assert document["confidence"] == 0.9 and document["groups"]["all"]["k"] < 24
    scored = run_json(capsys, "score", "ctm.safetensors", "ood.npy", "--alpha", "0.3")
    assert (scored["alpha"], scored["confidence"]) == (0.3, 0.9)  # one alone leaves the other
    assert type(typica.load("ctm.safetensors")) is typica.CTM
    document = run_json(
        capsys, "calibrate", "ctm.safetensors", "held_out.npy", "--alpha", "0.2", "--by-class"
    )
    assert document["by_class"] and sum(group["n"] for group in document["groups"].values()) == 120
    error = run(
        capsys, "calibrate", "ctm.safetensors", "held_out.npy", "--confidence", "0.9999999", code=2
    )
    assert "too few" in error


def test_discoveries_keep_the_false_discovery_rate(folder, data: Data, capsys):
    run(capsys, "calibrate", "ctm.safetensors", "held_out.npy")
    document = run_json(capsys, "score", "ctm.safetensors", "ood.npy", "--fdr", "0.1")
    p = np.array([row["p_value"] for row in document["rows"]])
    below = [i for i, value in enumerate(np.sort(p), 1) if value <= 0.1 * i / len(p)]
    assert document["rejected"] == (max(below) if below else 0) > 0
    assert "--fdr cannot be combined with other levels" in run(
        capsys, "score", "ctm.safetensors", "ood.npy", "--fdr", "0.1", "--alpha", "0.1", code=2
    )


def write_boxes(data: Data) -> tuple[np.ndarray, list[str]]:
    """Write rows of six images, the last strange, in every form that has columns or arrays."""
    rows = np.concatenate([data.test[:10], data.ood[:2]])
    images = [f"img {i // 2}" for i in range(12)]
    header = ",".join(["image", *(f"z{i}" for i in range(rows.shape[1])), "label"])
    pairs = zip(images, rows.tolist(), strict=True)
    lines = [",".join([name, *map(repr, row), "0"]) for name, row in pairs]
    Path("boxes.csv").write_text("\n".join([header, *lines]))
    np.savez("boxes.npz", features=rows, image=np.array(images), labels=np.zeros(12, int))
    table = pyarrow.table({"image": images, "features": rows.tolist(), "label": [0] * 12})
    pyarrow.parquet.write_table(table, "boxes.parquet")
    np.save("boxes.npy", rows)
    Path("images.txt").write_text("\n".join(images))
    return rows, images


def test_rows_of_images_are_judged_together(folder, data: Data, capsys, monkeypatch):
    rows, images = write_boxes(data)
    run(capsys, "calibrate", "ctm.safetensors", "held_out.npy", "--alpha", "0.1")
    wanted = typica.load("ctm.safetensors").judge(rows, groups=images)
    assert wanted.groups.verdict[-1] == "atypical"
    for file, groups in {
        "boxes.csv": "image",
        "boxes.npz": "image",
        "boxes.parquet": "image",
        "boxes.npy": "images.txt",
    }.items():
        found = run_json(capsys, "score", "ctm.safetensors", file, "--groups", groups)
        assert found["groups"] == [one._asdict() for one in wanted.groups]
        assert [row["group"] for row in found["rows"]] == images
        assert [row["verdict"] for row in found["rows"]] == wanted.verdict.tolist()
    arriving = json.dumps(rows.tolist())[1:-1].replace("], [", "]\n[")
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(arriving.encode())))
    )
    piped = run_json(capsys, "score", "ctm.safetensors", "-", "--groups", "images.txt")
    assert piped["groups"] == found["groups"]
    out = run(capsys, "score", "ctm.safetensors", "boxes.csv", "--groups", "image")
    assert f"{wanted.groups.n_atypical} of 6 groups are atypical" in out and "img 5" in out
    only = run(
        capsys,
        *("score", "ctm.safetensors", "boxes.csv", "--groups", "image"),
        *("--only", "atypical", "--limit", "1", "-o", "strange.csv"),
    )
    assert only.count("img 5") == 2
    assert Path("strange.csv").read_text().startswith("row,group,verdict")
    by_fdr = run_json(
        capsys, "score", "ctm.safetensors", "boxes.csv", "--groups", "image", "--fdr", "0.2"
    )
    assert by_fdr["groups"][-1]["verdict"] == "atypical"


def test_groups_that_are_not_there(folder, data: Data, capsys):
    write_boxes(data)
    score = ("score", "ctm.safetensors")
    err = run(capsys, *score, "boxes.csv", "--groups", "image", code=2)
    assert "run `typica calibrate`" in err
    run(capsys, "calibrate", "ctm.safetensors", "held_out.npy")
    for file in ("boxes.csv", "boxes.npz", "boxes.parquet"):
        err = " ".join(run(capsys, *score, file, "--groups", "picture", code=2).split())
        assert "has no column 'picture', but " in err and "image" in err
    Path("few.txt").write_text("a\nb")
    err = run(capsys, *score, "boxes.npy", "--groups", "few.txt", code=2)
    assert "--groups of shape (2,) for 12 rows" in " ".join(err.split())


def test_levels_need_calibration_scores(folder, capsys):
    for option in ("--alpha", "--fdr", "--confidence"):
        error = run(capsys, "score", "ctm.safetensors", "ood.npy", option, "0.1", code=2)
        assert "has no calibration scores; run `typica calibrate`" in error
    assert "run `typica calibrate`" in run(capsys, "monitor", "ctm.safetensors", code=2)


def feed(monkeypatch, lines) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(map(str, lines)) + "\n"))


def test_monitor_raises_an_alarm_and_its_state_goes_on(folder, data: Data, capsys, monkeypatch):
    run(capsys, "calibrate", "ctm.safetensors", "held_out.npy")
    detector = typica.CTM().fit(data.train, data.labels)
    known, strange = detector.score_samples(data.test), detector.score_samples(data.ood)
    feed(monkeypatch, known[:60])
    quiet = run_json(capsys, "monitor", "ctm.safetensors", "--state", "state.safetensors")
    assert quiet["alarm"] is False and quiet["inputs"] == 60
    feed(monkeypatch, [json.dumps({"score": score}) for score in strange])
    arguments = (
        "monitor",
        "ctm.safetensors",
        "--state",
        "state.safetensors",
        "--prometheus",
        "gauges.prom",
    )
    out = run(capsys, *arguments, code=3)
    assert "180 inputs" in out and "ALARM" in out
    assert "typica_monitor_alarm 1" in Path("gauges.prom").read_text()
    feed(monkeypatch, [])
    assert run(capsys, *arguments[:-1], "-", code=3) == Path("gauges.prom").read_text()
    error = run(capsys, *arguments[:-1], "-", "--json", "-", code=2)
    assert "--json and --prometheus: each would be printed; pass - to one of them." in error
    once = typica.Monitor(typica.load("ctm.safetensors"), alpha="0.01")
    once.update(known[:60])
    once.update(strange)
    assert typica.load("state.safetensors").to_dict() == once.to_dict()


def test_monitor_says_what_is_wrong_with_a_line(folder, capsys, monkeypatch):
    run(capsys, "calibrate", "ctm.safetensors", "held_out.npy")
    for lines, message in [
        (["0.5", "what"], "line 2: 'what' holds no score"),
        (['{"p": 1}'], "holds no score; write a number or"),
        (['{"score": 1, "class": "a"}', "0.5"], "differ: some have a class, some do not"),
        (["NaN"], "is NaN"),
    ]:
        feed(monkeypatch, lines)
        assert message in run(capsys, "monitor", "ctm.safetensors", code=2)
    feed(monkeypatch, ["0.5"])
    assert "holds a detector, not a monitor's state" in run(
        capsys, "monitor", "ctm.safetensors", "--state", "ctm.safetensors", code=2
    )


def test_choose_shows_the_best_and_how_sure_it_is(folder, capsys):
    arguments = (
        "choose",
        "bank.npz",
        "--head",
        "head.safetensors",
        "--detectors",
        "ctm,msp,cw",
    )
    out = run(capsys, *arguments)
    document = run_json(capsys, *arguments)
    assert " ".join(out.split()).startswith(document["verdict"])
    assert document["cannot_see"] in " ".join(out.split())
    assert isinstance(document["told"], bool) and document["best"] in document["mean_auroc"]
    assert set(document["swapped"]["ctm"]) == set(document["auroc"]["ctm"]) == set("0123")
    assert set(document["redrawn"]) == {"ctm", "msp", "cw"} and "redrawn" in out
    assert set(document["mean_auroc"]) == {"ctm", "msp", "cw"}
    alone = run_json(
        capsys, "choose", "bank.npz", "--held-out", "bank.npz", "--detectors", "ctm,msp"
    )
    assert set(alone["mean_auroc"]) == {"ctm"}  # MSP needs a head
    assert "holds no labels" in run(capsys, "choose", "train.npy", code=2)
    np.save("few.npy", [1, 2])
    assert "2 labels for 240 rows" in run(
        capsys, "choose", "train.npy", "--labels", "few.npy", code=2
    )


def test_choose_leaves_out_what_needs_a_head_of_other_classes(folder, data: Data, capsys):
    other = typica.Head(np.eye(7, data.train.shape[1]))
    typica.write_bank(
        "other.bank", data.train, labels=data.labels, classes=list("abcd"), head=other
    )
    document = run_json(capsys, "choose", "other.bank", "--detectors", "ctm,msp,mahalanobis")
    assert set(document["mean_auroc"]) == {"ctm", "mahalanobis"} and set(
        document["auroc"]["ctm"]
    ) == set("abcd")
    typica.write_bank(
        "own.bank", data.train, labels=data.labels, classes=list("abcd"), head=data.head
    )
    document = run_json(capsys, "choose", "own.bank", "--detectors", "ctm,msp,mahalanobis")
    assert set(document["mean_auroc"]) == {"ctm", "msp", "mahalanobis"}
