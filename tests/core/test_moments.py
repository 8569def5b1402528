"""Moments against float64 loops.

Every split, order and merge tree; offsets, dtypes, layouts; every refusal.
"""

import functools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typica import sums as sums_module
from typica.errors import FormatError, InputError
from typica.moments import Moments
from typica.progress import listening


def reference(Z, labels):
    """Counts and means by class, and the pooled scatter, one row at a time in float64."""
    rows = {}
    for z, label in zip(np.asarray(Z, dtype=np.float64), labels, strict=True):
        rows.setdefault(label, []).append(z)
    means = {
        label: sum(z - group[0] for z in group) / len(group) + group[0]
        for label, group in rows.items()
    }
    scatter = np.zeros((Z.shape[1], Z.shape[1]))
    for label, group in rows.items():
        for z in group:
            scatter += np.outer(z - means[label], z - means[label])
    order = sorted(rows)
    return (
        order,
        [len(rows[label]) for label in order],
        np.array([means[label] for label in order]),
        scatter,
    )


def check(moments, Z, labels, rtol=1e-12, spread=1.0):
    classes, counts, means, scatter = reference(Z, labels)
    assert moments.classes.tolist() == classes
    assert moments.counts.tolist() == counts
    assert moments.n == len(Z)
    assert moments.n_features == Z.shape[1]
    size = np.abs(np.asarray(Z, dtype=np.float64)).max()
    np.testing.assert_allclose(moments.means, means, rtol=0, atol=rtol * size)
    np.testing.assert_allclose(
        moments.sums, means * np.array(counts)[:, None], rtol=0, atol=rtol * size * max(counts)
    )
    if moments.scatter is not None:
        assert np.array_equal(moments.scatter, moments.scatter.T)
        np.testing.assert_allclose(moments.scatter, scatter, rtol=0, atol=rtol * len(Z) * spread**2)


def data(n=60, m=4, n_classes=5, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, m)).astype(dtype), rng.integers(n_classes, size=n)


@pytest.fixture(autouse=True)
def small_blocks(request, monkeypatch):
    """Blocks of 16 rows and float32 sums of at most 3, so that small data crosses every border."""
    if "real_blocks" not in request.fixturenames:
        monkeypatch.setattr(sums_module, "_BLOCK_ROWS", 16)
        monkeypatch.setattr(sums_module, "_ROWS_PER_SUM", 3)


@pytest.fixture
def real_blocks():
    """Ask for the block sizes that users get."""


@pytest.mark.parametrize("scatter", [False, True])
@settings(max_examples=60)
@given(draw=st.data())
def test_any_split_order_and_merge_tree_equals_the_whole(scatter, draw):
    Z, labels = data(draw.draw(st.integers(1, 50)), seed=draw.draw(st.integers(0, 99)))
    Z += draw.draw(st.sampled_from([0.0, 100.0])) * labels[:, None]
    whole = Moments(scatter).add(Z, labels)
    check(whole, Z, labels, spread=500)
    order = np.array(draw.draw(st.permutations(range(len(Z)))))
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(Z)), max_size=6)))
    parts = np.split(order, cuts)

    streamed = Moments(scatter)
    for part in parts:
        streamed.add(Z[part], labels[part])
    check(streamed, Z, labels, spread=500)

    leaves = [Moments(scatter).add(Z[part], labels[part]) for part in parts]
    while len(leaves) > 1:
        i = draw.draw(st.integers(0, len(leaves) - 2))
        leaves[i : i + 2] = [leaves[i].merge(leaves[i + 1])]
    check(leaves[0], Z, labels, spread=500)


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("scatter", [True, False])
def test_minus_gives_the_moments_of_the_rows_that_remain(offset, scatter):
    rng = np.random.default_rng(0)
    labels = np.repeat([3, 5, 8], [200, 60, 7])
    Z = rng.normal(size=(267, 6)) + rng.normal(size=(9, 6))[labels] * 5 + offset
    taken = rng.random(267) < 0.7
    taken[labels == 8] = True  # no row of this class remains
    whole, part = (Moments(scatter=scatter).add(Z[a], labels[a]) for a in (slice(None), taken))
    before = whole.state(), part.state()
    rest = whole.minus(part)
    direct = Moments(scatter=scatter).add(Z[~taken], labels[~taken])
    assert rest.classes.tolist() == [3, 5] and rest.counts.tolist() == direct.counts.tolist()
    # A float64 near the offset is itself known to 1e-10 only.
    digits = {"rtol": 1e-10, "atol": 1e-9 if offset else 1e-12}
    np.testing.assert_allclose(rest.means - offset, direct.means - offset, **digits)
    if scatter:
        np.testing.assert_allclose(rest.scatter, direct.scatter, rtol=0, atol=1e-9)
    again = rest.merge(part)
    assert again.counts.tolist() == whole.counts.tolist()
    for state, kept in zip((whole.state(), part.state()), before, strict=True):
        np.testing.assert_equal(state, kept)


