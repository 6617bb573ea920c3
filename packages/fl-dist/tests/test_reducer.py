"""Reducers and the averaging of gradients."""

from __future__ import annotations

import pytest

import fl_dist as dist
import fl_tensor as ft


def test_inline_reducer_averages_each_gradient_at_once():
    def program(comm):
        reducer = dist.InlineReducer(comm)
        gradient = ft.asarray([1.0, 3.0]) * (comm.rank + 1.0)
        at_once = reducer.add("weight", gradient).tolist()
        reducer.add("bias", ft.asarray(comm.rank, dtype="float32"))
        step = {key: value.tolist() for key, value in reducer.finalize().items()}
        assert gradient.tolist() == [comm.rank + 1.0, 3.0 * comm.rank + 3.0]
        return at_once, list(step.items()), reducer.finalize()

    want = ([1.5, 4.5], [("weight", [1.5, 4.5]), ("bias", 0.5)], {})
    assert dist.threads.run(2, program) == [want, want]


def test_inline_reducer_scale_multiplies_the_sum():
    def program(comm):
        return dist.InlineReducer(comm, scale=10.0).add("w", ft.ones((1,))).item()

    assert dist.threads.run(3, program) == [30.0] * 3


def test_a_key_is_added_once_per_step():
    reducer = dist.InlineReducer(dist.local())
    reducer.add("w", ft.ones((1,)))
    with pytest.raises(ValueError, match="'w' was added twice"):
        reducer.add("w", ft.ones((1,)))
    reducer.finalize()
    reducer.add("w", ft.ones((1,)))


def test_average_gradients_keeps_order_shapes_dtypes_and_gaps():
    def program(comm):
        r = float(comm.rank)
        gradients = [ft.full((2, 2), r), None, ft.full((3,), 2 * r), ft.full((), r + 1, "float32")]
        averaged = dist.average_gradients(comm, gradients)
        return [g if g is None else g.tolist() for g in averaged]

    want = [[[1.5, 1.5], [1.5, 1.5]], None, [3.0, 3.0, 3.0], 2.5]
    assert dist.threads.run(4, program) == [want] * 4


def test_a_gradient_that_only_some_ranks_have_is_a_mismatch():
    def program(comm):
        dist.average_gradients(comm, [ft.ones((1,)), None if comm.rank else ft.ones((2,))])

    with pytest.raises(dist.ProgramError) as caught:
        dist.threads.run(2, program)
    assert isinstance(caught.value.__cause__, dist.MismatchError)


def test_data_parallel_training_equals_one_process():
    """Least squares on halves of a batch, gradients averaged: the same weights as on the whole."""
    data = ft.Generator(1)
    x, w = data.normal((8, 3), dtype="float64"), ft.asarray([[1.0], [-2.0], [0.5]], dtype="float64")
    y = x @ w

    def train(comm):
        n = 8 // comm.world_size
        mine_x, mine_y = (v[comm.rank * n : (comm.rank + 1) * n] for v in (x, y))
        weight = ft.zeros((3, 1), "float64")
        for _ in range(20):
            gradient = mine_x.T @ (mine_x @ weight - mine_y) / n
            (gradient,) = dist.average_gradients(comm, [gradient])
            weight = weight - 0.1 * gradient
        return weight.flatten().tolist()

    alone = train(dist.local())
    for weight in dist.threads.run(2, train):
        assert weight == pytest.approx(alone, abs=1e-12)
