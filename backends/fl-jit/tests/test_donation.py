"""Results that take the places of operands which nobody else sees, and no others."""

from __future__ import annotations

import copy
import signal

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.steps import launch

SHAPE = (100, 200)


@pytest.fixture
def backend():
    made = JitBackend()
    made.plans.background = False
    with ft.use(made):
        yield made


def fresh(value):
    return ft.full(SHAPE, value) + ft.asarray(np.zeros(SHAPE, np.float32))


def place(x):
    return np.asarray(x).__array_interface__["data"][0]


def update(weight, speed, gradient):
    speed = speed * 0.5 + gradient
    return weight - speed * 0.25, speed


def test_an_update_is_written_where_its_operands_were(backend):
    weight, speed, gradient = fresh(1.0), fresh(2.0), fresh(4.0)
    before = {place(weight), place(speed)}
    for _ in range(3):
        weight, speed = update(weight, speed, gradient)
        ft.eval(weight, speed)
    # The first time there is no plan yet, and the second time there are two operands to overwrite.
    kept = {place(weight), place(speed)}
    weight, speed = update(weight, speed, gradient)
    ft.eval(weight, speed)
    assert {place(weight), place(speed)} == kept
    assert place(gradient) not in kept
    assert len(before) == 2
    np.testing.assert_array_equal(np.asarray(gradient), np.full(SHAPE, 4.0))
    speeds = [2.0]
    for _ in range(4):
        speeds.append(speeds[-1] * 0.5 + 4.0)
    np.testing.assert_array_equal(np.asarray(weight), np.full(SHAPE, 1.0 - sum(speeds[1:]) / 4))


def test_a_result_of_another_shape_has_an_array_of_that_shape(backend):
    for _ in range(3):
        x = fresh(3.0)
        ft.eval(x)
        x = ft.reshape(x, SHAPE[::-1]) * 2.0
        ft.eval(x)
        np.testing.assert_array_equal(np.asarray(x), np.full(SHAPE[::-1], 6.0))


SEEN = {
    "the tensor": lambda x: x,
    "a copy of the handle": copy.copy,
    "a view": lambda x: x[3:],
    "another shape": lambda x: ft.reshape(x, (-1,)),
    "an array of NumPy": np.asarray,
    "DLPack": lambda x: np.from_dlpack(x),
    "a saved operand": lambda x: [x._adapter] if hasattr(x, "_adapter") else x,
}


@pytest.mark.parametrize("how", SEEN, ids=str)
def test_what_is_seen_by_somebody_is_not_written_over(backend, how):
    for _ in range(3):
        x = fresh(3.0)
        ft.eval(x)
        holder = SEEN[how](x)
        want = np.array(np.asarray(holder)) if not isinstance(holder, list) else None
        x = x * 2.0 + 1.0
        ft.eval(x)
        if want is not None:
            np.testing.assert_array_equal(np.asarray(holder), want)
        np.testing.assert_array_equal(np.asarray(x), np.full(SHAPE, 7.0))


def test_a_view_is_not_written_over(backend):
    for _ in range(3):
        x = ft.asarray(np.full(SHAPE, 3.0, np.float32))
        rows = x[3:]
        rows = rows * 2.0 + 1.0
        ft.eval(rows)
        np.testing.assert_array_equal(np.asarray(rows), np.full((97, 200), 7.0))
        np.testing.assert_array_equal(np.asarray(x), np.full(SHAPE, 3.0))


@pytest.mark.parametrize("borrow", [ft.asarray, ft.from_dlpack], ids=["asarray", "from_dlpack"])
def test_borrowed_memory_is_not_written_over(backend, borrow):
    """Not even where no other array shows it: its owner does."""
    for _ in range(3):
        owner = bytearray(np.full(SHAPE, 3.0, np.float32).tobytes())
        x = borrow(np.frombuffer(owner, np.float32))
        x = x * 2.0 + 1.0
        np.testing.assert_array_equal(np.asarray(x), 7.0)
        np.testing.assert_array_equal(np.frombuffer(owner, np.float32), 3.0)


def test_an_operand_that_is_read_in_another_order_is_not_written_over(backend):
    for _ in range(3):
        x = ft.asarray(np.arange(40_000, dtype=np.float32).reshape(200, 200)) * 1.0
        ft.eval(x)
        want = np.asarray(x) + np.asarray(x).T
        x = x + ft.permute(x, (1, 0))
        np.testing.assert_array_equal(np.asarray(x), want)


