"""Data frames of Spark, and its SQL: the answer of one machine, whatever the partitions."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.engines import NAMES, M, as_table, die_once, pieces, some_rows, write_pieces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from typica import CTM, Head, InputError, ViM, scale
from typica.scale import spark as on_spark

FEW = settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def frame_of(spark, Z, labels, cuts, numbers="float"):
    """Return a data frame of partitions between cuts, some of which may be empty."""
    edges = [0, *sorted(cuts), len(Z)]
    rows = [
        (
            i,
            Z[i].tolist(),
            labels[i].item(),
            *Z[i].tolist(),
            int(np.searchsorted(edges, i, "right")),
        )
        for i in range(len(Z))
    ]
    kind = "string" if labels.dtype.kind == "U" else "long"
    flat = ", ".join(f"f{i} {numbers}" for i in range(M))
    schema = f"id long, features array<{numbers}>, label {kind}, {flat}, part int"
    made = spark.createDataFrame(rows, schema)
    return made.repartition(len(edges), "part").drop("part")


def assert_alike(many, one, Z):
    close = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(many.score_samples(Z), one.score_samples(Z), **close)
    assert many.threshold_ == pytest.approx(one.threshold_, rel=1e-5, abs=1e-5)


@FEW
@given(
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    texts=st.booleans(),
    lists=st.booleans(),
    numbers=st.sampled_from(["float", "double"]),
)
def test_data_frames(spark, *, seed, cuts, texts, lists, numbers):
    Z, codes = some_rows(seed, 60, np.float32 if numbers == "float" else np.float64)
    y = NAMES[codes] if texts else codes
    one = scale.fit(CTM(), as_table(Z, y), features="features")
    frame = frame_of(spark, Z, y, cuts, numbers)
    named = {"features": "features"} if lists else {"columns": ["f?"]}
    many = on_spark.fit(CTM(), frame, "label", **named)
    assert_alike(many, one, Z)
    scale.calibrate(one, as_table(Z, y), features="features", alpha=0.2)
    on_spark.calibrate(many, frame, **named, alpha=0.2)
    assert many.calibration_.n == 60
    assert many.threshold_ == pytest.approx(one.threshold_, rel=1e-5)
    judged = on_spark.score(one, frame, **named, ids="id").orderBy("id").collect()
    expected = one.judge(Z)
    assert [row.id for row in judged] == list(range(60))
    assert [row.verdict for row in judged] == expected.verdict.tolist()
    np.testing.assert_allclose([row.score for row in judged], expected.score, rtol=1e-5)


def test_two_passes(spark):
    Z, codes = some_rows(0, 300)
    frame = frame_of(spark, Z, codes, [100, 200])
    detector = ViM(Head(np.eye(4, M)), dim=2)
    one = scale.fit(detector, as_table(Z, codes), features="features")
    assert_alike(on_spark.fit(detector, frame, features="features"), one, Z)


def test_parquet_that_spark_reads(spark, tmp_path):
    Z, codes = some_rows(0, 300)
    write_pieces(tmp_path / "data", pieces(Z, NAMES[codes], [100, 200]))
    frame = spark.read.parquet(str(tmp_path / "data"))
    many = on_spark.fit(CTM(), frame)
    assert_alike(many, CTM().fit(Z, NAMES[codes]), Z)


def test_rows_without_an_embedding_are_skipped(spark):
    Z, codes = some_rows(1, 400)
    Z[[3, 333], 1] = np.nan
    good = np.delete(np.arange(400), [3, 333])
    frame = frame_of(spark, Z, codes, [200])
    named = {"features": "features", "on_error": "skip"}
    many = on_spark.fit(CTM(), frame, "label", **named)
    one = CTM().fit(Z[good], codes[good])
    np.testing.assert_allclose(many.score_samples(Z[good]), one.score_samples(Z[good]), rtol=1e-5)
    assert on_spark.calibrate(many, frame, alpha=0.1, **named).calibration_.n == 398
    judged = on_spark.score(many, frame, ids="id", **named).collect()
    assert sorted(row.id for row in judged if row.verdict is None) == [3, 333]
    scores = frame.select("id", on_spark.udf(many)("features").alias("score")).collect()
    assert sorted(row.id for row in scores if row.score is None) == [3, 333]


def test_sql(spark):
    Z, codes = some_rows(0, 100)
    detector = CTM().fit(Z, NAMES[codes]).calibrate(2 * Z[::2])
    frame_of(spark, Z, codes, [50]).createOrReplaceTempView("photos")
    spark.udf.register("typicality", on_spark.udf(detector))
    spark.udf.register("judged", on_spark.udf(detector, None, alpha=0.2))
    query = (
        "SELECT id, typicality(features) AS score, judged(features) AS v, "
        "typicality(IF(id = 3, NULL, features)) AS gap FROM photos ORDER BY id"
    )
    found = spark.sql(query).collect()
    expected = detector.judge(Z, alpha=0.2)
    np.testing.assert_allclose([row.score for row in found], expected.score, rtol=1e-5)
    assert [row.v.verdict for row in found] == expected.verdict.tolist()
    assert [row.v.nearest for row in found] == expected.nearest.tolist()
    assert [row.id for row in found if row.gap is None] == [3]
    assert [row.gap for row in found if row.id != 3] == [r.score for r in found if r.id != 3]
    query = "SELECT count(*) AS n FROM photos WHERE typicality(features) < 0.5"
    assert spark.sql(query).first().n == int(np.sum(detector.score_samples(Z) < 0.5))
    frame = spark.table("photos").select(on_spark.udf(detector, "nearest")("features").alias("n"))
    assert sorted(row.n for row in frame.collect()) == sorted(expected.nearest.tolist())
    with pytest.raises(InputError, match="column='odd': choose one of verdict, score"):
        on_spark.udf(detector, "odd")


@pytest.mark.parametrize("what", ["fit", "score"])
def test_a_worker_that_is_killed_changes_nothing(spark, tmp_path, what):
    Z, codes = some_rows(1, 400)
    flag = str(tmp_path / "killed")

    def dying(records):
        for record in records:
            if 210 in record["id"].to_pylist():
                die_once(flag)
            yield record

    frame = frame_of(spark, Z, codes, range(50, 400, 50))
    frame = frame.mapInArrow(dying, frame.schema)
    one = CTM().fit(Z, codes)
    if what == "fit":
        many = on_spark.fit(CTM(), frame, "label", features="features")
        assert many.moments_.n == 400
        assert_alike(many, one, Z)
    else:
        judged = on_spark.score(one, frame, features="features", ids="id").collect()
        assert sorted(row.id for row in judged) == list(range(400))
    assert (tmp_path / "killed").exists()


def test_a_bad_row_is_told_once(spark):
    Z, codes = some_rows(1, 100)
    Z[33, 1] = np.nan
    message = r"^fit: partition \d+: row \d+ of the features holds NaN or infinity"
    with pytest.raises(InputError, match=message) as error:
        on_spark.fit(CTM(), frame_of(spark, Z, codes, [50]), "label", features="features")
    assert "\n" not in str(error.value)


def test_what_does_not_fit_is_told_before_any_work(spark):
    Z, codes = some_rows(1, 60)
    rows = frame_of(spark, Z, codes, [])
    fitted = CTM().fit(Z, codes)
    narrow = ["f0", "f1"]
    cases = [
        (lambda: on_spark.fit(CTM(), rows, features="vector"), "there is no column 'vector'"),
        (lambda: on_spark.fit(CTM(), rows, "species", features="features"), "no column 'species'"),
        (lambda: on_spark.fit(CTM(), rows, features="f0"), "the column 'f0' is of float; features"),
        (lambda: on_spark.calibrate(fitted, rows, columns=narrow), "2 features per row instead"),
        (lambda: on_spark.score(fitted, rows, "folder"), "output is for files; write what this"),
    ]
    for ask, message in cases:
        with pytest.raises(InputError, match=message):
            ask()


def test_a_session_without_rdds_does_the_same_by_data_frames(spark, tmp_path):
    Z, codes = some_rows(0, 200)
    data = write_pieces(tmp_path / "data", pieces(Z, NAMES[codes], [20, 20, 90]), group=5)
    frames = on_spark.FrameCluster(spark)
    tables = scale.open_tables(data, features="features", labels="label", part_bytes=1)
    assert len(tables.parts) == 40  # more than are merged at a time
    one = scale.fit(CTM(), data, features="features")
    assert_alike(scale.fit(CTM(), tables, engine=frames), one, Z)
    assert_alike(scale.fit(CTM(), tables, engine=on_spark.SparkCluster(spark)), one, Z)
    rows = scale.open_tables(data, features="features", ids="id", part_bytes=1)
    expected = scale.score(one, data, features="features", ids="id").read_all()
    for cluster in (frames, on_spark.SparkCluster(spark)):
        assert scale.score(one, rows, engine=cluster).read_all().equals(expected)
