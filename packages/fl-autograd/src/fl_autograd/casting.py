"""``autocast``: cast the operands of operations by a policy (automatic mixed precision).

Casts happen between the functions of ``fl_tensor`` and the tape. Only operations that a user calls
on variables cast their operands; compositions, gradient rules and the backward pass do not. A cast
is a recorded operation, so a gradient comes back in the dtype of the operand, and overrides see it.

The block is a layer of ``fl_tensor``'s stack that replaces nothing. Fast paths for an empty stack
check for it separately.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from fl_autograd.errors import PolicyError
from fl_autograd.policy import Policy, policy_of, register
from fl_autograd.tape import tape_for
from fl_autograd.variable import Variable, attach_casting
from fl_tensor import dtypes
from fl_tensor.arrays.array import Array
from fl_tensor.dispatch.stack import Layer, active, current
from fl_tensor.dtypes import DType
from fl_tensor.errors import DTypeError

F = TypeVar("F", bound=Callable[..., Any])

#: What is cast: wider numbers are there on purpose.
_CAST = frozenset({*dtypes.HALF, dtypes.float32})


class autocast(Layer):
    """``with autocast("O1"):`` operations on variables compute in the dtypes of a policy.

    precision   a Policy, or its level: "O1", "O2", "O3", or "DEFAULT", which casts nothing and so
                ends the casts of a block around it
    compute     "float16" or "bfloat16", in place of the policy's

        with autocast("O1", compute="bfloat16"):
            loss = nn.cross_entropy(model(x), y)
        loss.backward()

    Under ``no_grad`` as well. Tensors, which optimizers and metrics compute with, are never cast.
    A value that several operations need in half precision is cast once, while the block lasts and
    the variable lives: a weight once per step. The casts of each use are recorded all the same, so
    that gradients are added up in float32. Backward passes belong outside, but may be inside;
    ``checkpoint`` casts again as it did.

    Blocks nest, may be entered again and in other threads. Raises PolicyError for an unknown level;
    an operation raises DTypeError where its backend lacks the dtype.
    """

    def __init__(self, precision: Policy | str = "O1", compute: DType | str | None = None) -> None:
        policy = policy_of(precision)
        if compute is not None:
            policy = dataclasses.replace(policy, compute=dtypes.dtype(compute))
        self.policy = policy
        self._namespaces: dict[Any, _Casting] = {}
        #: (id of a variable, dtype) -> the variable, the value that was cast, and what it became.
        self._casts: dict[tuple[int, DType], tuple[weakref.ref[Variable], Any, Any]] = {}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._casts.clear()

    def over(self, base: Any) -> Any:
        """What computes for variables of a backend inside the block."""
        tape = tape_for(base)
        if not self.policy.casts:
            return tape
        found = self._namespaces.get(tape)
        if found is None:
            found = self._namespaces[tape] = _Casting(tape, base, self)
        return found

    def promoted(self, base: Any, operation: str, dtype: DType) -> DType:
        """In which dtype operands meet that would be promoted to ``dtype``."""
        wanted = self.policy.dtype_of(operation) if dtype in _CAST else None
        return dtype if wanted is None else self.available(base, operation, wanted)

    def available(self, base: Any, operation: str, dtype: DType) -> DType:
        """``dtype``, if the backend has it; DTypeError otherwise."""
        if dtype not in base.dtypes:
            other = next((d for d in dtypes.HALF if d is not dtype and d in base.dtypes), None)
            hint = base.dtype_hints.get(dtype)
            way = f'autocast(..., compute="{other}")' if other else "leave the autocast block out"
            raise DTypeError(
                f"[autocast] {operation} under {self.policy.level} computes in {dtype}, and "
                f"backend {base.name!r} has no {dtype}" + (f" ({hint})" if hint else "") + f": "
                f"use a backend that has it, or {way}"
            )
        return dtype

    def cast(self, tape: Any, x: Variable, dtype: DType) -> Variable:
        """``x`` in another dtype; computed once."""
        record = getattr(tape, "recast", None)  # a tape of another kind may have no such thing
        stack = current()
        if record is None or (stack is not None and stack.replaces):
            return tape.cast(x, dtype)
        key, adapter = (id(x), dtype), x._adapter
        found = self._casts.get(key)
        if found is not None and found[0]() is x and found[1] is adapter:
            return record(x, dtype, found[2])
        made = tape.cast(x, dtype)
        reference = weakref.ref(x, functools.partial(_forget, weakref.ref(self), key))
        self._casts[key] = (reference, adapter, made._adapter)
        return made

    def __repr__(self) -> str:
        return f"autocast({self.policy})"


def _forget(block: weakref.ref[autocast], key: tuple[int, DType], _: Any) -> None:
    if (found := block()) is not None:
        found._casts.pop(key, None)


class _Casting:
    """A tape whose operations cast their operands first; whatever else is asked for is the
    tape's."""

    def __init__(self, tape: Any, base: Any, block: autocast) -> None:
        self._tape = tape
        self._base = base
        self._block = block

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._tape, name)
        wanted = self._block.policy.dtype_of(name)
        if wanted is None:
            return method
        return functools.partial(self._call, name, method, wanted)

    def cast(self, x: Variable, dtype: DType) -> Variable:
        """As the tape's. Casts that promotion asks for come here, too."""
        if dtype in _CAST and x.dtype in _CAST:
            return self._block.cast(self._tape, x, dtype)
        return self._tape.cast(x, dtype)

    def _call(
        self, name: str, method: Callable[..., Any], wanted: DType, /, *args: Any, **kwargs: Any
    ) -> Any:
        return method(
            *[self._operand(name, x, wanted) for x in args],
            **{key: self._operand(name, x, wanted) for key, x in kwargs.items()},
        )

    def _operand(self, name: str, x: Any, wanted: DType) -> Any:
        if isinstance(x, Variable):
            dtype = x.dtype
            if dtype is wanted or dtype not in _CAST:
                return x
            self._block.available(self._base, name, wanted)
            return self._block.cast(self._tape, x, wanted)
        if isinstance(x, (list, tuple)) and any(isinstance(part, Variable) for part in x):
            return [self._operand(name, part, wanted) for part in x]
        return x


