"""Post-ops: named epilogues with a bias along columns, an activation, or both.

Plans describe the epilogue of a GEMM as a program. A kernel library that runs no programs may
support the same epilogue through the descriptor's ``bias`` and ``activation``. ``post_op``
recognizes such programs.

Numbers such as the 0 of max(v, 0) are operands of the program. Their values are known at the call
and not before. ``PostOp.numbers`` lists the values that they must have.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from fl_jit.kernels.descriptors import Convolution, Epilogue, Matmul
from fl_jit.kernels.layout import row_major
from fl_tensor import DerivedOps
from fl_tensor.dtypes import DType, float32

if TYPE_CHECKING:
    from fl_jit.kernels.codegen.program import Program


class PostOp(NamedTuple):
    """``activation(result + bias)``.

    activation   one of ``ACTIVATIONS``
    bias         index among the arrays that the epilogue reads; None: there is no bias
    columns      number of columns
    numbers      indices of the other arrays that it reads, and the values that they must have
    """

    activation: str
    bias: int | None
    columns: int
    numbers: tuple[tuple[int, float], ...]

    def taken(self, reads: list[int]) -> list[int]:
        """The bias's address among the addresses that the epilogue reads; [] without a bias."""
        return [] if self.bias is None else [reads[self.bias]]

    def with_post_ops(self, descriptor: Matmul | Convolution) -> Matmul | Convolution:
        """``descriptor`` with bias and activation instead of an epilogue."""
        rank = len(descriptor.out.shape) if isinstance(descriptor, Matmul) else 1
        bias = row_major(float32, (1,) * (rank - 1) + (self.columns,))
        return descriptor._replace(
            bias=None if self.bias is None else bias, activation=self.activation, epilogue=None
        )


def post_op(epilogue: Epilogue) -> PostOp | None:
    """The post-op that is equivalent to ``epilogue``; None if there is none."""
    program, sizes, strides = epilogue
    product, *reads = program.inputs
    if len(program.outputs) != 1 or any(v.dtype is not float32 for v in program.values):
        return None
    made = program.outputs[0].value
    along_columns = (0,) * (len(sizes) - 1) + (1,)
    sums: list[tuple[int, int | None]] = [(product, None)]  # with the bias, or the product itself
    for number, (op, operands, _) in enumerate(program.instructions):
        if op == "add" and product in operands:
            other = operands[operands[0] == product]
            if other in reads and strides[1 + reads.index(other)] == along_columns:
                sums.append((number, other))
    for x, bias in sums:
        for activation, expected in _EXPECTED.items():
            numbers = None if made == product else _matched(program, made, expected, x, {})
            if numbers is None or {*numbers, bias} - {None} != set(reads):
                continue
            place = None if bias is None else reads.index(bias)
            wanted = tuple((reads.index(i), value) for i, value in numbers.items())
            return PostOp(activation, place, sizes[-1], wanted)
    return None


# ---- expression trees ----------------------------------------------------------------------------


class _Call(NamedTuple):
    op: str
    operands: tuple[_Tree, ...]

    @property
    def dtype(self) -> DType:
        return float32


#: A call, a number, or x itself, which is a call with the name "".
_Tree: TypeAlias = _Call | float
_X = _Call("", ())


class _Composing:
    """A namespace of operations whose values are expression trees."""

    def constant(self, value: float, like: _Call) -> float:
        return ctypes.c_float(value).value

    def __getattr__(self, op: str) -> Callable[..., Any]:
        return lambda *operands: _Call(op, operands)


_ops: Any = _Composing()
_EXPECTED: dict[str, _Tree] = {
    "": _X,
    "relu": DerivedOps.relu(_ops, _X),
    "gelu": DerivedOps.gelu(_ops, _X),
    "gelu_tanh": DerivedOps.gelu(_ops, _X, "tanh"),
    "tanh": _ops.tanh(_X),
    "sigmoid": DerivedOps.sigmoid(_ops, _X),
}
_COMMUTATIVE = frozenset(("add", "multiply", "maximum", "minimum"))


def _matched(
    program: Program, value: int, expected: _Tree, x: int, numbers: dict[int, float]
) -> dict[int, float] | None:
    # ``numbers`` with the operands that match constants; None if ``value`` does not match.
    if expected is _X:
        return numbers if value == x else None
    op, operands, parameter = program.instructions[value]
    if not isinstance(expected, _Call):
        alone = op == "input" and not parameter[1].strip(".")
        return {**numbers, value: expected} if alone and value not in numbers else None
    if op != expected.op or len(operands) != len(expected.operands):
        return None
    for order in (operands, operands[::-1])[: 2 if op in _COMMUTATIVE else 1]:
        found: dict[int, float] | None = numbers
        for operand, tree in zip(order, expected.operands, strict=True):
            found = None if found is None else _matched(program, operand, tree, x, found)
        if found is not None:
            return found
    return None
