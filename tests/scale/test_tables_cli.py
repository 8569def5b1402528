"""Tables from the shell: fit, calibrate and score, as a person types them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from helpers.data import Data
from helpers.shell import run
from pyarrow import feather

import typica
from typica import scale
from typica.scale import _batches


def table(Z, labels=None, first: int = 0, kind: str = "list"):
    if kind == "columns":
        columns = {f"f{i}": Z[:, i] for i in range(Z.shape[1])}
    else:
        columns = {"embedding": pa.FixedSizeListArray.from_arrays(pa.array(Z.ravel()), Z.shape[1])}
    if labels is not None:
        columns["label"] = pa.array(labels)
    return pa.table({"id": pa.array([f"row {first + i}" for i in range(len(Z))]), **columns})


@pytest.fixture
def folder(data: Data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("train", "held", "new", "flat"):
        (tmp_path / name).mkdir()
    half = len(data.train) // 2
    parts = [(data.train[:half], data.labels[:half]), (data.train[half:], data.labels[half:])]
    for number, (Z, labels) in enumerate(parts):
        pq.write_table(
            table(Z, labels, number * half), f"train/{number}.parquet", row_group_size=50
        )
        pq.write_table(table(Z, labels, kind="columns"), f"flat/{number}.parquet")
    pq.write_table(table(data.held_out), "held/0.parquet")
    new = np.concatenate([data.test[:30], data.ood[:30]])
    pq.write_table(table(new), "new/0.parquet")
    np.save("new.npy", new)
    return tmp_path


def test_the_three_commands_do_what_they_do_on_one_machine(folder, data: Data, capsys):
    out = run(capsys, "fit", "train/*.parquet", "--features", "embedding", "--labels", "label")
    assert "wrote train.safetensors" in out
    assert f"fitted on {len(data.train)} rows" in " ".join(out.split())
    run(
        capsys,
        "calibrate",
        "train.safetensors",
        "held",
        "--features",
        "embedding",
        "--alpha",
        "0.1",
    )
    whole = typica.CTM().fit(data.train, data.labels).calibrate(data.held_out, alpha=0.1)
    loaded = typica.load("train.safetensors")
    assert loaded.threshold_ == pytest.approx(whole.threshold_, rel=1e-6)
    out = run(capsys, "score", "train.safetensors", "new", "--id-column", "id", "-o", "verdicts")
    expected = whole.judge(np.load("new.npy"))
    assert f"{expected.n_atypical} of 60 rows are atypical" in out
    found = pq.read_table("verdicts")
    assert found["verdict"].to_pylist() == expected.verdict.tolist()
    assert found["id"].to_pylist()[:2] == ["row 0", "row 1"]


def test_one_command_fits_and_calibrates(folder, data: Data, capsys):
    arguments = (
        "fit",
        "train",
        "--calibrate",
        "held/*.parquet",
        "--alpha",
        "0.1",
        "-o",
        "x.safetensors",
    )
    run(capsys, *arguments, "--features", "embedding", "--json", "fit.json")
    whole = typica.CTM().fit(data.train, data.labels).calibrate(data.held_out, alpha=0.1)
    told = json.loads((folder / "fit.json").read_text())
    assert told["threshold"] == pytest.approx(whole.threshold_, rel=1e-6)
    np.save("held.npy", data.held_out)
    run(capsys, "fit", "train", "--calibrate", "held.npy", "-o", "y.safetensors", "--alpha", "0.1")
    assert typica.load("y.safetensors").threshold_ == pytest.approx(whole.threshold_, rel=1e-6)


def test_columns_follow_each_other(folder, data: Data, capsys):
    names = [f"f{i}" for i in range(data.train.shape[1])]
    np.save("labels.npy", data.labels)
    run(capsys, "fit", "flat", "--columns", *names, "-o", "a.safetensors")
    run(capsys, "fit", "flat", "--columns", "f*", "--labels", "labels.npy", "-o", "b.safetensors")
    one, other = typica.load("a.safetensors"), typica.load("b.safetensors")
    assert one.fingerprint() == other.fingerprint()
    whole = typica.CTM().fit(data.train, data.labels)
    np.testing.assert_allclose(
        one.score_samples(data.test), whole.score_samples(data.test), rtol=1e-6
    )


def test_verdicts_are_shown_printed_and_written_to_one_file(folder, data: Data, capsys):
    typica.CTM().fit(data.train, data.labels).calibrate(data.held_out).save("ctm.safetensors")
    expected = typica.load("ctm.safetensors").judge(np.load("new.npy"))
    out = run(capsys, "score", "ctm.safetensors", "new", "--limit", "3")
    strangest = expected.sort()[:3]
    rows = [line.split()[1] for line in out.splitlines() if line.startswith("0.parquet")]
    assert rows == [str(row) for row in strangest.row]
    assert "the 3 strangest of 60 are shown" in out
    atypical = expected.n_atypical
    for only, n in (("atypical", atypical), ("typical", 60 - atypical)):
        score = ("score", "ctm.safetensors", "new", "--only", only)
        assert f"the 3 strangest of {n} are shown" in run(capsys, *score, "--limit", "3")
        assert "are shown" not in run(capsys, *score, "--limit", str(n))
        assert "are shown" not in run(capsys, *score, "--limit", "0")
    out = run(capsys, "score", "ctm.safetensors", "new", "-o", "-")
    *lines, end = map(json.loads, out.splitlines())
    assert [line["verdict"] for line in lines] == expected.verdict.tolist() and end == {"end": 60}
    for name in ("v.csv", "v.jsonl", "v.parquet"):
        run(capsys, "score", "ctm.safetensors", "new", "-o", name, "--only", "atypical")
    assert len(pq.read_table("v.parquet")) == expected.n_atypical
    assert (folder / "v.csv").read_text().count("\n") == expected.n_atypical + 1
    out = run(capsys, "score", "ctm.safetensors", "new", "--json", "-", "--limit", "1")
    told = json.loads(out)
    assert (told["n"], told["rejected"]) == (60, expected.n_atypical)
    assert told["rows"][0]["row"] == strangest.row[0]


def test_a_table_without_rows(folder, data: Data, capsys):
    typica.CTM().fit(data.train, data.labels).calibrate(data.held_out).save("ctm.safetensors")
    pq.write_table(pq.read_table("new/0.parquet").slice(0, 0), "none.parquet")
    score = ("score", "ctm.safetensors", "none.parquet", "--features", "embedding")
    assert run(capsys, *score) == "there are no rows\n"
    run(capsys, *score, "-o", "v.parquet")
    assert len(pq.read_table("v.parquet")) == 0


def test_csv_parquet_and_arrow_take_the_same_options(folder, data: Data, capsys):
    rows = table(np.load("new.npy"), kind="columns")
    ids = [f"00{i}" for i in range(60)]  # which are not the numbers 0 to 59
    rows = rows.set_column(0, "id", pa.array(ids))
    pa_csv.write_csv(rows, "new.csv")
    pq.write_table(rows, "new.parquet")
    feather.write_feather(rows, "new.arrow")
    run(capsys, "fit", "flat", "--columns", "f*", "--labels", "label", "-o", "named.safetensors")
    expected = typica.load("named.safetensors").judge(np.load("new.npy"))
    for name in ("new.csv", "new.parquet", "new.arrow"):
        for options in ((), ("--columns", "f*")):
            score = ("score", "named.safetensors", name, "--id-column", "id", *options)
            lines = run(capsys, *score, "-o", "-").splitlines()
            found = [json.loads(line) for line in lines[:-1]]
            assert [line["id"] for line in found] == ids, name
            np.testing.assert_allclose([line["score"] for line in found], expected.score, rtol=1e-6)


def test_a_fit_on_csv_with_an_id(folder, data: Data, capsys):
    pa_csv.write_csv(table(data.train, data.labels, kind="columns"), "train.csv")
    run(capsys, "fit", "train.csv", "--columns", "f*", "--labels", "label", "-o", "d.safetensors")
    expected = typica.CTM().fit(data.train, data.labels).score_samples(data.test)
    found = typica.load("d.safetensors").score_samples(data.test)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_column_of_whole_numbers_at_first_may_have_fractions_later(tmp_path):
    rows = ["id,f0,f1", *["1,0,1"] * 400_000, "x,0.5,1"]  # more than one block of Arrow's
    (tmp_path / "late.csv").write_text("\n".join(rows))
    opened = scale.open_tables(tmp_path / "late.csv", columns=["f*"], ids="id")
    last = list(opened.batches())[-1]
    assert last.features[-1].tolist() == [0.5, 1]
    assert last.ids[-1].as_py() == "x"


def test_a_lone_file_is_read_as_a_folder_is(folder, data: Data, capsys):
    typica.CTM().fit(data.train, data.labels).calibrate(data.held_out).save("ctm.safetensors")
    scores = []
    for inputs in ("new", "new/0.parquet"):
        *lines, _ = run(capsys, "score", "ctm.safetensors", inputs, "-o", "-").splitlines()
        scores.append([json.loads(line)["score"] for line in lines])
    np.testing.assert_allclose(scores[0], scores[1])


def test_a_folder_of_columns_is_read_by_the_names_of_the_fit(folder, data: Data, capsys):
    run(capsys, "fit", "flat", "--columns", "f*", "--labels", "label", "-o", "named.safetensors")
    one, several = ("flat/0.parquet", "flat")
    for inputs in (one, several):
        for option in ((), ("--id-column", "id")):
            run(capsys, "score", "named.safetensors", inputs, *option, "-o", "-")


ERRORS = {
    "score ctm.safetensors new --id-column id --id-column row": (
        "--id-column id and row: one column is passed through; name one, and join others"
    ),
    "fit train --features vector": (
        "train/0.parquet: there is no column 'vector', only id, embedding, label; "
        "name one of these."
    ),
    "fit train --features id": (
        "train/0.parquet: the column 'id' is of string; features are lists of numbers."
    ),
    "fit train --columns id": (
        "train/0.parquet: the column 'id' is of string; features are numbers."
    ),
    "fit train --labels species": "train/0.parquet: there is no column 'species'",
    "fit absent/*.parquet": "absent/*.parquet: no file matches; check the pattern.",
    "fit s4://bucket/x.parquet": "s4://bucket/x.parquet: cannot be read",
    "fit train --features embedding --columns f0": (
        "--features and --columns: pass one column of lists, or several columns"
    ),
    "fit train --detector openmax --head head.npz": (
        "OpenMax needs all rows at once; pass --sample 100000"
    ),
    "fit train --model m.onnx": "--model is for images, and these are tables; leave it out.",
    "calibrate ctm.safetensors flat --columns f0 f1": (
        "flat/0.parquet: 2 features per row instead of"
    ),
    "calibrate ctm.safetensors held --features label": "held/0.parquet: there is no column 'label'",
    "score ctm.safetensors new --fdr 0.1": "--fdr 0.1: needs all rows at once",
    "score ctm.safetensors new --sort score": "--sort score: needs all rows at once",
    "score ctm.safetensors new --id-column label": "new/0.parquet: there is no column 'label'",
    "score ctm.safetensors odd.parquet --id-column score": (
        "--id-column score: verdicts have a column of that name; give the ids another."
    ),
    "score ctm.safetensors new.npy --features x": "new.npy: neither Parquet, Arrow nor CSV",
    "score ctm.safetensors new -o train": (
        "train: is not empty and holds no verdicts (0.parquet); choose a new folder."
    ),
}


@pytest.mark.parametrize("command", ERRORS)
def test_bad_input_is_one_line_before_any_work(folder, data: Data, capsys, command, monkeypatch):
    typica.CTM().fit(data.train, data.labels).calibrate(data.held_out).save("ctm.safetensors")
    m, C = data.train.shape[1], len(np.unique(data.labels))
    np.savez("head.npz", weight=np.eye(C, m))
    odd = pq.read_table("new/0.parquet").append_column("score", pa.array(range(60)))
    pq.write_table(odd, "odd.parquet")
    monkeypatch.setattr(_batches, "read_batch", None)  # nothing is read
    error = run(capsys, *command.split(), code=2)
    assert error.startswith(f"error: {ERRORS[command]}"), error
    assert error.count("\n") == 1
