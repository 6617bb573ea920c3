"""Rules of scatter by the largest and the smallest."""

from __future__ import annotations

from typing import Any

from fl_autograd.rules.table import rule


def _extreme(
    ops: Any,
    g: Any,
    needs: tuple[bool, ...],
    out: Any,
    x: Any,
    indices: Any,
    updates: Any,
    axis: int,
) -> tuple[Any, ...]:
    # Equal parts to all that reach the extremum, as of ``max``.
    stayed = ops.equal(x, out)
    written = ops.equal(updates, ops.gather(out, indices, axis))
    count = ops.scatter(ops.cast(stayed, g.dtype), indices, ops.cast(written, g.dtype), axis, "add")
    share, zero = ops.divide(g, count), ops.constant(0.0, g)
    to_x = ops.where(stayed, share, zero) if needs[0] else None
    if not needs[1]:
        return to_x, None
    return to_x, ops.where(written, ops.gather(share, indices, axis), zero)


rule("scatter_max", joint=_extreme, operands=("x", "updates"))
rule("scatter_min", joint=_extreme, operands=("x", "updates"))
