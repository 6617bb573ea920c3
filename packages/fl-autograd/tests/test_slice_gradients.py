"""Gradients of parts: exact wherever they lie, in time and memory that go with the whole."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_memory
import fl_tensor as ft
from fl_autograd import extend
from fl_memory.managers.caching import CachingManager


def leaf(*shape: int) -> ag.Variable:
    return ag.Variable(ft.Generator(1).normal(shape, dtype=ft.float64), requires_grad=True)


def test_any_slices_of_one_array() -> None:
    source = random.Random(5)
    for _ in range(200):
        x = leaf(4, 6)
        want = np.zeros(x.shape)
        terms = []
        for _ in range(source.randrange(1, 6)):
            axis_0 = slice(*sorted(source.choices(range(5), k=2)))
            low, high, step = source.randrange(6), source.randrange(7), source.choice([1, 2, -1])
            place = source.choice(
                [(axis_0,), (source.randrange(4),), (axis_0, slice(low, high, step)), (...,)]
            )
            part, weight = x[place], source.uniform(1, 2)
            terms.append((part * weight).sum())
            want[place] += weight
        source.shuffle(terms)
        np.testing.assert_allclose(ag.grad(sum(terms, ag.Variable(0.0)), x).numpy(), want)


@pytest.mark.parametrize("parts", [[2, 3, 1], [3, 3], [0, 6, 0]])
@pytest.mark.parametrize("used", [slice(None), slice(1, None), slice(0, 1)])
def test_some_parts_of_a_split(parts: Any, used: slice, close: Any) -> None:
    x = leaf(2, 6)
    pieces = ft.split(x, parts, 1)
    want = np.zeros(x.shape)
    start, places = 0, []
    for size in parts:
        places.append((slice(None), slice(start, start + size)))
        start += size
    for place in places[used]:
        want[place] = 2.0
    close(ag.grad(sum(2.0 * p.sum() for p in pieces[used]), x), want)


def test_the_parts_of_a_sequence_are_joined_once() -> None:
    x = leaf(50, 3)
    y = sum(step.sum() for step in ft.unstack(x, 0))
    with ft.count() as counted:
        y.backward()
    assert (counted["concatenate"], counted["pad"], counted["slice_update"]) == (1, 0, 0)
    assert (x.grad.numpy() == 1.0).all()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_parts_arrive_in_any_order(order: Any, close: Any) -> None:
    x = leaf(6)
    parts = ft.split(x, [1, 2, 3])
    close(ag.grad(sum(parts[i].sum() * (i + 1.0) for i in order), x), [1.0, 2, 2, 3, 3, 3])


def test_parts_with_steps_are_not_taken_for_neighbours(close: Any) -> None:
    x = leaf(6)
    close(ag.grad(x[::2].sum() + 2.0 * x[3:].sum(), x), [1.0, 0, 1, 2, 3, 2])


@pytest.mark.skipif(ft.current_backend().name != "numpy", reason="about the NumPy backend")
def test_single_elements_are_written_in_place() -> None:
    with ft.use("numpy"):  # which writes into what it is given
        x, manager = leaf(100, 100), fl_memory.current()
        y = sum(x[i, i] for i in range(1, 100))
        before = manager.stats().allocs
        y.backward()
    assert manager.stats().allocs - before < 10
    assert (x.grad.numpy() == np.diag([0.0] + [1.0] * 99)).all()


@pytest.mark.fl_heavy
def test_parts_that_overlap_do_not_pile_up() -> None:
    x = leaf(1000, 50)
    with fl_memory.use(CachingManager()) as manager:
        y = sum((x[i : i + 900] * 2.0).sum() for i in range(100))
        y.backward()
        assert manager.stats().peak_live_bytes < 10 * x.size * 8
    assert x.grad.numpy().max() == 200.0


def test_what_others_hold_is_not_written_to() -> None:
    x, y = leaf(3, 2), leaf(3, 2)
    g = ft.ones((3, 2), ft.float64)
    z = x + y  # both get the very gradient of z
    found = ag.grad([z, x[0].sum(), x[1:].sum()], [x, y], [g, None, None])
    assert (found[0].numpy() == 2.0).all() and (found[1].numpy() == 1.0).all()
    assert (g.numpy() == 1.0).all()


def test_hooks_see_whole_gradients() -> None:
    x = leaf(3, 2)
    part = x[1]
    seen: list[Any] = []
    part.grad_fn.ins[0].register_hook(lambda operands, g: seen.append(operands[0].numpy().tolist()))
    x.register_hook(lambda g: seen.append(g.numpy().tolist()))
    (part.sum() + x[0].sum()).backward()
    ones, zeros = [1.0, 1.0], [0.0, 0.0]
    assert seen == [[zeros, ones, zeros], [ones, ones, zeros]]


def test_gradients_of_gradients() -> None:
    def mixed(x: Any) -> Any:
        a, b, c = ft.unstack(x, 0)
        return a * b * c + x[1] ** 2 + x[::2].sum() ** 3

    ag.check_grads(mixed, [leaf(3, 2)], order=2)


def test_parts_and_rows_of_one_table(close: Any) -> None:
    x = leaf(3, 2)
    rows = ag.lookup_rows(x, ft.asarray([0, 0]))
    found = ag.grad(rows.sum() + x[1].sum() + 2.0 * x[1:].sum(), x)
    close(found, [[2.0, 2.0], [3.0, 3.0], [2.0, 2.0]])


def test_rules_of_users_may_hand_parts_on(close: Any) -> None:
    part_of = ag.RULES["slice"].vjps["x"]

    def first(ops: Any, x: Any) -> Any:
        return ops.slice(x, (0, 0), (1, 2), (1, 1))

    def back(ops: Any, g: Any, x_shape: tuple[int, ...]) -> Any:
        return part_of(ops, g, x_shape, (0, 0), (1, 1))

    head = extend.defop("head", first, x=back)
    x = leaf(3, 2)
    found = ag.grad(head(x).sum() + (x * 2.0).sum() + head(x).sum(), x)
    close(found, [[4.0, 4.0], [2.0, 2.0], [2.0, 2.0]])
    close(ag.grad(head(x).sum(), x), [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
