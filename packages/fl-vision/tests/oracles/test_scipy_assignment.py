"""Linear sum assignment against SciPy. FL_ASSIGNMENTS: how many random matrices, by default 500;
the whole is 10,000."""

from __future__ import annotations

import os

import numpy as np
import pytest

from fl_vision.detection import batched_linear_sum_assignment, linear_sum_assignment

scipy_optimize = pytest.importorskip("scipy.optimize")
COUNT = int(os.environ.get("FL_ASSIGNMENTS", "500"))


def random_cost(rng: np.random.Generator) -> np.ndarray:
    rows, columns = rng.integers(0, 30, 2)
    kind = rng.integers(4)
    if kind == 0:
        return rng.integers(-3, 4, (rows, columns)).astype(float)  # many equal costs
    if kind == 1:
        return rng.normal(size=(rows, columns)) * 10.0 ** rng.integers(-8, 9)
    if kind == 2:  # a cost of rows plus one of columns: every assignment of a square is optimal
        return rng.normal(size=(rows, 1)) + rng.normal(size=(1, columns))
    return rng.random((rows, columns)) ** 8


def total(cost: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> float:
    assert len(rows) == len(columns) == min(cost.shape)
    assert len(set(columns.tolist())) == len(columns)
    assert (np.diff(rows) > 0).all()
    return float(cost[rows, columns].sum())


def test_costs_are_the_least():
    for seed in range(COUNT):
        cost = random_cost(np.random.default_rng(seed))
        found = total(cost, *linear_sum_assignment(cost))
        wanted = total(cost, *scipy_optimize.linear_sum_assignment(cost))
        scale = np.abs(cost).max(initial=0.0) * max(min(cost.shape), 1)
        assert found == pytest.approx(wanted, abs=1e-13 * scale), f"seed {seed}"


def test_batches_of_different_sizes():
    rng = np.random.default_rng(0)
    costs = rng.normal(size=(20, 15, 12))
    rows, columns = rng.integers(0, 16, 20), rng.integers(0, 13, 20)
    for cost, n, m, pairs in zip(
        costs, rows, columns, batched_linear_sum_assignment(costs, rows, columns), strict=True
    ):
        wanted = scipy_optimize.linear_sum_assignment(cost[:n, :m])
        assert all(map(np.array_equal, pairs, wanted))
