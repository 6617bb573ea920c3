"""The tape: a namespace of operations over variables.

``tape_for(backend)`` computes what ``ops_for(backend)`` computes, so an override is seen by forward
and backward alike, and records a node per operation when an operand needs a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from fl_autograd import compile as compiler
from fl_autograd import control, operators
from fl_autograd.mode import recording
from fl_autograd.rules import NON_DIFFERENTIABLE, RULES
from fl_autograd.variable import Variable, variable
from fl_tensor import DerivedOps, contract, ops_for

#: What else an ``ops`` namespace is asked for: facts about the backend.
_FACTS = frozenset("name dtypes capabilities checks_shapes has_values devices synchronize".split())


class Tape(DerivedOps):
    """Every operation, over Variables of one backend.

    Primitives and derived operations with a rule run on the backend and are recorded as one node;
    other derived operations run as compositions when an operand needs a gradient, and on the
    backend when none does. Methods are made when first used (``fl_autograd.compile``).
    """

    _recast: ClassVar[Any]

    def __init__(self, base: Any) -> None:
        self.base = base

    def __getattr__(self, name: str) -> Any:
        if name in _FACTS:
            return getattr(self.base, name)
        raise AttributeError(f"the tape over {self.base.name!r} has no operation {name!r}")

    def constant(self, value: Any, like: Variable) -> Variable:
        """A 0-d value with the dtype and device of ``like``."""
        return variable(ops_for(self.base).constant(value, like._adapter), self.base, None)

    def scalar(self, value: Any, dtype: Any, device: Any) -> Variable:
        """A 0-d value."""
        return variable(ops_for(self.base).scalar(value, dtype, device), self.base, None)

    def to_host(self, x: Variable, blocking: bool = True) -> memoryview:
        return ops_for(self.base).to_host(x._adapter, blocking)

    def cast(self, x: Variable, dtype: Any) -> Variable:
        """As the contract's; only a floating or complex result can need a gradient."""
        if dtype.is_floating or dtype.kind == "c":
            return self._cast(x, dtype)
        return variable(ops_for(self.base).cast(x._adapter, dtype), self.base, None)

    def sign(self, x: Variable) -> Variable:
        """As the contract's: piecewise constant, but of complex numbers ``x / |x|``."""
        if x.dtype.kind != "c" or x._node is None or not recording():
            return self._sign(x)
        size = self.absolute(x)
        flat = self.equal(size, self.constant(0.0, size))
        size = self.where(flat, self.constant(1.0, size), size)
        return self.where(flat, self.constant(0.0, x), self.divide(x, self.cast(size, x.dtype)))

    def cond(self, predicate: Variable, xs: Any, then: Any, other: Any) -> tuple[Variable, ...]:
        """As a backend's (``rules.control``)."""
        return control.cond(self.base, predicate, xs, then, other)

    def while_loop(
        self, xs: Any, test: Any, body: Any, carries: int, most: int, keep: bool = False
    ) -> tuple[Variable, ...]:
        """As a backend's (``rules.control``)."""
        return control.while_loop(self.base, xs, test, body, carries, most, keep)

    def scan(
        self,
        xs: Any,
        count: Variable | None,
        body: Any,
        carries: int,
        scanned: int,
        steps: int,
        reverse: bool = False,
    ) -> tuple[Variable, ...]:
        """As a backend's (``rules.control``)."""
        return control.scan(self.base, xs, count, body, carries, scanned, steps, reverse)

    def recast(self, x: Variable, dtype: Any, made: Any) -> Variable:
        """``cast(x, dtype)``, floating, whose value ``made``, an adapter, is known: recorded and
        not computed."""
        if x._node is None:
            return variable(made, self.base, None)
        return self._recast(variable(made, self.base, None), x, dtype)

    def scatter(
        self,
        x: Variable,
        indices: Variable,
        updates: Variable,
        axis: int = 0,
        mode: str = "set",
        donate: bool = False,
    ) -> Variable:
        """As the contract's. ``donate`` is not passed on: a node may have kept ``x``."""
        return self._scatter(x, indices, updates, axis, mode)

    def slice_update(
        self, x: Variable, starts: Any, steps: Any, updates: Variable, donate: bool = False
    ) -> Variable:
        """As the contract's. ``donate`` is not passed on: a node may have kept ``x``."""
        return self._slice_update(x, starts, steps, updates)


class _LazyMethod:
    """Stands for an operation's method until the first use, then puts the real one in its place."""

    def __init__(self, name: str, attribute: str, make: Callable[[str], Any]) -> None:
        self.name, self.attribute, self.make = name, attribute, make

    def __get__(self, tape: Tape | None, owner: type[Tape]) -> Any:
        function = self.make(self.name)
        setattr(Tape, self.attribute, function)
        return function if tape is None else function.__get__(tape, owner)


def _specs() -> dict[str, contract.OpSpec]:
    return {op.name: op for op in contract.OPERATIONS}


def _signature(name: str) -> compiler.Signature:
    spec = _specs()[name]
    sequence = next((p.name for p in spec.parameters if contract.is_sequence(p)), None)
    sequence = sequence if sequence in spec.operands else None
    return compiler.Signature(name, spec.parameters, spec.operands, sequence)


def _make_operator(name: str, general: Any, kinds: str, lead: str) -> Any:
    if name not in RULES:
        return general
    getattr(Tape, attribute(name))  # prepares the rule
    return compiler.compile_operator(_signature(name), RULES[name], general, kinds, lead)


def _make(name: str) -> Any:
    spec, op = _specs()[name], _signature(name)
    if name in NON_DIFFERENTIABLE:
        return compiler.compile_untracked(op)
    if name in RULES:
        several = compiler.has_multiple_outputs(RULES[name])
        compiled = compiler.compile_multi_output if several else compiler.compile_rule
        return compiled(op, RULES[name])
    if spec.kind == "derived":
        return compiler.compile_composition(op, getattr(DerivedOps, name))
    return compiler.compile_missing(op)


def _make_recast(name: str) -> Any:
    return compiler.compile_recast(_signature(name), RULES[name])


def attribute(name: str) -> str:
    """Where the tape keeps the recording method of an operation: ``cast``, ``sign`` and those that
    could donate have a method in front of it."""
    return f"_{name}" if name in ("cast", "scatter", "sign", "slice_update") else name


def install(name: str) -> None:
    """(Re)make the tape's method of an operation of the contract, and the operators of variables
    that stand for it, from the table of rules."""
    setattr(Tape, attribute(name), _LazyMethod(name, attribute(name), _make))
    if name == "cast":
        Tape._recast = _LazyMethod(name, "_recast", _make_recast)
    operators.install(name, _make_operator)


for _name in _specs():
    if _name != "to_host":
        install(_name)
