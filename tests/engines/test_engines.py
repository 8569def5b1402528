"""Files on Dask, Ray and Spark: the answer of one machine, whatever the split and who dies."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.engines import NAMES, DyingCluster, M, pieces, some_rows, write_pieces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from typica import CTM, KNN, Head, InputError, Mahalanobis, ViM, scale

FEW = settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
DETECTORS = {
    "ctm": CTM(),
    "mahalanobis": Mahalanobis(),
    "knn": KNN(k=3),
    "sample": KNN(k=3, subsample=30),
    "vim": ViM(Head(np.eye(4, M), classes=NAMES), dim=2),
}


@FEW
@given(
    name=st.sampled_from(sorted(DETECTORS)),
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
    texts=st.booleans(),
    lists=st.booleans(),
    in_order=st.booleans(),
)
def test_the_answer_is_that_of_one_machine(
    cluster, *, name, seed, cuts, dtype, texts, lists, in_order
):
    Z, codes = some_rows(seed, 60, dtype)
    if in_order:  # a class lives in one file, or in two
        order = np.argsort(codes, kind="stable")
        Z, codes = Z[order], codes[order]
    labels = NAMES[codes] if texts or name == "vim" else codes
    columns = {"features": "features"} if lists else {"columns": ["f?"]}
    detector = DETECTORS[name]
    with tempfile.TemporaryDirectory() as folder:
        data = write_pieces(Path(folder) / "data", pieces(Z, labels, cuts))
        named = {**columns, "labels": "label"}
        one = scale.fit(detector, data, **named)
        many = scale.fit(detector, data, **named, engine=cluster)
        close = {"rtol": 1e-5, "atol": 1e-5}
        np.testing.assert_allclose(many.score_samples(Z), one.score_samples(Z), **close)
        assert many.threshold_ == pytest.approx(one.threshold_, rel=1e-5, abs=1e-5)
        scale.calibrate(one, data, **columns, alpha=0.2)
        scale.calibrate(many, data, **columns, alpha=0.2, engine=cluster)
        assert many.calibration_.sources == one.calibration_.sources
        assert many.threshold_ == pytest.approx(one.threshold_, rel=1e-5, abs=1e-5)
        there, here = Path(folder) / "there", Path(folder) / "here"
        judged = scale.score(one, data, there, **columns, ids="id", engine=cluster)
        assert judged[:2] == scale.score(one, data, here, **columns, ids="id")[:2]
        assert judged.n == 60
        assert pq.read_table(there).equals(pq.read_table(here))
        streamed = scale.score(one, data, **columns, ids="id", engine=cluster).read_all()
        assert streamed.equals(pq.read_table(here))


def test_labels_in_a_file_of_their_own_go_with_their_rows(cluster, tmp_path):
    Z, codes = some_rows(3, 90)
    data = write_pieces(tmp_path / "data", pieces(Z, np.zeros(90), [20, 20, 70]))
    named = {"features": "features", "labels": NAMES[codes]}
    one = scale.fit(CTM(), data, **named)
    many = scale.fit(CTM(), data, **named, engine=cluster)
    np.testing.assert_allclose(many.moments_.means, one.moments_.means, rtol=1e-6)
    assert many.classes_.tolist() == NAMES.tolist()


def test_the_provisional_threshold_is_of_the_same_2048_rows(cluster, tmp_path):
    Z, codes = some_rows(0, 6000)
    data = write_pieces(tmp_path / "data", pieces(Z, codes, [1000, 1010, 4000]), group=500)
    one = scale.fit(CTM(), data, features="features")
    many = scale.fit(CTM(), data, features="features", engine=cluster)
    assert many.training_offset_ == pytest.approx(one.training_offset_, rel=1e-6)


def test_a_worker_that_is_killed_changes_nothing(cluster, engine, tmp_path):
    Z, codes = some_rows(1, 400)
    data = write_pieces(tmp_path / "data", pieces(Z, NAMES[codes], [50, 120, 200, 300]), group=20)
    columns = {"features": "features"}
    one = scale.fit(CTM(), data, **columns)
    flag = tmp_path / "fit"
    many = scale.fit(CTM(), data, **columns, engine=DyingCluster(cluster, str(flag)))
    assert flag.exists()
    assert many.moments_.n == 400
    np.testing.assert_allclose(many.moments_.means, one.moments_.means, rtol=1e-6)
    scale.calibrate(one, data, **columns)
    flag = tmp_path / "score"
    dying = DyingCluster(cluster, str(flag))
    there, here = tmp_path / "there", tmp_path / "here"
    done = scale.score(one, data, there, **columns, ids="id", engine=dying)
    assert flag.exists()
    assert done[:2] == scale.score(one, data, here, **columns, ids="id")[:2]
    assert pq.read_table(there).equals(pq.read_table(here))
    names = sorted(path.name for path in there.glob("part-*"))
    assert names == [f"part-{number:05d}.parquet" for number in range(5)]


def test_work_goes_on_where_it_was_left(cluster, tmp_path):
    Z, codes = some_rows(2, 200)
    data = write_pieces(tmp_path / "data", pieces(Z, codes, [50, 100, 150]))
    detector = scale.fit(CTM(), data, features="features")
    done = scale.score(detector, data, tmp_path / "verdicts", features="features", engine=cluster)
    whole = pq.read_table(tmp_path / "verdicts")
    (tmp_path / "verdicts" / "part-00002.parquet").unlink()
    kept = tmp_path / "verdicts" / "part-00001.parquet"
    before = kept.stat().st_mtime_ns
    again = scale.score(detector, data, tmp_path / "verdicts", features="features", engine=cluster)
    assert again == done
    assert kept.stat().st_mtime_ns == before
    assert pq.read_table(tmp_path / "verdicts").equals(whole)


def test_a_bad_row_is_told_with_its_file_and_row_once(cluster, tmp_path):
    Z, codes = some_rows(4, 9000)
    Z[7123, 2] = np.nan
    tables = pieces(Z, codes, [3000, 6000])
    data = write_pieces(tmp_path / "data", tables, group=1000)
    message = rf"^fit: {data}/002.parquet: row 1123 of the features holds NaN or infinity \(nan in"
    with pytest.raises(InputError, match=message) as error:
        scale.fit(CTM(), data, features="features", engine=cluster)
    assert str(error.value).count("row 1123") == 1 and "\n" not in str(error.value)
    fitted = CTM().fit(Z[:100], codes[:100])
    where = rf"{data}/002.parquet: row 1123 of the features"
    with pytest.raises(InputError, match=where):
        scale.calibrate(fitted, data, features="features", engine=cluster)
    with pytest.raises(InputError, match=where):
        scale.score(fitted, data, tmp_path / "out", features="features", engine=cluster)
    assert not list((tmp_path / "out").glob("part-00002*"))


def test_a_file_that_is_damaged_inside_is_told(cluster, tmp_path):
    Z, codes = some_rows(5, 90)
    data = write_pieces(tmp_path / "data", pieces(Z, codes, [30, 60]))
    middle = data / "001.parquet"
    content = bytearray(middle.read_bytes())
    content[4:200] = bytes(196)
    middle.write_bytes(content)
    with pytest.raises(InputError, match=r"001.parquet: not a whole Parquet file") as error:
        scale.fit(CTM(), data, features="features", engine=cluster)
    assert "\n" not in str(error.value)


def test_no_rows_at_all(cluster, tmp_path):
    Z, codes = some_rows(5, 90)
    data = write_pieces(tmp_path / "data", [pieces(Z, codes, [0])[0]])
    with pytest.raises(InputError, match="there are no training rows; pass some"):
        scale.fit(CTM(), data, features="features", engine=cluster)
    fitted = CTM().fit(Z, codes)
    done = scale.score(fitted, data, tmp_path / "out", features="features", engine=cluster)
    assert done[:2] == (0, 0)
    assert pa.table(scale.score(fitted, data, features="features", engine=cluster)).num_rows == 0
