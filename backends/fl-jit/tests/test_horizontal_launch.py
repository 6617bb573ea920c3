"""Small kernels that run as one: a batch of launches, and steps of plans."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.kernels.codegen.batch import Batch
from fl_jit.kernels.codegen.errors import ProgramError
from fl_jit.kernels.codegen.kernel import Kernel
from fl_jit.kernels.codegen.program import Builder
from fl_tensor.dtypes import float32, float64


def scaled(dtype):
    """x times a number."""
    b = Builder(1)
    b.output(b("multiply", b.input(dtype, "c"), b.scalar(dtype)), "c")
    return Kernel.of(b.program())


def softmax():
    b = Builder(2)
    e = b("exp", b.input(float32, "sc"))
    b.output(b("divide", e, b.reduce("sum", e)), "sc")
    return Kernel.of(b.program())


def place(x):
    return x.__array_interface__["data"][0]


@pytest.fixture
def batch():
    """Launches of several kernels and sizes, 60 in all."""
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(1 + 97 * i % 5000).astype(["f4", "f8"][i % 2]) for i in range(60)]
    launches = [
        scaled([float32, float64][i % 2]).bind(x.shape, [(1,), (1,)]) for i, x in enumerate(arrays)
    ]
    return Batch(launches), arrays


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_batch_does_what_its_launches_do(batch, threads):
    before = ft.get_num_threads()
    ft.set_num_threads(threads)
    try:
        for number in (2.0, -0.5):
            results = [np.empty_like(x) for x in batch[1]]
            batch[0]([([place(x), place(y)], [number]) for x, y in zip(batch[1], results)])
            for x, y in zip(batch[1], results):
                np.testing.assert_array_equal(y, x * x.dtype.type(number))
    finally:
        ft.set_num_threads(before)


def test_a_batch_may_be_called_by_several_threads(batch):
    wrong = []

    def call(number):
        for _ in range(50):
            results = [np.empty_like(x) for x in batch[1]]
            batch[0]([([place(x), place(y)], [number]) for x, y in zip(batch[1], results)])
            wrong.extend(number for x, y in zip(batch[1], results) if (y != x * number).any())

    workers = [threading.Thread(target=call, args=(2.0**i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_kernels_that_need_memory_to_work_in_are_refused():
    with pytest.raises(ProgramError, match="runs alone"):
        Batch([softmax().bind((2, 3), [(3, 1), (3, 1)])])


def test_a_wrong_number_of_operands_is_an_error(batch):
    with pytest.raises(ProgramError, match="expected 2 and 1"):
        batch[0]([([1], [1.0])] * 60)


# ---- plans ---------------------------------------------------------------------------------------

SHAPES = [(10,), (300,), (20, 30), (7, 11, 13), (2,)]


@pytest.fixture
def jit():
    backend = JitBackend()
    backend.smallest, backend.plans.compile_after, backend.plans.policy.patience = 1, 1, 0
    with ft.use(backend):
        yield backend


def updated(values, speeds, gradients, rate):
    speeds = [0.5 * s + g for s, g in zip(speeds, gradients)]
    return [v - rate * s for v, s in zip(values, speeds)], speeds


def same(found, wanted):
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(x), y)


def test_updates_of_many_small_parameters_are_one_step(jit):
    rng = np.random.default_rng(2)
    arrays = [[rng.standard_normal(s).astype(np.float32) for s in SHAPES] for _ in range(3)]
    values, speeds, gradients = ([ft.asarray(x) + 0.0 for x in xs] for xs in arrays)
    plain = arrays
    for turn in range(4):
        ft.eval(*values, *speeds, *gradients)
        before = {place(np.asarray(x)) for x in values}
        values, speeds = updated(values, speeds, gradients, 0.25 * turn)
        ft.eval(*values, *speeds)
        plain = [*updated(*plain, np.float32(0.25 * turn)), plain[2]]
        same([*values, *speeds], [*plain[0], *plain[1]])
        if turn > 1:  # in the places of the old ones
            assert {place(np.asarray(x)) for x in values} == before
    (step,) = jit.plans.entries()[-1].steps
    assert len(step.steps) == len(SHAPES) and step.kind == "kernel"


def test_a_place_that_another_one_reads_is_not_written_over(jit):
    for _ in range(3):
        shared = ft.asarray(np.arange(100.0)) * 1.0
        other = ft.asarray(np.ones(100)) * 1.0
        ft.eval(shared, other)
        results = [shared * 2.0, shared * 3.0 + other, shared - 1.0]
        del shared, other
        ft.eval(*results)
        x = np.arange(100.0)
        same(results, (x * 2, x * 3 + 1, x - 1))
