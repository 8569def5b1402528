"""The commands as a person types them."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.data import Data
from helpers.shell import ENDS, run, started
from safetensors.numpy import save_file
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import typica
from typica.cli import main


@pytest.fixture
def folder(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("train", "held_out", "test", "ood"):
        np.save(f"{name}.npy", getattr(data, name).astype(np.float32))
    np.save("labels.npy", data.labels)
    save_file({"weight": data.head.weight, "bias": data.head.bias}, "head.safetensors")
    return tmp_path


def fit(capsys, *more: str) -> str:
    arguments = (
        "train.npy",
        "--labels",
        "labels.npy",
        "-o",
        "ctm.safetensors",
        "--calibrate",
        "held_out.npy",
    )
    return run(capsys, "fit", *arguments, *more)


def test_fit_score_evaluate_info(folder, data: Data, capsys):
    out = fit(capsys, "--tpr", "0.9")
    lines = out.splitlines()
    assert len(lines) == 4 and lines[0] == "wrote ctm.safetensors"
    assert re.fullmatch(
        r"CTM: 4 classes, 12 features, threshold 0\.\d+, keeps 90 % \(n=120\)", lines[1]
    )
    assert lines[2] == "fitted on 240 rows" and "typica info ctm.safetensors" in lines[3]
    assert re.search(
        r"calibration +\n +source +held-out +\n +n +120 +\n +tpr +0\.9 +\n +k +12 ",
        run(capsys, "info", "ctm.safetensors"),
    )
    detector = (
        typica.CTM()
        .fit(np.load("train.npy"), data.labels)
        .calibrate(np.load("held_out.npy"), tpr=0.9)
    )
    scores = detector.score_samples(np.load("test.npy"))

    out = run(capsys, "score", "ctm.safetensors", "test.npy")
    lines = out.splitlines()
    assert lines[0].split() == [
        "row",
        "verdict",
        "score",
        "p-value",
        "nearest",
        "runner-up",
        "margin",
    ]
    strangest = int(np.argmin(scores))
    row, _, score, *_ = lines[1].split()
    assert (row, score) == (str(strangest), f"{scores[strangest]:.4f}")
    assert max(map(len, lines)) <= 80
    assert "of 120 rows are atypical" in out and "the 20 strangest of 120 are shown" in out

    run(
        capsys,
        "evaluate",
        "ctm.safetensors",
        "test.npy",
        "--ood",
        "odd=ood.npy",
        "--json",
        "out.json",
    )
    document = json.loads(Path("out.json").read_text())
    assert set(document) >= {"detector", "tpr", "id", "ood", "average"}
    assert document["detector"] == "ctm" and document["id"] == {"n": 120}
    result = typica.evaluate(scores, detector.score_samples(np.load("ood.npy")))
    assert document["ood"]["odd"] == result.to_dict()
    assert document["average"]["auroc"] == result.auroc

    out = run(capsys, "info", "ctm.safetensors")
    assert "ctm" in out and f"typica {typica.__version__}, format" in out and "4: 0, 1, 2, 3" in out
    document = json.loads(run(capsys, "info", "ctm.safetensors", "--json", "-"))
    assert document["features"] == 12 and document["threshold"] == detector.offset_


def test_the_evaluation_table_shows_percent(folder, capsys):
    fit(capsys)
    out = run(
        capsys,
        "evaluate",
        "ctm.safetensors",
        "test.npy",
        "--ood",
        "ood.npy",
        "--bootstrap",
        "50",
    )
    detector = typica.load("ctm.safetensors")
    known, strange = (detector.score_samples(np.load(f"{name}.npy")) for name in ("test", "ood"))
    assert f"{100 * typica.evaluate(known, strange).auroc:.2f}" in out
    assert (
        "average" in out
        and "95 % confidence intervals" in out
        and "FPR: share of OOD" in " ".join(out.split())
    )
    intervals = out.partition("95 % confidence intervals")[2].splitlines()[1]
    assert "FPR" in intervals and "AUROC" in intervals and "aupr_in" not in intervals
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_scores_are_written_row_by_row(folder, capsys, ending, monkeypatch):
    monkeypatch.setattr("typica.arrays.BLOCK_BYTES", 1000)  # several blocks
    fit(capsys)
    path = Path(f"scores.{ending}")
    run(capsys, "score", "ctm.safetensors", "test.npy", "-o", str(path))
    if ending == "csv":
        rows = list(csv.DictReader(path.read_text().splitlines()))
    elif ending == "jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    else:
        rows = pq.read_table(path).to_pylist()
    detector, test = typica.load("ctm.safetensors"), np.load("test.npy")
    answers = detector.explain(test)
    assert len(rows) == len(answers)
    for i, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        assert int(row["row"]) == i and float(row["score"]) == pytest.approx(answer.score, abs=1e-6)
        assert row["verdict"] == ("typical" if answer.typical else "atypical")
        assert (
            int(row["nearest"]) == answer.nearest
            and int(row["runner_up"]) == answer.runner_up
            and float(row["margin"]) == pytest.approx(answer.margin, abs=1e-6)
        )


def test_score_as_json(folder, capsys):
    fit(capsys)
    document = json.loads(run(capsys, "score", "ctm.safetensors", "test.npy", "--json", "-"))
    assert document["n"] == len(document["rows"]) == 120
    assert document["rejected"] == sum(row["verdict"] == "atypical" for row in document["rows"])
    assert document["threshold"] == typica.load("ctm.safetensors").offset_


def test_score_without_a_threshold_judges_nothing(folder, capsys, data):
    typica.CTM().partial_fit(data.train, data.labels).save("bare.safetensors")
    score = ("score", "bare.safetensors", "test.npy")
    said = " ".join(run(capsys, *score).split())
    assert "120 rows are scored but not judged, as there is no threshold; run `typica cal" in said
    assert json.loads(run(capsys, *score, "--json", "-"))["rejected"] is None
    table = pa.table({"features": list(data.test), "id": range(len(data.test))})
    pq.write_table(table, "test.parquet")
    tables = ("score", "bare.safetensors", "test.parquet", "--features", "features")
    assert "are scored but not judged" in " ".join(run(capsys, *tables).split())
    assert json.loads(run(capsys, *tables, "--json", "-"))["rejected"] is None


@pytest.mark.parametrize("command", ["score", "calibrate", "explain"])
def test_a_file_of_another_width_is_named(folder, capsys, command):
    fit(capsys)
    np.save("narrow.npy", np.ones((5, 3)))
    said = run(capsys, command, "ctm.safetensors", "narrow.npy", code=2)
    assert "narrow.npy: 3 features per row instead of 12; take them from the same layer" in said


def test_score_says_what_decides(folder, capsys):
    run(capsys, "fit", "train.npy", "--labels", "labels.npy", "-o", "ctm.safetensors")
    score = ("score", "ctm.safetensors", "test.npy")
    document = json.loads(run(capsys, *score, "--json", "-"))
    rule = {"threshold": typica.load("ctm.safetensors").offset_, "tpr": 0.95}
    assert {key: document[key] for key in list(document)[:3]} == {"detector": "ctm", **rule}
    run(capsys, "calibrate", "ctm.safetensors", "held_out.npy", "--alpha", "0.1")
    document = json.loads(run(capsys, *score, "--json", "-"))
    assert (document["alpha"], document["tpr"], document["confidence"]) == (0.1, 0.9, None)
    document = json.loads(run(capsys, *score, "--json", "-", "--confidence", "0.9"))
    assert (document["alpha"], document["confidence"]) == (0.1, 0.9)
    assert "threshold" not in document
    document = json.loads(run(capsys, *score, "--json", "-", "--alpha", "0.2"))
    assert (document["alpha"], document["confidence"]) == (0.2, None)
    document = json.loads(run(capsys, *score, "--json", "-", "--fdr", "0.2"))
    assert document["fdr"] == 0.2 and "alpha" not in document


def test_one_class_has_no_runner_up(folder, capsys):
    run(capsys, "fit", "train.npy", "-o", "one.safetensors")
    arguments = ("score", "one.safetensors", "test.npy", "-o", "scores.csv")
    document = json.loads(run(capsys, *arguments, "--json", "-"))
    assert {(row["runner_up"], row["margin"]) for row in document["rows"]} == {(None, None)}
    rows = list(csv.DictReader(Path("scores.csv").read_text().splitlines()))
    assert {(row["runner_up"], row["margin"]) for row in rows} == {("", "")}
    assert run(capsys, *arguments[:3]).splitlines()[1].split()[-2:] == ["-", "-"]


def test_detectors_with_a_head_and_parameters(folder, data: Data, capsys):
    run(
        capsys,
        "fit",
        "train.npy",
        "-o",
        "cw.safetensors",
        "--detector",
        "cw",
        "--head",
        "head.safetensors",
    )
    assert typica.load("cw.safetensors").head == data.head
    fit(capsys, "--head", "head.safetensors", "--param", "correct_only=true")
    assert typica.load("ctm.safetensors").correct_only is True


def test_pipelines_are_scored_too(folder, data: Data, capsys):
    pipeline = make_pipeline(StandardScaler(with_mean=False), typica.CTM()).fit(
        data.train, data.labels
    )
    typica.save(pipeline, "pipeline.safetensors")
    document = json.loads(run(capsys, "score", "pipeline.safetensors", "test.npy", "--json", "-"))
    wanted = pipeline.score_samples(np.load("test.npy"))
    np.testing.assert_allclose([row["score"] for row in document["rows"]], wanted, atol=1e-6)
    assert json.loads(run(capsys, "info", "pipeline.safetensors", "--json", "-"))["after"] == [
        "StandardScaler"
    ]


def write_tables(data: Data) -> list[tuple[str, ...]]:
    """Write the training data in every format, as `typica fit` arguments."""
    names = np.array(["ape", "bee", "cat", "dog"])[data.labels]
    np.savez("a.npz", features=data.train, labels=names)
    np.savez("only.npz", data.train)
    save_file({"features": data.train, "labels": data.labels}, "a.safetensors")
    rows = pa.array(data.train.tolist())
    pq.write_table(pa.table({"features": rows, "label": names}), "a.parquet")
    wide = {f"f{i}": data.train[:, i] for i in range(data.train.shape[1])}
    pq.write_table(pa.table({**wide, "labels": data.labels}), "wide.parquet")
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(data.train.ravel()), data.train.shape[1])
    pq.write_table(pa.table({"features": fixed, "label": data.labels}), "fixed.parquet")
    lines = [",".join(map(repr, row)) for row in data.train.tolist()]
    Path("bare.csv").write_text("\n".join(lines))
    header = ",".join([*wide, "label"])
    Path("a.csv").write_text(
        "\n".join([header, *(f"{line},{name}" for line, name in zip(lines, names, strict=True))])
    )
    Path("labels.txt").write_text("\n".join(map(str, data.labels)))
    Path("names.csv").write_text("\n".join(["label", *names]))
    return [
        ("a.npz",),
        ("only.npz", "--labels", "labels.txt"),
        ("a.safetensors",),
        ("a.parquet",),
        ("wide.parquet",),
        ("fixed.parquet",),
        ("bare.csv", "--labels", "names.csv"),
        ("a.csv",),
        ("bare.csv", "--labels", "a.npz"),
        ("train.npy", "--labels", "a.safetensors"),
    ]


def test_every_format_gives_the_same_detector(folder, data: Data, capsys):
    wanted = typica.CTM().fit(data.train, data.labels).means_
    for arguments in write_tables(data):
        run(capsys, "fit", *arguments, "-o", "x.safetensors")
        detector = typica.load("x.safetensors")
        np.testing.assert_allclose(detector.means_, wanted, atol=1e-6, err_msg=str(arguments))
        assert detector.classes_.tolist() in ([0, 1, 2, 3], ["ape", "bee", "cat", "dog"])


BAD = {
    "absent.npy": "there is no such file",
    "x.txt": "the ending '.txt' is unknown; use one of .npy",
    "empty.npy": "is not an .npy file, whatever its name",
    "object.npy": "not a whole .npy file of numbers",
    "text.npz": "not a whole .npz file",
    "two.npz": "holds a, b; name the array of features 'features'",
    "text.safetensors": "not a whole .safetensors file",
    "text.parquet": "not a whole .parquet file",
    "ragged.parquet": "differ in length",
    "words.parquet": "the column 'name' is not of numbers",
    "words.csv": "row 0: 'two' in the column 'b' is not a number",
    "ragged.csv": "row 1 has 1 fields instead of 2",
    "empty.csv": "the file is empty",
    "header.csv": r"header.csv: holds no rows",
    "binary.csv": "not a text file in UTF-8",
    "flat.npy": r"features of shape \(3,\)",
    "no_rows.npy": "holds no rows",
    "strings.npy": "expected numbers",
    "short_labels.npz": r"labels of shape \(2,\) for 3 rows",
    "nan.npy": "row 1 of the features holds NaN",
}


def write_bad_files() -> None:
    Path("x.txt").write_text("1")
    Path("empty.npy").write_bytes(b"")
    np.save("object.npy", np.array([{"a": 1}]), allow_pickle=True)
    for name in ("text.npz", "text.safetensors", "text.parquet"):
        Path(name).write_text("this is not it")
    np.savez("two.npz", a=np.ones((2, 2)), b=np.ones((2, 2)))
    pq.write_table(pa.table({"features": [[1.0], [1.0, 2.0]]}), "ragged.parquet")
    pq.write_table(pa.table({"name": ["a", "b"]}), "words.parquet")
    Path("words.csv").write_text("a,b\n1,two\n")
    Path("ragged.csv").write_text("1,2\n3\n")
    Path("empty.csv").write_text("\n\n")
    Path("header.csv").write_text("a,b\n")
    Path("binary.csv").write_bytes(b"\xff\xfe\x00\x81")
    np.save("flat.npy", np.ones(3))
    np.save("no_rows.npy", np.ones((0, 4)))
    np.save("strings.npy", np.array([["a", "b"]]))
    np.savez("short_labels.npz", features=np.ones((3, 2)), labels=[1, 2])
    np.save("nan.npy", np.array([[1.0, 2.0], [np.nan, 1.0]]))


@pytest.mark.parametrize("file", BAD)
def test_bad_feature_files_get_one_line_and_exit_code_2(folder, capsys, file):
    write_bad_files()
    error = run(capsys, "fit", file, "-o", "x.safetensors", code=2)
    lines = [line for line in error.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and error.endswith(lines[0] + "\n")
    assert re.search(BAD[file], lines[0])
    assert not Path("x.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "train.npy", "-o", "x.pkl"), "a detector is stored as .safetensors"),
        (
            ("calibrate", "ctm.safetensors", "held_out.npy", "-o", "x.onnx"),
            "x.onnx: a detector is stored as .safetensors",
        ),
        (
            ("export", "ctm.safetensors", "-o", "x.safetensors"),
            "an ONNX model is stored as .onnx; choose a name that ends in it.",
        ),
        (
            ("fit", "train.npy", "-o", "x.safetensors", "--detector", "qourum"),
            "detector 'qourum' is unknown; the closest: quorum; `typica detectors` lists all.",
        ),
        (
            ("fit", "train.npy", "-o", "x.safetensors", "--detector", "!!"),
            "detector '!!' is unknown; `typica detectors` lists all.",
        ),
        (("fit", "train.npy", "-o", "x.safetensors", "--param", "k"), "expected NAME=VALUE"),
        (
            ("fit", "train.npy", "-o", "x.safetensors", "--param", "q=1"),
            "has no parameter 'q'; it takes correct_only",
        ),
        (
            ("fit", "train.npy", "-o", "x.safetensors", "--labels", "two.npz"),
            "name the array of labels 'labels'",
        ),
        (
            ("fit", "train.npy", "-o", "x.safetensors", "--labels", "empty.csv"),
            "expected one per row",
        ),
        (("fit", "train.npy", "-o", "x.safetensors", "--labels", "x.csv"), "there is no such file"),
        (
            ("fit", "train.npy", "-o", "x.safetensors", "--labels", "short.csv"),
            "short.csv: 2 labels for 240 rows; pass one",
        ),
        (
            ("fit", "train.npy", "-o", "x.safetensors", "--detector", "cw"),
            "no head; pass --head FILE.",
        ),
        (("fit", "train.npy", "-o", "x.safetensors", "--head", "two.npz"), "holds no 'weight'"),
        (
            (
                "fit", "train.npy", "-o", "x.safetensors",
                "--calibrate", "held_out.npy", "--tpr", "95",
            ),
            "--tpr 95 is not a share",
        ),
        (("score", "train.npy", "test.npy"), "train.npy holds features, not a detector"),
        (
            ("score", "head.safetensors", "test.npy"),
            "head.safetensors holds a head, not a detector",
        ),
        (("score", "ctm.safetensors", "flat.npy"), "expected numbers of shape"),
        (("score", "ctm.safetensors", "test.npy", "-o", "x.txt"), "the ending '.txt' is unknown"),
        (("evaluate", "ctm.safetensors", "test.npy", "--ood", "x="), "expected NAME=FILE"),
        (
            ("evaluate", "ctm.safetensors", "test.npy", "--ood", "a=ood.npy", "--ood", "a=ood.npy"),
            "given twice",
        ),
        (
            ("evaluate", "ctm.safetensors", "test.npy", "--ood", "ood.npy", "--convention", "x"),
            "--convention x: unknown; choose one of first, interpolated, rank.",
        ),
        (
            ("score", "ctm.safetensors", "photo.jpg", "test.npy", "photos.zip", "flat.npy"),
            (
                "features (test.npy, flat.npy) and images (photo.jpg, photos.zip) "
                "cannot be read together; pass one kind"
            ),
        ),
        (
            ("fit", "absent.npy", "-o", "x.safetensors", "--detector", "isolation_forest"),
            "--detector isolation_forest: holds objects that only pickle can store",
        ),
        (
            (
                "fit", "train.npy", "-o", "x.safetensors",
                "--detector", "knn", "--param", "k=3", "--param", "k=4",
            ),
            "--param k=4: k is given twice",
        ),
        (
            ("fit", "train.npy", "-o", "x.safetensors", "--classes", "short.csv"),
            "--classes is for images, and train.npy holds none",
        ),
        (("fit", "absent", "-o", "x.safetensors"), "absent: there is no such file"),
        (
            ("explain", "ctm.safetensors", "test.npy", "--bank", "absent"),
            "absent: there is no such file",
        ),
        (
            ("export", "ctm.safetensors", "-o", "x.onnx", "--transform", '{"resize": 32}'),
            "name the network, or leave out --transform.",
        ),
        (("info", "absent.safetensors"), "there is no such file"),
    ],
)  # fmt: skip
def test_bad_arguments_get_one_line_and_exit_code_2(folder, capsys, arguments, message):
    write_bad_files()
    Path("short.csv").write_text("1\n2\n")
    fit(capsys)
    error = run(capsys, *arguments, code=2)
    assert message in error.splitlines()[-1] and not Path("x.safetensors").exists()


WRITING = [
    ("fit", "absent.npy", "-o"),
    ("fit", "absent.npy", "-o", "x.safetensors", "--json"),
    ("score", "absent.safetensors", "absent.npy", "-o"),
    ("score", "absent.safetensors", "absent.npy", "--json"),
    ("calibrate", "absent.safetensors", "absent.npy", "-o"),
    ("calibrate", "absent.safetensors", "absent.npy", "--json"),
    ("monitor", "absent.safetensors", "--state"),
    ("monitor", "absent.safetensors", "--prometheus"),
    ("monitor", "absent.safetensors", "--json"),
    ("choose", "absent.npz", "--json"),
    ("evaluate", "absent.safetensors", "absent.npy", "--ood", "absent.npy", "--json"),
    ("compare", "absent.npy", "absent.npy", "--ood", "absent.npy", "--json"),
    ("extract", "--model", "absent", "absent", "-o", "x.bank", "--json"),
    ("info", "absent.safetensors", "--json"),
    ("detectors", "--json"),
    ("demo", "--json"),
    *(("bench", "absent.toml", option) for option in ("--json", "--csv", "--markdown", "--latex")),
    ("suite", "list", "--json"),
    ("suite", "show", "absent.toml", "--json"),
    ("suite", "init"),
    ("data", "list", "--json"),
    ("report", "absent", "-o"),
    ("plot", "absent", "-o"),
]


@pytest.mark.parametrize("arguments", WRITING, ids=" ".join)
def test_a_file_that_cannot_be_written_is_refused_before_any_work(
    tmp_path, capsys, arguments, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    option = {"-o": "--output "}.get(
        arguments[-1], f"{arguments[-1]} " if arguments[-1].startswith("-") else ""
    )
    error = run(capsys, *arguments, "no/such/x.csv", code=2)
    assert error == (
        f"error: {option}no/such/x.csv: there is no folder no/such; make it, or choose another.\n"
    )
    error = run(capsys, *arguments, "folder", code=2)
    assert error == f"error: {option}folder: is a folder; name a file in it.\n"
    assert [path.name for path in Path().iterdir()] == ["folder"]


FOLDERS = [
    ("extract", "--model", "absent", "absent", "-o"),
    ("bench", "absent.toml", "-o"),
]


@pytest.mark.parametrize("arguments", FOLDERS, ids=" ".join)
def test_a_folder_that_cannot_be_made_is_refused_before_any_work(
    tmp_path, capsys, arguments, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    option = {"-o": "--output"}.get(arguments[-1], arguments[-1])
    again = "choose another name for the folder.\n"
    assert run(capsys, *arguments, "file", code=2) == f"error: {option} file: is a file; {again}"
    assert (
        run(capsys, *arguments, "file/a/b", code=2)
        == f"error: {option} file/a/b: file is a file; {again}"
    )
    assert f"{option} -: this one cannot be printed; pass a name." in run(
        capsys, *arguments, "-", code=2
    )
    assert f"{option} " not in run(
        capsys, *arguments, "new/folder", code=2
    )  # it is the input that is wrong
    assert [path.name for path in Path().iterdir()] == ["file"]


def test_folders_and_places_that_are_closed(folder, capsys, monkeypatch):
    os.mkfifo("pipe")
    assert "--json pipe: is not a plain file; choose another name." in run(
        capsys, "detectors", "--json", "pipe", code=2
    )
    assert "--output -: this one cannot be printed" in run(
        capsys, "fit", "train.npy", "-o", "-", code=2
    )
    fit(capsys)

    def closed(dir: Path):
        raise PermissionError(errno.EACCES, "Permission denied", str(dir))

    monkeypatch.setattr("tempfile.TemporaryFile", closed)
    for arguments in (
        ("detectors", "--json", "x.json"),
        ("calibrate", "ctm.safetensors", "absent.npy"),
    ):
        error = run(capsys, *arguments, code=2)
        target = arguments[-1].replace("absent.npy", "ctm.safetensors")
        assert f"{target}: cannot write there (Permission denied)" in error
        assert error.endswith("; choose another folder.\n")
    error = run(capsys, "extract", "--model", "absent", "absent", "-o", "a/b", code=2)
    assert "--output a/b: cannot write there (Permission denied)" in error
    typica.write_bank("a.bank", np.ones((2, 3)))  # nothing need be written to one that is finished
    assert "cannot write" not in run(
        capsys, "extract", "--model", "no:f", "no", "-o", "a.bank", code=2
    )


def test_a_bad_file_among_several_is_named(folder, capsys, monkeypatch):
    monkeypatch.setattr("typica.arrays.BLOCK_BYTES", 200)  # several blocks
    fit(capsys)
    broken = np.load("ood.npy")
    broken[7, 2] = np.inf
    np.save("broken.npy", broken)
    np.save("narrow.npy", broken[:, :5])
    for known, ood, message in (
        (
            "test",
            "broken",
            (
                "broken.npy: row 7 of the features holds NaN or infinity (inf in column 2); "
                "remove or fix it"
            ),
        ),
        ("broken", "ood", "broken.npy: row 7 of the features holds NaN or infinity"),
        (
            "test",
            "narrow",
            "narrow.npy: 5 features per row instead of 12; take them from the same layer.",
        ),
    ):
        rest = (f"{known}.npy", "--ood", "ood=ood.npy", "--ood", f"other={ood}.npy")
        assert f"error: {message}" in run(capsys, "evaluate", "ctm.safetensors", *rest, code=2)
        assert f"error: {message}" in run(
            capsys, "compare", "train.npy", *rest, "--detectors", "ctm", code=2
        )


def test_info_checks_every_byte_of_a_bank(folder, data: Data, capsys):
    head = typica.Head(data.head.weight, data.head.bias)
    typica.write_bank(
        "a.bank", np.load("train.npy"), labels=data.labels, names=["é"] * 240, head=head
    )
    document = json.loads(run(capsys, "info", "a.bank", "--verify", "--json", "-"))
    assert document["verified"] == {
        "rows": 240,
        "bytes": 240 * (12 * 4 + 8 + 2 + 8),
    }  # labels, names and their ends
    assert re.search(
        r"verified +\n +rows +240 +\n +bytes +15840 ", run(capsys, "info", "a.bank", "--verify")
    )
    assert document["head"] == "4 classes x 12 features" and "layer" not in document
    assert "verified" not in run(capsys, "info", "a.bank")
    with Path("a.bank/features.npy").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    run(capsys, "info", "a.bank")
    assert "a.bank: shard 0 (rows 0 to 239) is damaged" in run(
        capsys, "info", "a.bank", "--verify", code=2
    )
    Path("a.bank/head.safetensors").unlink()
    assert json.loads(run(capsys, "info", "a.bank", "--json", "-"))["head"] == "damaged"
    for arguments in (
        ("info", "a.bank", "--verify"),
        ("fit", "a.bank", "-o", "x.safetensors", "--detector", "energy"),
    ):
        error = run(capsys, *arguments, code=2)
        assert (
            "a.bank: head.safetensors is missing; "
            "write the bank again (`typica extract --fresh`), or pass"
        ) in error
    run(
        capsys,
        "fit",
        "a.bank",
        "-o",
        "x.safetensors",
        "--detector",
        "energy",
        "--head",
        "head.safetensors",
    )
    size = Path("x.safetensors").stat().st_size
    assert json.loads(run(capsys, "info", "x.safetensors", "--verify", "--json", "-"))[
        "verified"
    ] == {"bytes": size}


def test_info_lays_out_what_is_nested(folder, data: Data, capsys):
    detector = typica.CTM().fit(data.train, data.labels)
    transform = {"mean": [0.5, 0.25], "odd": []}
    detector.origin_ = typica.Origin("net", "f" * 90, "[red]word " * 20, "mean", transform)
    detector.save("x.safetensors")
    out = run(capsys, "info", "x.safetensors")
    assert max(map(len, out.splitlines())) <= 80
    lines = [line.rstrip() for line in out.splitlines()]
    start = lines.index("origin")
    keys = [line[:16].rstrip() for line in lines[start + 1 :] if line[:16].strip()]
    assert keys[:7] == [
        "  model",
        "  weights",
        "  layer",
        "  reduce",
        "  transform",
        "    mean",
        "    odd",
    ]
    assert [line.split() for line in lines if line.startswith("    ") and "mean" in line] == [
        ["mean", "0.5,", "0.25"],
    ]
    assert "".join(out.split()).count("f" * 90) == 1 and out.count("[red]word") == 20


def logits_bank(data: Data, **more) -> typica.Bank:
    logits = data.head.logits(data.train).astype(np.float32)
    names = ["ant", "bee", "cat", "dog"]
    features = np.load("train.npy")[:, :7]  # of another layer: the head does not fit them
    return typica.write_bank(
        "a.bank", features, logits=logits, labels=data.labels, classes=names, **more
    )


@pytest.mark.parametrize("file", ["a.bank", "a.parquet"])
@pytest.mark.parametrize("name", ["msp", "energy", "kl_matching", "openmax"])
def test_a_bank_without_a_head_gives_its_logits(folder, data: Data, capsys, file, name):
    bank = logits_bank(data)
    bank.to_parquet("a.parquet")
    with pytest.raises(SystemExit) as stop:
        main(
            [
                "fit",
                file,
                "-o",
                "x.safetensors",
                "--detector",
                name,
                "--calibrate",
                file,
                "--tpr",
                "0.5",
            ]
        )
    captured = capsys.readouterr()
    assert stop.value.code == 0, captured.err
    assert "no head: the bank's logits are read (pass --head for features)" in captured.err
    detector = typica.load("x.safetensors")
    assert detector.n_features_in_ == 4 and detector.calibration_.tpr == 0.5
    wanted = detector.score_samples(bank.logits)
    for given in ("a.bank", "a.parquet"):
        document = json.loads(run(capsys, "score", "x.safetensors", given, "--json", "-"))
        np.testing.assert_allclose([row["score"] for row in document["rows"]], wanted, rtol=1e-6)
    document = json.loads(
        run(
            capsys,
            "evaluate",
            "x.safetensors",
            file,
            "--ood",
            f"same={file}",
            "--json",
            "-",
        )
    )
    assert document["ood"]["same"]["auroc"] == pytest.approx(0.5)
    run(capsys, "calibrate", "x.safetensors", file, "-o", "p.safetensors")
    run(capsys, "fit", file, "-o", "ctm.safetensors")  # which reads features, and names classes
    ctm = typica.load("ctm.safetensors")
    assert ctm.n_features_in_ == 7 and ctm.classes_.tolist() == bank.classes


def test_rows_that_are_logits_themselves(folder, data: Data, capsys):
    typica.write_bank("bare.bank", np.load("train.npy"))
    for file in ("bare.bank", "train.npy"):
        with pytest.raises(SystemExit):
            main(["fit", file, "-o", "x.safetensors", "--detector", "msp"])
        assert "no head: the rows are taken as logits" in capsys.readouterr().err
        assert typica.load("x.safetensors").n_features_in_ == 12


def test_a_banks_parquet_file_is_as_good_as_the_bank(folder, data: Data, capsys):
    names = ["ant", "bee", "cat", "dog"]
    head = typica.Head(data.head.weight, data.head.bias)
    identity = {
        "model": "net",
        "weights": "w",
        "layer": None,
        "reduce": "mean",
        "transform": {},
        "data": "d",
    }
    bank = typica.write_bank(
        "a.bank",
        np.load("train.npy"),
        labels=data.labels,
        classes=names,
        head=head,
        identity=identity,
    )
    bank.to_parquet("a.parquet")
    for detector in ("ctm", "msp", "vim"):
        for file in ("a.bank", "a.parquet"):
            run(capsys, "fit", file, "-o", f"{file}.safetensors", "--detector", detector)
        assert Path("a.parquet.safetensors").read_bytes() == Path("a.bank.safetensors").read_bytes()
    assert typica.load("a.parquet.safetensors").origin_.model == "net"
    assert typica.load("a.parquet.safetensors").classes_.tolist() == names
    typica.write_bank(
        "b.bank", np.load("train.npy"), identity={**identity, "weights": "v"}
    ).to_parquet("b.parquet")
    error = run(capsys, "evaluate", "a.bank.safetensors", "a.parquet", "--ood", "b.parquet", code=2)
    assert "b.parquet: features of another network, weights 'v' in place of 'w'" in error
    table = pq.read_table("a.parquet")
    for text in (b"{", b"[]", b'{"head_file": "?"}'):
        pq.write_table(table.replace_schema_metadata({b"typica.bank": text}), "bad.parquet")
        error = run(capsys, "fit", "bad.parquet", "-o", "x.safetensors", code=2)
        assert "bad.parquet: its notes on the bank are damaged" in error
    pq.write_table(table.replace_schema_metadata(None), "plain.parquet")
    assert (
        json.loads(run(capsys, "fit", "plain.parquet", "-o", "x.safetensors", "--json", "-"))[
            "classes"
        ]["n"]
        == 4
    )
    assert typica.load("x.safetensors").classes_.tolist() == [0, 1, 2, 3]


def test_a_share_to_keep_needs_held_out_rows(folder, capsys):
    error = run(capsys, "fit", "train.npy", "-o", "x.safetensors", "--tpr", "0.5", code=2)
    assert (
        "--tpr 0.5: needs held-out rows" in error
        and "pass --calibrate HELD_OUT, or leave --tpr out." in error
    )
    assert not Path("x.safetensors").exists()
    run(capsys, "fit", "train.npy", "-o", "x.safetensors", "--calibrate", "held_out.npy")
    assert typica.load("x.safetensors").calibration_.tpr == 0.95


def test_a_detector_without_a_name_gets_that_of_the_features(folder, data: Data, capsys):
    Path("deep").mkdir()
    typica.write_bank("deep/set.bank", np.load("train.npy"), labels=data.labels)
    assert "wrote set.safetensors" in run(capsys, "fit", "deep/set.bank")
    before = Path("set.safetensors").read_bytes()
    error = run(capsys, "fit", "deep/set.bank", "--detector", "knn", code=2)
    assert error == (
        "error: set.safetensors: exists already; pass -o set.safetensors to replace it, "
        "or another name.\n"
    )
    assert Path("set.safetensors").read_bytes() == before
    save_file({"features": np.load("train.npy")}, "rows.safetensors")
    error = run(capsys, "fit", "rows.safetensors", code=2)
    assert "rows.safetensors: is the file of features itself; pass -o NAME." in error
    with pytest.raises(SystemExit):
        main(["fit", "train.npy", "--json", "-"])
    captured = capsys.readouterr()
    assert (
        "wrote train.safetensors" in captured.err and json.loads(captured.out)["detector"] == "ctm"
    )
    assert typica.load("train.safetensors").n_features_in_ == 12


REPLACING = [  # what would be written over what it reads
    "fit rows.safetensors -o rows.safetensors",
    "fit rows.safetensors -o link.safetensors",
    "fit train.npy --calibrate held_out.npy --calibrate rows.safetensors -o ./rows.safetensors",
    "fit train.npy --detector cw --head head.safetensors -o head.safetensors",
    "calibrate ctm.safetensors rows.safetensors -o rows.safetensors",
    "export ctm.safetensors --model net.onnx -o net.onnx",
    "score ctm.safetensors rows.csv -o rows.csv",
    "score ctm.safetensors rows.csv --json rows.csv",
    "score ctm.safetensors *.csv --columns f* --json rows.csv",
    "evaluate ctm.safetensors held_out.npy --ood ood=ood.npy --json ood.npy",
    "fit train.npy -o x.safetensors --json train.npy",
    "calibrate ctm.safetensors held_out.npy --json held_out.npy",
    "calibrate ctm.safetensors held_out.npy --json ctm.safetensors",
    "explain ctm.safetensors ood.npy --json ./ood.npy",
    "compare train.npy held_out.npy --ood ood=ood.npy --json train.npy",
    "monitor ctm.safetensors --prometheus ctm.safetensors",
    "info ctm.safetensors --json ctm.safetensors",
]


@pytest.mark.parametrize("command", REPLACING)
def test_no_command_replaces_what_it_reads(folder, capsys, command):
    fit(capsys)
    save_file({"features": np.load("train.npy")}, "rows.safetensors")
    Path("link.safetensors").symlink_to("rows.safetensors")
    Path("net.onnx").write_bytes(b"a network")
    np.savetxt("rows.csv", np.load("train.npy"), delimiter=",")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    error = run(capsys, *command.split(), code=2)
    assert ": is read here, and would be replaced; choose another name." in error
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_no_file_is_written_twice_by_one_command(folder, capsys):
    command = ("fit", "train.npy", "-o", "x.safetensors", "--json", "./x.safetensors")
    error = run(capsys, *command, code=2)
    assert error == (
        "error: x.safetensors: two options would write it; choose another name for one.\n"
    )
    assert not Path("x.safetensors").exists()


def test_a_pattern_of_columns_names_no_file(folder, capsys):
    fit(capsys)
    columns = {f"f{i}": column for i, column in enumerate(np.load("train.npy").T)}
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pytest.importorskip("pyarrow").table(columns), "rows.parquet")
    for _ in range(2):
        run(
            capsys, "score", "ctm.safetensors", "rows.parquet", "--columns", "f*", "--json", "f.txt"
        )


BLAMED = {  # commands, and what they say of which file before any work
    "fit train.npy --calibrate narrow.npy": "narrow.npy: 9 features per row instead of 12;",
    "fit nan.npy": "nan.npy: row 3 of the features holds NaN",
    "fit train.npy --labels three.npy": "three.npy: 3 labels for 200 rows; pass",
    "fit train.npy --detector energy --head h9.npz": "h9.npz: a head for 9 features, and the rows "
    "of train.npy have 12; take both from the same network.",
    "compare nan.npy held_out.npy --ood a=ood.npy": "nan.npy: row 3 of the features holds NaN",
    "compare train.npy held_out.npy --ood a=ood.npy --labels three.npy": "three.npy: 3 labels for",
    "compare train.npy held_out.npy --ood a=ood.npy --head h9.npz": "h9.npz: a head for 9 features",
    "choose nan.npy --labels labels.npy": "nan.npy: row 3 of the features holds NaN",
    "choose train.npy --labels three.npy": "three.npy: 3 labels for 200 rows",
    "choose train.npy --labels labels.npy --head h9.npz": "h9.npz: a head for 9 features",
}


@pytest.mark.parametrize("command", BLAMED)
def test_what_is_wrong_is_said_of_its_file(folder, data: Data, capsys, monkeypatch, command):
    rows = data.train[:200].copy()
    np.save("train.npy", rows)
    np.save("labels.npy", data.labels[:200])
    np.save("narrow.npy", rows[:, :9])
    np.save("three.npy", data.labels[:3])
    rows[3, 2] = np.nan
    np.save("nan.npy", rows)
    np.savez("h9.npz", weight=np.ones((4, 9)), bias=np.zeros(4))
    if "nan" not in command:
        monkeypatch.setattr(typica.Detector, "fit", lambda *_: pytest.fail("was fitted"))
    arguments = ["-o", "x.safetensors"] if command.startswith("fit") else ["--detectors", "ctm,cw"]
    if "--head" not in command:
        arguments = [argument.replace(",cw", "") for argument in arguments]
    error = run(capsys, *command.split(), *arguments, code=2)
    assert f"error: {BLAMED[command]}" in error


FOR_NOTHING = {  # commands that read features alone, and what holds no image
    "score ctm.safetensors ood.npy": "these are features",
    "score ctm.safetensors -": "these are features",
    "score ctm.safetensors - -o -": "these are features",
    "explain ctm.safetensors ood.npy": "these are features",
    "calibrate ctm.safetensors held_out.npy": "these are features",
    "evaluate ctm.safetensors held_out.npy --ood a=ood.npy": "these are features",
    "fit train.npy -o x.safetensors --calibrate held_out.npy": "train.npy holds none",
}


@pytest.mark.parametrize("option", ["--model resnet-50", "--weights net.pth", "--transform {}"])
@pytest.mark.parametrize("command", FOR_NOTHING)
def test_a_network_for_features_is_refused(folder, capsys, command, option):
    fit(capsys)
    name, _, value = option.partition(" ")
    error = run(capsys, *command.split(), name, value, code=2)
    assert f"{name} is for images, and {FOR_NOTHING[command]}; leave it out." in error


def test_labels_beside_the_features_reach_every_detector(folder, data: Data, capsys):
    arguments = ("--detector", "layer_ensemble", "-o", "x.safetensors")
    run(capsys, "fit", "train.npy", "--labels", "labels.npy", *arguments)
    made, wanted = typica.load("x.safetensors"), typica.LayerEnsemble().fit(data.train, data.labels)
    assert made.classes_.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(
        made.score_samples(data.ood), wanted.score_samples(data.ood), rtol=1e-5
    )
    run(capsys, "fit", "train.npy", *arguments)
    assert typica.load("x.safetensors").classes_.tolist() == [0]


def test_features_are_not_taken_for_logits(folder, data: Data, capsys):
    arguments = ("--detector", "msp", "-o", "x.safetensors")
    error = run(capsys, "fit", "train.npy", "--labels", "labels.npy", *arguments, code=2)
    assert "labels of 4 classes and 12 columns" in error and not Path("x.safetensors").exists()
    few = data.labels < 3
    logits = data.head.logits(data.train)[few]
    labels = {"labels": data.labels[few], "classes": list("abcd")}
    typica.write_bank("few.bank", data.train[few], logits=logits, **labels)
    run(capsys, "fit", "few.bank", *arguments)
    assert typica.load("x.safetensors").n_features_in_ == 4


def test_a_banks_head_tells_which_rows_are_correct(folder, data: Data, capsys):
    labels = data.labels.copy()
    labels[:20] = (labels[:20] + 1) % 4  # rows that the head gets wrong
    typica.write_bank("x.bank", data.train, labels=labels, classes=list("abcd"), head=data.head)
    run(capsys, "fit", "x.bank", "--param", "correct_only=true", "-o", "ctm.safetensors")
    found = typica.load("ctm.safetensors")
    correct = data.head.predict(data.train) == labels
    wanted = typica.CTM().fit(data.train[correct], labels[correct])
    assert found.correct_only and found.head is not None and not correct.all()
    np.testing.assert_allclose(found.means_, wanted.means_)
    run(capsys, "fit", "x.bank", "-o", "plain.safetensors")
    assert typica.load("plain.safetensors").head is None  # it does not want one


def test_usage_errors_and_help(capsys):
    assert "Missing argument 'DATA'" in run(capsys, "fit", "--features", "train.npy", code=2)
    assert "Example: typica fit train.npy" in " ".join(run(capsys, "fit", "--help").split())
    assert run(capsys, "--version") == f"typica {typica.__version__}\n"
    for command in ("fit", "score", "evaluate", "info", "demo", "detectors"):
        assert "Example: typica" in run(capsys, command, "--help")
    for group in ("data", "suite"):
        assert f"Example: typica {group} " in run(capsys, group, "--help")
    assert "--verify" in run(capsys, "info", "--help")


def test_debug_shows_the_traceback(folder):
    with pytest.raises(typica.InputError, match="there is no such file"):
        main(["info", "absent.safetensors", "--debug"])


def test_a_fault_of_ours_is_one_line_too(folder, capsys, monkeypatch):
    fit(capsys)

    def broken(*_):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("typica.store.read", broken)
    assert "internal error: ZeroDivisionError: oops; --debug" in run(
        capsys, "info", "ctm.safetensors", code=1
    )
    with pytest.raises(ZeroDivisionError):
        main(["--debug", "info", "ctm.safetensors"])


def test_too_few_held_out_rows_are_said(folder, capsys):
    np.save("few.npy", np.load("held_out.npy")[:10])
    with pytest.raises(SystemExit):
        main(["fit", "train.npy", "-o", "x.safetensors", "--calibrate", "few.npy"])
    captured = capsys.readouterr()
    said = " ".join(captured.err.split())
    assert "warning: 10 calibration inputs are too few to reject anything" in said
    assert "-inf" in captured.out
    assert json.loads(run(capsys, "info", "x.safetensors", "--json", "-"))["threshold"] == "-inf"


def said_by(capsys, *arguments: str) -> str:
    """Return what a command that succeeds says on standard error, in one line."""
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    captured = capsys.readouterr()
    assert stop.value.code == 0, captured.err
    return " ".join(captured.err.split())


def test_a_threshold_that_is_replaced_is_not_complained_about(folder, data: Data, capsys):
    np.save("few.npy", np.load("train.npy")[:15])
    rows = pa.array(data.train[:15].astype(np.float32).tolist(), pa.list_(pa.float32()))
    pq.write_table(pa.table({"embedding": rows}), "few.parquet")
    for command in (("fit", "few.npy"), ("fit", "few.parquet", "--features", "embedding")):
        said = said_by(capsys, *command, "-o", "x.safetensors")
        assert "warning: 15 training rows are too few for a threshold" in said
        said = said_by(capsys, *command, "-o", "x.safetensors", "--calibrate", "held_out.npy")
        assert "too few" not in said


def test_held_out_rows_that_the_fit_has_seen_are_told(folder, capsys):
    command = ("fit", "train.npy", "--labels", "labels.npy", "-o", "x.safetensors")
    assert "optimistic" not in said_by(capsys, *command, "--calibrate", "held_out.npy")
    said = said_by(capsys, *command, "--calibrate", "./train.npy")
    assert "./train.npy: was used for the fit, so a threshold from it is optimistic" in said


def test_compare_without_labels_says_what_it_compares(folder, capsys):
    command = ("compare", "train.npy", "test.npy", "--ood", "ood.npy", "--detectors")
    one_class = "no labels: all rows count as one class (pass --labels for one mean per class)"
    assert one_class in said_by(capsys, *command, "ctm,knn")
    assert one_class not in said_by(capsys, *command, "knn")
    assert one_class not in said_by(capsys, *command, "ctm", "--labels", "labels.npy")


def test_detectors_lists_them_all(capsys):
    out = run(capsys, "detectors")
    listed = json.loads(run(capsys, "detectors", "--json", "-"))
    assert list(listed) == typica.list_detectors()
    assert all(name in out for name in listed)
    assert listed["cw"]["needs"] == ["head"] and listed["ctm"]["mergeable"]


def test_compare_shows_every_detector_on_the_same_features(folder, data: Data, capsys):
    arguments = (
        "compare",
        "train.npy",
        "--labels",
        "labels.npy",
        "test.npy",
        "--ood",
        "odd=ood.npy",
    )
    out = run(
        capsys,
        *arguments,
        "--head",
        "head.safetensors",
        "--detectors",
        "ctm,cw,msp,KNN",
        "--json",
        "out.json",
    )
    assert max(map(len, out.splitlines())) <= 80 and "µs/row" in out
    rows = json.loads(Path("out.json").read_text())
    assert list(rows) == ["ctm", "cw", "msp", "knn"]
    ctm = typica.CTM().fit(np.load("train.npy"), data.labels)
    wanted = typica.evaluate(
        ctm.score_samples(np.load("test.npy")), ctm.score_samples(np.load("ood.npy"))
    )
    assert rows["ctm"]["average"]["auroc"] == pytest.approx(wanted.auroc, abs=1e-9)
    assert rows["ctm"]["fit_seconds"] > 0 and rows["ctm"]["score_microseconds"] > 0
    main_error = run(capsys, *arguments, "--detectors", "ctm,nope", code=2)
    assert "detector 'nope' is unknown" in main_error


def test_compare_leaves_out_what_lacks_a_head_and_reports_what_fails(folder, data: Data, capsys):
    np.save("train.npy", np.load("train.npy")[:30])  # too few for 50 neighbours
    np.save("labels.npy", data.labels[:30])
    arguments = (
        "compare",
        "train.npy",
        "--labels",
        "labels.npy",
        "test.npy",
        "--ood",
        "odd=ood.npy",
    )
    with pytest.raises(SystemExit):
        main([*arguments, "--detectors", "paper"])
    captured = capsys.readouterr()
    assert "they need --head: msp, max_logit, energy, cw" in " ".join(captured.err.split())
    assert "failed" in captured.out and "k=50 exceeds the 30 training rows" in captured.out
    assert "every detector failed" in run(capsys, *arguments, "--detectors", "knn", code=2)


def test_demo_tells_the_whole_story(capsys):
    out = run(capsys, "demo")
    assert max(map(len, out.splitlines())) <= 80
    for words in ("held-out-digits", "photos", "atypical", "nearest", "typica fit train.npy"):
        assert words in out
    document = json.loads(run(capsys, "demo", "--json", "-"))
    of_layers = {"layer_ensemble"}  # which the digits' network does not give
    assert document["accuracy"] > 0.95
    assert set(document["results"]) == set(typica.list_detectors()) - of_layers
    assert document["failed"] == {}
    assert document["results"]["ctm"]["ood"]["photos"]["auroc"] > 0.95
    assert document == json.loads(run(capsys, "demo", "--json", "-"))


def test_interrupt_leaves_no_half_file(tmp_path, data: Data):
    rng = np.random.default_rng(0)
    typica.CTM().fit(data.train, data.labels).save(tmp_path / "ctm.safetensors")
    np.save(tmp_path / "big.npy", rng.random((2_000_000, 12), dtype=np.float32))
    program = "from typica.cli import main; main()"
    arguments = ["score", "ctm.safetensors", "big.npy", "-o", "out.csv"]
    command = [sys.executable, "-c", program, *arguments]
    with started(command, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        while not list(tmp_path.glob(".out.csv.*")):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=ENDS)
    assert process.returncode not in (0, None) and b"Traceback" not in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["big.npy", "ctm.safetensors"]
