"""Cost model of fusion: the savings and the losses of running operations together, in bytes.

A pass over memory that is left out saves the bytes that are not written and not read again, and the
launch of a kernel. Losses have the same unit: the bytes that could have been moved in that time. An
addition or an ``exp`` can so be compared with a load.

* **Short rows.** With a reduction over rows, the whole group is computed row by row. A row that
  does not fill its last vector wastes the rest of it.
* **Few rows.** A row is the work of one thread. Elements without rows are divided among all.
* **Many arrays.** Hardware prefetchers follow few streams. Measured bandwidth: 30 GB/s for two
  arrays, 20 for 16 to 40, 11 for 96.
* **Rematerialization** (``rematerialization.py``) of values that would have been written.

Values in excess of the registers cost nothing. Measured, an operation on float32 takes 0.02 ns with
4 of them, 0.05 with 32, 0.06 with 96: there is no step.

Constants are those of one thread of an AMD EPYC (Zen 4). ``codegen.grid`` counts nanoseconds by the
same ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import prod
from typing import NamedTuple

from fl_jit.passes.reduction_forms import REDUCTIONS
from fl_tensor.graph import Node, Value, cost
from fl_tensor.graph.strides import Shape

#: Cost of a kernel launch: about 5 microseconds.
LAUNCH = 100_000
#: Cost of an operation for each element if it waits for nothing else. Operations not listed cost 1.
ARITHMETIC = {"random_bits": 30.0, "reshape": 0.0} | dict.fromkeys(
    "exp expm1 log log1p sin cos tanh erf sigmoid power atan2 floor_divide remainder".split(), 8.0
)
#: The part of the cost of operations not listed that remains while operands come from memory.
HIDDEN = 0.25
#: Bytes of a vector.
VECTOR = 64
#: Rows that keep all threads busy. A constant, as results may not depend on the number of threads.
ROWS = 8
#: This many arrays are read and written at full speed. Each additional one takes this part of the
#: time more. Arrays of fewer bytes come from caches.
ARRAYS, SLOWER, LARGE = 8, 1 / 32, 1 << 18

#: A value of fewer bytes is still in the cache of a core when it is read. It moves so many times
#: faster, and hides no arithmetic.
CACHED, FASTER = 1 << 20, 4


#: The reasons of ``losses``.
_REASONS = "rows are short", "there are few rows", "it reads many arrays"


class Verdict(NamedTuple):
    """Bytes saved, and lost, by running something together, and the main reason of the loss."""

    saved: float
    lost: float = 0.0
    by: str = ""

    @property
    def pays(self) -> bool:
        """Whether more is saved than lost."""
        return self.saved > self.lost

    def __str__(self) -> str:
        text = f"saves {self.saved / 1e6:.2f} MB"
        return f"{text}, costs {self.lost / 1e6:.2f} MB ({self.by})" if self.lost else text


def arithmetic(nodes: Iterable[Node], hidden: float = 1.0) -> float:
    """The arithmetic cost of elementwise nodes. ``hidden`` is the part of the cost of cheap
    operations that takes time."""
    return sum(
        ARITHMETIC.get(node.op, hidden) * prod(node.outputs[0].shape)
        for node in nodes
        if node.op not in REDUCTIONS
    )


def losses(
    first: Collection[Value],
    second: Collection[Value],
    joining: Collection[Node],
    space: Shape,
    row_axes: int,
    has_row_results: bool,
) -> dict[str, float]:
    """The losses if readers of ``first`` and readers of ``second`` run together over ``space``.

    ``joining``: nodes that would not run row by row otherwise. ``has_row_results``: a result is
    known only after a whole row was read.
    """
    short_rows = few_rows = many_arrays = 0.0
    if joining and row_axes:
        work = arithmetic(joining)
        length = prod(space[len(space) - row_axes :])
        lanes = VECTOR // max(v.dtype.itemsize for node in joining for v in node.outputs)
        short_rows = work * (-(-length // lanes) * lanes / max(length, 1) - 1)
        if has_row_results:
            few_rows = work * max(1 - prod(space[: len(space) - row_axes]) / ROWS, 0)
    if len(first) + len(second) > ARRAYS:
        many_arrays = max(_slower({*first, *second}) - _slower(first) - _slower(second), 0)
    return dict(zip(_REASONS, (short_rows, few_rows, many_arrays)))


def together(shared: Iterable[Value], lost: Mapping[str, float]) -> Verdict:
    """The verdict on running two groups together. ``shared``: values that one of them reads, and
    the other reads or computes."""
    saved = LAUNCH + sum(map(cost.size, shared))
    return Verdict(saved, sum(lost.values()), max(lost, key=lambda by: lost[by]))


def recomputed(
    value: Value,
    nodes: Mapping[Node, int],
    read: float,
    written: Iterable[Value],
    lost: Collection[Mapping[str, float]],
) -> Verdict:
    """The verdict on rematerializing ``value``: readers compute it by ``nodes``, instead of reading
    it.

    ``nodes`` has the number of additional runs of each node. Readers ``read`` so many bytes for it
    in all. ``lost`` are the losses of each reader. ``written``: values that must be written for it.
    """
    saved: float = cost.size(value) * (1 + len(lost))
    added = read + sum(map(cost.size, written))
    hidden = HIDDEN
    if cost.size(value) < CACHED:
        saved, added, hidden = saved / FASTER, added / FASTER, 1.0
    added += sum(times * arithmetic([node], hidden) for node, times in nodes.items())
    slower = sum(sum(each.values()) for each in lost)
    reason = "its rows, or arrays" if slower > added else "computing"
    return Verdict(saved, added + slower, reason)


def _slower(values: Iterable[Value]) -> float:
    # The additional cost of reading many arrays at once.
    sizes = [size for size in map(cost.size, values) if size >= LARGE]
    return max(len(sizes) - ARRAYS, 0) * SLOWER * sum(sizes)
