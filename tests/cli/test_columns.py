"""Columns by name: files that have a header, from fit to score."""

from __future__ import annotations

import io
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers.data import Data
from helpers.shell import run

import typica
from typica.bench import evaluate_files


def write_csv(path: str, rows: np.ndarray, names: list[str], kinds: np.ndarray | None) -> None:
    """Write named columns and, last, the kinds of the rows."""
    header, lines = list(names), [list(map(repr, row)) for row in rows.tolist()]
    if kinds is not None:
        header.append("kind")
        for line, kind in zip(lines, kinds, strict=True):
            line.append(f"kind {kind}")
    Path(path).write_text("\n".join(",".join(line) for line in [header, *lines]))


@pytest.fixture
def files(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files of which only the training has its columns in order; return their names there."""
    monkeypatch.chdir(tmp_path)
    names = [f"unit {i}" for i in range(data.train.shape[1])]
    write_csv("train.csv", data.train, names, data.labels)
    turned = names[::-1]
    for name in ("held_out", "test", "ood"):
        rows = getattr(data, name)[:, ::-1]
        write_csv(f"{name}.csv", rows, turned, np.zeros(len(rows), dtype=int))
    return names


def fit(capsys, *more: str) -> str:
    named = ("--labels", "kind", "-o", "ctm.safetensors", "--calibrate", "held_out.csv")
    return run(capsys, "fit", "train.csv", *named, *more)


def scores_of(capsys, *arguments: str) -> list[float]:
    told = run(capsys, "score", "ctm.safetensors", *arguments, "--json", "-")
    return [row["score"] for row in json.loads(told)["rows"]]


def test_columns_may_come_in_any_order(files, data: Data, capsys, monkeypatch):
    fit(capsys)
    loaded = typica.load("ctm.safetensors")
    assert list(loaded.feature_names_in_) == files
    assert list(loaded.classes_) == [f"kind {i}" for i in range(4)]
    direct = typica.CTM().fit(data.train, data.labels).calibrate(data.held_out)
    assert loaded.threshold_ == direct.threshold_
    expected = direct.score_samples(data.test).tolist()
    assert scores_of(capsys, "test.csv") == expected
    piped = io.TextIOWrapper(io.BufferedReader(io.BytesIO(Path("test.csv").read_bytes())))
    monkeypatch.setattr(sys, "stdin", piped)
    assert scores_of(capsys, "-") == expected
    np.save("test.npy", data.test)
    assert scores_of(capsys, "test.npy") == expected


def test_names_reach_what_measures_and_explains(files, data: Data, capsys):
    fit(capsys)
    direct = typica.CTM().fit(data.train, data.labels)
    known, strange = direct.score_samples(data.test), direct.score_samples(data.ood)
    auroc = typica.evaluate(known, strange).auroc
    loaded = typica.load("ctm.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = evaluate_files(loaded, "test.csv", {"ood": "ood.csv"})
    assert found.ood["ood"].auroc == auroc
    named = ("train.csv", "test.csv", "--labels", "kind", "--ood", "ood.csv", "--detectors", "ctm")
    told = json.loads(run(capsys, "compare", *named, "--json", "-"))
    assert str(auroc) in json.dumps(told)
    assert "unit " in run(
        capsys, "explain", "ctm.safetensors", "ood.csv", "--row", "0", "--json", "-"
    )


def test_choose_takes_columns_of_what_is_held_out_by_name(files, data: Data, capsys):
    rows, kinds = data.train[::3, ::-1], data.labels[::3]
    write_csv("apart.csv", rows, files[::-1], kinds)
    write_csv("in_order.csv", rows[:, ::-1], files, kinds)
    asked = ("choose", "train.csv", "--labels", "kind", "--detectors", "ctm", "--json", "-")
    one, other = (
        json.loads(run(capsys, *asked, "--held-out", file))
        for file in ("apart.csv", "in_order.csv")
    )
    one, other = (json.dumps(told, sort_keys=True) for told in (one, other))
    assert one == other


def test_a_column_that_is_missing_is_named(files, data: Data, capsys):
    fit(capsys)
    write_csv("less.csv", data.test[:, 1:], files[1:], None)
    told = run(capsys, "score", "ctm.safetensors", "less.csv", code=2)
    assert told.startswith("error: less.csv: has no column 'unit 0', which the detector was fitted")
    told = run(capsys, "fit", "train.csv", "--labels", "sort", "-o", "x.safetensors", code=2)
    assert "train.csv: has no column 'sort', but unit 0, " in told


def test_tables_are_read_by_name_too(files, data: Data, capsys):
    run(capsys, "fit", "train.csv", "--labels", "kind", "-o", "d.safetensors")
    detector = typica.load("d.safetensors")
    for names in (files, files[::-1], ["other", *files[::-1]]):
        columns = {name: data.test[:, files.index(name)] for name in names if name != "other"}
        write_table("test.parquet", {"other": np.arange(len(data.test))} | columns)
        run(
            capsys, "score", "d.safetensors", "test.parquet", "--columns", "*", "-o", "scores.jsonl"
        )
        found = written_scores()
        np.testing.assert_allclose(found, detector.score_samples(data.test), rtol=1e-6)
    rest = ("--columns", "unit 1*", "-o", "scores.jsonl")
    error = run(capsys, "score", "d.safetensors", "test.parquet", *rest, code=2)
    assert "test.parquet: has no column 'unit 0' of features, which the detector was" in error


def test_a_fit_on_columns_of_tables_knows_their_names(files, data: Data, capsys):
    scale = pytest.importorskip("typica.scale")
    write_table("train.parquet", dict(zip(files, data.train.T, strict=True)))
    turned = dict(zip(files[::-1], data.test.T[::-1], strict=True))
    write_table("turned.parquet", turned)
    run(capsys, "fit", "train.parquet", "--columns", "unit *", "-o", "d.safetensors")
    detector = typica.load("d.safetensors")
    assert typica.detectors.column_names(detector) == files
    wanted = detector.score_samples(data.test)
    of_tables = scale.score(detector, "turned.parquet", columns=["unit *"]).read_all()["score"]
    np.testing.assert_allclose(of_tables.to_numpy(), wanted, rtol=1e-6)
    run(capsys, "score", "d.safetensors", "turned.parquet", "-o", "scores.jsonl")
    found = written_scores()
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    opened = scale.open_tables("turned.parquet", columns=["unit *"])
    with pytest.raises(typica.InputError, match="in another order than the detector was fitted"):
        scale.score(detector, opened)


def test_known_inputs_are_read_by_name(files, data: Data, capsys):
    run(capsys, "fit", "train.csv", "--labels", "kind", "-o", "d.safetensors")
    write_csv("bank.csv", data.train, files, data.labels)
    write_csv("turned.csv", data.train[:, ::-1], files[::-1], data.labels)
    told = []
    for bank in ("bank.csv", "turned.csv"):
        command = ("explain", "d.safetensors", "test.csv", "--row", "3", "--bank", bank)
        told.append(run(capsys, *command, "--json", "-"))
    assert told[0] == told[1]


def test_labels_that_are_missing_matter_to_the_fit_alone(files, data: Data, capsys):
    run(capsys, "fit", "train.csv", "--labels", "kind", "-o", "d.safetensors")
    lines = Path("train.csv").read_text().replace(",kind\n", ",label\n").splitlines()
    lines[3] = lines[3].rpartition(",")[0] + ","
    Path("gaps.csv").write_text("\n".join(lines))
    missing = "gaps.csv: label None of row 2 is neither an integer nor a string; fix or remove it."
    ood = ("--ood", "a=gaps.csv")
    assert missing in run(capsys, "fit", "gaps.csv", "-o", "x.safetensors", code=2)
    names = ("--detectors", "ctm")
    assert missing in run(capsys, "compare", "gaps.csv", "test.csv", *ood, *names, code=2)
    run(capsys, "compare", "train.csv", "test.csv", *ood, *names, "--labels", "kind")
    run(capsys, "evaluate", "d.safetensors", "gaps.csv", *ood)
    run(capsys, "score", "d.safetensors", "gaps.csv")
    command = ("explain", "d.safetensors", "test.csv", "--bank", "gaps.csv", "--json", "-")
    assert run(capsys, *command)


def written_scores() -> list[float]:
    lines = Path("scores.jsonl").read_text().splitlines()
    return [json.loads(line)["score"] for line in lines]


def write_table(path: str, columns: dict[str, np.ndarray]) -> None:
    arrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), path)
