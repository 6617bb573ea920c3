"""Vectors times matrices of 8-bit integers on the host."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor

import fl_tensor as ft
from fl_tensor.kernels import Array, empty
from fl_tensor.threads import get_num_threads

#: Outputs whose sums stay in the first-level cache while the rows of the weight pass.
BLOCK = 1024
#: Weights that are worth a thread: below, waking it takes longer.
WORTH = 1 << 22


@ft.kernel
def vector_times_int8(
    x: Array[ft.float32],
    weight: Array[ft.int8],
    scale: Array[ft.float32],
    row: int,
    first: int,
    last: int,
    sums: Array[ft.float64],
    y: Array[ft.float32],
) -> None:
    """Row `row` of y (rows, outputs) becomes that of `x @ weight * scale`, in columns `first` to
    `last`. x (rows, inputs), weight (inputs, outputs). Sums are of doubles, in fixed order."""
    outputs = len(scale)
    inputs = len(weight) // outputs
    groups = inputs // 8 * 8
    at = row * inputs
    for start in range(first, last, BLOCK):
        stop = min(start + BLOCK, last)
        for j in range(start, stop):
            sums[j] = 0.0
        # Eight rows of the weight at a time: a sum is loaded and stored once for eight products.
        for k in range(0, groups, 8):
            x0 = x[at + k]
            x1 = x[at + k + 1]
            x2 = x[at + k + 2]
            x3 = x[at + k + 3]
            x4 = x[at + k + 4]
            x5 = x[at + k + 5]
            x6 = x[at + k + 6]
            x7 = x[at + k + 7]
            i = k * outputs
            for j in range(start, stop):
                sums[j] += (
                    x0 * weight[i + j]
                    + x1 * weight[i + outputs + j]
                    + x2 * weight[i + 2 * outputs + j]
                    + x3 * weight[i + 3 * outputs + j]
                ) + (
                    x4 * weight[i + 4 * outputs + j]
                    + x5 * weight[i + 5 * outputs + j]
                    + x6 * weight[i + 6 * outputs + j]
                    + x7 * weight[i + 7 * outputs + j]
                )
        for k in range(groups, inputs):
            x0 = x[at + k]
            i = k * outputs
            for j in range(start, stop):
                sums[j] += x0 * weight[i + j]
        for j in range(start, stop):
            y[row * outputs + j] = sums[j] * scale[j]


_pool: ThreadPoolExecutor | None = None


def _forget_pool() -> None:
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_forget_pool)


def product_on_host(x: ft.Tensor, weight: ft.Tensor, scale: ft.Tensor) -> ft.Tensor:
    """`x @ weight * scale` by the kernel: x (rows, inputs) float32, weight (inputs, outputs) int8,
    scale (outputs,) float32, all on the host."""
    global _pool
    rows, outputs = x.shape[0], scale.shape[0]
    y, sums = empty(rows * outputs, ft.float32), empty(outputs, ft.float64)
    parts = max(1, min(get_num_threads(), weight.size // WORTH))
    bounds = [outputs * part // parts for part in range(parts + 1)]

    def compute(part: int) -> None:
        for row in range(rows):
            vector_times_int8(x, weight, scale, row, bounds[part], bounds[part + 1], sums, y)

    others: list[Future[None]] = []
    if parts > 1:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(get_num_threads() - 1, 1), "fl_nn.int8")
        others = [_pool.submit(compute, part) for part in range(1, parts)]
    compute(0)
    for other in others:
        other.result()
    return ft.asarray(y, None, x.device, x.backend, copy=False).reshape((rows, outputs))
