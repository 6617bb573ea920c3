"""Roles of an operation's arguments.

The front end reads them from the annotations of operations:

A  an array, taken as it is.
P  arrays promoted to one dtype (Python scalars are weak).
N  as P; an operation on bools alone is refused.
F  as P; integers and bools become the default float.
I  as P; integers or bools only.
Z  as P; integers only.

Q, R, S  as P, N, F; complex numbers are refused.

Axis     an int, 0 <= axis < ndim (users may count from the end, operations need not); the default
         -1 is the last axis.
NewAxis  an int, 0 <= axis <= ndim: an axis of the result, which has one more than the operand.
Axes     a tuple of different axes; () means none of them, not all.
Shape    a tuple of ints >= 0; strides, dilations and windows of ints >= 1.
Scalar   a bool, int, float or complex.
Padding  a pair (low, high) of ints per spatial axis: elements before and after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from inspect import Parameter

A: TypeAlias = Any
P: TypeAlias = Any
N: TypeAlias = Any
F: TypeAlias = Any
I: TypeAlias = Any  # noqa: E741 - one letter per role
Z: TypeAlias = Any
Q: TypeAlias = Any
R: TypeAlias = Any
S: TypeAlias = Any
Axis: TypeAlias = int
Axes: TypeAlias = tuple[int, ...]
NewAxis: TypeAlias = int
Shape: TypeAlias = tuple[int, ...]
Scalar: TypeAlias = bool | int | float | complex
#: A namespace of operations: a backend over adapters, a tape over variables.
Ops: TypeAlias = Any
ARRAY_ROLES = frozenset("APNFIZQRS")


def role(parameter: Parameter) -> str:
    """The role letter of an array parameter, "" for any other."""
    kind = str(parameter.annotation).removesuffix(" | None")
    kind = kind.removeprefix("Sequence[").removesuffix("]")
    return kind if kind in ARRAY_ROLES else ""
