"""Parts of a data set: whatever the split, what is learnt, calibrated and judged is the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from typica import CTM, InputError, Mahalanobis, scale
from typica.store import to_bytes

RNG = np.random.default_rng(0)
NAMES = np.array(["ant", "bee", "cat", "dog"])


def rows(n: int = 400, m: int = 6):
    codes = RNG.integers(0, 4, n)
    return (RNG.random((n, m)) + 3 * np.eye(4, m)[codes]).astype(np.float32), NAMES[codes]


def table(Z, y=None):
    columns = {"embedding": pa.FixedSizeListArray.from_arrays(Z.ravel(), Z.shape[1])}
    if y is not None:
        columns["label"] = pa.array(y)
    return pa.table(columns)


def write(folder, Z, y=None, files: int = 3, group: int = 50):
    for number, chosen in enumerate(np.array_split(np.arange(len(Z)), files)):
        part = table(Z[chosen], None if y is None else y[chosen])
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=group)
    return folder


def test_parts_merge_to_the_fit_of_the_whole(tmp_path):
    Z, y = rows()
    tables = scale.open_tables(write(tmp_path, Z, y), labels="label", part_bytes=2000)
    assert len(tables.parts) > 5
    assert tables.rows == 400 and tables.width == 6
    for detector in (CTM(), Mahalanobis()):
        plan = scale.Learner(detector).to_bytes()
        states = [scale.learn_part(plan, part, tables.columns) for part in tables.parts]
        fitted = scale.Learner.from_bytes(scale.merge_learnt(states)).finish()
        whole = type(detector)().fit(Z, y)
        np.testing.assert_allclose(fitted.score_samples(Z), whole.score_samples(Z), rtol=1e-5)
        assert fitted.threshold_ == pytest.approx(whole.threshold_, rel=1e-5)


def test_calibrations_of_parts_merge_to_one_whatever_the_parts(tmp_path):
    Z, y = rows()
    detector = CTM().fit(Z, y)
    write(tmp_path, rows()[0])
    found = []
    for size in (1000, 2**30):
        tables = scale.open_tables(tmp_path, part_bytes=size)
        plan = scale.Calibrator.begin(detector, tables.rows, alpha=0.1).to_bytes()
        sent = to_bytes(detector)
        states = [scale.calibrate_part(sent, plan, p, tables.columns) for p in tables.parts]
        merged = scale.Calibrator.from_bytes(scale.merge_calibrated(states), detector)
        found.append(merged.finish().calibration_)
    one, other = found
    assert one.sources == other.sources and one.n == other.n
    assert one.threshold == pytest.approx(other.threshold, rel=1e-6)


def test_verdicts_of_parts_are_those_of_the_whole(tmp_path):
    Z, y = rows()
    detector = CTM().fit(Z, y).calibrate(rows()[0])
    tables = scale.open_tables(write(tmp_path, Z), part_bytes=2000)
    judge = scale.Judge(detector)
    batches = [b for part in tables.parts for b in scale.judge_part(judge, part, tables.columns)]
    found = pa.Table.from_batches(batches, judge.schema).to_pydict()
    whole = detector.judge(Z).to_dict()
    for name in ("verdict", "nearest", "runner_up"):
        assert found[name] == whole[name]
    for name in ("score", "p_value", "margin"):
        np.testing.assert_allclose(found[name], whole[name], rtol=1e-5)
    assert found["row"][:3] == [0, 1, 2] and found["file"][-1] == "part-2.parquet"


def test_a_row_that_is_not_finite_is_named_by_file_and_row(tmp_path):
    Z, y = rows()
    Z[333, 2] = np.nan
    tables = scale.open_tables(write(tmp_path, Z, y), labels="label", part_bytes=2000)
    plan = scale.Learner(CTM()).to_bytes()
    with pytest.raises(InputError) as error:
        for part in tables.parts:
            scale.learn_part(plan, part, tables.columns)
    inner = 333 - 134 - 133
    assert str(error.value).count("row 66") == 1
    assert f"{tmp_path / 'part-2.parquet'}: row {inner} of the features holds NaN" in str(
        error.value
    )
