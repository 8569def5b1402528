"""Tables of other libraries, taken by Arrow's stream: polars, DuckDB and Hugging Face datasets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import typica
from typica import CTM, Head, ViM, scale

RNG = np.random.default_rng(0)
NAMES = np.array(["ant", "bee", "cat"])
CODES = np.arange(3000) % 3
Z = (RNG.random((3000, 5)) + 2 * np.eye(3, 5)[CODES]).astype(np.float32)
HELD_OUT = RNG.random((500, 5)).astype(np.float32) + 2 * np.eye(3, 5)[CODES[:500]]
WHOLE = CTM().fit(Z, NAMES[CODES]).calibrate(HELD_OUT.astype(np.float32))


def columns():
    return {"id": np.arange(3000).tolist(), "vector": Z.tolist(), "label": NAMES[CODES].tolist()}


def check(made, name="vector", **options):
    """Fit, calibrate and score what `made` returns; all as on one machine."""
    fitted = scale.fit(CTM(), made(), features=name, labels="label", **options)
    assert fitted.classes_.tolist() == NAMES.tolist()
    np.testing.assert_allclose(fitted.score_samples(Z), WHOLE.score_samples(Z), rtol=1e-6)
    scale.calibrate(fitted, made(), features=name)
    assert fitted.calibration_.n == 3000
    found = scale.score(WHOLE, made(), features=name, ids="id").read_all()
    assert found["id"].to_pylist() == list(range(3000))
    expected = WHOLE.judge(Z)
    assert found["verdict"].to_pylist() == expected.verdict.tolist()
    assert found["nearest"].to_pylist() == expected.nearest.tolist()


def test_polars(tmp_path):
    polars = pytest.importorskip("polars")
    types = {"vector": polars.List(polars.Float32)}
    check(lambda: polars.DataFrame(columns(), schema_overrides=types))
    types = {"vector": polars.Array(polars.Float32, 5), "label": polars.Categorical}
    check(lambda: polars.DataFrame(columns(), schema_overrides=types))
    frame = polars.DataFrame(columns(), schema_overrides=types)
    halves = polars.concat([frame[:1000], frame[1000:]], rechunk=False)
    check(lambda: halves)
    vim = scale.fit(ViM(Head(np.eye(3, 5)), dim=2), halves, features="vector")  # reads it twice
    assert vim.alpha_ == pytest.approx(ViM(Head(np.eye(3, 5)), dim=2).fit(Z).alpha_, rel=1e-5)
    found = polars.from_arrow(scale.score(WHOLE, halves, features="vector").read_all())
    assert found.shape == (3000, 8)
    frame = frame.with_columns(name=polars.format("row {}", "id"))
    scale.score(WHOLE, frame, tmp_path / "verdicts", features="vector", ids="name")
    assert polars.read_parquet(tmp_path / "verdicts/*.parquet")["name"][2999] == "row 2999"


def test_duckdb():
    duckdb = pytest.importorskip("duckdb")
    table = pa.table({**columns(), "vector": pa.array(Z.tolist(), pa.list_(pa.float32()))})
    database = duckdb.connect()
    database.register("rows", table)
    for kind in ("FLOAT[]", "FLOAT[5]", "DOUBLE[]"):
        query = f"SELECT id, vector::{kind} AS vector, label FROM rows ORDER BY id"
        if kind == "DOUBLE[]":
            fitted = scale.fit(CTM(), database.sql(query), features="vector", labels="label")
            expected = CTM().fit(Z.astype(np.float64), NAMES[CODES])
            np.testing.assert_allclose(fitted.score_samples(Z), expected.score_samples(Z), 1e-6)
        else:
            check(lambda query=query: database.sql(query))
    judged = scale.score(WHOLE, database.sql("SELECT * FROM rows"), features="vector", ids="id")
    database.register("judged", judged.read_all())
    counted = database.sql("SELECT count(*) FROM judged WHERE verdict = 'atypical'").fetchall()
    assert counted == [(WHOLE.judge(Z).n_atypical,)]


def test_datasets():
    datasets = pytest.importorskip("datasets")
    plain = datasets.Dataset.from_dict(columns())
    narrow = datasets.Features(
        {
            "id": datasets.Value("int64"),
            "vector": datasets.List(datasets.Value("float32"), length=5),
            "label": datasets.ClassLabel(names=NAMES.tolist()),
        }
    )
    typed = datasets.Dataset.from_dict({**columns(), "label": CODES.tolist()}, features=narrow)
    fitted = scale.fit(CTM(), plain, features="vector", labels="label")
    expected = CTM().fit(Z.astype(np.float64), NAMES[CODES])
    np.testing.assert_allclose(fitted.score_samples(Z), expected.score_samples(Z), rtol=1e-6)
    fitted = scale.fit(CTM(), typed, features="vector", labels="label")
    assert fitted.classes_.tolist() == [0, 1, 2]
    expected = np.array(WHOLE.judge(Z).verdict)
    for other in (typed, typed.shuffle(seed=0), typed.to_iterable_dataset(num_shards=4)):
        found = scale.score(WHOLE, other, features="vector", ids="id").read_all()
        ids = found["id"].to_numpy()
        assert sorted(ids) == list(range(3000))
        assert found["verdict"].to_pylist() == expected[ids].tolist()
    twice = ViM(Head(np.eye(3, 5)), dim=2)
    fitted = scale.fit(twice, typed.shuffle(seed=0), features="vector")
    assert fitted.alpha_ == pytest.approx(ViM(Head(np.eye(3, 5)), dim=2).fit(Z).alpha_, rel=1e-5)


def test_an_address_that_does_not_answer():
    pytest.importorskip("aiohttp")
    for address in ("http://127.0.0.1:9/x.parquet", "http://127.0.0.1:9/*.parquet"):
        with pytest.raises(typica.InputError) as error:
            scale.fit(CTM(), address)
        assert address in str(error.value) and "\n" not in str(error.value)
