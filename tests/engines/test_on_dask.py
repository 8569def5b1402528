"""Arrays and data frames of Dask: the answer of one machine, whatever the partitions."""

from __future__ import annotations

import itertools
import os
import time
from functools import partial

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from helpers.engines import NAMES, M, as_table, die_once, some_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from typica import CTM, Head, InputError, Mahalanobis, ViM, scale
from typica.scale import dask as on_dask

FEW = settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def chunks_of(n: int, cuts: list[int]) -> tuple[int, ...]:
    """Return the lengths of the stretches between cuts, some of which may be empty."""
    return tuple(int(length) for length in np.diff([0, *sorted(cuts), n]))


def frame_of(Z, labels, cuts, lists):
    """Return a data frame of partitions between cuts, some of which may be empty."""
    columns = {"e": list(Z)} if lists else {f"f{i}": Z[:, i] for i in range(M)}
    whole = pd.DataFrame({"id": np.arange(len(Z)), "label": labels, **columns})
    edges = [0, *sorted(cuts), len(Z)]
    parts = [whole.iloc[a:b] for a, b in itertools.pairwise(edges)]
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_map(lambda part: part, parts, meta=whole.iloc[:0])


def assert_alike(many, one, Z):
    close = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(many.score_samples(Z), one.score_samples(Z), **close)
    assert many.threshold_ == pytest.approx(one.threshold_, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("lists", [True, False])
def test_rows_without_an_embedding_are_skipped(dask, lists):
    Z, codes = some_rows(1, 400, np.float64)
    Z[[3, 333], 1] = np.nan
    good = np.delete(np.arange(400), [3, 333])
    frame = frame_of(Z, codes, [200], lists)
    named = {"features": "e"} if lists else {"columns": [f"f{i}" for i in range(M)]}
    named["on_error"] = "skip"
    one = CTM().fit(Z[good], codes[good])
    expected = one.score_samples(Z[good])
    many = on_dask.fit(CTM(), frame, "label", dask, **named)
    np.testing.assert_allclose(many.score_samples(Z[good]), expected, rtol=1e-5)
    assert on_dask.calibrate(many, frame, dask, alpha=0.1, **named).calibration_.n == 398
    judged = on_dask.score(many, frame, ids="id", **named).compute()
    assert judged["id"][judged["verdict"].isna()].tolist() == [3, 333]
    X = da.from_array(Z, chunks=(150, M))
    many = on_dask.fit(CTM(), X, codes, dask, on_error="skip")
    np.testing.assert_allclose(many.score_samples(Z[good]), expected, rtol=1e-5)


@FEW
@given(
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    dtype=st.sampled_from([np.float16, np.float32, np.float64, np.int32]),
    texts=st.booleans(),
    across=st.sampled_from([1, 2, M]),
    labels_cuts=st.lists(st.integers(0, 60), max_size=3),
)
def test_arrays(dask, *, seed, cuts, dtype, texts, across, labels_cuts):
    Z, codes = some_rows(seed, 60, np.float64)
    Z = (10 * Z).astype(dtype)
    y = NAMES[codes] if texts else codes
    one = scale.fit(CTM(), as_table(Z, y), features="features")
    X = da.from_array(Z, chunks=(chunks_of(60, cuts), across))
    labels = da.from_array(y, chunks=(chunks_of(60, labels_cuts),))
    many = on_dask.fit(CTM(), X, labels, dask)
    assert_alike(many, one, Z)
    assert_alike(on_dask.fit(CTM(), X, y), one, Z)
    scale.calibrate(one, as_table(Z, y), features="features", alpha=0.2)
    on_dask.calibrate(many, X, dask, alpha=0.2)
    assert many.calibration_.n == 60
    assert many.threshold_ == pytest.approx(one.threshold_, rel=1e-5)
    found = on_dask.score(one, X, alpha=0.3).compute()
    expected = one.judge(Z, alpha=0.3)
    assert found.index.tolist() == list(range(60))
    assert found["verdict"].tolist() == expected.verdict.tolist()
    np.testing.assert_allclose(found["score"].to_numpy(float), expected.score, rtol=1e-5)


@FEW
@given(
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    lists=st.booleans(),
    texts=st.booleans(),
    apart=st.booleans(),
)
def test_data_frames(dask, *, seed, cuts, lists, texts, apart):
    Z, codes = some_rows(seed, 60)
    y = NAMES[codes] if texts else codes
    one = scale.fit(Mahalanobis(), as_table(Z, y), features="features")
    frame = frame_of(Z, y, cuts, lists)
    named = {"features": "e"} if lists else {"columns": ["f*"]}
    labels = frame["label"] if apart else "label"
    many = on_dask.fit(Mahalanobis(), frame, labels, dask, **named)
    assert_alike(many, one, Z)
    assert_alike(on_dask.fit(Mahalanobis(), frame, client=dask, **named), one, Z)
    on_dask.calibrate(many, frame, dask, **named, alpha=0.2)
    verdicts = on_dask.score(many, frame, **named, ids="id", only="atypical")
    found = verdicts.compute()
    expected = many.judge(Z)
    strange = np.flatnonzero(~expected.typical)
    assert found["id"].tolist() == found.index.tolist() == strange.tolist()
    assert verdicts.dtypes.equals(found.dtypes)


def test_more_than_2048_rows_have_one_sample_however_they_are_split(dask):
    Z, codes = some_rows(0, 5000)
    one = scale.fit(CTM(), as_table(Z, codes), features="features")
    for size in (700, 5000):
        many = on_dask.fit(CTM(), da.from_array(Z, chunks=(size, M)), codes, dask)
        assert many.training_offset_ == pytest.approx(one.training_offset_, rel=1e-5)


def test_two_passes_and_arrays_of_unknown_length(dask):
    Z, codes = some_rows(0, 300)
    X = da.from_array(Z, chunks=(70, M))
    X = X[da.from_array(np.ones(300, bool), chunks=70)]
    assert np.isnan(X.shape[0])
    detector = ViM(Head(np.eye(4, M)), dim=2)
    many = on_dask.fit(detector, X, client=dask)
    one = scale.fit(detector, as_table(Z, codes), features="features")
    assert_alike(many, one, Z)
    assert_alike(
        on_dask.fit(CTM(), X, codes, dask),
        scale.fit(CTM(), as_table(Z, codes), features="features"),
        Z,
    )


def test_without_a_cluster_dask_works_in_this_process():
    Z, codes = some_rows(0, 100)
    many = on_dask.fit(CTM(), da.from_array(Z, chunks=(30, M)), codes)
    assert_alike(many, CTM().fit(Z, codes), Z)


def own_process(extra: bytes, task: bytes) -> bytes:
    """Return which process this is; until then there is time to hand out the other tasks."""
    time.sleep(0.2)
    return f"{os.getpid()} {len(extra)}".encode() + task


@pytest.mark.parametrize("size", [10, 3_000_000])
@pytest.mark.parametrize("tasks", [2, 3, 9])
def test_tasks_come_back_in_order_and_few_of_them_from_all_workers(dask, size, tasks):
    given_tasks = [b" %d" % number for number in range(tasks)]
    found = on_dask.DaskCluster(dask).map(partial(own_process, bytes(size)), given_tasks)
    parts = [state.split() for state in found]
    assert [int(number) for _, _, number in parts] == list(range(tasks))
    assert {int(length) for _, length, _ in parts} == {size}
    if size == 10 or tasks == 9:
        assert len({process for process, _, _ in parts}) == 2


@pytest.mark.parametrize("what", ["fit", "score"])
def test_a_worker_that_is_killed_changes_nothing(dask, tmp_path, what):
    Z, codes = some_rows(1, 400)
    flag = str(tmp_path / "killed")

    def dying(block, block_info=None):
        if block_info and block_info[0]["chunk-location"][0] == 3:
            die_once(flag)
        return block

    X = da.from_array(Z, chunks=(50, M)).map_blocks(dying, dtype=Z.dtype)
    one = CTM().fit(Z, codes)
    if what == "fit":
        many = on_dask.fit(CTM(), X, codes, dask)
        assert many.moments_.n == 400
        assert_alike(many, one, Z)
    else:
        found = dask.compute(on_dask.score(one, X)).result()
        assert found.index.tolist() == list(range(400))
        np.testing.assert_allclose(found["score"].to_numpy(float), one.score_samples(Z), rtol=1e-5)
    assert (tmp_path / "killed").exists()


def test_a_bad_row_is_told_by_its_number_once(dask):
    Z, codes = some_rows(1, 4000)
    Z[3123, 1] = np.inf
    message = r"^fit: row 3123 of the features holds NaN or infinity \(inf in column 1\)"
    with pytest.raises(InputError, match=message):
        on_dask.fit(CTM(), da.from_array(Z, chunks=(500, M)), codes, dask)


def test_what_does_not_fit_is_told_before_any_work():
    Z, codes = some_rows(1, 60)

    def untouched(block):
        raise AssertionError("a block was computed")

    X = da.from_array(Z, chunks=(20, M)).map_blocks(untouched, dtype=Z.dtype, meta=Z[:0])
    fitted = CTM().fit(Z, codes)
    cases = [
        (lambda: on_dask.fit(CTM(), X, codes[1:]), "59 labels for 60 rows; one per row"),
        (lambda: on_dask.fit(CTM(), X, da.from_array(codes[1:])), "59 labels for 60 rows"),
        (lambda: on_dask.fit(CTM(), X, "label"), "y='label': an array has no columns"),
        (lambda: on_dask.fit(CTM(), X[:, 0]), r"an array of shape \(60,\); pass a Dask array"),
        (lambda: on_dask.fit(ViM(Head(np.eye(3, 7))), X), "5 features per row instead of 7"),
        (lambda: on_dask.calibrate(fitted, X[:, :3]), "3 features per row instead of 5"),
        (lambda: on_dask.score(fitted, X, "folder"), "output is for files; write what this"),
        (lambda: on_dask.score(fitted, X, alpha=0.1), "there are no calibration scores"),
    ]
    for ask, message in cases:
        with pytest.raises(InputError, match=message):
            ask()


def test_what_data_frames_lack_is_told_before_any_work():
    Z, codes = some_rows(1, 60)
    frame = frame_of(Z, NAMES[codes], [30], lists=True)
    flat = frame_of(Z, NAMES[codes], [30], lists=False)
    texts = dd.from_pandas(pd.DataFrame({"e": list(Z), "label": codes}), npartitions=2)
    cases = [
        ({"features": "vector"}, frame, "there is no column 'vector', only id, label, e"),
        ({"features": "f0"}, flat, "the column 'f0' is of float32; features are lists of numbers"),
        ({"columns": ["e"]}, frame, "the column 'e' is of object; features are numbers"),
        ({"features": "e"}, texts, r"Dask makes texts of them unless dask.config.set"),
        ({"y": "species", "features": "e"}, frame, "there is no column 'species'"),
    ]
    for named, data, message in cases:
        with pytest.raises(InputError, match=message):
            on_dask.fit(CTM(), data, **named)


def test_parquet_that_dask_reads(dask, tmp_path):
    Z, codes = some_rows(1, 300)
    pa.parquet.write_table(as_table(Z, NAMES[codes]), tmp_path / "a.parquet", row_group_size=50)
    frame = dd.read_parquet(tmp_path, split_row_groups=True)
    many = on_dask.fit(CTM(), frame, "label", dask, features="features")
    assert_alike(many, CTM().fit(Z, NAMES[codes]), Z)
