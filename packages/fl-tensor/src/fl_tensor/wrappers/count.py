"""``ft.count``: number of calls, elements, bytes and FLOPs per operation."""

from __future__ import annotations

import math
import threading
from typing import Any

from fl_memory.forks import free_after_fork
from fl_tensor.dispatch import calls
from fl_tensor.dispatch.stack import Operation, Wrapper
from fl_tensor.graph import cost
from fl_tensor.wrappers import table


class Tally:
    """Totals for one operation.

    calls     how often it was called
    composed  how many of these calls were compositions. The operations inside are counted under
              their own names, and so are their elements, bytes and flops
    elements  elements of the results
    bytes     bytes of operands and results: the least memory traffic
    flops     floating-point operations of matmul, linear, conv and its gradients, else 0
    """

    __slots__ = ("bytes", "calls", "composed", "elements", "flops")

    def __init__(self) -> None:
        self.calls = self.composed = self.elements = self.bytes = self.flops = 0

    def __repr__(self) -> str:
        return f"Tally({', '.join(f'{name}={getattr(self, name)}' for name in self.__slots__)})"


class count(Wrapper):
    """``with ft.count() as counts:`` counts the operations of the block, backward and optimizers
    included.

        counts["add"]       calls of add
        counts.total        calls that reached a backend: compositions count as their pieces
        counts.elements     elements of all results; also counts.bytes and counts.flops
        counts.tallies      a Tally per name
        print(counts)       a table

    FLOPs: ``2 * batch * m * k * n`` for matmul (..., m, k) by (..., k, n), ``2 * rows * in * out``
    for linear, ``2 * elements of the result * channels / groups * kernel size`` for conv, zeros of
    padding and dilation included; a gradient of conv that the backend computes itself counts as
    that conv. Other operations count as 0 FLOPs.
    """

    watches = True

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = {}
        self._lock = free_after_fork(threading.Lock())

    def call(self, operation: Operation, /, *arguments: Any, **options: Any) -> Any:
        result = operation.run(*arguments, **options)
        elements = nbytes = flops = 0
        if not operation.composed:
            for x in calls.adapters((result,)):
                size = math.prod(x.shape)
                elements += size
                nbytes += size * x.dtype.itemsize
            given = calls.adapters((*arguments, *options.values()) if options else arguments)
            # The array beside a number says only of which dtype and where the number is to be.
            for x in given if operation.name != "constant" else ():
                nbytes += math.prod(x.shape) * x.dtype.itemsize
            flops = cost.contraction(operation.name, [x.shape for x in given], elements)
        with self._lock:
            tally = self.tallies.get(operation.name)
            if tally is None:
                tally = self.tallies[operation.name] = Tally()
            tally.calls += 1
            tally.composed += operation.composed
            tally.elements += elements
            tally.bytes += nbytes
            tally.flops += flops
        return result

    def __getitem__(self, name: str) -> int:
        tally = self.tallies.get(name)
        return 0 if tally is None else tally.calls

    @property
    def total(self) -> int:
        """Calls that reached a backend."""
        return sum(t.calls - t.composed for t in self.tallies.values())

    @property
    def elements(self) -> int:
        return sum(t.elements for t in self.tallies.values())

    @property
    def bytes(self) -> int:
        return sum(t.bytes for t in self.tallies.values())

    @property
    def flops(self) -> int:
        return sum(t.flops for t in self.tallies.values())

    def __str__(self) -> str:
        head = ("operation", "calls", "elements", "bytes", "flops")
        order = sorted(self.tallies.items(), key=lambda item: (-item[1].calls, item[0]))
        rows: list[tuple[object, ...]] = [
            (name, t.calls, t.elements, t.bytes, t.flops)
            for name, t in order
            if t.calls > t.composed
        ]
        rows.append(("total", self.total, self.elements, self.bytes, self.flops))
        rows += [(f"({name})", t.composed, "", "", "") for name, t in order if t.composed]
        note = "\n(name): calls that ran as compositions of the operations above"
        return table.render(head, rows) + (note if rows[-1][0] != "total" else "")
