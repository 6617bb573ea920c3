"""Reducers and the averaging of gradients."""

from __future__ import annotations

import pytest

import fl_dist as dist
import fl_tensor as ft

SPECS = [("weight", (2,), "float32"), ("bias", (), "float32")]


def planned(comm):
    reducer = dist.InlineReducer(comm)
    reducer.plan(SPECS)
    return reducer


def test_inline_reducer_averages_what_was_added_in_any_order():
    def program(comm):
        reducer = planned(comm)
        weight, bias = ft.asarray([1.0, 3.0]) * (comm.rank + 1.0), ft.full((), float(comm.rank))
        for key, gradient in [("weight", weight), ("bias", bias)][:: 1 - 2 * comm.rank]:
            reducer.add(key, gradient)
        step = {key: value.tolist() for key, value in reducer.finalize(0.5).items()}
        assert weight.tolist() == [comm.rank + 1.0, 3.0 * comm.rank + 3.0]
        return list(step.items())

    assert dist.threads.run(2, program) == [[("weight", [1.5, 4.5]), ("bias", 0.5)]] * 2


def test_gradients_that_a_rank_did_not_add_are_zeros():
    def program(comm):
        reducer = planned(comm)
        if comm.rank == 2:
            reducer.add("weight", ft.asarray([1.0, 2.0]))
        first = reducer.finalize(weight=10.0)
        return first["weight"].tolist(), first["bias"].item(), reducer.finalize()["weight"].tolist()

    assert dist.threads.run(3, program) == [([10.0, 20.0], 0.0, [0.0, 0.0])] * 3


def test_a_key_is_planned_and_added_once_per_step():
    reducer = planned(dist.local())
    gradient = ft.ones((2,))
    reducer.add("weight", gradient)
    with pytest.raises(ValueError, match="'weight' was added twice"):
        reducer.add("weight", gradient)
    with pytest.raises(ValueError, match="'scale' was not planned"):
        reducer.add("scale", gradient)
    with pytest.raises(ValueError, match=r"planned as float32 \(\), got float32 \(2,\)"):
        reducer.add("bias", gradient)
    with pytest.raises(ValueError, match="two gradients have one key"):
        reducer.plan([*SPECS, SPECS[0]])
    reducer.finalize()
    reducer.add("weight", gradient)


def test_plans_that_differ_are_a_mismatch_on_every_rank():
    def program(comm):
        with pytest.raises(dist.MismatchError, match=r"float32 \(3,\)"):
            dist.InlineReducer(comm).plan([("weight", (2 + comm.rank,), "float32")])
        return comm.all_reduce(ft.asarray(1.0)).item()

    assert dist.threads.run(2, program) == [2.0, 2.0]


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
