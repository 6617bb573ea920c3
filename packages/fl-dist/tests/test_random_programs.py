"""The expectations of the kit's random programs are those of NumPy."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import fl_dist as dist
import fl_tensor as ft
from fl_dist.testing import random_programs as programs

FOLDS = {
    "sum": np.add,
    "mean": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "prod": np.multiply,
}


def reduced(op, arrays):
    total = functools.reduce(FOLDS[op], arrays)
    return total / len(arrays) if op == "mean" else total


def by_numpy(step, operands):
    """The result of every rank, from float64 or integer arrays per rank."""
    p, n = step.parameters, len(operands)
    first = [xs[0] for xs in operands if xs]
    if step.operation == "all_reduce":
        return [reduced(p["op"], first)] * n
    if step.operation == "all_reduce_many":
        return [[reduced(p["op"], column) for column in zip(*operands)]] * n
    if step.operation == "broadcast":
        return [first[p["root"]]] * n
    if step.operation == "reduce":
        return [reduced(p["op"], first) if r == p["root"] else None for r in range(n)]
    if step.operation == "all_gather":
        return [first] * n
    if step.operation == "gather":
        return [first if r == p["root"] else None for r in range(n)]
    if step.operation == "all_gather_tensor":
        return [np.concatenate(first)] * n
    if step.operation == "reduce_scatter":
        return [reduced(p["op"], column) for column in zip(*operands)]
    if step.operation == "reduce_scatter_tensor":
        ends = np.cumsum(p["counts"])[:-1]
        return np.split(reduced(p["op"], first), ends)
    if step.operation == "scatter":
        return operands[p["root"]]
    if step.operation == "all_to_all":
        return [[xs[r] for xs in operands] for r in range(n)]
    return [None] * n


def arrays(rank_operands):
    wide = [x.astype("float64") if x.dtype.is_floating else x for x in rank_operands]
    return [np.array(x.tolist(), dtype=str(x.dtype)).reshape(x.shape) for x in wide]


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_random_programs_equal_numpy(world_size):
    dtypes, seeds = programs.available_dtypes(), list(range(100))
    assert {"int8", "float32"} <= set(dtypes)
    found = dist.threads.run(world_size, programs.run, seeds, dtypes)
    steps = [programs.program(seed, world_size, dtypes) for seed in seeds]
    assert {step.operation for its in steps for step in its} == set(programs.OPERATIONS)
    for i, seed in enumerate(seeds):
        for number, step in enumerate(steps[i]):
            operands = [arrays(programs.operands(seed, number, step, r)) for r in range(world_size)]
            groups = [range(world_size)]
            if step.in_part:
                groups = [range(parity, world_size, 2) for parity in range(2)]
            for ranks in groups:
                wanted = by_numpy(step, [operands[r] for r in ranks])
                sizes = [[np.abs(x) for x in operands[r]] for r in ranks]
                with np.errstate(over="ignore"):
                    scales = by_numpy(step, sizes)
                for r, want, scale in zip(ranks, wanted, scales):
                    compare(step, found[r][i][number], want, scale)


def compare(step, got, want, scale):
    if want is None:
        assert got is None
        return
    several = [(want, scale)] if not isinstance(want, list) else list(zip(want, scale))
    assert len(got) == len(several)
    for (dtype, shape, data), (value, size) in zip(got, several):
        assert (dtype, shape) == (step.dtype, value.shape)
        x = ft.frombytes(data, shape, ft.dtype(dtype))
        exact = step.parameters.get("op") in (None, "max", "min")
        if step.dtype in programs.INTEGERS or exact:
            assert np.array_equal(np.array(x.tolist()).reshape(shape), value), step
        else:
            error = np.abs(np.array(x.tolist()).reshape(shape) - value)
            assert np.all(error <= programs.TOLERANCE[dtype] * size), step