def test_minus_of_nothing_and_of_everything():
    whole = Moments(scatter=True).add([[1.0, 2.0], [3.0, 5.0]], ["a", "b"])
    assert whole.minus(Moments(scatter=True)).means.tolist() == whole.means.tolist()
    nothing = whole.minus(whole)
    assert nothing.n == 0 and nothing.classes.size == 0
    assert nothing.add([[1.0]], [7]).classes.tolist() == [7]


def test_minus_refuses_rows_that_are_not_there():
    whole = Moments().add([[1.0], [2.0]], [0, 1])
    with pytest.raises(InputError, match=r"minus: class 4 has no rows here"):
        whole.minus(Moments().add([[1.0]], [4]))
    with pytest.raises(InputError, match=r"minus: class 1 has fewer rows here than there"):
        whole.minus(Moments().add([[1.0], [2.0]], [1, 1]))
    with pytest.raises(InputError, match=r"minus: 2 columns after 1"):
        whole.minus(Moments().add([[1.0, 2.0]], [1]))
    with pytest.raises(InputError, match=r"minus: moments with and without scatter"):
        whole.minus(Moments(scatter=True))


@pytest.mark.parametrize("scatter", [True, False])
def test_repeated_is_as_if_every_row_had_come_so_often(scatter):
    Z, labels = np.random.default_rng(0).normal(size=(20, 3)) + 9, np.arange(20) % 3
    once = Moments(scatter=scatter).add(Z, labels)
    direct = Moments(scatter=scatter).add(np.tile(Z, (4, 1)), np.tile(labels, 4))
    repeated = once.repeated(4)
    assert once.n == 20 and repeated.counts.tolist() == direct.counts.tolist()
    np.testing.assert_allclose(repeated.means, direct.means, rtol=1e-12)
    np.testing.assert_allclose(repeated.root_mean_square, direct.root_mean_square, rtol=1e-12)
    if scatter:
        np.testing.assert_allclose(repeated.scatter, direct.scatter, atol=1e-12)


@pytest.mark.parametrize("offset", [1e6, -1e9])
def test_a_large_common_offset_costs_no_digits(offset):
    Z, labels = data(n=400)
    Z = offset + Z  # rounded here, once, for both sides
    labels[:50] = 2  # so that most classes come late
    _, counts, means, scatter = reference(Z, labels)
    early = Moments(True).add(Z[:50], labels[:50])
    merged = early.merge(Moments(True).add(Z[50:], labels[50:]))
    streamed = early.add(Z[50:60], labels[50:60]).add(Z[60:], labels[60:])
    for moments in (Moments(True).add(Z, labels), merged, streamed):
        assert moments.counts.tolist() == counts
        np.testing.assert_allclose(moments.means, means, rtol=1e-15)
        np.testing.assert_allclose(moments.scatter, scatter, rtol=0, atol=1e-12 * len(Z))
    np.testing.assert_allclose(Moments().add(Z, labels).means, means, rtol=1e-14)


