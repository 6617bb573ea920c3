"""Random programs: whatever is put together, a kernel computes it."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_programs import check, numbers

from fl_jit.kernels.codegen.instructions import ELEMENTWISE
from fl_jit.kernels.codegen.program import Builder
from fl_tensor import dtypes

DTYPES = [dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.bool, dtypes.float16]
#: Of which a small difference between operands makes a small difference.
SMOOTH = "add subtract multiply negative absolute maximum minimum tanh sigmoid erf sin cos".split()
#: Correctly rounded: what they make of exact numbers is exact.
EXACT = "add subtract multiply negative absolute maximum minimum floor round sign".split()
EXACT += "equal less bitwise_and bitwise_or bitwise_xor bitwise_invert floor_divide".split()


class Draw:
    """A program in the making. What reductions and elementary functions give is not exact: only
    smooth instructions may use it, lest a last bit decide."""

    def __init__(self, rng):
        self.rng = rng
        self.rank = int(rng.integers(1, 4))
        self.row_axes = int(rng.integers(1, self.rank + 1))
        self.sizes = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 17, 40], self.rank))
        self.b = Builder(self.rank, self.row_axes)
        self.arrays, self.scalars = [], []
        self.dtype, self.exact, self.element = {}, set(), []
        for _ in range(rng.integers(1, 4)):
            self.source()
        for _ in range(rng.integers(3, 14)):
            self.instruction()
        self.outputs()

    def keep(self, number, dtype, exact):
        self.dtype[number] = dtype
        self.element.append(number)
        if exact:
            self.exact.add(number)

    def source(self):
        dtype = DTYPES[self.rng.integers(len(DTYPES))]
        if self.rng.random() < 0.15:
            value = numbers(dtype, self.rng, (1,))[0].item()
            self.scalars.append(value)
            self.keep(self.b.scalar(dtype), dtype, True)
            return
        axes, array = self.operand(dtype)
        self.arrays.append(array)
        self.keep(self.b.input(dtype, axes), dtype, True)

    def operand(self, dtype):
        axes = "".join(self.rng.choice([".", "s", "s"], self.rank))
        shape = [1 if letter == "." else n for letter, n in zip(axes, self.sizes)]
        if axes[-1] == "s" and self.rng.random() < 0.7:
            return axes[:-1] + "c", numbers(dtype, self.rng, shape)
        order = self.rng.permutation(self.rank)
        array = numbers(dtype, self.rng, [shape[i] for i in order])
        return axes, array.transpose(np.argsort(order))

    def of(self, dtype, exact):
        found = [i for i in self.element if self.dtype[i] is dtype]
        found = [i for i in found if i in self.exact] if exact else found
        return int(self.rng.choice(found)) if found else None

    def instruction(self):
        some = int(self.rng.choice(self.element))
        dtype, kind = self.dtype[some], self.rng.random()
        if kind < 0.15:
            to = DTYPES[self.rng.integers(len(DTYPES))]
            rounder = dtype.is_floating and to.is_floating and to.itemsize <= dtype.itemsize
            if some in self.exact or rounder:
                self.keep(self.b.cast(some, to), to, some in self.exact)
            return
        if kind < 0.3 and dtype.kind != "b":
            op = str(self.rng.choice(["sum", "max", "min"]))
            to = dtypes.sum_dtype(dtype) if op == "sum" else dtype
            exact = some in self.exact and (op != "sum" or dtype.is_integer)
            self.keep(self.b.reduce(op, some), to, exact)
            return
        if kind < 0.4 and (condition := self.of(dtypes.bool, True)) is not None:
            other = self.of(dtype, False)
            exact = {some, other} <= self.exact
            self.keep(self.b("where", condition, some, other), dtype, exact)
            return
        wanted = [
            op
            for op, (_, kinds, _) in ELEMENTWISE.items()
            if dtype.kind in kinds and (op in SMOOTH or (op in EXACT and some in self.exact))
        ]
        if not wanted:
            return
        op = str(self.rng.choice(wanted))
        operands = [some]
        if ELEMENTWISE[op].arity == 2:
            operands.append(self.of(dtype, op not in SMOOTH))
        exact = op in EXACT and set(operands) <= self.exact
        to = dtypes.bool if ELEMENTWISE[op].result == "bool" else dtype
        self.keep(self.b(op, *operands), to, exact)

    def outputs(self):
        outer, row = self.rank - self.row_axes, self.row_axes
        every = "s" * (self.rank - 1) + "c"
        for value in {self.element[-1], *self.rng.choice(self.element, 2).tolist()}:
            self.b.output(value, every)
        value = self.element[-1]
        if self.dtype[value].kind != "b":
            self.b.output(self.b.reduce("max", value), "s" * outer + "." * row)
            self.b.output(self.b.reduce("sum", value, "column"), "." * outer + every[outer:])
            self.b.output(self.b.reduce("sum", value, "all"), "." * self.rank)


@pytest.mark.parametrize("seed", range(60))
def test_random_program(seed):
    draw = Draw(np.random.default_rng([1, seed]))
    program = draw.b.program()
    half = any(v.dtype in dtypes.HALF for v in program.values)
    # The largest number on the way decides how much rounding may matter.
    check(
        program, draw.arrays, draw.sizes, tuple(draw.scalars), eps=64, scale=64.0 if half else 8.0
    )
