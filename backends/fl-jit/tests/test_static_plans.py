"""Graphs of ft.compile as plans."""

from __future__ import annotations

import numpy as np
import pytest

import fl_jit
import fl_tensor as ft
from fl_jit.planning import static


@pytest.fixture(autouse=True)
def jit():
    with ft.use("jit"):
        yield


def array(*shape, seed=0):
    return ft.Generator(seed).normal(shape)


def compiled(function, *arguments, calls=3):
    """A compiled function that has run its plan, and its last result."""
    made = ft.compile(function, strict=True)
    results = [made(*arguments) for _ in range(calls)]
    assert made.compiled_calls == calls - 1, made.explain()
    return made, results[-1]


def plans(made):
    (executables,) = made._executables.values()
    return executables[0].run._plans


def close(x, y):
    np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=2e-6, atol=1e-6)


def test_a_graph_is_one_plan():
    def f(x, w):
        return ft.mean(ft.softmax(ft.relu(x @ w), -1), 0)

    x, w = array(64, 32), array(32, 16, seed=1)
    made, result = compiled(f, x, w)
    close(result, f(x, w))
    assert len(plans(made)) == 1


def test_a_plan_for_each_layout_of_the_operands():
    def f(x):
        return ft.sum(x * 2 + 1, 1)

    x = array(48, 32)
    made, _ = compiled(f, x)
    for y in (x, ft.permute(array(32, 48), (1, 0)), ft.permute(array(32, 48, seed=3), (1, 0))):
        close(made(y), f(y))
    assert len(plans(made)) == 2


def test_numbers_are_leaves():
    made = ft.compile(lambda x, p: x * p + p / 3)
    for p in (0.5, 1.5, -2.0, 7.0):
        close(made(array(64, 64), p), array(64, 64) * p + p / 3)
    assert len(plans(made)) == 1


def test_streams_are_leaves():
    def f(x):
        return x + ft.rand((64, 64))

    ft.seed(5)
    wanted = [f(array(64, 64)) for _ in range(4)]
    ft.seed(5)
    made = ft.compile(f)
    for w in wanted:
        close(made(array(64, 64)), w)
    assert made.compiled_calls == 3


def test_an_index_out_of_range_is_an_error_of_every_call():
    table = array(50, 8)
    made, _ = compiled(lambda t, i: ft.gather(t, i.astype("int64"), 0) * 2, table, ft.arange(40))
    for bad in (50, -1):
        indices = ft.arange(40) * 0 + bad
        with pytest.raises((ft.IndexingError, IndexError)):
            made(table, indices)
    close(made(table, ft.arange(40)), ft.gather(table, ft.arange(40), 0) * 2)


def test_indices_that_a_graph_computes_stay_in_range():
    """They read no foreign memory, whatever they are."""

    def f(t, x):
        return ft.gather(t, ft.argmax(x, 1), 0)

    table, x = array(16, 8), array(40, 16)
    _, result = compiled(f, table, x)
    close(result, f(table, x))


def test_views_and_constants_among_results():
    def f(x):
        return x.reshape(-1), ft.zeros((3, 3)) + 1, ft.full((2, 2), 4.0), ft.permute(x, (1, 0))

    _, results = compiled(f, array(32, 16))
    for got, wanted in zip(results, f(array(32, 16)), strict=True):
        close(got, wanted)


def test_an_operation_with_several_results_runs_operation_by_operation():
    def f(x):
        values, indices = ft.topk(x, 3)
        return values * 2, indices

    made, results = compiled(f, array(16, 8))
    for got, wanted in zip(results, f(array(16, 8)), strict=True):
        close(got, wanted)
    assert not hasattr(next(iter(made._executables.values()))[0].run, "_plans")


def test_operands_are_not_overwritten():
    x = array(64, 64)
    before = x.numpy().copy()
    made, _ = compiled(lambda x: ft.exp(x) + 1, x)
    made(x)
    assert (x.numpy() == before).all()


def test_a_derived_backend_keeps_its_own_operations():
    class Louder(fl_jit.JitBackend):
        CONTRACT = (1, 1)
        name = "louder"

        def exp(self, x):
            return self.add(super().exp(x), self.constant(100.0, x))

    with ft.use(Louder()) as backend:
        x = ft.ones((64, 64), backend=backend)
        made, result = compiled(lambda x: ft.exp(x), x)
        assert result.numpy().min() > 100


def test_a_graph_is_prepared_by_the_function_itself():
    graph = ft.compile(lambda x: x * 2).graph(array(8, 8))
    run = static.prepare(ft.get_backend("jit").eager, graph, ())
    (result,) = run([array(8, 8).adapter], [])
    assert (result.array == array(8, 8).numpy() * 2).all()