def test_float32_with_an_offset_keeps_the_scatter_of_its_rows():
    Z, labels = data(n=300, dtype=np.float32)
    Z = np.float32(1e4) + Z
    check(Moments(True).add(Z, labels), Z, labels)


def test_classes_far_apart_and_nearly_collapsed():
    Z, labels = data(n=200)
    Z = 1e4 * np.eye(5, 4)[labels] + 1e-4 * Z
    parts = [Moments(True).add(Z[i::3], labels[i::3]) for i in range(3)]
    for moments in (Moments(True).add(Z, labels), parts[0].merge(parts[1]).merge(parts[2])):
        check(moments, Z, labels, spread=1e-4)
    constant = Moments(True).add(np.full((9, 3), 0.1), [1] * 9)
    assert (constant.scatter == 0).all()
    assert (constant.means == 0.1).all()


def test_a_first_row_far_from_its_class():
    Z, labels = data(n=100)
    Z[0] = 1e5
    check(Moments(True).add(Z, labels), Z, labels, spread=1e5)


@pytest.mark.parametrize("order", ["sorted", "mixed"])
@pytest.mark.parametrize("n_classes", [1, 3, 400])
def test_long_float32_sums_of_a_constant_do_not_drift(real_blocks, order, n_classes):
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(70_000) < 0.7, 0, rng.integers(n_classes, size=70_000))
    labels = np.sort(labels) if order == "sorted" else labels
    whole = 65535 / 65536  # float32 holds the sum of 256 of these exactly, that of 512 not
    Z = np.broadcast_to(np.array([0.1, 0.3, whole], dtype=np.float32), (70_000, 3))
    moments = Moments().add(Z, labels)
    np.testing.assert_allclose(moments.means, np.broadcast_to(Z[:1], (n_classes, 3)), rtol=1e-5)
    assert (moments.means[:, 2] == whole).all()
    assert moments.counts.tolist() == np.bincount(labels).tolist()


def test_late_classes_take_their_place_in_order():
    Z, _ = data(n=6)
    moments = Moments(True).add(Z[:2], [7, 7]).add(Z[2:4], [3, 7]).add(Z[4:], [-1, 9])
    check(moments, Z, [7, 7, 3, 7, -1, 9])


def test_strings_of_growing_length():
    Z, _ = data(n=5)
    labels = ["ox", "elephant", "ox", "a", "ant-eater"]
    moments = Moments(True).add(Z[:1], labels[:1]).add(Z[1:3], np.array(labels[1:3]))
    moments = moments.merge(Moments(True).add(Z[3:], pd.Series(labels[3:])))
    check(moments, Z, labels)
    assert moments.classes.dtype.kind == "U"


LABELS = [0, 2, 2, 0, 1]


@pytest.mark.parametrize(
    "labels",
    [
        LABELS,
        tuple(LABELS),
        [float(label) for label in LABELS],
        [np.int8(label) for label in LABELS],
        np.array(LABELS, dtype=np.uint8),
        np.array(LABELS, dtype=np.uint64),
        np.array(LABELS, dtype=np.float32),
        np.array(LABELS, dtype=object),
        pd.Series(LABELS, index=[9, 8, 7, 6, 5]),
        pd.Series(LABELS, dtype="Int64"),
    ],
)
def test_kinds_of_integer_labels(labels):
    Z, _ = data(n=5)
    moments = Moments().add(Z, labels)
    check(moments, Z, LABELS)
    assert moments.classes.dtype == np.int64


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    Z, _ = data(n=5, dtype=np.float32)
    check(Moments().add(torch.from_numpy(Z), torch.tensor(LABELS)), Z, LABELS, rtol=1e-6)


