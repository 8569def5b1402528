"""However the rows are split, typed and stored: the answer is that of one machine, to rounding."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import typica
from typica import CTM, KNN, MSP, Head, Mahalanobis, NNGuide, OpenMax, ViM, WeiPer, scale
from typica.store import to_bytes

M = 5
NAMES = np.array(["ant", "bee", "cat", "dog"])


def some_rows(seed: int, n: int, dtype=np.float32):
    """Return rows about four corners, and the corner of each; every corner has rows."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(4), rng.integers(0, 4, n - 4)])
    return (rng.random((n, M)) + 3 * np.eye(4, M)[codes]).astype(dtype), codes


def as_column(Z, kind: str):
    flat = pa.array(Z.ravel())
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(flat, Z.shape[1])
    if kind == "large":
        return pa.LargeListArray.from_arrays(np.arange(len(Z) + 1) * Z.shape[1], flat)
    offsets = np.arange(len(Z) + 1, dtype=np.int32) * Z.shape[1]
    return pa.ListArray.from_arrays(offsets, flat)


def write(folder, Z, labels, cuts, kind="fixed", **how):
    """Write rows to one file for each stretch between cuts, some of which may be empty."""
    for number, chosen in enumerate(np.split(np.arange(len(Z)), sorted(cuts))):
        names = pa.array(labels[chosen])
        if how.get("encoded"):
            names = names.dictionary_encode()
        if kind == "columns":
            columns = {f"f{i}": pa.array(Z[chosen, i]) for i in range(Z.shape[1])}
        else:
            columns = {"features": as_column(Z[chosen], kind)}
        table = pa.table({"row": pa.array(chosen), **columns, "label": names})
        pq.write_table(
            table, Path(folder) / f"{number:03d}.parquet", row_group_size=how.get("group", 7)
        )


def in_parts(detector, tables, sample=None):
    """Fit as engines do: bytes out, bytes in, merged in a tree."""
    learner = scale.Learner(detector, sample)
    for _ in range(learner.passes):
        plan = learner.to_bytes()
        states = [scale.learn_part(plan, part, tables.columns) for part in tables.parts]
        empty = scale.Learner.from_bytes(plan).fresh().to_bytes()  # an engine's part without rows
        learner = scale.Learner.from_bytes(scale.merge_learnt([empty, *states, empty])).close()
    return learner.finish()


def columns_of(kind):
    return {"columns": ["f*"]} if kind == "columns" else {"features": "features"}


HEAD = Head(np.eye(4, M), classes=NAMES)
DETECTORS = {
    "ctm": CTM(),
    "mahalanobis": Mahalanobis(),
    "knn": KNN(k=3),
    "vim": ViM(HEAD, dim=2),
    "weiper": WeiPer(HEAD, repeats=3, bins=10, smoothing=2),
}
KINDS = ["fixed", "list", "large", "columns"]
DTYPES = [np.float16, np.float32, np.float64, np.int16]


@settings(max_examples=20)
@given(
    name=st.sampled_from(sorted(DETECTORS)),
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 40), max_size=5),
    stored=st.tuples(st.sampled_from(KINDS), st.sampled_from(DTYPES), st.booleans()),
    size=st.sampled_from([1, 500, 2**30]),
)
def test_fits_are_those_of_one_machine(name, seed, cuts, stored, size):
    kind, dtype, encoded = stored
    n = 40 + seed % 50
    Z, codes = some_rows(seed, n, np.float64)
    Z = (10 * Z).astype(dtype)
    detector, labels = DETECTORS[name], NAMES[codes]
    with tempfile.TemporaryDirectory() as folder:
        write(folder, Z, labels, cuts, kind, encoded=encoded)
        options = {**columns_of(kind), "labels": "label"}
        tables = scale.open_tables(folder, **options, part_bytes=size)
        assert tables.rows == n
        apart = in_parts(detector, tables)
        streamed = scale.fit(detector, folder, **options)
    whole = type(detector)(**detector.get_params(deep=False)).fit(Z, labels)
    queries = (10 * some_rows(seed + 1, 20, np.float64)[0]).astype(dtype)
    tolerance = detector.tags.tolerance[0 if dtype in (np.float16, np.float32) else 1]
    expected = whole.score_samples(queries)
    for fitted in (apart, streamed):
        scores = fitted.score_samples(queries)
        close = float(10 * tolerance * np.abs(expected).max() + 1e-12)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=close)
        assert fitted.threshold_ == pytest.approx(whole.threshold_, abs=close)