def innermost() -> autocast | None:
    """The block that decides in this context."""
    return None if current() is None else next(active(autocast), None)


def is_autocast_enabled() -> bool:
    """Whether this context is inside an ``autocast`` block, of any level."""
    return innermost() is not None


def _casting_for(base: Any) -> Any:
    # What computes for variables of a backend: its tape, with casts where a block asks for them.
    block = innermost()
    return tape_for(base) if block is None else block.over(base)


def _promoted(base: Any, operation: str, dtype: DType) -> DType:
    block = innermost()
    return dtype if block is None else block.promoted(base, operation, dtype)


attach_casting(_casting_for, _promoted)


def cast_operands(operation: str, operands: Sequence[Any]) -> list[Any]:
    """The operands of an operation that is not in the contract, cast as the active policy says:
    the variables, and tensors beside a variable."""
    block = innermost()
    wanted = None if block is None else block.policy.dtype_of(operation)
    lead = next((x for x in operands if isinstance(x, Variable)), None)
    if block is None or wanted is None or lead is None:
        return list(operands)
    made = []
    for x in operands:
        if isinstance(x, Array) and x.dtype in _CAST and x.dtype is not wanted:
            block.available(x._backend, operation, wanted)
            x = block.cast(tape_for(x._backend), lead._lift(x), wanted)
        made.append(x)
    return made


def as_operation(name: str, casts_like: str | None = None) -> Callable[[F], F]:
    """``@as_operation("rms_norm", casts_like="layer_norm")`` lets policies treat a function of
    several operations as one: its variables are cast on entry, and inside nothing is.

    name        what ``Policy(operations={name: ...})`` calls it
    casts_like  the operation whose dtype it takes otherwise; None: it casts nothing, and the
                operations in it decide for themselves

    Costs a look-up outside ``autocast``. PolicyError if ``casts_like`` is no operation.
    """
    if not isinstance(name, str):
        raise PolicyError(f"[as_operation] name {name!r}: expected a string")
    register(name, casts_like)

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            block = innermost()
            if block is None or block.policy.dtype_of(name) is None:
                return function(*args, **kwargs)
            args = tuple(cast_operands(name, args))
            kwargs = dict(zip(kwargs, cast_operands(name, list(kwargs.values()))))
            with autocast("DEFAULT"):
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]

    return decorate
