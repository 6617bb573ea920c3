"""Linear sum assignment: pairs of rows and columns with the least total cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_nn.extend import in_threads
from fl_tensor.annotations import explained
from fl_vision.detection.assignment_kernel import assign_batch, work_of
from fl_vision.detection.checks import host_labels, host_values

#: Costs times rows of a batch that are worth a thread: about a millisecond.
WORTH = 500_000
#: Larger costs are refused, since their sums may be infinite.
MOST_COST = 1e300

#: Indices of rows and of columns, int64, sorted by row.
Pairs = tuple[np.ndarray, np.ndarray]


@explained
def linear_sum_assignment(cost: ft.Array | np.ndarray) -> Pairs:
    """The rows and columns, both int64 (min(N, M),), sorted by row, that minimise the sum of
    `cost[rows, columns]` where each row and each column occurs at most once.

    cost  (N, M), numbers; computed on the host in float64

    Crouse, 2016, after Jonker and Volgenant, 1987. Raises ShapeError, DTypeError, ArgumentError
    for costs that are NaN or infinite, or larger than 1e300.
    """
    where = "linear_sum_assignment"
    values = host_values(where, "cost", cost, np.float64)
    if values.ndim != 2:
        raise ft.ShapeError(f"[{where}] cost {values.shape}: expected (rows, columns)")
    return _solved(where, values[None], *(np.array([n], np.int64) for n in values.shape))[0]


@explained
def batched_linear_sum_assignment(
    costs: ft.Array | np.ndarray,
    row_counts: Sequence[int] | np.ndarray | None = None,
    column_counts: Sequence[int] | np.ndarray | None = None,
) -> list[Pairs]:
    """`linear_sum_assignment` of each matrix of `costs` (B, N, M), in threads.

    row_counts, column_counts  (B,): only so many leading rows and columns of each matrix count, at
                               most N and M; None: all. The rest may hold any values

    Raises what `linear_sum_assignment` raises, and names the matrix.
    """
    where = "batched_linear_sum_assignment"
    values = host_values(where, "costs", costs, np.float64)
    if values.ndim != 3:
        raise ft.ShapeError(f"[{where}] costs {values.shape}: expected (matrices, rows, columns)")
    counts = [
        _counts(where, name, given, len(values), most)
        for name, given, most in (
            ("row_counts", row_counts, values.shape[1]),
            ("column_counts", column_counts, values.shape[2]),
        )
    ]
    return _solved(where, values, *counts)


def _counts(where: str, name: str, given: Any, matrices: int, most: int) -> np.ndarray:
    if given is None:
        return np.full(matrices, most, np.int64)
    found = host_labels(where, name, given)
    if found.shape != (matrices,) or (found < 0).any() or (found > most).any():
        raise ft.ShapeError(
            f"[{where}] {name} {found.tolist()}: expected {matrices} numbers in 0 .. {most}"
        )
    return found


def _solved(
    where: str, costs: np.ndarray, row_counts: np.ndarray, column_counts: np.ndarray
) -> list[Pairs]:
    _, rows, columns = costs.shape
    if costs.size and not (costs.min() >= -MOST_COST and costs.max() <= MOST_COST):
        _refuse_large(where, costs, row_counts, column_counts)
    found = np.empty((len(costs), rows), np.int64)

    def compute(first: int, last: int) -> None:
        work = work_of(rows, columns)
        assign_batch(costs, rows, columns, row_counts, column_counts, first, last, work, found)

    in_threads(compute, len(costs), costs.size * min(rows, columns) // WORTH)
    sizes = zip(row_counts.tolist(), column_counts.tolist(), strict=True)
    return [_pairs(row, n, n <= m) for row, (n, m) in zip(found, sizes, strict=True)]


def _pairs(columns: np.ndarray, rows: int, all_assigned: bool) -> Pairs:
    chosen = np.arange(rows) if all_assigned else np.flatnonzero(columns >= 0)
    return chosen, columns[:rows] if all_assigned else columns[chosen]


def _refuse_large(
    where: str, costs: np.ndarray, row_counts: np.ndarray, column_counts: np.ndarray
) -> None:
    """Raise for the first cost that counts and is NaN, or too large."""
    row, column = np.arange(costs.shape[1]), np.arange(costs.shape[2])
    inside = (row < row_counts[:, None])[:, :, None] & (column < column_counts[:, None])[:, None]
    bad = np.argwhere(inside & ~(np.abs(costs) <= MOST_COST))
    if len(bad):
        matrix, i, j = bad[0]
        raise ft.ArgumentError(
            f"[{where}] the cost of row {i} and column {j} of matrix {matrix} is "
            f"{costs[matrix, i, j]}: expected finite numbers up to {MOST_COST:g}; give forbidden "
            "pairs a cost that is large beside the others"
        )
