"""The public extension interface: operations, rules, recorders, lifetimes of nodes, tapes.

Provisional: names may change before 1.0. The tutorial is docs/extending-autograd.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from fl_autograd import compile as compiler
from fl_autograd import policy, tape
from fl_autograd.casting import cast_operands
from fl_autograd.codegen import expect_value
from fl_autograd.defnode import defnode
from fl_autograd.dispatch import tape_for
from fl_autograd.errors import GradError
from fl_autograd.fusion import fuse
from fl_autograd.mode import Recorder, recording
from fl_autograd.node import Leaf, Node
from fl_autograd.operation_errors import explain
from fl_autograd.rules import RULES
from fl_autograd.rules.table import Rule, Vjp
from fl_autograd.substitution import preserved, substitute
from fl_autograd.tape import Tape
from fl_autograd.variable import Variable
from fl_tensor import Array
from fl_tensor.array_classes import KINDS, prepare
from fl_tensor.errors import FlError
from fl_tensor.extend import current_stack

__all__ = [
    "Leaf",
    "Node",
    "Recorder",
    "Rule",
    "Tape",
    "defnode",
    "defop",
    "fuse",
    "preserved",
    "prune",
    "recording",
    "register_rule",
    "replace_rule",
    "substitute",
    "using",
]


def _check_operation(op: str) -> None:
    names = tape._specs()
    if op not in names:
        import difflib

        near = difflib.get_close_matches(op, names, 3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise GradError(
            f"there is no operation {op!r} in the tensor contract{hint} (see extend.defop)"
        )


def register_rule(
    op: str, *, joint: Vjp | None = None, operands: Sequence[str] = (), **vjps: Vjp
) -> None:
    """Give an operation of the tensor contract a gradient rule (the form is that of
    ``fl_autograd.rules.table``). GradError for an unknown operation or one that has a rule."""
    _check_operation(op)
    if op in RULES:
        raise GradError(f"[{op}] has a gradient rule already; use replace_rule")
    _install_rule(op, Rule(op, vjps, joint, operands))


class replace_rule:
    """Use another rule for an operation: for good, or with ``with replace_rule(...):`` until the
    block ends. Holds for the process. Graphs recorded before keep the rule that they were recorded
    with."""

    def __init__(
        self, op: str, *, joint: Vjp | None = None, operands: Sequence[str] = (), **vjps: Vjp
    ) -> None:
        _check_operation(op)
        self.op = op
        self._before = RULES.get(op)
        _install_rule(op, Rule(op, vjps, joint, operands))

    def restore(self) -> None:
        """Bring back the rule that was replaced."""
        _install_rule(self.op, self._before)

    def __enter__(self) -> replace_rule:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.restore()


def _install_rule(op: str, rule: Rule | None) -> None:
    before = RULES.get(op)
    if rule is None:
        RULES.pop(op, None)
    else:
        RULES[op] = rule
    tape.install(op)
    try:
        getattr(tape.Tape, tape.attribute(op))  # compile now, so that a wrong rule is reported here
    except GradError:
        if before is None:
            RULES.pop(op, None)
        else:
            RULES[op] = before
        tape.install(op)
        raise


def defop(
    name: str,
    forward: Callable[..., Any],
    *,
    operands: Sequence[str] | None = None,
    roles: str | None = None,
    joint: Vjp | None = None,
    differentiable: Sequence[str] = (),
    casts_like: str | None = None,
    **vjps: Vjp,
) -> Callable[..., Any]:
    """A new operation with its own gradient: a function on Tensors and Variables.

    forward   ``forward(ops, x, ...)`` over adapters, written with operations of ``ops``; ``run`` of
              an ``ft.jit.operation``, too
    operands  names of its array parameters; by default those with a vjp
    roles     a letter for each of them (``fl_tensor.roles``): what it is promoted with. By default
              those of the ``ft.jit.operation``; else all operands that have a gradient are promoted
              to one dtype, numbers with them ("P"), and the others are taken as they are ("A")
    vjps      one function per differentiable operand, as in the table of rules
              (or ``joint`` with ``differentiable`` naming its operands)
    casts_like  the operation whose dtype it takes under ``autocast``, such as ``"matmul"``, unless
              a policy names it itself; None: its operands stay as they are

    >>> half = defop(
    ...     "half",
    ...     lambda ops, x: ops.multiply(x, ops.constant(0.5, x)),
    ...     x=lambda ops, g: ops.multiply(g, ops.constant(0.5, g)),
    ... )
    """
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    arrays = tuple(operands if operands is not None else (vjps or differentiable))
    if unknown := [a for a in arrays if a not in [p.name for p in parameters]]:
        raise GradError(f"[{name}] forward has no parameter {unknown[0]!r}")
    if not arrays:
        raise GradError(f"[{name}] needs at least one array operand")
    policy.register(name, casts_like)
    if roles is None:
        known = dict(zip([p.name for p in parameters], getattr(forward, "roles", "")))
        promoted = known or dict.fromkeys(vjps or differentiable, "P")
        roles = "".join(promoted.get(a, "A") for a in arrays)
    if len(roles) != len(arrays) or not KINDS.keys() >= set(roles):
        raise GradError(f"[{name}] roles {roles!r}: expected a letter for each of {arrays}")
    signature = compiler.Signature(name, parameters, arrays)
    rule = Rule(name, vjps, joint, differentiable, forward)
    record = compiler.compile_rule(signature, rule)
    bind = inspect.Signature(parameters).bind
    # Floating variables alike need no preparing, which takes most of a call on single numbers.
    simple = arrays == tuple(p.name for p in parameters) and all("f" in KINDS[r] for r in roles)

    def operation(*args: Any, **kwargs: Any) -> Any:
        if simple and not kwargs and _are_alike(args, len(arrays)) and current_stack() is None:
            try:
                return record(tape_for(args[0]._backend), *args)
            except (AttributeError, TypeError):
                pass  # the general way words the error
        bound = bind(*args, **kwargs)
        bound.apply_defaults()
        try:
            return compute(dict(bound.arguments))
        except FlError:
            raise
        except (AttributeError, TypeError) as error:
            better = explain(name, error, lambda: compute(dict(bound.arguments)))
            if better is error:
                raise
            raise better from error

    def compute(values: dict[str, Any]) -> Any:
        made = prepare(name, roles, *(values[a] for a in arrays))
        lead = next(x for x in made if isinstance(x, Array))
        if isinstance(lead, Variable):
            values.update(zip(arrays, cast_operands(name, made)))
            return record(tape_for(lead._backend), *values.values())
        values.update((a, x if x is None else x._raw) for a, x in zip(arrays, made))
        found = forward(lead._ops(), *values.values())
        expect_value(name, lead._backend, found)
        return lead._wrap(found)

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = forward.__doc__
    return operation


def _are_alike(args: Sequence[Any], count: int) -> bool:
    """Whether these are ``count`` floating variables of one dtype on one backend."""
    if len(args) != count or args[0].__class__ is not Variable:
        return False
    base, dtype = args[0]._backend, args[0]._adapter.dtype
    for x in args:
        if x.__class__ is not Variable or x._backend is not base or x._adapter.dtype is not dtype:
            return False
    return bool(dtype.is_floating)


def prune(node: Node, *operands: str | int) -> Node | None:
    """For ``Recorder.recorded``: the node without these operands (names, or positions in
    ``node.ins`` where the operand is a sequence), as if they needed no gradient; None when no other
    is left. What led to them alone is freed at once. Raises GradError for what is no operand."""
    if node.ins is None:
        return None
    names = node.rule.operands if node.rule is not None else ()
    ins = list(node.ins)
    for operand in operands:
        position = operand if isinstance(operand, int) else _position(names, operand)
        if not 0 <= position < len(ins):
            raise GradError(f"[{node.name}] has no differentiable operand {operand!r}")
        ins[position] = None
    node.ins = tuple(ins)
    return node if any(source is not None for source in ins) else None


def _position(names: Sequence[str], name: str) -> int:
    return names.index(name) if name in names else -1


class using(Recorder):
    """``with using(MyTape):`` lets another namespace than ``Tape`` compute for variables while they
    are recorded: ``MyTape(backend)``, made once per backend. Derive it from ``Tape`` and write the
    operations that shall be different; compositions are made of them too."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make
        self._made: dict[Any, Any] = {}

    def tape_for(self, base: Any) -> Any:
        """The namespace over a backend."""
        found = self._made.get(base)
        return self._made.setdefault(base, self._make(base)) if found is None else found