def test_rows_are_added_to_a_table_in_its_place(backend):
    rows = ft.asarray(np.array([3, 0, 3]))
    values = ft.asarray(np.ones((3, SHAPE[1]), np.float32))
    want = np.full(SHAPE, 2.0, np.float32)
    np.add.at(want, [3, 0, 3], 1.0)
    for turn in range(3):
        table = fresh(2.0)
        ft.eval(table)
        before = place(table)
        table = ft.scatter(table + 0.0, rows, values, 0, "add")
        ft.eval(table)
        np.testing.assert_array_equal(np.asarray(table), want)
        if turn == 2:  # planned: the sum takes the place of its operand, and the rows are added
            assert place(table) == before


@pytest.mark.parametrize("how", ["held", "updates"])
def test_a_table_that_is_seen_is_copied_before_rows_are_added(backend, how):
    rows = ft.asarray(np.arange(50))
    for _ in range(3):
        table = fresh(2.0)
        ft.eval(table)
        held = table if how == "held" else None
        table = ft.scatter(
            table, rows, table[50:] if how == "updates" else table[:50] * 1.0, 0, "add"
        )
        want = np.full(SHAPE, 2.0)
        want[:50] += 2.0
        np.testing.assert_array_equal(np.asarray(table), want)
        if held is not None:
            np.testing.assert_array_equal(np.asarray(held), np.full(SHAPE, 2.0))


def overwritten_half_way(backend, monkeypatch):
    """Results of a computation that failed after it had written over an operand, and one that does
    not need it."""

    def run():
        x = fresh(3.0)
        ft.eval(x)
        x = x * 2.0
        return x, ft.sum(ft.exp(x), 1), fresh(5.0) * 2.0

    for _ in range(2):
        ft.eval(*run())
    lost = run()

    def refuse(shape, dtype):
        raise MemoryError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(launch.memory, "empty", refuse)
        with pytest.raises(MemoryError, match="no more"):
            ft.eval(*lost)
    return lost


def test_what_is_computed_after_such_a_failure_has_nothing_to_do_with_it(backend, monkeypatch):
    *lost, other = overwritten_half_way(backend, monkeypatch)
    y = fresh(1.0) * 2.0
    np.testing.assert_array_equal(np.asarray(other), np.full(SHAPE, 10.0))
    np.testing.assert_array_equal(np.asarray(y), np.full(SHAPE, 2.0))
    for x in (*lost, *lost):
        with pytest.raises(ft.BackendError, match="had written over it.* from a checkpoint"):
            ft.eval(x)
    with pytest.raises(ft.BackendError, match="had written over it"):
        lost[0] + y
    np.testing.assert_array_equal(np.asarray(y + 1.0), np.full(SHAPE, 3.0))


@pytest.fixture
def control_c():
    """Python's own answer to Control-C: a process that was started in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupting(monkeypatch, times=1):
    """Control-C comes while a kernel has run and the next has not."""
    real, left = launch.memory.empty, [times]

    def empty(shape, dtype):
        while left[0]:
            left[0] -= 1
            signal.raise_signal(signal.SIGINT)
        return real(shape, dtype)

    monkeypatch.setattr(launch.memory, "empty", empty)


def test_control_c_waits_until_an_update_is_whole(backend, monkeypatch, control_c):
    def run(x):
        x = x * 2.0
        return x, ft.sum(ft.exp(x), 1)

    x = fresh(0.5)
    for _ in range(3):
        x, total = run(x * 0.5)
        ft.eval(x, total)
    before = signal.getsignal(signal.SIGINT)
    x, total = run(x * 0.5)
    with monkeypatch.context() as patch:
        interrupting(patch)
        with pytest.raises(KeyboardInterrupt):
            ft.eval(x, total)
    assert signal.getsignal(signal.SIGINT) is before
    np.testing.assert_array_equal(np.asarray(x), np.full(SHAPE, 0.5))
    np.testing.assert_allclose(np.asarray(total), np.full(SHAPE[0], SHAPE[1] * np.exp(0.5)), 1e-5)
    x, total = run(x * 0.5)
    ft.eval(x, total)  # and nothing is left of it


def test_a_second_control_c_does_not_wait(backend, monkeypatch, control_c):
    def run(x):
        x = x * 2.0
        return x, ft.sum(ft.exp(x), 1)

    x = fresh(0.5)
    for _ in range(3):
        x, total = run(x * 0.5)
        ft.eval(x, total)
    x, total = run(x * 0.5)
    with monkeypatch.context() as patch:
        interrupting(patch, times=2)
        with pytest.raises(KeyboardInterrupt):
            ft.eval(x, total)
    with pytest.raises(ft.BackendError, match="had written over it"):
        ft.eval(x)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