@pytest.mark.parametrize("far", [2**62, -(2**63), 10**6])
def test_labels_of_wide_range(far):
    Z, _ = data(n=4)
    labels = np.array([5, far, 5, -5])
    check(Moments().add(Z, labels), Z, labels.tolist())


def test_bools_and_no_labels_are_integers():
    Z, _ = data(n=4)
    assert Moments().add(Z, [True, False, True, True]).classes.tolist() == [0, 1]
    assert Moments().add(Z, np.array([True, False, True, True])).counts.tolist() == [1, 3]
    assert Moments().add(Z, [np.True_, np.False_] * 2).counts.tolist() == [2, 2]
    alone = Moments().add(Z).add(Z)
    assert (alone.classes.tolist(), alone.counts.tolist()) == ([0], [8])
    np.testing.assert_allclose(alone.means[0], Z.mean(axis=0), atol=1e-15)


def test_string_dtypes_of_pandas_and_numpy():
    Z, _ = data(n=3)
    for labels in (
        pd.Series(["b", "a", "b"], dtype="string"),
        pd.Series(["b", "a", "b"], dtype="category"),
        np.array(["b", "a", "b"], dtype=np.dtypes.StringDType()),
        np.array(["b", "a", "b"], dtype=object),
    ):
        check(Moments().add(Z, labels), Z, ["b", "a", "b"])


@pytest.mark.parametrize("scatter", [False, True])
@pytest.mark.parametrize("dtype", ["f2", "f4", ">f4", "f8", ">f8", "g", "i1", "u2", "i8", "?"])
def test_dtypes(dtype, scatter):
    Z, labels = data(n=70)
    Z = np.abs(Z * 3).astype(dtype)
    # float16 and float32 without scatter are summed in float32, three rows at a time here
    check(
        Moments(scatter).add(Z, labels),
        Z,
        labels,
        rtol=1e-6 if dtype in ("f2", "f4", ">f4") else 1e-12,
        spread=9,
    )


def test_float32_scatter_is_summed_in_float64():
    Z, labels = data(n=70, dtype=np.float32)
    check(Moments(True).add(Z, labels), Z, labels, rtol=1e-13)


@pytest.mark.parametrize("scatter", [False, True])
def test_every_memory_layout_is_read_and_none_is_written(scatter, tmp_path):
    Z, labels = data(n=50, m=6, dtype=np.float32)
    wide = np.zeros((100, 12), dtype=np.float32)
    wide[::2, ::2] = Z
    on_disk = np.memmap(tmp_path / "features", dtype=np.float32, mode="w+", shape=Z.shape)
    on_disk[:] = Z
    on_disk.flush()
    frozen, frozen_labels = Z.copy(), labels.copy()
    frozen.flags.writeable = frozen_labels.flags.writeable = False
    layouts = {
        "plain": Z.copy(),
        "read-only": frozen,
        "fortran": np.asfortranarray(Z),
        "strided": wide[::2, ::2],
        "backwards": Z[::-1].copy()[::-1],
        "memmap": np.memmap(tmp_path / "features", dtype=np.float32, mode="r", shape=Z.shape),
    }
    expected = Moments(scatter).add(Z, labels)
    for name, layout in layouts.items():
        moments = Moments(scatter).add(layout, frozen_labels)
        np.testing.assert_allclose(moments.means, expected.means, atol=1e-15, err_msg=name)
        assert np.array_equal(np.asarray(layout), Z), name
    check(expected, Z, labels, rtol=1e-6)


def test_results_do_not_share_memory_with_the_moments():
    Z, labels = data()
    moments = Moments(True).add(Z, labels)
    kept = moments.state()
    for name in ("classes", "counts", "sums", "means", "scatter", "root_mean_square"):
        getattr(moments, name)[:] = 0
    moments.state()["sums"][:] = 0
    same_state(moments.state(), kept)
    Moments.from_state(kept).add(Z, labels)
    same_state(moments.state(), kept)


