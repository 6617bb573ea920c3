"""``detect_anomaly``: find the forward operation behind a NaN in the gradients."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_autograd.errors import AnomalyError
from fl_autograd.mode import Recorder, no_grad
from fl_autograd.node import Node
from fl_autograd.rows import RowGradient
from fl_autograd.variable import Variable
from fl_tensor.wrappers import caller


class detect_anomaly(Recorder):
    """``with detect_anomaly():`` around a forward pass: AnomalyError as soon as a backward pass
    through what the block recorded gives a NaN. The message names the operation and its operand,
    the user's line, and whether the NaN was there in the forward pass already (then the operation
    and the line where it first was). The backward pass may run inside the block or after it.

    Results and gradients are read at once: for the search, not for every day. ``ft.check()`` looks
    at every operation instead, in both passes.
    """

    def __init__(self) -> None:
        #: The first operation of the block whose result had a NaN, and its line.
        self.first = ""

    def recorded(self, node: Node, result: Variable) -> Node:
        place = _place(node.name)
        if not self.first and _has_nan(result):
            self.first = place
        node.register_hook(_Watch(node, place, result.dtype, self))
        return node


class _Watch:
    """A hook that knows where its node was recorded (and does not know the node)."""

    def __init__(self, node: Node, place: str, dtype: Any, block: detect_anomaly) -> None:
        rule = node.rule
        self.operands = rule.operands if rule is not None else ()
        self.place = place
        self.about = f"{dtype}{node.shape}"
        self.block = block

    def __call__(self, operands: tuple[Variable | None, ...], g: Variable) -> None:
        for i, found in enumerate(operands):
            if found is None or not _has_nan(found):
                continue
            name = self.operands[i] if i < len(self.operands) else f"number {i}"
            lines = [f"{self.place}: the gradient of operand {name!r} {found.shape} has a NaN"]
            lines.append(f"its result was {self.about}")
            if _has_nan(g):
                lines.append("the gradient that came to it had one already")
            if self.block.first:
                lines.append(f"the forward pass had the first NaN in {self.block.first}")
            raise AnomalyError("; ".join(lines))


def _place(name: str) -> str:
    line = caller.line()
    return f"[{name}] of {line}" if line else f"[{name}]"


def _has_nan(x: Variable) -> bool:
    if isinstance(x, RowGradient):
        x = x.values
    with no_grad():
        return bool(ft.any(ft.isnan(x)))
