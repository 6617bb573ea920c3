"""Gradients of tables as rows: lookup_rows gives what embedding gives, and never a table."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_autograd import GradError, SparseGradient


def table(count: int = 5, size: int = 2) -> ag.Variable:
    return ag.Variable(ft.randn((count, size), ft.Generator(1), dtype=ft.float64), True)


def indices() -> ft.Tensor:
    return ft.asarray([[3, 1], [3, 0]])


def equal(x: Any, y: Any) -> bool:
    return bool(ft.allclose(x, y, rtol=1e-12))


def both(loss: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """The gradients of a table that ``loss(table, lookup)`` leaves, as rows and densely."""
    found = []
    for lookup in (ag.lookup_rows, ft.embedding):
        weight = table()
        loss(weight, lookup).backward()
        found.append(weight.grad)
    return found[0], found[1]


def test_the_gradient_of_a_lookup_is_the_rows_that_were_asked_for() -> None:
    rows, dense = both(lambda w, lookup: (lookup(w, indices()) ** 3).sum())
    assert isinstance(rows, SparseGradient)
    assert rows.indices.tolist() == [3, 1, 3, 0] and rows.values.shape == (4, 2)
    assert (rows.shape, rows.dtype) == ((5, 2), ft.float64)
    assert equal(rows.to_dense(), dense)
    once = rows.coalesced()
    assert once.indices.tolist() == [0, 1, 3]
    assert equal(once.to_dense(), dense)
    assert repr(once) == "SparseGradient(3 rows of (5, 2), float64)"


def test_negative_indices_count_from_the_end() -> None:
    rows, dense = both(lambda w, lookup: lookup(w, ft.asarray([-1, 4, -5])).sum())
    assert rows.indices.tolist() == [4, 4, 0]
    assert equal(rows.to_dense(), dense)


def test_rows_can_be_copied_and_pickled() -> None:
    rows, _ = both(lambda w, lookup: lookup(w, indices()).sum())
    for twin in (copy.copy(rows), copy.deepcopy([rows])[0], pickle.loads(pickle.dumps(rows))):
        assert repr(twin) == repr(rows) and equal(twin.to_dense(), rows.to_dense())
    assert rows.nbytes == 4 * 8 + 8 * 8


def test_coalescing_sorts_rows_that_come_once() -> None:
    rows = SparseGradient(ft.asarray([4, 2]), ft.asarray([[1.0], [2.0]]), (5, 1)).coalesced()
    assert rows.indices.tolist() == [2, 4] and rows.values.tolist() == [[2.0], [1.0]]


def test_lookups_of_one_table_add_up_as_rows() -> None:
    def loss(w: Any, lookup: Any) -> Any:
        return lookup(w, ft.asarray([0, 1])).sum() + (lookup(w, ft.asarray([1, 4])) ** 2).sum()

    rows, dense = both(loss)
    assert isinstance(rows, SparseGradient) and rows.indices.size == 4
    assert equal(rows.to_dense(), dense)


@pytest.mark.parametrize("first", ["lookup", "product"])
def test_with_a_dense_gradient_the_sum_is_dense(first: str) -> None:
    def loss(w: Any, lookup: Any) -> Any:
        x = lookup(w, indices())
        parts = [(x**2).sum(), (x @ w.mT).sum()]
        return parts[0] + parts[1] if first == "lookup" else parts[1] + parts[0]

    rows, dense = both(loss)
    assert not isinstance(rows, SparseGradient)
    assert equal(rows, dense)


@pytest.mark.parametrize("order", ["rd", "dr", "rr"])
def test_passes_accumulate(order: str) -> None:
    weight, expected = table(), table()
    for kind in order:
        for w, lookup in ((weight, ag.lookup_rows), (expected, ft.embedding)):
            used = lookup(w, indices()) if kind == "r" else w
            (used**2).sum().backward()
    assert weight.grad is not None and expected.grad is not None
    assert isinstance(weight.grad, SparseGradient) == (order == "rr")
    dense = weight.grad.to_dense() if isinstance(weight.grad, SparseGradient) else weight.grad
    assert equal(dense, expected.grad)


def test_what_is_gathered_stays_below_the_size_of_the_table() -> None:
    weight = table(6)
    for _ in range(10):
        ag.lookup_rows(weight, indices()).sum().backward()
    assert isinstance(weight.grad, SparseGradient) and weight.grad.indices.size <= 6
    assert weight.grad.to_dense().tolist()[3] == [20.0, 20.0]


def test_gradients_of_rows_are_recorded_for_higher_orders() -> None:
    weight, plain = table(), table()
    slopes = [
        ag.grad((lookup(w, indices()) ** 3).sum(), w, create_graph=True)
        for w, lookup in ((weight, ag.lookup_rows), (plain, ft.embedding))
    ]
    assert isinstance(slopes[0], SparseGradient) and slopes[0].values.requires_grad
    curvature = ag.grad((slopes[0].to_dense() ** 2).sum(), weight)
    expected = ag.grad((slopes[1] ** 2).sum(), plain)
    assert equal(curvature.to_dense(), expected)


def test_transforms_see_dense_gradients() -> None:
    w, v = table(3), ft.randn((3, 2), ft.Generator(2), dtype=ft.float64)

    def cubes(lookup: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda w: lookup(w, ft.asarray([2, 0, 2])) ** 3

    rows, dense = cubes(ag.lookup_rows), cubes(ft.embedding)
    assert equal(ag.jacobian(rows, w), ag.jacobian(dense, w))
    assert equal(ag.jvp(rows, [w], [v])[1], ag.jvp(dense, [w], [v])[1])
    assert equal(ag.hessian(lambda w: rows(w).sum(), w), ag.hessian(lambda w: dense(w).sum(), w))
    pullback, expected = (ag.vjp(f, w)[1](ft.ones((3, 2), ft.float64)) for f in (rows, dense))
    assert equal(pullback, expected)
    ag.check_grads(rows, [w], order=2)


def test_grad_touches_no_leaf() -> None:
    weight = table()
    rows = ag.grad(ag.lookup_rows(weight, indices()).sum(), weight)
    assert isinstance(rows, SparseGradient) and weight.grad is None


def test_hooks_see_and_replace_rows() -> None:
    weight = table()
    seen: list[Any] = []

    def halve(g: Any) -> Any:
        seen.append(g)
        return g * 0.5

    weight.register_hook(halve)
    y = ag.lookup_rows(weight, indices())
    assert y.grad_fn is not None and y.grad_fn.name == "lookup_rows"
    y.grad_fn.register_hook(lambda operands, g: seen.append(operands[0]))
    y.sum().backward()
    assert [type(g) for g in seen] == [SparseGradient, SparseGradient]
    assert isinstance(weight.grad, SparseGradient)
    assert weight.grad.values.tolist() == [[0.5, 0.5]] * 4


def test_rows_scale_by_numbers_and_scalars_and_nothing_else() -> None:
    rows = SparseGradient(ft.asarray([1]), ft.asarray([[2.0, 4.0]]), (3, 2))
    assert (rows * 2.0).values.tolist() == (2.0 * rows).values.tolist() == [[4.0, 8.0]]
    assert (rows / ft.asarray(2.0)).values.tolist() == [[1.0, 2.0]]
    with pytest.raises(ft.ShapeError, match="expected a number or a scalar"):
        rows * ft.ones((3, 2))


@pytest.mark.parametrize(
    "use",
    [
        lambda g: g.tensor,
        lambda g: ft.sum(g),
        lambda g: g - 1.0,
        lambda g: g.tolist(),
        lambda g: g[0],
        lambda g: ft.ones((5, 2), ft.float64) * g,
    ],
)
def test_what_needs_the_dense_value_says_how_to_get_it(use: Any) -> None:
    weight = table()
    ag.lookup_rows(weight, indices()).sum().backward()
    with pytest.raises(GradError, match=r"holds 4 rows and no dense value.*to_dense\(\)"):
        use(weight.grad)


def test_without_gradients_a_lookup_is_an_embedding() -> None:
    weight = table()
    with ag.no_grad():
        assert not ag.lookup_rows(weight, indices()).requires_grad
    plain = ag.lookup_rows(weight.tensor, indices())
    assert plain.tolist() == ag.lookup_rows(weight, indices()).tolist()


def test_only_leaves_take_rows() -> None:
    with pytest.raises(GradError, match="result of .*multiply.*use ft.embedding"):
        ag.lookup_rows(table() * 2.0, indices())


def test_anomalies_among_rows_are_found() -> None:
    weight = table()
    with pytest.raises(ag.AnomalyError, match="lookup_rows"), ag.detect_anomaly():
        y = ag.lookup_rows(weight, indices())
        y.backward(ft.full(y.shape, float("nan"), y.dtype))


def test_checkpoints_hand_rows_on() -> None:
    weight, plain = table(), table()
    ag.checkpoint(lambda w: (ag.lookup_rows(w, indices()) ** 2).sum(), weight).backward()
    (ft.embedding(plain, indices()) ** 2).sum().backward()
    assert isinstance(weight.grad, SparseGradient) and plain.grad is not None
    assert equal(weight.grad.to_dense(), plain.grad)


def test_shapes_that_do_not_fit_a_table_are_refused() -> None:
    with pytest.raises(ft.ShapeError, match=r"\(3,\) of a table \(5, 2\)"):
        SparseGradient(ft.asarray([1]), ft.asarray([1.0, 2.0, 3.0]), (5, 2))


def test_the_old_names_warn_for_one_minor_version() -> None:
    with pytest.warns(DeprecationWarning, match="use fl_autograd.SparseGradient"):
        assert ag.RowGradient is ag.SparseGradient  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'RowGradients'"):
        ag.RowGradients  # type: ignore[attr-defined]  # noqa: B018
    node = (table() * 2.0).grad_fn
    assert node is not None
    with pytest.warns(DeprecationWarning, match="use Node.saved_value"):
        assert node.kept("y") is node.saved_value("y")


def test_a_sparse_gradient_can_be_assigned_and_stays_sparse() -> None:
    rows, _ = both(lambda w, lookup: lookup(w, indices()).sum())
    weight = table()
    weight.grad = rows
    assert weight.grad is rows
    with pytest.raises(ft.ShapeError, match=r"Variable.grad must be \(5, 2\)"):
        weight.grad = SparseGradient(rows.indices, rows.values, (6, 2))
