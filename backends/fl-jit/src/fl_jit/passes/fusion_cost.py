"""What it is worth to run operations together: what is saved against what is lost, in bytes.

A pass over memory that is left out saves the bytes of what is not written and not read again, and
the start of a kernel. What it may cost instead is told in the same unit, in bytes that could have
been moved in that time, so that an addition of a number or an ``exp`` can be compared with a load:

* **Short rows.** Where something is reduced over rows, all of a group is computed row by row; a row
  that does not fill its last vector wastes the rest of it.
* **Few rows.** A row is the work of one thread, elements by themselves are that of all.
* **Many arrays.** Processors read ahead of a few places at a time. Measured: of two arrays 30 GB/s,
  of 16 to 40 it is 20, of 96 it is 11.
* **Computing again** (``recompute.py``) what would have been kept.

What is not lost: values at hand beyond the number of registers. Measured, an operation on float32
takes 0.02 ns with 4 of them, 0.05 with 32, 0.06 with 96: there is no step.

Constants are those of one thread of an AMD EPYC (Zen 4); ``codegen.grid`` counts nanoseconds by the
same ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import prod
from typing import NamedTuple

from fl_jit.passes.reduction_forms import REDUCTIONS
from fl_tensor.graph import Node, Value, cost
from fl_tensor.graph.strides import Shape

#: What a kernel takes to start: some 5 microseconds.
LAUNCH = 100_000
#: What an operation takes for each element where nothing else is to wait for; those that are not
#: named take 1.
ARITHMETIC = {"random_bits": 30.0, "reshape": 0.0} | dict.fromkeys(
    "exp expm1 log log1p sin cos tanh erf sigmoid power atan2 floor_divide remainder".split(), 8.0
)
#: What the others take of that where operands come from memory meanwhile.
HIDDEN = 0.25
#: Bytes of a vector.
VECTOR = 64
#: So many rows keep all threads busy, whatever their number: results may not depend on it.
ROWS = 8
#: So many arrays are read and written at full speed, and each one more takes this part of the time
#: again. Those of fewer bytes come from caches.
ARRAYS, SLOWER, LARGE = 8, 1 / 32, 1 << 18

#: A value of fewer bytes is still in the cache of a core when it is read: it moves so many times
#: faster, and no arithmetic is hidden by that.
CACHED, FASTER = 1 << 20, 4


class Verdict(NamedTuple):
    """Bytes that are saved, and lost, by running something together; and by what it is lost."""

    saved: float
    lost: float = 0.0
    by: str = ""

    @property
    def pays(self) -> bool:
        """Whether more is saved."""
        return self.saved > self.lost

    def __str__(self) -> str:
        said = f"saves {self.saved / 1e6:.2f} MB"
        return f"{said}, costs {self.lost / 1e6:.2f} MB ({self.by})" if self.lost else said


def arithmetic(nodes: Iterable[Node], hidden: float = 1.0) -> float:
    """The arithmetic of nodes that compute element by element; ``hidden`` is the part of it that
    takes time of those that take little."""
    return sum(
        ARITHMETIC.get(node.op, hidden) * prod(node.outputs[0].shape)
        for node in nodes
        if node.op not in REDUCTIONS
    )


def losses(
    one: Collection[Value],
    other: Collection[Value],
    joining: Collection[Node],
    space: Shape,
    row_axes: int,
    whole_rows: bool,
) -> dict[str, float]:
    """What is lost where what reads ``one`` runs together with what reads ``other``, over
    ``space``. ``joining``: nodes that would not run row by row otherwise; ``whole_rows``: something
    is known only when all of a row was read."""
    short = few = many = 0.0
    if joining and row_axes:
        work = arithmetic(joining)
        length = prod(space[len(space) - row_axes :])
        lanes = VECTOR // max(v.dtype.itemsize for node in joining for v in node.outputs)
        short = work * (-(-length // lanes) * lanes / max(length, 1) - 1)
        if whole_rows:
            few = work * max(1 - prod(space[: len(space) - row_axes]) / ROWS, 0)
    if len(one) + len(other) > ARRAYS:
        many = max(_slower({*one, *other}) - _slower(one) - _slower(other), 0)
    return {"rows are short": short, "there are few rows": few, "it reads many arrays": many}


def together(shared: Iterable[Value], lost: Mapping[str, float]) -> Verdict:
    """Whether two should run together, where ``shared`` is what one of them reads, and the other
    reads or makes, and so much is ``lost``."""
    saved = LAUNCH + sum(map(cost.size, shared))
    return Verdict(saved, sum(lost.values()), max(lost, key=lambda by: lost[by]))


def computed_again(
    value: Value,
    nodes: Mapping[Node, int],
    read: float,
    written: Iterable[Value],
    lost: Collection[Mapping[str, float]],
) -> Verdict:
    """Whether readers should compute ``value`` by ``nodes``, each so many times more than now,
    instead of reading it. They ``read`` so many bytes for it in all, and lose so much, each of
    them; ``written``: what has to be for that."""
    saved: float = cost.size(value) * (1 + len(lost))
    again = read + sum(map(cost.size, written))
    hidden = HIDDEN
    if cost.size(value) < CACHED:
        saved, again, hidden = saved / FASTER, again / FASTER, 1.0
    again += sum(times * arithmetic([node], hidden) for node, times in nodes.items())
    slower = sum(sum(each.values()) for each in lost)
    return Verdict(saved, again + slower, "its rows, or arrays" if slower > again else "computing")


def _slower(values: Iterable[Value]) -> float:
    # What reading them takes longer than where they are few.
    sizes = [size for size in map(cost.size, values) if size >= LARGE]
    return max(len(sizes) - ARRAYS, 0) * SLOWER * sum(sizes)