def test_the_root_mean_square_norm_of_short_batches_is_exact():
    Z, labels = data(n=100)
    norms = np.linalg.norm(Z, axis=1)
    expected = [np.sqrt(np.mean(norms[labels == label] ** 2)) for label in range(5)]
    parts = Moments(True).add(Z[:30], labels[:30]).merge(Moments(True).add(Z[30:], labels[30:]))
    for moments in (Moments().add(Z, labels), parts):
        np.testing.assert_allclose(moments.root_mean_square, expected, rtol=1e-14)


def test_the_root_mean_square_norm_of_long_batches_is_sampled():
    Z, _ = data(n=3000, n_classes=3)
    labels = (
        np.arange(3000) % 3
    )  # every third row is sampled: of classes 1 and 2 only the first row
    norms = np.linalg.norm(Z, axis=1)
    expected = [np.sqrt(np.mean(norms[::3] ** 2)), norms[1], norms[2]]
    np.testing.assert_allclose(Moments().add(Z, labels).root_mean_square, expected, rtol=1e-14)


def test_tiny_and_huge_float32_features_have_a_scale():
    for size in (1e-38, 3e38):
        Z = np.full((40, 2), size, dtype=np.float32)
        moments = Moments().add(Z, [0] * 40)
        np.testing.assert_allclose(moments.root_mean_square, np.sqrt(2) * size, rtol=1e-6)
        np.testing.assert_allclose(
            moments.means, size, rtol=1e-6
        )  # while the sum of two overflows float32


