"""Rows without a whole embedding: an error that names the first, or skipped and counted."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from helpers.data import Data
from helpers.shell import run

import typica
from typica import CTM, InputError, ViM, scale
from typica.scale import _batches, spark
from typica.scale._worker_jobs import Judging

BAD = {3: None, 10: "nan", 11: "inf", 40: "null", 41: "short", 77: None, 99: "empty"}


def lists(Z: np.ndarray) -> list[list[float | None] | None]:
    """Return rows as lists, of which some are bad."""
    rows: list = Z.tolist()
    for place, what in BAD.items():
        if what is None:
            rows[place] = None
        elif what == "short":
            rows[place] = rows[place][:-1]
        elif what == "empty":
            rows[place] = []
        else:
            rows[place][1] = {"nan": float("nan"), "inf": float("inf"), "null": None}[what]
    return rows


@pytest.fixture
def detector(data: Data) -> CTM:
    return CTM().fit(data.train, data.labels).calibrate(data.held_out)


@pytest.fixture
def folder(data: Data, tmp_path, monkeypatch):
    """Tables in two files, and all their good rows."""
    monkeypatch.chdir(tmp_path)
    rows, labels = lists(data.train), data.labels
    (tmp_path / "rows").mkdir()
    for number, some in enumerate(np.split(np.arange(len(rows)), 2)):
        columns = {"id": some, "features": [rows[i] for i in some], "label": labels[some]}
        pq.write_table(pa.table(columns), f"rows/{number}.parquet", row_group_size=25)
    return tmp_path


@pytest.fixture
def good(data: Data) -> np.ndarray:
    return np.delete(np.arange(len(data.train)), list(BAD))


def test_the_first_is_named_with_what_to_do(folder, detector):
    with pytest.raises(InputError, match=r"rows/0.parquet: row 3 of .* pass on_error='skip'\."):
        scale.score(detector, "rows", ids="id").read_all()
    pq.write_table(pa.table({"features": [[1.0, np.nan]]}), "one.parquet")
    with pytest.raises(InputError, match=r"row 0 of the features holds NaN .* on_error='skip'\."):
        scale.fit(CTM(), "one.parquet")
    with pytest.raises(InputError, match="on_error='ignore': choose stop or skip"):
        scale.score(detector, "rows", on_error="ignore")


@pytest.fixture(params=[2**25, 12 * 8 * 7])
def batch_bytes(request, monkeypatch):
    monkeypatch.setattr(_batches, "BATCH_BYTES", request.param)


@pytest.mark.usefixtures("batch_bytes")
def test_verdicts_on_skipped_rows_are_null(folder, data: Data, detector, good):
    found = scale.score(detector, "rows", ids="id", on_error="skip").read_all()
    assert found["id"].to_pylist() == list(range(len(data.train)))
    null = np.flatnonzero(found["verdict"].is_null().to_numpy()).tolist()
    assert null == sorted(BAD)
    expected = detector.judge(data.train[good])
    whole = found.take(good)
    np.testing.assert_allclose(whole["score"].to_numpy(), expected.score, rtol=1e-6)
    np.testing.assert_array_equal(whole["verdict"].to_pylist(), expected.verdict)
    for name in ("score", "p_value", "nearest", "runner_up", "margin"):
        assert found[name].is_null().to_numpy().tolist() == found["verdict"].is_null().to_pylist()
    numbered = scale.score(detector, "rows", on_error="skip").read_all()
    assert numbered["row"].to_pylist() == [*range(len(data.train) // 2)] * 2
    done = scale.score(detector, "rows", "verdicts", on_error="skip")
    assert (done.n, done.skipped, done.rejected) == (len(good), len(BAD), expected.n_atypical)
    assert scale.score(detector, "rows", "verdicts", on_error="skip") == done  # all is there


@pytest.mark.parametrize("name", ["ctm", "vim"])
def test_a_fit_and_a_calibration_are_those_of_the_other_rows(folder, data: Data, good, name):
    labels = data.labels

    def make():
        return CTM() if name == "ctm" else ViM(data.head, dim=3)  # which reads the rows twice

    if name == "ctm":  # no head tells it how wide rows are
        with pytest.raises(InputError, match=r"row 41 of .* has 11 numbers and row 0 has 12"):
            scale.fit(make(), "rows", on_error="skip")
        table = pq.read_table("rows/0.parquet")
        rows = [None if place == 41 else row for place, row in enumerate(table["features"])]
        rows = pa.array([None if row is None else row.as_py() for row in rows])
        pq.write_table(table.set_column(1, "features", rows), "rows/0.parquet")
    fitted = scale.fit(make(), "rows", on_error="skip")
    expected = make().fit(data.train[good], labels[good])
    np.testing.assert_allclose(
        fitted.score_samples(data.test), expected.score_samples(data.test), rtol=1e-5
    )
    scale.calibrate(fitted, "rows", alpha=0.1, on_error="skip")
    with pytest.warns(typica.CalibrationWarning, match="were fitted on"):
        expected.calibrate(data.train[good], alpha=0.1)
    assert fitted.calibration_.n == len(good)
    np.testing.assert_allclose(fitted.threshold_, expected.threshold_, rtol=1e-5)


def test_keys_of_rows_are_those_that_they_have_without_holes(folder, data: Data, good):
    opened = scale.open_tables("rows", on_error="skip", width=data.train.shape[1])
    keys = np.concatenate([batch.keys() for batch in opened.batches()])
    half = len(data.train) // 2
    whole = [
        scale.Batch(np.zeros((half, 1)), source=f"{number}.parquet").keys() for number in (0, 1)
    ]
    np.testing.assert_array_equal(keys, np.concatenate(whole)[good])


def test_the_shell_counts_them_and_names_five(folder, data: Data, detector, capfd):
    detector.save("ctm.safetensors")
    score = ("score", "ctm.safetensors", "rows", "--id-column", "id")
    with pytest.raises(SystemExit) as stop:
        typica.cli.main([*score])
    assert stop.value.code == 2 and "pass --on-error skip." in capfd.readouterr().err
    with pytest.raises(SystemExit) as stop:
        typica.cli.main([*score, "--on-error", "skip", "--json", "found.json", "-o", "v.csv"])
    assert stop.value.code == 0
    error = capfd.readouterr().err
    places = [f"rows/0.parquet, row {place}" for place in (3, 10, 11, 40, 41)]
    assert f"skipped: 7 rows without a whole embedding: {'; '.join(places)} and others" in error
    found = json.loads((folder / "found.json").read_text())
    assert (found["n"], found["skipped"]) == (len(data.train) - 7, 7)
    with (folder / "v.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["id"]) for row in rows if not row["verdict"]] == sorted(BAD)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_lone_file_of_columns(folder, data: Data, capsys, ending):
    columns = {f"f{i}": data.test[:, i].tolist() for i in range(data.test.shape[1])}
    columns["f3"][5] = None
    table = pa.table({"id": [str(i) for i in range(len(data.test))], **columns})
    pq.write_table(table, "new.parquet")
    pa_csv.write_csv(table, "new.csv")
    names = pa.table({f"f{i}": data.train[:, i] for i in range(data.train.shape[1])})
    pq.write_table(names.append_column("label", pa.array(data.labels)), "train.parquet")
    run(capsys, "fit", "train.parquet", "--calibrate", "train.parquet", "-o", "d.safetensors")
    out = run(capsys, "score", "d.safetensors", f"new.{ending}", "--on-error", "skip", "-o", "-")
    verdicts = [json.loads(line)["verdict"] for line in out.splitlines()[:-1]]
    assert [place for place, verdict in enumerate(verdicts) if verdict is None] == [5]


def test_the_function_of_spark_has_the_same_policy(data: Data, detector, good):
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(
        [None if row is None else np.array(row, float) for row in lists(data.train)]
    )
    judging = Judging.by(scale.Judge(detector))
    found = spark._judged_series(judging, "score", series)
    assert np.flatnonzero(found.isna()).tolist() == sorted(BAD)
    np.testing.assert_allclose(found[good], detector.score_samples(data.train[good]), rtol=1e-6)
    assert spark._judged_series(judging, "score", pandas.Series([None, None])).isna().all()


def test_batches_of_an_array(detector, data: Data):
    Z = data.train.copy()
    Z[[4, 9], 0] = np.nan
    learner = scale.Learner(CTM())
    for batch in _batches.array_batches(Z, data.labels, skip=True):
        learner.add(batch)
    assert (learner.n, learner.skipped.n) == (len(Z) - 2, 2)
    good = np.delete(np.arange(len(Z)), [4, 9])
    expected = CTM().fit(Z[good], data.labels[good])
    found = learner.finish()
    np.testing.assert_allclose(found.score_samples(data.test), expected.score_samples(data.test))