def assert_same(one, other):
    """Check that two calibrations keep the same rows, with scores that differ by rounding alone."""
    assert one.samples.keys() == other.samples.keys() and one.sources == other.sources
    for group, sample in one.samples.items():
        ours, theirs = sample.state(), other.samples[group].state()
        assert np.array_equal(np.sort(ours["keys"]), np.sort(theirs["keys"]))
        np.testing.assert_allclose(ours["scores"], theirs["scores"], rtol=1e-6)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    by_class=st.booleans(),
    size=st.sampled_from([1, 500, 2**30]),
    order=st.randoms(use_true_random=False),
)
def test_calibrations_keep_the_same_rows_with_the_same_scores(seed, cuts, by_class, size, order):
    Z, codes = some_rows(seed, 80)
    detector = CTM().fit(Z, NAMES[codes])
    held_out, _ = some_rows(seed + 1, 61)
    options = {"alpha": 0.2, "by_class": by_class, "groups": {"ant": "x", "bee": "x"}}
    options = options if by_class else {"alpha": 0.2}
    with tempfile.TemporaryDirectory() as folder:
        write(folder, held_out, codes[:61], cuts)
        tables = scale.open_tables(folder, features="features", part_bytes=size)
        plan, sent = scale.Calibrator.begin(detector, **options).to_bytes(), to_bytes(detector)
        states = [scale.calibrate_part(sent, plan, p, tables.columns) for p in tables.parts]
        order.shuffle(states)
        merged = scale.Calibrator.from_bytes(scale.merge_calibrated([plan, *states]), detector)
        apart = merged.finish().calibration_
        scale.calibrate(detector, folder, features="features", **options)
    assert_same(apart, detector.calibration_)
    whole = CTM().fit(Z, NAMES[codes]).calibrate(held_out, **options)
    for group, threshold in whole.offsets_.items():
        assert detector.offsets_[group] == pytest.approx(threshold, rel=1e-6)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(DTYPES),
    texts=st.booleans(),
)
def test_verdicts_are_those_of_one_machine(seed, cuts, kind, dtype, texts):
    Z, codes = some_rows(seed, 80)
    labels = NAMES[codes] if texts else codes
    detector = CTM().fit(Z, labels).calibrate(some_rows(seed + 1, 60)[0])
    queries = (10 * some_rows(seed + 2, 61, np.float64)[0]).astype(dtype)
    with tempfile.TemporaryDirectory() as folder:
        write(folder, queries, labels[:61], cuts, kind)
        options = {**columns_of(kind), "ids": "row"}
        found = scale.score(detector, folder, **options).read_all()
        done = scale.score(detector, folder, f"{folder}/verdicts", **options)
        written = pq.read_table(f"{folder}/verdicts")
    assert found.sort_by("row").equals(written.sort_by("row"))
    expected = detector.judge(queries)
    assert done[:2] == (61, expected.n_atypical)
    columns = found.to_pydict()
    assert columns["row"] == list(range(61))
    for name in ("verdict", "nearest", "runner_up"):
        assert columns[name] == getattr(expected, name).tolist()
    for name in ("score", "p_value", "margin"):
        np.testing.assert_allclose(columns[name], getattr(expected, name), rtol=1e-5, atol=1e-6)


def test_a_class_that_lives_in_one_file_is_known(tmp_path):
    Z, codes = some_rows(0, 60)
    order = np.argsort(codes, kind="stable")
    Z, codes = Z[order], codes[order]
    write(tmp_path, Z, NAMES[codes], np.flatnonzero(np.diff(codes)) + 1)
    fitted = scale.fit(CTM(), tmp_path, labels="label")
    assert fitted.classes_.tolist() == NAMES.tolist()
    np.testing.assert_allclose(fitted.score_samples(Z), CTM().fit(Z, codes).score_samples(Z), 1e-6)


def test_folders_give_labels(tmp_path):
    Z, codes = some_rows(0, 60)
    for names in (NAMES, np.arange(4)):
        root = tmp_path / str(names[0])
        for code in range(4):
            folder = root / f"class={names[code]}"
            folder.mkdir(parents=True)
            table = pa.table({"features": as_column(Z[codes == code], "list")})
            pq.write_table(table, folder / "part-0.parquet")
        (root / "_SUCCESS").touch()
        fitted = scale.fit(CTM(), root, labels="class")
        assert fitted.classes_.tolist() == names.tolist()
        found = scale.score(fitted, root, ids="class").read_all()
        assert found["class"].to_pylist() == [str(names[code]) for code in np.sort(codes)]


def test_samples_do_not_depend_on_the_split_and_are_another_by_seed(tmp_path):
    Z, codes = some_rows(0, 300)
    kept = {}
    for name, cuts in (("one", []), ("many", [10, 20, 250])):
        folder = tmp_path / name
        folder.mkdir()
        # The same files, read in other parts: keys are of (file, row).
        write(folder, Z, codes, [100, 200], group=10 + len(cuts))
        tables = scale.open_tables(folder, features="features", part_bytes=1 + len(cuts) * 1000)
        for detector in (
            KNN(k=3, subsample=50),
            KNN(k=3, subsample=0.2),
            KNN(k=3, seed=1, subsample=50),
        ):
            rows = in_parts(detector, tables).rows_
            key = (detector.subsample, detector.seed)
            assert np.array_equal(
                kept.setdefault(key, np.sort(rows, axis=0)), np.sort(rows, axis=0)
            )
    assert len(kept[50, 0]) == 50 and 30 < len(kept[0.2, 0]) < 90
    assert not np.array_equal(kept[50, 0], kept[50, 1])


