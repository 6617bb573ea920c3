"""What a plan depends on: a computation that differs in it is another one."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.planning import plan_cache


@pytest.fixture
def jit():
    """A backend of its own, which plans everything at its first run."""
    backend = JitBackend()
    backend.smallest, backend.plans.compile_after, backend.plans.policy.patience = 1, 1, 0
    backend.plans.background = False
    with ft.use(backend):
        yield backend


def layouts():
    x = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    return [
        x,
        np.asfortranarray(x),
        np.repeat(x, 2, 1)[:, ::2],
        x[::-1][::-1],
        x[::-1].copy()[::-1],
    ]


def test_how_arrays_lie(jit):
    for x in layouts():
        y = ft.asarray(x) * 2.0 + ft.asarray(x[0])
        np.testing.assert_array_equal(np.asarray(y), x * 2 + x[0])
        np.testing.assert_array_equal(np.asarray(ft.sum(ft.asarray(x), 1)), x.sum(1))


def test_how_results_of_other_computations_lie(jit):
    x = np.arange(16.0, dtype=np.float32).reshape(4, 4)
    for turn in (lambda x: x, lambda x: x.T, lambda x: x[::-1], lambda x: x[:, ::-1]):
        y = turn(ft.asarray(x) + 0.0)
        ft.eval(y)
        np.testing.assert_array_equal(np.asarray(ft.exp(y) * 0.0 + y), turn(x))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "int32", "float32", "float16"])
def test_dtypes_of_arrays(jit, dtype):
    for other in ("int16", "float64", dtype):
        x = np.array([0, 1, 1, 0, 1]).astype(other)
        y = ft.asarray(x).astype("float32")
        np.testing.assert_array_equal(np.asarray(y), [0, 1, 1, 0, 1])


def test_dtypes_of_numbers(jit):
    x = np.arange(5, dtype=np.float64)
    for number in (np.float32(0.1), np.float64(0.1), np.float16(0.1)):
        y = ft.asarray(x) * ft.asarray(np.asarray(number)).astype("float64")
        np.testing.assert_array_equal(np.asarray(y), x * np.float64(number))


def test_what_is_seen(jit):
    for keep in ((0, 2), (2,), (1, 2), (0, 1, 2), (0,)):
        a = ft.exp(ft.ones(10))
        b = a + 1.0
        c = b * b
        kept = [x for i, x in enumerate((a, b, c)) if i in keep]
        del a, b, c
        e = np.exp(np.float32(1))
        for x, number in zip(kept, keep, strict=True):
            wanted = [e, e + 1, (e + 1) ** 2][number]
            np.testing.assert_allclose(np.asarray(x), np.full(10, wanted), rtol=1e-6)


def test_parameters(jit):
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    for axis in ((0,), (1,), (2,), (0, 2), (1, 2), ()):
        for keepdims in (False, True):
            found = ft.max(ft.asarray(x), axis, keepdims=keepdims)
            np.testing.assert_array_equal(np.asarray(found), x.max(axis, keepdims=keepdims))
    for low, high in ((0, 1), (1, 0), (2, 3)):
        found = ft.pad(ft.asarray(x), (low, high), value=float(low))
        wanted = np.pad(x, (low, high), constant_values=low)
        np.testing.assert_array_equal(np.asarray(found), wanted)


def test_which_operand_is_which(jit):
    x, y = (np.full(4, n, np.float32) for n in (1.0, 5.0))
    for a, b in ((x, y), (y, x), (x, x)):
        found = ft.asarray(a) - ft.asarray(b)
        np.testing.assert_array_equal(np.asarray(found), a - b)
    a = ft.asarray(x)
    np.testing.assert_array_equal(np.asarray(a - a), np.zeros(4))


def test_positions_of_streams_are_data(jit):
    wanted = {}
    for name in ("numpy", jit):
        with ft.use(name):
            first, second = ft.Generator(1), ft.Generator(2)
            draws = []
            for _ in range(3):
                pair = first.uniform(20), second.uniform(20), first.uniform(20)
                draws += [np.asarray(x) for x in pair]
            wanted[str(name)] = draws
    for a, b in zip(*wanted.values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_constant_that_is_seen_is_an_array_of_its_own(jit):
    for number in (2.0, 3.0):
        x = ft.full((5, 6), number)
        y = x + 1.0
        ft.eval(x, y)
        assert np.asarray(x).flags.c_contiguous
        x[0, 0] = 7.0
        assert x[0].tolist() == [7.0] + [number] * 5 and x[1, 0].item() == number
        assert y[0, 0].item() == number + 1


def test_sums_in_half_precision_are_rounded_once(jit):
    # 3 x 2049 is 6147, in float16 6148; of rounded rows 3 x 2048 = 6144.
    x = np.ones((3, 1, 2049), np.float16).transpose(0, 1, 2)
    found = ft.sum(ft.asarray(np.broadcast_to(x, (3, 2, 2049))), (0, 2))
    assert found.tolist() == [6148.0, 6148.0]


def test_the_same_calls_in_turns_on_arrays_that_lie_otherwise(jit):
    x = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    given = [ft.from_dlpack(a) for a in (x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2])]
    for a in (*given, *given[::-1], *given):
        np.testing.assert_array_equal(np.asarray(a * 2.0 + 1.0), x * 2 + 1)


def test_the_same_calls_in_turns_with_other_results_seen(jit):
    x = ft.asarray(np.arange(24, dtype=np.float32))
    for both in (True, False, False, True, True, False):
        doubled = x * 2.0
        y = doubled + 1.0
        if not both:
            del doubled
        np.testing.assert_array_equal(np.asarray(y), np.arange(24) * 2 + 1)
        if both:
            np.testing.assert_array_equal(np.asarray(doubled), np.arange(24) * 2)


def test_the_plan_that_ran_last_is_the_last_one_and_others_are_forgotten(jit, monkeypatch):
    monkeypatch.setattr(plan_cache, "CAPACITY", 2)
    x = ft.asarray(np.ones(10, np.float32))
    computations = {"a": lambda: ft.sum(ft.exp(x)), "b": lambda: ft.tanh(x), "c": lambda: -x}
    found = []
    for name in "abaacab":
        ft.eval(computations[name]())
        jit.plans.wait()
        found.append(jit.plans.entries())
    first, last = [kept[0] for kept in found], [kept[-1] for kept in found]
    assert all(len(kept) <= 2 for kept in found)
    assert last[2] is last[3] is last[5] is first[6] is last[0], "a, which ran again and again"
    assert last[6] is not last[1], "b had not run for longest when c came"


def test_more_computations_in_turns_than_plans_leave_those_that_are_there(monkeypatch):
    monkeypatch.setattr(plan_cache, "CAPACITY", 3)
    backend = JitBackend()
    backend.smallest, backend.plans.policy.patience, backend.plans.background = 1, 0, False
    known = backend.plans

    def rounds(count, sizes):
        for _ in range(count):
            for size in sizes:
                with ft.use(backend):
                    ft.eval(ft.exp(ft.asarray(np.ones(size, np.float32))))

    rounds(2, [1, 2, 3])
    first = known.entries()  # plans, not their identities, which others may get
    rounds(3, [1, 2, 3, 4, 5])
    assert len(first) == 3 and set(map(id, known.entries())) == set(map(id, first))
    rounds(2, [4, 5])
    assert (
        len(known.entries()) == 3 and len(set(map(id, known.entries())) - set(map(id, first))) == 2
    )
