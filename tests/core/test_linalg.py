"""The kernels that several methods share, against others' and against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from scipy.linalg import solve_triangular

from typica import linalg
from typica.cosines import TILE, cosines, max_cosine
from typica.largest import row_max

ROWS = st.lists(st.lists(st.floats(-700, 700), min_size=3, max_size=3), min_size=1, max_size=5)


@given(ROWS)
def test_the_softmax_family_equals_scipys(rows):
    L = np.array(rows)
    wanted = special.softmax(L, axis=1)
    np.testing.assert_allclose(linalg.softmax(L), wanted, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(linalg.softmax_surplus(L), wanted - 1 / 3, rtol=0, atol=1e-15)
    np.testing.assert_allclose(
        linalg.log_softmax(L), special.log_softmax(L, axis=1), rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(
        linalg.logsumexp(L), special.logsumexp(L, axis=1), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("make", [np.asarray, torch.asarray])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_directions_at_any_scale(make, scale):
    Z = make(np.array([[3.0, 4.0], [0.0, 0.0]]) * scale)
    U, zero = linalg.units(Z)
    np.testing.assert_allclose(U, [[0.6, 0.8], [0, 0]], rtol=1e-15)
    assert zero.tolist() == [False, True]
    identity = make(np.eye(2))
    np.testing.assert_allclose(cosines(Z, identity), [[0.6, 0.8], [-1, -1]], rtol=1e-15)
    np.testing.assert_allclose(max_cosine(Z, identity), [0.8, -1], rtol=1e-15)


@pytest.mark.parametrize("make", [np.asarray, torch.asarray])
def test_a_row_that_overflows_leaves_the_others_as_they_are(make):
    calm = np.array([[3.0, 4.0], [0.5, 1.5]], dtype=np.float32)
    wild = np.array([[1e30, 1e30], [1e-30, 0.0]], dtype=np.float32)
    alone = linalg.directed(make(calm))
    beside = linalg.directed(make(np.concatenate([calm, wild])))
    for ours, theirs in zip(alone[:2], beside[:2], strict=True):
        assert np.array_equal(np.asarray(ours), np.asarray(theirs)[:2])
    assert alone[2] is None  # surely no row is zero
    assert not np.asarray(beside[2]).any()
    assert np.isfinite(np.asarray(beside[1])).all()


@pytest.mark.parametrize("make", [np.asarray, torch.asarray])
@pytest.mark.parametrize(("n", "classes"), [(1, 7), (6, 7), (7, 7), (9, 7), (2, TILE + 3)])
def test_cosines_of_fewer_rows_than_directions_and_of_more(make, n, classes):
    rng = np.random.default_rng(n)
    Z, U = rng.normal(size=(n, 4)), rng.normal(size=(classes, 4))
    U /= np.sqrt((U**2).sum(1))[:, None]
    expected = np.array([[float(z @ u) / float(z @ z) ** 0.5 for u in U] for z in Z])
    np.testing.assert_allclose(cosines(make(Z), make(U)), expected, rtol=1e-12)
    np.testing.assert_allclose(max_cosine(make(Z), make(U)), expected.max(1), rtol=1e-12)


WAYS_TO_TRACE = {
    "compile": lambda f, X: torch.compile(f, fullgraph=True, backend="eager")(X),
    "jit": lambda f, X: torch.jit.trace(f, torch.ones(3, 4))(X),
    "vmap": lambda f, X: torch.func.vmap(f)(X[None])[0],
    "export": lambda f, X: torch.export.export(Called(f), (torch.ones(3, 4),)).module()(X),
}


class Called(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, X):
        return self.function(X)


@pytest.mark.parametrize("way", WAYS_TO_TRACE)
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::UserWarning")
@pytest.mark.filterwarnings(
    "ignore:`torch.jit:DeprecationWarning", "ignore:`torch.jit:FutureWarning"
)
def test_what_is_traced_on_usual_rows_holds_for_all_others(way):
    rows = [[3.0, 4.0, 0.0, 0.0], [1e30, 1e30, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    got = WAYS_TO_TRACE[way](lambda X: max_cosine(X, torch.eye(4)), torch.tensor(rows))
    np.testing.assert_allclose(got, [0.8, 0.5**0.5, -1], rtol=1e-6)


def test_the_gradient_is_one_whether_rows_are_usual_or_not():
    calm = torch.tensor([[3.0, 4.0], [0.5, 1.5]], requires_grad=True)
    mixed = torch.tensor([[3.0, 4.0], [0.5, 1.5], [0.0, 0.0]], requires_grad=True)
    for rows in (calm, mixed):
        max_cosine(rows, torch.eye(2)).sum().backward()
    np.testing.assert_allclose(mixed.grad[:2], calm.grad, rtol=1e-6)
    assert mixed.grad[2].tolist() == [0, 0]


def test_principal_axes_leave_out_what_rounding_leaves():
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(50, 2)) @ rng.normal(size=(2, 5))
    variances, axes = linalg.principal_axes(flat.T @ flat, len(flat))
    assert len(variances) == 2 and axes.shape == (5, 5)
    np.testing.assert_allclose(np.mean((flat @ axes[:, :2]) ** 2, axis=0), variances)
    np.testing.assert_allclose(flat @ axes[:, 2:], 0, atol=1e-12)


def test_an_anchor_is_a_float32_next_to_its_point():
    point = np.array([1 / 3, 1e300])
    near = linalg.anchor(point)
    assert near[0] == np.float32(1 / 3) and near[1] == 1e300


@pytest.mark.parametrize("m", [1, 64, 65, 200])
def test_the_inverse_of_a_triangle_equals_scipys(m):
    rng = np.random.default_rng(m)
    L = np.tril(rng.standard_normal((m, m)) / m) + np.eye(m)
    inverse = linalg.inverse_of_triangle(L)
    reference = solve_triangular(L, np.eye(m), lower=True)
    np.testing.assert_allclose(inverse, reference, atol=1e-12)
    assert not np.triu(inverse, 1).any()


@pytest.mark.parametrize("columns", [1, 10, 16, 17, 40])
def test_the_largest_of_rows_short_and_long(columns):
    rows = np.random.default_rng(0).normal(size=(30, columns))
    rows[3, 0] = np.nan
    expected = [max(row) if not np.isnan(row).any() else np.nan for row in rows]
    np.testing.assert_array_equal(row_max(rows), expected)
    np.testing.assert_array_equal(row_max(np.asfortranarray(rows)), expected)
    np.testing.assert_array_equal(row_max(torch.tensor(rows)).numpy(), expected)


def test_zero_rows_have_no_curvature():
    rows = torch.zeros(2, 3, requires_grad=True)
    score = max_cosine(rows, torch.eye(3)).sum()
    (gradient,) = torch.autograd.grad(score, rows, create_graph=True)
    (curvature,) = torch.autograd.grad(gradient.sum(), rows)
    assert torch.equal(gradient, torch.zeros(2, 3)) and torch.equal(curvature, torch.zeros(2, 3))


@pytest.mark.parametrize("make", [np.asarray, torch.asarray])
def test_no_rows_have_no_cosines(make):
    none, directions = make(np.empty((0, 3))), make(np.eye(3))
    assert tuple(cosines(none, directions).shape) == (0, 3)
    assert tuple(max_cosine(none, directions).shape) == (0,)


def test_lengths_of_columns_that_lie_apart_are_as_exact():
    rows = torch.rand(4096, 64, generator=torch.Generator().manual_seed(0)).T
    exact = torch.linalg.vector_norm(rows.double(), dim=1)
    error = (linalg.directed(rows)[1].double() - exact).abs() / exact
    assert float(error.max()) < 2 * torch.finfo(torch.float32).eps
