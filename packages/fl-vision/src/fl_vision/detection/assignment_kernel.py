"""Kernels of the linear sum assignment by shortest augmenting paths."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

import fl_tensor as ft
from fl_tensor.kernels import Array

#: Rows that one row may free in turn before paths find their columns.
ROUNDS = 50


class Work(NamedTuple):
    """Memory of a search: prices of rows and columns, and the tree of the present path."""

    row_price: Array[ft.float64]
    column_price: Array[ft.float64]
    distance: Array[ft.float64]
    parent: Array[ft.int64]
    column_of: Array[ft.int64]
    row_of: Array[ft.int64]
    remaining: Array[ft.int64]
    reached: Array[ft.int8]
    copy: Array[ft.float64]


def work_of(rows: int, columns: int) -> Work:
    """Memory for matrices of at most so many rows and columns."""
    size = max(rows, columns)
    row_price, column_price, distance = (np.empty(size) for _ in range(3))
    parent, column_of, row_of, remaining = (np.empty(size, np.int64) for _ in range(4))
    reached, copy = np.empty(size, np.int8), np.empty(rows * columns)
    return Work(
        row_price, column_price, distance, parent, column_of, row_of, remaining, reached, copy
    )


@ft.kernel
def reduce_rows(cost: Array[ft.float64], at: int, rows: int, columns: int, work: Work) -> None:
    """Gives rows their cheapest columns and lowers the price of a column to that of the second
    cheapest, which may free the row that had it: augmenting row reduction of Jonker and Volgenant.

    Only assigned columns get prices, so that it holds for more columns than rows.
    """
    for first in range(rows):
        i = first
        # A row that is freed goes on at once. Rounding could make chains long, so they end.
        for _ in range(ROUNDS):
            low = math.inf
            second = math.inf
            j = 0
            k = 0
            offset = at + i * columns
            for c in range(columns):
                value = cost[offset + c] - work.column_price[c]
                if value < second:
                    if value < low:
                        second = low
                        k = j
                        low = value
                        j = c
                    else:
                        second = value
                        k = c
            if low == second and work.row_of[j] >= 0:
                j = k
            before = work.row_of[j]
            if low == second and before >= 0:
                break  # no price would tell the rows apart: a path finds a column
            if second < math.inf:  # with one column there is no second
                work.column_price[j] -= second - low
            work.row_of[j] = i
            work.column_of[i] = j
            if before < 0:
                break
            work.column_of[before] = -1
            i = before


@ft.kernel
def augment(cost: Array[ft.float64], at: int, columns: int, root: int, work: Work) -> None:
    """Assigns one more row, ``root``, along the shortest path of reduced costs to a free column."""
    for j in range(columns):
        work.distance[j] = math.inf
        work.remaining[j] = j
        work.reached[j] = 0
    left = columns
    i = root
    length = 0.0
    sink = -1
    while sink < 0:
        offset = at + i * columns
        base = length - work.row_price[i]
        nearest = math.inf
        place = -1
        for k in range(left):
            j = work.remaining[k]
            d = work.distance[j]
            through = base + cost[offset + j] - work.column_price[j]
            if through < d:
                d = through
                work.distance[j] = d
                work.parent[j] = i
            # Of equal columns a free one ends the path.
            if d < nearest or (d == nearest and work.row_of[j] < 0):
                nearest = d
                place = k
        length = nearest
        j = work.remaining[place]
        work.reached[j] = 1
        left -= 1
        work.remaining[place] = work.remaining[left]
        if work.row_of[j] < 0:
            sink = j
        else:
            i = work.row_of[j]
    # Prices that keep reduced costs at 0 on assigned pairs, and at least 0 elsewhere.
    work.row_price[root] += length
    for j in range(columns):
        if work.reached[j]:
            slack = length - work.distance[j]
            work.column_price[j] -= slack
            if work.row_of[j] >= 0:
                work.row_price[work.row_of[j]] += slack
    # Along the path every row takes the column that led to it.
    j = sink
    while True:
        i = work.parent[j]
        before = work.column_of[i]
        work.row_of[j] = i
        work.column_of[i] = j
        if i == root:
            break
        j = before


@ft.kernel
def assign(cost: Array[ft.float64], at: int, rows: int, columns: int, work: Work) -> None:
    """Writes the column of each row to ``work.column_of``; there are no more rows than columns.

    Crouse, "On implementing 2D rectangular assignment algorithms", 2016, after Jonker and
    Volgenant, 1987. Costs are finite, and so small that their sums are.
    """
    for i in range(rows):
        work.column_of[i] = -1
    for j in range(columns):
        work.column_price[j] = 0.0
        work.row_of[j] = -1
    reduce_rows(cost, at, rows, columns, work)
    for i in range(rows):
        work.row_price[i] = 0.0
        j = work.column_of[i]
        if j >= 0:
            work.row_price[i] = cost[at + i * columns + j] - work.column_price[j]
    for root in range(rows):
        if work.column_of[root] < 0:
            augment(cost, at, columns, root, work)


@ft.kernel
def assign_batch(
    cost: Array[ft.float64],
    rows: int,
    columns: int,
    row_counts: Array[ft.int64],
    column_counts: Array[ft.int64],
    first: int,
    last: int,
    work: Work,
    found: Array[ft.int64],
) -> None:
    """Writes the column of each row, or -1, of matrices ``first`` to ``last``, (B, rows); of each
    the leading ``row_counts`` times ``column_counts`` are read."""
    for b in range(first, last):
        n = row_counts[b]
        m = column_counts[b]
        at = b * rows * columns
        for i in range(rows):
            found[b * rows + i] = -1
        if n <= m:
            if m < columns:
                for i in range(n):
                    for j in range(m):
                        work.copy[i * m + j] = cost[at + i * columns + j]
                assign(work.copy, 0, n, m, work)
            else:
                assign(cost, at, n, m, work)
            for i in range(n):
                found[b * rows + i] = work.column_of[i]
        else:
            for i in range(n):
                for j in range(m):
                    work.copy[j * n + i] = cost[at + i * columns + j]
            assign(work.copy, 0, m, n, work)
            for j in range(m):
                found[b * rows + work.column_of[j]] = j
