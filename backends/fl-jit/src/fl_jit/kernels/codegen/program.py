"""Intermediate representation of a fused kernel: iteration space, operands, instructions, outputs.

The iteration space has ``rank`` axes in C order. Their sizes are known when a kernel runs, and not
before. The last ``row_axes`` of them form a *row*. The axes before, the *outer* ones, number the
rows. Instructions are in static single assignment form: a value is the number of its instruction.
Reductions are over

* ``"row"``: the row axes: one number per row, which later instructions of that row may use
* ``"column"``: the outer axes: one number per place in a row, known when all rows are done
* ``"all"``: both: one number, known when all rows are done

Softmax or layer normalization is thus one program, which can also give the bias gradients.
Instructions that use a column result or a total can only use other such results, constants,
scalars, and inputs that do not move along the outer axes.

An operand has one letter per axis for its access pattern:

* ``"."``: broadcast: it does not move
* ``"s"``: a stride that is given at run time, in elements
* ``"c"``: contiguous (last axis only)
* ``"2"``: every second element (last axis of an input only)
* ``"t"``: contiguous along the axis before a row of one axis, whose letter is ``"s"``

An input with ``"t"`` is transposed; its rows are packed into blocks. Letters of an output define
its contents. If all axes move, it has the value of every element. If only the outer axes move, it
has one value per row; if only the row axes move, one per column. If none moves, it is a single
number.

An operand may have one more axis, which is indexed. ``gather`` reads at the index that is its
operand. An output with ``at`` adds its value at that index, row after row; the index is a value of
the row. The two are an embedding and its gradient.

A program contains no tensors and no sizes. Programs compare, hash and print by their text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fl_jit.kernels.codegen import instructions
from fl_jit.kernels.codegen.errors import ProgramError
from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.extend import cached_property

__all__ = ["Builder", "Program"]


class Instruction(NamedTuple):
    """One value. ``parameter`` by ``op``:

    input        (DType, letters of its axes)
    gather       (DType, letters of its axes); the operand is the index along one more axis
    scalar       DType; the value is an argument of each call
    constant     (DType, Python number)
    index        the axis whose index it is, int64
    cast         DType
    sum ... min  ``"row"``, ``"column"`` or ``"all"``
    random_bits  (step, phase); operands are ``seed`` and ``offset``. Element i of the space, in C
                 order, is word ``offset + step * i + phase`` of the stream of ``seed``
    """

    op: str
    operands: tuple[int, ...] = ()
    parameter: Any = None


class Output(NamedTuple):
    """``value`` is written to an array of its dtype that moves along ``axes``.

    With ``at``, it is added there, at that index of one more axis.
    """

    value: int
    axes: str
    at: int | None = None


class Value(NamedTuple):
    """Properties of a value.

    They are its dtype, whether it varies from row to row and within a row, the number of row
    reductions that it depends on, and whether it is known only when all rows are done.
    """

    dtype: DType
    per_row: bool
    per_element: bool
    level: int = 0
    late: bool = False


@dataclass(frozen=True, eq=False)
class Program:
    """A validated program; see the module. Raises ProgramError if it is invalid."""

    rank: int
    instructions: tuple[Instruction, ...]
    outputs: tuple[Output, ...]
    row_axes: int = 1
    values: tuple[Value, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.row_axes <= self.rank:
            raise ProgramError(
                f"{self.rank} axes, {self.row_axes} of a row: expected at least one, and no more "
                f"than there are"
            )
        values: list[Value] = []
        for number, instruction in enumerate(self.instructions):
            if any(not 0 <= operand < number for operand in instruction.operands):
                raise ProgramError(
                    f"%{number} = {instruction.op} of {instruction.operands}: an operand is the "
                    f"number of an earlier instruction"
                )
            values.append(self._value(instruction, [values[i] for i in instruction.operands]))
        if not self.outputs:
            raise ProgramError("a program without outputs computes nothing")
        for output in self.outputs:
            self._check_output(output, values)
        object.__setattr__(self, "values", tuple(values))

    @cached_property
    def text(self) -> str:
        """The program as ``text.parse`` reads it, one line per instruction."""
        from fl_jit.kernels.codegen import text

        return text.written(self)

    # Compared by text, because 0.0 and -0.0, or 1 and True, are equal in Python.

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    @property
    def outer(self) -> int:
        """The number of outer axes."""
        return self.rank - self.row_axes

    @property
    def inputs(self) -> list[int]:
        """The values that are read from arrays, in the order of their addresses."""
        return [i for i, made in enumerate(self.instructions) if made.op in instructions.ARRAYS]

    @property
    def scalars(self) -> list[int]:
        """The values that are scalar arguments, in order."""
        return [i for i, made in enumerate(self.instructions) if made.op == "scalar"]

    def _value(self, instruction: Instruction, operands: list[Value]) -> Value:
        op, _, parameter = instruction
        dtype = instructions.result(op, [v.dtype for v in operands], parameter)
        if op in instructions.ARRAYS:
            self._check_axes(op, parameter[1])
            per_row, per_element = self._moves(parameter[1])
            if op == "input":
                return Value(dtype, per_row, per_element)
            (index,) = operands
            if index.late:
                raise ProgramError("[gather] at an index that is known only when all rows are done")
            moves = per_row or index.per_row, per_element or index.per_element
            return Value(dtype, *moves, index.level)
        if op == "index":
            if not 0 <= parameter < self.rank:
                raise ProgramError(f"[index] axis {parameter} of {self.rank}")
            return Value(dtype, parameter < self.outer, parameter >= self.outer)
        if op == "random_bits":
            if any(v.per_row or v.per_element or v.late for v in operands):
                raise ProgramError("[random_bits] seed and offset must be the same everywhere")
            return Value(dtype, self.outer > 0, True)
        late = any(v.late for v in operands)
        per_row = any(v.per_row for v in operands)
        per_element = any(v.per_element for v in operands)
        level = max((v.level for v in operands), default=0)
        if late and any((v.per_row or v.level) and not v.late for v in operands):
            raise ProgramError(
                f"[{op}] an operand is known only when all rows are done, and another one belongs "
                f"to a row: make it a second program"
            )
        if op in instructions.REDUCTIONS:
            if late:
                raise ProgramError(f"[{op}] of what is known only when all rows are done")
            if parameter == "row":
                return Value(dtype, self.outer > 0, False, level + 1)
            return Value(dtype, False, parameter == "column", 0, late=True)
        return Value(dtype, per_row, per_element, level, late)

    def _check_axes(self, what: str, axes: str) -> None:
        if len(axes) != self.rank or set(axes) - set(".sct2") or set(axes[:-1]) & set("c2"):
            raise ProgramError(
                f"[{what}] axes {axes!r} of {self.rank}: expected a letter for each, '.', 's', and "
                f"'c' or '2' for the last only"
            )
        if "2" in axes and what != "input":
            raise ProgramError(f"[{what}] axes {axes!r}: '2' is for inputs")
        if "t" in axes and (what != "input" or axes[-2:] != "ts" or "t" in axes[:-2]):
            raise ProgramError(
                f"[{what}] axes {axes!r}: 't' is for inputs, and for the axis before the last one, "
                f"which is 's'"
            )
        if "t" in axes and self.row_axes > 1:
            raise ProgramError(f"[{what}] axes {axes!r}: a transposed input has rows of one axis")

    def _moves(self, axes: str) -> tuple[bool, bool]:
        return axes[: self.outer] != "." * self.outer, axes[self.outer :] != "." * self.row_axes

    def _check_output(self, output: Output, values: list[Value]) -> None:
        value, axes, index = output
        if any(not 0 <= i < len(values) for i in (value, index or 0)):
            raise ProgramError(f"output of %{value}: there are {len(values)} instructions")
        self._check_axes("output", axes)
        if index is not None:
            self._check_scatter(output, values)
            return
        for part in (axes[: self.outer], axes[self.outer :]):
            if "." in part and part.strip("."):
                raise ProgramError(
                    f"[output] axes {axes!r}: all outer axes move or none, and so do those of a row"
                )
        per_row, per_element = self._moves(axes)
        made = values[value]
        if (made.per_row and not per_row) or (made.per_element and not per_element):
            raise ProgramError(f"[output] axes {axes!r}: %{value} differs along others")
        if made.late and per_row:
            raise ProgramError(f"[output] axes {axes!r}: %{value} has no rows")
        if made.level and not per_row and self.outer:
            raise ProgramError(f"[output] axes {axes!r}: %{value} belongs to a row")

    def _check_scatter(self, output: Output, values: list[Value]) -> None:
        value, axes, number = output
        index, dtype = values[number or 0], values[value].dtype
        if index.per_element or index.late or index.dtype not in (dtypes.int32, dtypes.int64):
            raise ProgramError(
                f"[output] at %{number}: expected int32 or int64 that differ from row to row alone"
            )
        if dtype in dtypes.HALF or dtype.kind == "b" or values[value].late:
            raise ProgramError(f"[output] {dtype} cannot be added up; cast %{value} first")
        if axes[: self.outer].strip(".") or "." in axes[self.outer :]:
            raise ProgramError(
                f"[output] axes {axes!r} at an index: expected '.' for outer axes, whose place the "
                f"index takes, and none for those of a row"
            )


class Builder:
    """Builder of a program: every call appends an instruction and returns its number.

    ``b = Builder(2); x = b.input(dtypes.float32, "sc"); y = b("exp", x)``
    """

    def __init__(self, rank: int, row_axes: int = 1) -> None:
        self._rank, self._row_axes = rank, row_axes
        self._made: dict[Instruction, int] = {}
        self._instructions: list[Instruction] = []
        self._outputs: list[Output] = []

    def __call__(self, op: str, *operands: int, parameter: Any = None) -> int:
        """The instruction ``op``; an existing equal one is reused."""
        instruction = Instruction(op, operands, parameter)
        # Constants that differ only in type or sign (0.0, -0.0) are distinct instructions.
        if op in ("input", "gather", "scalar", "constant"):
            self._instructions.append(instruction)
            return len(self._instructions) - 1
        if instruction not in self._made:
            self._made[instruction] = len(self._instructions)
            self._instructions.append(instruction)
        return self._made[instruction]

    def input(self, dtype: DType, axes: str) -> int:
        """The next array operand."""
        return self("input", parameter=(dtype, axes))

    def gather(self, index: int, dtype: DType, axes: str) -> int:
        """The next array operand, read at ``index`` of an additional axis."""
        return self("gather", index, parameter=(dtype, axes))

    def scalar(self, dtype: DType) -> int:
        """The next scalar argument of the call."""
        return self("scalar", parameter=dtype)

    def constant(self, value: complex, dtype: DType) -> int:
        """A constant of the program."""
        return self("constant", parameter=(dtype, value))

    def index(self, axis: int) -> int:
        """The index along ``axis``, int64."""
        return self("index", parameter=axis)

    def cast(self, value: int, dtype: DType) -> int:
        """``value`` in another dtype."""
        return self("cast", value, parameter=dtype)

    def reduce(self, op: str, value: int, extent: str = "row") -> int:
        """``sum``, ``prod``, ``max`` or ``min`` of ``value`` over ``extent``."""
        return self(op, value, parameter=extent)

    def output(self, value: int, axes: str, at: int | None = None) -> None:
        """The next result; with ``at``, it is added at that index of one more axis."""
        self._outputs.append(Output(value, axes, at))

    def program(self) -> Program:
        """The finished program. Raises ProgramError if it is invalid."""
        return Program(self._rank, tuple(self._instructions), tuple(self._outputs), self._row_axes)
