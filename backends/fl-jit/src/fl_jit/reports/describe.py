"""Descriptions of the steps of a plan, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from fl_jit.passes import profitability
from fl_tensor.extend import render_table
from fl_tensor.graph import Node, Value, cost

if TYPE_CHECKING:
    from fl_jit.planning.plan import Plan, Step

#: Number of kinds of operation of a group that are named.
_NAMED = 6


class Facts(NamedTuple):
    """A step, or a call without a plan, whose time may vary.

    kind    who computes: ``kernel`` (generated), ``numpy``, the name of a kernel library; ``call``
            without a plan; ``contraction`` before it is known whether a kernel library does
    work    the operations
    shape   of the operands of a contraction, else of the largest operand or result
    bytes   that it must move at least
    flops   as ``graph.cost`` counts them
    """

    kind: str
    work: str
    shape: str
    bytes: int
    flops: int


def of_step(step: Step, plan: Plan) -> Facts:
    """The facts of a step of ``plan`` before it runs."""
    total = cost.of_group(step.nodes, plan.layouts, plan.live_outs)
    return Facts(step.kind, work(step.nodes), shape(step.nodes), total.bytes, total.flops)


def of_run(step: Step, plan: Plan, library: str | None) -> Facts:
    """The facts of a step that ran, by a kernel of ``library`` if there was one."""
    facts = of_step(step, plan)
    kind = "numpy" if facts.kind == "contraction" else facts.kind
    return facts._replace(kind=library or kind)


def of_node(node: Node, kind: str) -> Facts:
    """The facts of a node that runs alone."""
    total = cost.of_group([node])
    return Facts(kind, node.op, shape([node]), total.bytes, total.flops)


def work(nodes: Sequence[Node]) -> str:
    """``subtract exp sum multiply*3``: operations in the order of their first use, with their
    number. Long lists are cut off."""
    counts = Counter(node.op for node in nodes)
    names = [f"{op}*{n}" if n > 1 else op for op, n in counts.items()]
    return " ".join(names[:_NAMED] + ["..."] * (len(names) > _NAMED))


def shape(nodes: Sequence[Node]) -> str:
    """``512x768`` of the largest value, or ``512x768 768x64`` of the operands of a contraction."""
    for node in nodes:
        if cost.contraction(node.op, [v.shape for v in node.operands], 1):
            return " ".join(_times(v) for v in node.operands[:2])
    values = [v for node in nodes for v in (*node.operands, *node.outputs)]
    return _times(max(values, key=cost.size))


def _times(value: Value) -> str:
    return "x".join(map(str, value.shape)) or "1"


def listing(plan: Plan) -> str:
    """A line for each step in execution order, and the prepacked weights."""
    rows = []
    for number, step in enumerate(plan.steps):
        kind, what, shapes, nbytes, flops = of_step(step, plan)
        rows.append((str(number), kind, nbytes, flops, shapes, what))
    text = render_table(("step", "kind", "bytes", "flops", "shape", "operations"), rows)
    if plan.prepack_steps:
        text += (
            f"\nprepacked from run {profitability.RUNS_UNTIL_PREPACKED} with the same values on:"
        )
    for value, prepack in plan.prepack_steps.items():
        transposed = ", transposed" * prepack.transposed
        text += f"\n  {value} {_times(value)}{transposed}: {prepack.layout.nbytes:,} bytes"
    return text