def same_state(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert type(a[name]) is type(b[name])
        np.testing.assert_array_equal(a[name], b[name], strict=isinstance(a[name], np.ndarray))


@pytest.mark.parametrize("scatter", [False, True])
@pytest.mark.parametrize("labels", [[3, 1, 3], ["cat", "dog", "cat"], []])
def test_state_round_trip(scatter, labels):
    Z, _ = data(n=8)
    moments = Moments(scatter).add(Z[: len(labels)], labels)
    state = moments.state()
    for value in state.values():
        assert type(value) in (np.ndarray, list, bool)
        assert not isinstance(value, np.ndarray) or value.dtype.kind in "if"
    restored = Moments.from_state(state)
    same_state(restored.state(), state)
    more = labels[:2] or [0, 1]
    same_state(restored.add(Z[3:5], more).state(), moments.add(Z[3:5], more).state())


@pytest.mark.parametrize("scatter", [False, True])
def test_from_state_refuses_what_does_not_fit(scatter):
    state = Moments(scatter).add(*data()).state()
    for name in state.keys() - {"scatter"}:
        with pytest.raises(
            FormatError, match=r"^Moments.from_state: \w+ is missing or does not fit; pass what"
        ):
            Moments.from_state({key: value for key, value in state.items() if key != name})
        with pytest.raises(
            FormatError, match=f"^Moments.from_state: ({name}|classes) is missing or does not fit"
        ):
            Moments.from_state(state | {name: state[name][:-1]})
    with pytest.raises(FormatError):
        Moments.from_state({})


def test_merge_changes_neither_side():
    Z, labels = data()
    a, b = Moments(True).add(Z[:20], labels[:20]), Moments(True).add(Z[20:], labels[20:] + 2)
    before = a.state(), b.state()
    merged = a.merge(b)
    merged.add(Z, labels)
    same_state(a.state(), before[0])
    same_state(b.state(), before[1])


@pytest.mark.parametrize("scatter", [False, True])
def test_merging_with_nothing(scatter):
    Z, labels = data()
    full, empty = Moments(scatter).add(Z, labels), Moments(scatter)
    for merged in (full.merge(empty), empty.merge(full)):
        same_state(merged.state(), full.state())
        merged.add(Z, labels)
        check(full, Z, labels)
    assert empty.n == empty.merge(empty).n == 0
    text = Moments(scatter).add(Z[:1], ["cat"])
    assert empty.merge(text).classes.tolist() == ["cat"]
    check(full.merge(full), np.vstack([Z, Z]), np.r_[labels, labels])


def test_before_the_first_row():
    moments = Moments(True)
    assert (moments.n, moments.n_features) == (0, 0)
    assert moments.classes.shape == moments.counts.shape == moments.root_mean_square.shape == (0,)
    assert moments.means.shape == moments.sums.shape == moments.scatter.shape == (0, 0)
    assert Moments().scatter is None


@pytest.mark.parametrize("labels", [None, [], np.array([]), np.array([], dtype=str)])
def test_an_empty_batch_changes_nothing(labels):
    Z, known = data()
    moments = Moments(True).add(Z, known)
    before = moments.state()
    same_state(moments.add(Z[:0], labels).state(), before)
    assert Moments().add(Z[:0], labels).n_features == 0
    with pytest.raises(
        InputError, match=r"^Moments.add: 9 columns after 4; keep one width of features\.$"
    ):
        moments.add(np.zeros((0, 9)), labels)


def test_progress_is_told():
    Z, labels = data(n=40)
    told = []
    with listening(told.append):
        Moments().add(Z, labels)
    assert told == [16, 16, 8]


Z4, LABELS4 = data(n=40)


def spoilt(row, column, value):
    Z = Z4.copy()
    Z[row, column] = value
    return Z


REFUSALS = {
    "1-D": (Z4[0], None, r"features of shape \(4,\); pass a 2-D array, one row per input\."),
    "3-D": (
        Z4[None],
        None,
        r"features of shape \(1, 40, 4\); pass a 2-D array, one row per input\.",
    ),
    "no columns": (
        Z4[:, :0],
        None,
        r"features of shape \(40, 0\); pass a 2-D array, one row per input\.",
    ),
    "text features": ([["a"]], None, r"features of dtype <U1; pass real numbers\."),
    "complex features": ([[1j]], None, r"features of dtype complex128; pass real numbers\."),
    "object features": (Z4.astype(object), None, r"features of dtype object; pass real numbers\."),
    "width": (Z4[:, :3], LABELS4, r"3 columns after 4; keep one width of features\."),
    "nan": (
        spoilt(17, 2, np.nan),
        LABELS4,
        r"row 17 of the features holds NaN or infinity \(nan in column 2\); remove or fix it .*",
    ),
    "infinity": (
        spoilt(39, 0, -np.inf),
        LABELS4,
        r"row 39 of the features holds NaN or infinity \(-inf in column 0\); remove or fix it .*",
    ),
    "nan in float32": (
        spoilt(0, 3, np.nan).astype(np.float32),
        LABELS4,
        r"row 0 of the features holds NaN or infinity \(nan in column 3\); remove or fix it .*",
    ),
    "overflow": (
        np.full((40, 4), 1e308),
        LABELS4,
        r"the features are so large that float64 overflows; rescale them\.",
    ),
    "squares overflow": (
        np.full((40, 4), 1e200),
        LABELS4,
        r"the features are so large that float64 overflows; rescale them\.",
    ),
    "rows of several lengths": (
        [[1, 2], [3]],
        [0, 1],
        r"the rows do not form a matrix .* one length\.",
    ),
    "too few labels": (Z4, LABELS4[:10], r"10 labels for 40 rows; pass one label per row\."),
    "2-D labels": (Z4, LABELS4[:, None], r"labels of shape \(40, 1\); pass one label per row\."),
    "0-D labels": (Z4, 3, r"labels of shape \(\); pass one label per row\."),
    "text after integers": (
        Z4,
        ["a"] * 40,
        r"labels are strings after integers; keep one kind of labels\.",
    ),
    "mixed": (Z4, ["a", 1] * 20, r"labels mix strings and integers; keep one kind of labels\."),
    "mixed objects": (
        Z4,
        np.array(["a", 1] * 20, dtype=object),
        r"labels mix strings and integers; keep one kind of labels\.",
    ),
}
BAD_LABELS = {
    "nan": ([1.0] * 39 + [np.nan], "nan of row 39"),
    "nan among strings": (["a"] * 39 + [np.nan], "nan of row 39"),
    "None": ([1] * 20 + [None] * 20, "None of row 20"),
    "missing in pandas": (pd.Series([1] * 39 + [None], dtype="Int64"), "nan of row 39"),
    "fraction": (np.arange(40) / 2, "0.5 of row 1"),
    "infinity": (np.full(40, np.inf), "inf of row 0"),
    "bytes": (np.array([b"a"] * 40), "b'a' of row 0"),
    "complex": (np.full(40, 1j), "1j of row 0"),
    "65 bits": (np.full(40, 2**63, dtype=np.uint64), "9223372036854775808 of row 0"),
    "huge": ([10**400] * 40, "10{400} of row 0"),
    "huge float": ([1e300] * 40, r"1e\+300 of row 0"),
    "nested": ([[1], [2, 3]] * 20, r"\[1\] of row 0"),
}
REFUSALS |= {
    f"label {name}": (
        Z4,
        labels,
        f"label {found} is neither an integer nor a string; fix or remove it\\.",
    )
    for name, (labels, found) in BAD_LABELS.items()
}


@pytest.mark.parametrize("scatter", [False, True])
@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_say_where_and_change_nothing(case, scatter):
    Z, labels, message = REFUSALS[case]
    moments = Moments(scatter).add(Z4, LABELS4)
    before = moments.state()
    with pytest.raises(InputError, match=f"^Moments.add: {message}$"):
        moments.add(Z, labels)
    same_state(moments.state(), before)


def test_a_late_bad_row_leaves_new_classes_out():
    moments = Moments(True)
    with pytest.raises(InputError, match="row 30"):
        moments.add(spoilt(30, 0, np.nan), LABELS4)
    assert moments.n == 0
    check(moments.add(Z4, LABELS4), Z4, LABELS4)


def test_merge_refusals():
    with pytest.raises(InputError, match=r"Moments.merge: got int; pass other Moments\."):
        Moments().merge(3)
    plain, texts = Moments().add(Z4, LABELS4), Moments().add(Z4, ["a"] * 40)
    with pytest.raises(
        InputError,
        match=r"^Moments.merge: moments with and without scatter; gather both with the same",
    ):
        plain.merge(Moments(True))
    with pytest.raises(
        InputError, match=r"^Moments.merge: 3 columns after 4; keep one width of features\.$"
    ):
        plain.merge(Moments().add(Z4[:, :3], LABELS4))
    with pytest.raises(
        InputError,
        match=r"^Moments.merge: labels are integers after strings; keep one kind of labels\.$",
    ):
        texts.merge(plain)


def test_temporary_memory_stays_small(real_blocks):
    import tracemalloc

    Z = np.zeros((60_000, 256), dtype=np.float32)
    labels = np.arange(60_000) % 10
    for scatter in (False, True):
        tracemalloc.start()
        Moments(scatter).add(Z, labels)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 64 * 2**20


def test_many_parts_in_one_reduction():
    Z, labels = data(n=120, n_classes=9)
    parts = [Moments(True).add(Z[i::12], labels[i::12]) for i in range(12)]
    check(functools.reduce(Moments.merge, parts), Z, labels)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_threads_change_no_bit_and_hide_no_row(dtype, monkeypatch):
    Z, labels = data(n=200, dtype=dtype)
    monkeypatch.setattr(sums_module, "blas_threads", lambda: 1)
    alone = Moments().add(Z, labels).means
    monkeypatch.setattr(sums_module, "blas_threads", lambda: 3)
    assert np.array_equal(Moments().add(Z, labels).means, alone)
    Z[123, 2] = np.nan
    with pytest.raises(InputError, match=r"^Moments.add: row 123 of the features holds NaN"):
        Moments().add(Z, labels)
