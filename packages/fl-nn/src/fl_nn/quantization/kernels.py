"""Vectors times matrices of 8-bit integers on the host."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor

import fl_tensor as ft
from fl_tensor.kernels import Array, empty
from fl_tensor.threads import get_num_threads

#: Sums of one output that are added at the end, so that products are of vectors.
LANES = 16
#: Inputs that these sums take at a time: each is loaded and stored once for eight products.
GROUP = 8 * LANES
#: Weights that are worth a thread: below, waking it takes longer.
WORTH = 1 << 22


@ft.kernel
def rows_times_int8(
    x: Array[ft.float32],
    weight: Array[ft.int8],
    scale: Array[ft.float32],
    first: int,
    last: int,
    sums: Array[ft.float64],
    y: Array[ft.float32],
) -> None:
    """Columns `first` to `last` of y (rows, outputs) become those of `x @ weight^T * scale`.
    x (rows, inputs), weight (outputs, inputs). Sums are of doubles, in fixed order; `sums` has
    `LANES` elements."""
    outputs = len(scale)
    inputs = len(weight) // outputs
    rows = len(x) // inputs
    whole = inputs // GROUP * GROUP
    for j in range(first, last):
        for row in range(rows):
            for lane in range(LANES):
                sums[lane] = 0.0
            for k in range(0, whole, GROUP):
                for lane in range(LANES):
                    a = row * inputs + k + lane
                    b = j * inputs + k + lane
                    sums[lane] += (
                        x[a] * weight[b]
                        + x[a + LANES] * weight[b + LANES]
                        + x[a + 2 * LANES] * weight[b + 2 * LANES]
                        + x[a + 3 * LANES] * weight[b + 3 * LANES]
                    ) + (
                        x[a + 4 * LANES] * weight[b + 4 * LANES]
                        + x[a + 5 * LANES] * weight[b + 5 * LANES]
                        + x[a + 6 * LANES] * weight[b + 6 * LANES]
                        + x[a + 7 * LANES] * weight[b + 7 * LANES]
                    )
            total = 0.0
            for lane in range(LANES):
                total += sums[lane]
            for k in range(whole, inputs):
                total += x[row * inputs + k] * weight[j * inputs + k]
            y[row * outputs + j] = total * scale[j]


_pool: ThreadPoolExecutor | None = None


def _forget_pool() -> None:
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_forget_pool)


def product_on_host(x: ft.Tensor, weight: ft.Tensor, scale: ft.Tensor) -> ft.Tensor:
    """`x @ weight^T * scale` by the kernel: x (rows, inputs) float32, weight (outputs, inputs)
    int8, scale (outputs,) float32, all on the host."""
    global _pool
    rows, outputs = x.shape[0], scale.shape[0]
    y = empty(rows * outputs, ft.float32)
    parts = max(1, min(get_num_threads(), weight.size // WORTH))
    bounds = [outputs * part // parts for part in range(parts + 1)]

    def compute(part: int) -> None:
        sums = empty(LANES, ft.float64)
        rows_times_int8(x, weight, scale, bounds[part], bounds[part + 1], sums, y)

    others: list[Future[None]] = []
    if parts > 1:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(get_num_threads() - 1, 1), "fl_nn.int8")
        others = [_pool.submit(compute, part) for part in range(1, parts)]
    compute(0)
    for other in others:
        other.result()
    return ft.asarray(y, None, x.device, x.backend, copy=False).reshape((rows, outputs))