def test_a_sample_is_for_what_needs_all_rows_at_once(tmp_path):
    Z, codes = some_rows(0, 300)
    write(tmp_path, Z, NAMES[codes], [100, 200])
    head = Head(3 * np.eye(4, M), classes=NAMES)
    with pytest.raises(
        typica.InputError, match=r"OpenMax needs all rows at once; pass sample=100000"
    ):
        scale.fit(OpenMax(head), tmp_path)
    fitted = scale.fit(OpenMax(head), tmp_path, labels="label", sample=1000)
    whole = OpenMax(head).fit(Z, NAMES[codes])
    np.testing.assert_allclose(fitted.score_samples(Z), whole.score_samples(Z), rtol=1e-6)
    share = scale.fit(NNGuide(head, k=2, subsample=0.5), tmp_path)
    assert share.subsample == 0.5 and 100 < len(share.rows_) < 200


def test_a_share_of_one_keeps_every_row(tmp_path):
    Z, codes = some_rows(0, 90)
    write(tmp_path, Z, codes, [40])
    whole = scale.fit(KNN(k=3, subsample=1.0), tmp_path)
    expected = KNN(k=3, subsample=1.0).fit(Z)
    assert whole.subsample == 1.0
    np.testing.assert_allclose(whole.score_samples(Z), expected.score_samples(Z), rtol=1e-5)


def test_what_learns_nothing_gets_its_threshold(tmp_path):
    Z, codes = some_rows(0, 300)
    write(tmp_path, Z, codes, [100, 200])
    head = Head(3 * np.eye(4, M))
    assert scale.fit(MSP(head), tmp_path).threshold_ == pytest.approx(MSP(head).fit(Z).threshold_)
    with pytest.warns(typica.InputWarning, match="taken as logits"):
        expected = MSP().fit(Z)
    assert scale.fit(MSP(), tmp_path).threshold_ == pytest.approx(expected.threshold_)


def test_the_provisional_threshold_is_of_2048_rows_by_key(tmp_path):
    rng = np.random.default_rng(0)
    Z = rng.random((5000, 2)).astype(np.float32)
    pq.write_table(pa.table({"features": as_column(Z, "fixed")}), tmp_path / "a.parquet")
    found = {}
    for size in (1, 2**30):
        tables = scale.open_tables(tmp_path, part_bytes=size)
        found[size] = in_parts(CTM(), tables).training_offset_
    streamed = scale.fit(CTM(), tmp_path)
    assert found[1] == pytest.approx(found[2**30], rel=1e-6)
    assert streamed.training_offset_ == pytest.approx(found[1], rel=1e-6)
    share = np.mean(streamed.predict(Z) == 1)
    assert 0.93 < share < 0.97


def test_a_large_sample_is_that_of_all_rows_at_once():
    rng = np.random.default_rng(0)
    rows = rng.random((5000, 2))
    sample = scale.Learner(KNN(k=2, subsample=700)).sample
    for start in range(0, 5000, 130):
        sample.add(scale.Batch(rows[start : start + 130], source="a", start=start))
    keys = scale.Batch(rows, source="a").keys()
    assert np.array_equal(sample.rows, rows[np.argsort(keys)[:700]])


@settings(max_examples=40)
@given(
    n=st.integers(1, 6000),
    limit=st.sampled_from([1, 50, 700]),
    cuts=st.lists(st.integers(0, 6000), max_size=8),
)
def test_parts_that_know_the_total_send_their_share_and_merge_to_the_same_sample(n, limit, cuts):
    rows = np.arange(n, dtype=np.float64)[:, None] + 1
    learner = scale.Learner(KNN(k=1, subsample=limit)).expect(n)
    whole = learner.fresh()
    bounds = sorted({0, n, *(cut for cut in cuts if cut < n)})
    for start, stop in pairwise(bounds):
        batch = scale.Batch(rows[start:stop], source="a", start=start)
        part = scale.Learner.from_bytes(learner.to_bytes()).fresh().add(batch)
        whole.merge(scale.Learner.from_bytes(part.to_bytes()))
    keys = scale.Batch(rows, source="a").keys()
    assert np.array_equal(whole.sample.rows, rows[np.argsort(keys)[:limit]])


def test_what_a_part_sends_is_smaller_where_the_total_is_known():
    rng = np.random.default_rng(0)
    batch = scale.Batch(rng.random((3000, 64)), source="a")
    sent = {}
    for total in (None, 3000, 300_000):
        learner = scale.Learner(CTM()).expect(total).fresh().add(batch)
        sent[total] = len(learner.to_bytes())
    assert sent[3000] < 1.01 * sent[None]
    assert sent[300_000] < 0.05 * sent[None]
