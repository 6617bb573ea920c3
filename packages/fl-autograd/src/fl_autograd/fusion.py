"""Pre-fused gradients: one node in place of two, for operations that often follow one another."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from fl_autograd.errors import GradError
from fl_autograd.mode import Recorder
from fl_autograd.node import Node
from fl_autograd.rules import RULES
from fl_autograd.rules.table import Rule, Vjp
from fl_autograd.variable import Variable


class _FusionPlan(NamedTuple):
    """How the nodes of two rules become one."""

    rule: Rule
    #: Of what is kept: 0 the first node, 1 the second, 2 the result; and the position there.
    sources: list[tuple[int, int]]


class fuse(Recorder):
    """``with fuse("sigmoid", "log", x=...):`` where the result of ``first`` is the operand ``at``
    of ``then`` (default: its first one), record one node with this gradient for both.

        def slope(ops, g, out):  # of log(sigmoid(x)): 1 - sigmoid(x)
            return ops.multiply(g, ops.subtract(ops.constant(1.0, out), ops.exp(out)))

        with fuse("sigmoid", "log", x=slope):
            ...

    The operands of the node are those of ``first`` under their names and the others of ``then``
    as ``then_NAME``: one function for each, as in the table of rules. The functions may ask for
    ``out``, the result of both; for what the rule of ``first`` keeps, under its name (its result:
    ``first_out``); and for what the rule of ``then`` keeps, as ``then_NAME``.

    Values are computed as before. The value in between has no place in the graph any more: what
    else it is used for gets its gradient through its own node, but ``grad`` with respect to it does
    not see the pair; one with a hook is left alone. Raises GradError for operations without rules
    and functions that ask for what is not kept.
    """

    def __init__(self, first: str, then: str, at: str | None = None, **vjps: Vjp) -> None:
        for name in (first, then):
            if name not in RULES:
                raise GradError(f"[fuse] {name!r} has no gradient rule: it makes no node")
        self.first, self.then = first, then
        operands = RULES[then].operands
        self.at = operands[0] if at is None else at
        if self.at not in operands:
            raise GradError(f"[fuse] {then!r} has no operand {at!r}: {', '.join(operands)}")
        wanted = [*RULES[first].operands, *(f"then_{n}" for n in operands if n != self.at)]
        if sorted(wanted) != sorted(vjps):
            raise GradError(f"[fuse] expected functions for {', '.join(wanted)}, got {list(vjps)}")
        self.vjps = {name: vjps[name] for name in wanted}
        self._plans: dict[tuple[Rule, Rule], _FusionPlan] = {}

    def recorded(self, node: Node, result: Variable) -> Node:
        rule = node.rule
        if rule is None or rule.name != self.then or node.ins is None:
            return node
        place = rule.operands.index(self.at)
        before = node.ins[place]
        if (
            before is None
            or before.rule is None
            or before.rule.name != self.first
            or before.ins is None
            or before.hooks is not None
            or node.saved.__class__ is not tuple
            or before.saved.__class__ is not tuple
        ):
            return node
        plan = self._plans.get((before.rule, rule))
        if plan is None:
            plan = self._plans[before.rule, rule] = self._make_plan(before.rule, rule)
        kept = (before.saved, node.saved, (result._adapter,))
        node.rule = plan.rule
        node.saved = tuple([kept[which][i] for which, i in plan.sources])
        node.ins = (*before.ins, *node.ins[:place], *node.ins[place + 1 :])
        return node

    def _make_plan(self, first: Rule, then: Rule) -> _FusionPlan:
        operands = tuple(self.vjps)
        made = Rule(f"{self.first}+{self.then}", dict(self.vjps))
        known = {"out": (2, 0)}
        known |= {f"then_{name}": (1, i) for i, name in enumerate(then.names)}
        known |= {
            "first_out" if name == "out" else name: (0, i) for i, name in enumerate(first.names)
        }
        arrays = {(0, i) for i, _ in first.lifts} | {(1, i) for i, _ in then.lifts} | {(2, 0)}
        names: list[str] = []
        calls: list[tuple[Vjp, list[int]]] = []
        for vjp in self.vjps.values():
            picks = []
            for name in list(inspect.signature(vjp).parameters)[2:]:
                if name not in known:
                    raise GradError(
                        f"[fuse] {made.name}: a gradient asks for {name!r}; kept are "
                        f"{', '.join(known)}"
                    )
                if name not in names:
                    names.append(name)
                picks.append(names.index(name))
            calls.append((vjp, picks))
        made.names = tuple(names)
        made.lifts = tuple(
            (i, _number(name, operands, then))
            for i, name in enumerate(names)
            if known[name] in arrays
        )
        made.backward = _backward(calls)
        return _FusionPlan(made, [known[name] for name in names])


def _number(name: str, operands: tuple[str, ...], then: Rule) -> int:
    # As in Rule.lifts: the number of the operand, -1 for the result, -2 for what is neither.
    if name in ("out", "then_out"):
        return -1
    return operands.index(name) if name in operands else -2


def _backward(calls: list[tuple[Vjp, list[int]]]) -> Callable[..., tuple[Any, ...]]:
    def backward(ops: Any, g: Any, saved: Any, ins: Any) -> tuple[Any, ...]:
        return tuple(
            [
                None if n is None else vjp(ops, g, *[saved[i] for i in picks])
                for n, (vjp, picks) in zip(ins, calls)
            ]
        )

    return backward
