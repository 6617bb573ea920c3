"""Plans as Graphviz text: a box for each step, or a cluster of its operations.

A value that one kernel writes for another is a dashed line. Its tooltip says why the two are not
fused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fl_jit.reports import describe
from fl_tensor.graph import Value, text
from fl_tensor.graph.dot import HEADER, quoted

if TYPE_CHECKING:
    from fl_jit.planning.plan import Plan, Step

#: A function of the number of a step. It gives additional text, and the time relative to the
#: slowest step, from 0 to 1.
Remark = Callable[[int], tuple[str, float]]


def dot(plans: Sequence[Plan], remarks: Sequence[Remark], operations: bool) -> str:
    """The plans side by side. With ``operations``, steps show their operations."""
    lines = list(HEADER)
    for number, (plan, remark) in enumerate(zip(plans, remarks, strict=True)):
        lines += _Drawing(plan, remark, operations, f"p{number}").lines
    return "\n".join([*lines, "}", ""])


class _Drawing:
    """The lines of one plan. Names of its boxes begin with ``prefix``."""

    def __init__(self, plan: Plan, remark: Remark, operations: bool, prefix: str) -> None:
        self.plan, self.remark, self.prefix = plan, remark, prefix
        self.lines: list[str] = []
        #: The name of the box that computes a value.
        self.source: dict[Value, str] = {}
        used = {plan.layouts[v].root for step in plan.steps for n in step.nodes for v in n.operands}
        for value in [*plan.graph.inputs, *(c.value for c in plan.graph.constants)]:
            if value in used:
                name = self.source[value] = f"{prefix}v{value.id}"
                self._box(name, f"{value.type}", "shape=ellipse")
        for number, step in enumerate(plan.steps):
            (self._cluster if operations else self._step)(number, step)
        for i, value in enumerate(plan.results):
            if plan.layouts[value].root in self.source:
                self._box(f"{prefix}o{i}", f"result {value.type}", "shape=ellipse")
                self._edge(value, f"{prefix}o{i}")

    def _box(self, name: str, label: str, style: str) -> None:
        self.lines.append(f"    {name} [label={quoted(label)}, {style}]")

    def _edge(self, value: Value, target: str) -> None:
        source = self.source.get(self.plan.layouts[value].root, target)
        why = self.plan.fusion.unfused.get(self.plan.layouts[value].root)
        style = f", tooltip={quoted(why)}, style=dashed" if why else ""
        line = f"    {source} -> {target} [label={quoted(value.type)}{style}]"
        if source != target and line not in self.lines[-32:]:  # read twice by one step
            self.lines.append(line)

    def _about(self, number: int, step: Step) -> tuple[str, str]:
        facts = describe.of_step(step, self.plan)
        remark, heat = self.remark(number)
        label = [f"{facts.kind} {facts.shape}"]
        label.append(f"{facts.bytes / 1e6:.2f} MB, {facts.flops / 1e6:.2f} MFLOP")
        return "\n".join([*label, remark] if remark else label), f'fillcolor="0.0 {heat:.3f} 1.0"'

    def _step(self, number: int, step: Step) -> None:
        about, colour = self._about(number, step)
        name = f"{self.prefix}s{number}"
        self._box(name, f"{describe.work(step.nodes)}\n{about}", f"style=filled, {colour}")
        for node in step.nodes:
            self.source.update(dict.fromkeys(node.outputs, name))
        for node in step.nodes:
            for value in node.operands:
                self._edge(value, name)

    def _cluster(self, number: int, step: Step) -> None:
        about, colour = self._about(number, step)
        name = f"{self.prefix}s{number}"
        self.lines.append(f"    subgraph cluster_{name} {{")
        self.lines.append(f"    label={quoted(about)}; style=filled; {colour}")
        for i, node in enumerate(step.nodes):
            label = "\n".join([node.op, *text.parameters(node)])
            self._box(f"{name}n{i}", label, "style=filled, fillcolor=white")
            self.source.update(dict.fromkeys(node.outputs, f"{name}n{i}"))
        self.lines.append("    }")
        for i, node in enumerate(step.nodes):
            for value in node.operands:
                self._edge(value, f"{name}n{i}")
