"""A program that does the same again records nothing new; another one does."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit.traces import recording


def recorded(jit, run):
    """The recording of what ``run`` puts off, which is then computed."""
    held = run()
    found = jit._pending.recording()
    ft.eval(held)
    return found


def chain(*numbers, last=ft.exp, then=ft.add):
    """x + n, then further numbers likewise, and a last function."""

    def run():
        y = ft.asarray([1.0, 2.0, 3.0]) + numbers[0]
        for number in numbers[1:]:
            y = then(y, number)
        return last(y)

    return run


def test_the_same_again_is_the_same_recording(jit):
    first = recorded(jit, chain(0.5, 0.25))
    assert recorded(jit, chain(0.5, 0.25)) is first
    assert recorded(jit, chain(0.75, 0.125)) is first, "numbers are data"


def test_in_turns_with_something_else(jit):
    first = recorded(jit, chain(0.5, 0.25))
    other = recorded(jit, lambda: ft.tanh(ft.asarray([[1.0]])) * 2.0)
    assert other != first
    for _ in range(2):
        assert recorded(jit, chain(0.5, 0.25)) is first
        assert recorded(jit, lambda: ft.tanh(ft.asarray([[1.0]])) * 2.0) is other


@pytest.mark.parametrize(
    "other",
    [
        chain(0.5, 0.25, 0.125),
        chain(0.5),
        chain(0.5, 0.25, last=ft.tanh),
        chain(0.5, 0.25, then=ft.multiply),
        chain(0.5, 0.25, last=lambda y: ft.sum(y, 0)),
        chain(0.5, 0.25, last=lambda y: ft.exp(y) + y),
        chain(0.5, 0.25, last=lambda y: y.astype("float64")),
    ],
    ids=["longer", "shorter", "another end", "another middle", "a sum", "one more", "a cast"],
)
def test_what_begins_likewise_is_not_the_same(jit, other):
    for _ in range(3):  # the third time by a plan
        for run in (chain(0.5, 0.25), other):
            with ft.use("numpy"):
                expected = np.asarray(run())
            np.testing.assert_allclose(np.asarray(run()), expected, rtol=1e-6)
    assert recorded(jit, chain(0.5, 0.25)) != recorded(jit, other)


def test_equal_recordings_are_found_by_one_another(jit):
    first = recorded(jit, chain(0.5, 0.25))
    recorded(jit, chain(0.5))  # now the latest that begins so
    again = recorded(jit, chain(0.5, 0.25))
    assert again is not first and again == first and hash(again) == hash(first)


def test_an_operand_of_another_place_makes_a_difference(jit):
    def run(swapped):
        x, y = ft.asarray([1.0, 2.0]) * 2.0, ft.asarray([3.0, 5.0]) * 2.0
        return y - x if swapped else x - y

    for _ in range(3):
        assert run(False).tolist() == [-4.0, -6.0]
        assert run(True).tolist() == [4.0, 6.0]


def others(jit, sizes):
    """Recordings that begin otherwise, one for each size."""
    for size in sizes:
        recorded(jit, lambda size=size: ft.exp(ft.asarray(np.ones(size))) * 2.0)


def test_only_the_latest_are_remembered(jit):
    first = recorded(jit, chain(0.5))
    others(jit, range(2, 2 + recording.MOST))
    assert recorded(jit, chain(0.5)) is not first


def test_what_comes_again_is_one_of_the_latest(jit):
    first = recorded(jit, chain(0.5))
    for turn in range(1, 4):
        others(jit, range(100 * turn, 100 * turn + recording.MOST - 1))
        assert recorded(jit, chain(0.5)) is first


def test_padding_with_zeros_of_either_sign(jit):
    """They are equal, and two computations."""
    for _ in range(3):
        for zero in (0.0, -0.0):
            x = ft.pad(ft.asarray(np.ones((3, 4), np.float32)), 1, "constant", zero)
            assert np.signbit(np.asarray(x)[0, 0]) == np.signbit(zero)
