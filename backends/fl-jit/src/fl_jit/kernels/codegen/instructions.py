"""Instructions of a program: number of operands, their dtypes, and the dtype of the result.

They are the elementwise primitives of the tensor contract (``fl_tensor.backend``), with the same
semantics. A few composite ones are faster as one instruction: ``rsqrt``, ``sigmoid``, ``index`` and
reductions over parts of the iteration space. Complex dtypes are not supported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fl_jit.kernels.codegen.errors import ProgramError
from fl_tensor import dtypes
from fl_tensor.dtypes import DType


class Signature(NamedTuple):
    """``arity`` operands of one dtype, whose kind is in ``kinds``.

    ``result`` is ``"same"`` or ``"bool"``.
    """

    arity: int
    kinds: str
    result: str = "same"


ELEMENTWISE: Mapping[str, Signature] = {
    **{op: Signature(1, "iuf") for op in "negative absolute sign floor ceil round".split()},
    **{
        op: Signature(1, "f")
        for op in "exp expm1 log log1p sqrt rsqrt sin cos tanh erf sigmoid".split()
    },
    "bitwise_invert": Signature(1, "biu"),
    **{
        op: Signature(2, "iuf")
        for op in "add subtract multiply floor_divide remainder power".split()
    },
    **{op: Signature(2, "f") for op in ("divide", "atan2")},
    **{op: Signature(2, "biuf") for op in ("maximum", "minimum")},
    **{op: Signature(2, "biuf", "bool") for op in ("equal", "less")},
    **{op: Signature(2, "biu") for op in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{op: Signature(2, "iu") for op in ("bitwise_left_shift", "bitwise_right_shift")},
}
#: Reductions, whose parameter is one of ``EXTENTS``. Sums and products of integers have 64 bits.
REDUCTIONS = ("sum", "prod", "max", "min")
#: The extent of a reduction: the row axes, the outer axes, or all axes.
EXTENTS = ("row", "column", "all")
#: Values without operands, defined by their parameter.
SOURCES = ("input", "scalar", "constant", "index")
#: Sources that are read from arrays.
ARRAYS = ("input", "gather")
#: Expensive instructions, whose results are kept for a later pass and not recomputed.
EXPENSIVE = frozenset(
    "exp expm1 log log1p sin cos tanh erf sigmoid power atan2 floor_divide remainder".split()
)


def result(op: str, operands: Sequence[DType], parameter: Any) -> DType:
    """The dtype of the result of ``op``. Raises ProgramError for unsupported operands."""
    if op in ELEMENTWISE:
        return _elementwise(op, operands)
    if op == "where":
        if len(operands) != 3 or operands[0] is not dtypes.bool or operands[1] is not operands[2]:
            raise ProgramError(
                f"[where] {_listed(operands)}: expected bool and two operands of one dtype"
            )
        return operands[1]
    if op in REDUCTIONS:
        if len(operands) != 1 or parameter not in EXTENTS:
            raise ProgramError(
                f"[{op}] {_listed(operands)} over {parameter!r}: expected one operand and one of "
                f"{', '.join(EXTENTS)}"
            )
        return dtypes.sum_dtype(operands[0]) if op in ("sum", "prod") else operands[0]
    if op == "random_bits":
        if [d.name for d in operands] != ["int64", "int64"]:
            raise ProgramError(
                f"[random_bits] {_listed(operands)}: expected seed and offset, int64 scalars"
            )
        return dtypes.int32
    if op == "gather":
        if len(operands) != 1 or operands[0] not in (dtypes.int32, dtypes.int64):
            raise ProgramError(f"[gather] {_listed(operands)}: expected one index, int32 or int64")
        return _stated(op, parameter)
    if op in SOURCES or op == "cast":
        if len(operands) != (op == "cast"):
            raise ProgramError(f"[{op}] {_listed(operands)}: wrong number of operands")
        return _stated(op, parameter)
    raise ProgramError(f"no instruction is called {op!r}")


def _elementwise(op: str, operands: Sequence[DType]) -> DType:
    arity, kinds, gives = ELEMENTWISE[op]
    if len(operands) != arity or any(d is not operands[0] for d in operands):
        raise ProgramError(f"[{op}] {_listed(operands)}: expected {arity} operands of one dtype")
    if operands[0].kind not in kinds:
        raise ProgramError(f"[{op}] {operands[0]}: expected a dtype of kind {' or '.join(kinds)}")
    return dtypes.bool if gives == "bool" else operands[0]


def _stated(op: str, parameter: Any) -> DType:
    if op == "index":
        return dtypes.int64
    dtype = parameter[0] if op in (*ARRAYS, "constant") else parameter
    if not isinstance(dtype, DType) or dtype.kind == "c":
        raise ProgramError(f"[{op}] {dtype!r}: expected a real dtype")
    return dtype


def _listed(operands: Sequence[DType]) -> str:
    return "(" + ", ".join(map(str, operands)) + ")"
