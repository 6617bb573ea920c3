"""What an argument of an operation is. The front end reads these names from the signatures.

A  an array, taken as it is
P  arrays promoted to one dtype (Python scalars are weak)
N  as P; an operation on bools alone is refused
F  as P; integers and bools become the default float
I  as P; integers or bools only
Z  as P; integers only

Q, R, S  as P, N, F; complex numbers are refused
"""

from __future__ import annotations

from typing import Any, TypeAlias

A: TypeAlias = Any
P: TypeAlias = Any
N: TypeAlias = Any
F: TypeAlias = Any
I: TypeAlias = Any  # noqa: E741 - one letter per role
Z: TypeAlias = Any
Q: TypeAlias = Any
R: TypeAlias = Any
S: TypeAlias = Any
#: One axis / several axes; users may count from the end, operations see 0 <= axis < ndim.
Axis: TypeAlias = int
Axes: TypeAlias = tuple[int, ...]
#: An axis of the result, which has one more than the operand.
NewAxis: TypeAlias = int
Shape: TypeAlias = tuple[int, ...]
Scalar: TypeAlias = bool | int | float | complex
#: A namespace of operations: a backend over adapters, a tape over variables.
Ops: TypeAlias = Any
