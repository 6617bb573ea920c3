"""Gather and scatter in plans: by kernels where there are some, with the same results."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.steps import indexing

DTYPES = ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


@pytest.fixture(params=["kernels", "numpy"])
def jit(request, monkeypatch):
    """A backend that plans everything at once; its steps are kernels, or NumPy's operations."""
    if request.param == "numpy":
        monkeypatch.setattr(indexing, "is_supported_gather", lambda node, places: False)
        monkeypatch.setattr(indexing, "is_supported_sum", lambda node, places: False)
    backend = JitBackend()
    backend.smallest, backend.plans.compile_after, backend.plans.policy.patience = 1, 1, 0
    backend.by = "kernel" if request.param == "kernels" else "numpy"
    with ft.use(backend):
        yield backend


def who(backend, op):
    """Who computes ``op`` in the plans of the backend."""
    steps = [step for plan in backend.plans.entries() for step in plan.steps]
    return {step.kind for step in steps if any(node.op == op for node in step.nodes)}


def table(shape, dtype):
    rng = np.random.default_rng(1)
    return ft.asarray(rng.integers(0, 100, shape)).astype(dtype)


def picks(shape, size, dtype="int64"):
    return ft.asarray(np.random.default_rng(2).integers(0, size, shape).astype(dtype))


def same(found, wanted):
    np.testing.assert_array_equal(np.asarray(found.astype("float64")), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_gather(jit, dtype, kind):
    for shape, axis, places in (
        ((11,), 0, (5,)),
        ((11, 7), 0, (3, 4)),
        ((11, 40), 0, (50,)),
        ((5, 11, 3), 1, (2, 3)),
        ((5, 11), 1, (40,)),
        ((5, 11), 1, (1,)),
    ):
        x, i = table(shape, dtype), picks(places, shape[axis], kind)
        same(ft.gather(x, i, axis), np.take(np.asarray(x.astype("float64")), np.asarray(i), axis))
    assert who(jit, "gather") == {jit.by}


def test_gather_from_views_at_views(jit):
    x, i = table((12, 20), "float32"), picks((6, 4), 10)
    plain, at = np.asarray(x), np.asarray(i)
    same(ft.gather(x.T, i, 0), plain.T[at])
    same(ft.gather(x[::-1, 3:13], i[::2, 1:], 0), plain[::-1, 3:13][at[::2, 1:]])
    same(ft.gather(x[:, ::-2], i.T, 1), np.take(plain[:, ::-2], at.T, 1))
    same(
        ft.gather(ft.broadcast_to(x[:1], (10, 20)), i, 0), np.broadcast_to(plain[:1], (10, 20))[at]
    )
    same(ft.gather(x, ft.broadcast_to(i[0, 0], (3,)), 1), plain[:, [at[0, 0]] * 3])


def test_gather_of_what_is_computed_in_the_same_plan(jit):
    x, i = table((12, 20), "float32"), picks((6,), 12)
    y = ft.gather(x * 2.0, i, 0) + 1.0
    same(y, np.asarray(x)[np.asarray(i)] * 2 + 1)


def test_nothing_is_gathered_and_added(jit):
    none = ft.asarray(np.zeros(0, np.int64))
    assert ft.gather(table((5, 3), "float32"), none, 0).shape == (0, 3)
    assert ft.gather(table((5, 0), "float32"), picks((4,), 5), 0).shape == (4, 0)
    x = table((5, 3), "float32")
    same(ft.scatter(x + 0.0, none, ft.zeros((0, 3)), 0, "add"), np.asarray(x))


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_rows_are_added_in_their_order(jit, dtype):
    kernels = {"float16", "bfloat16"}.isdisjoint([dtype])
    for shape, places in (((11,), (40,)), ((11, 7), (3, 30)), ((11, 3, 100), (50,))):
        x, i = table(shape, dtype), picks(places, 11)
        updates = table((*places, *shape[1:]), dtype)
        for mode in ("add", "set"):
            with ft.use("numpy"):
                operands = (ft.asarray(np.asarray(v)) for v in (x, i, updates))
                wanted = ft.scatter(*operands, 0, mode)
            found = ft.scatter(x, i, updates, 0, mode)
            np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
    assert who(jit, "scatter") == ({jit.by, "numpy"} if kernels else {"numpy"})


def test_sums_of_rows_have_the_bits_of_numpy(jit):
    rng = np.random.default_rng(3)
    for shape, count in (((7, 33), 200), ((9,), 500), ((4, 5, 6), 60)):
        x = rng.standard_normal(shape).astype(np.float32)
        i = rng.integers(0, shape[0], count)
        updates = rng.standard_normal((count, *shape[1:])).astype(np.float32)
        wanted = x.copy()
        np.add.at(wanted, i, updates)
        given = map(ft.asarray, (x, i, updates))
        np.testing.assert_array_equal(np.asarray(ft.scatter(*given, 0, "add")), wanted)


def test_updates_that_are_views(jit):
    x, i = table((11, 6), "float32"), picks((8,), 11)
    updates = table((6, 8), "float32")
    wanted = np.asarray(x).copy()
    np.add.at(wanted, np.asarray(i), np.asarray(updates).T)
    same(ft.scatter(x, i, updates.T, 0, "add"), wanted)
    wanted = np.asarray(x).copy()
    np.add.at(wanted, np.asarray(i), np.asarray(x)[:8])
    same(ft.scatter(x, i, x[:8], 0, "add"), wanted)
    y = x + 1.0  # whose own rows are added to it
    wanted = np.asarray(x) + 1.0
    np.add.at(wanted, np.asarray(i), (np.asarray(x) + 1.0)[:8])
    same(ft.scatter(y, i, y[:8], 0, "add"), wanted)


def test_rows_along_another_axis(jit):
    x, i = table((3, 11), "float32"), picks((20,), 11)
    updates = table((3, 20), "float32")
    wanted = np.asarray(x).copy()
    np.add.at(wanted, (slice(None), np.asarray(i)), np.asarray(updates))
    same(ft.scatter(x, i, updates, 1, "add"), wanted)


@pytest.mark.parametrize("places", [[5], [-6], [0, 2**40]])
def test_an_index_out_of_range_is_an_error_where_it_is_used(jit, places):
    x, i = table((5, 3), "float32") + 0.0, ft.asarray(np.array(places))
    with pytest.raises(IndexError, match=r"\[gather\].*out of range for axis 0"):
        ft.gather(x, i, 0)
    with pytest.raises(IndexError, match=r"\[gather\].*out of range for axis 0"):
        ft.gather(x, i + 0, 0)  # which is computed first
    with pytest.raises(IndexError, match=r"\[scatter\].*out of range for axis 0"):
        ft.scatter(x, i, ft.zeros((len(places), 3)), 0, "add")


def test_a_small_table_of_gradients_waits_for_its_updates():
    backend = JitBackend()
    with ft.use(backend):
        updates = ft.ones((10_000, 3)) * 2.0
        found = ft.scatter(ft.zeros((2, 3)), picks((10_000,), 2), updates, 0, "add")
        assert [call.op for call in backend._pending.calls][-1] == "scatter"
    assert ft.sum(found).item() == 60_000.0
