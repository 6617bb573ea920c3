"""Preallocated memory for the intermediate results of a plan, in one block before its first run.

A caching manager would otherwise allocate a buffer for each large result, of its size. Free buffers
fit nothing larger, and remain. Cut from one block, results of all sizes reuse the same addresses. A
training step of VGG16 or BERT then needs 10 to 16 % less memory. Parts of the block that are never
written take no physical memory, since pages are allocated on first use.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from fl_memory import cause, selection
from fl_tensor.graph import Value, cost

if TYPE_CHECKING:
    from fl_jit.planning.plan import Step

#: Plans that need less give no hint.
LEAST = 64 << 20
#: Spare memory beyond the need, as a fraction of it, for fragmentation.
_SPARE = 1 / 32


def needed(steps: Sequence[Step], donated: Collection[Value]) -> int:
    """The peak bytes of the results that a plan holds at once, its own results included.
    ``donated`` are operands whose memory results may reuse."""
    operands, results = set(donated), set[Value]()
    held = peak = 0
    for step in steps:
        dying = (operands | results).intersection(step.dying)
        outputs = {v for node in step.nodes for v in node.outputs}.intersection(step.roots)
        for value in outputs:
            over = next((v for v in dying if _fits(value, v)), None)
            if over is None or value not in step.in_place:
                results.add(value)
                held += cost.size(value)
                continue
            dying.remove(over)
            owners = results if over in results else operands
            owners.remove(over)
            owners.add(value)
        peak = max(peak, held)
        held -= sum(cost.size(v) for v in dying & results)
    return peak


def _fits(result: Value, operand: Value) -> bool:
    return result.shape == operand.shape and result.dtype is operand.dtype


def reserve(nbytes: int) -> None:
    """Tell the current memory manager that this many bytes will be live at once."""
    if nbytes >= LEAST:
        with cause(operation="reserve_hint"):
            selection.current().reserve_hint(int(nbytes * (1 + _SPARE)))
