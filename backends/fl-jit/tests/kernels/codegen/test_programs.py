"""What a program says, what it refuses to say, and in how many passes it runs."""

from __future__ import annotations

import math

import pytest

from fl_jit.kernels.codegen.errors import ProgramError
from fl_jit.kernels.codegen.program import Builder, Instruction, Output, Program
from fl_jit.kernels.codegen.schedule import schedule
from fl_jit.kernels.codegen.text import parse
from fl_tensor.dtypes import bool as boolean
from fl_tensor.dtypes import complex64, float16, float32, int32, int64


def softmax():
    b = Builder(2)
    x = b.input(float32, "sc")
    e = b("exp", b("subtract", x, b.reduce("max", x)))
    b.output(b("divide", e, b.reduce("sum", e)), "sc")
    return b.program()


def everything():
    b = Builder(3, row_axes=2)
    x, w = b.input(float32, "ssc"), b.input(float32, "..s")
    seed = b.scalar(int64)
    bits = b("random_bits", seed, b.constant(5, int64), parameter=(2, 1))
    y = b("where", b("less", b.index(1), b.index(2)), b("multiply", x, w), b.cast(bits, float32))
    y = b("add", y, b.constant(-math.inf, float32))
    b.output(y, "ssc")
    b.output(b.reduce("sum", y), "s..")
    b.output(b.reduce("max", y, "column"), ".ss")
    b.output(b.reduce("min", y, "all"), "...")
    return b.program()


def embedding():
    """Rows of a table, and the gradient of the table."""
    b = Builder(2)
    index, g = b.input(int32, "s."), b.input(float32, "sc")
    b.output(b.gather(index, float32, ".c"), "sc")
    b.output(g, ".c", at=index)
    return b.program()


@pytest.mark.parametrize("make", [softmax, everything, embedding])
def test_text_says_it_all(make):
    program = make()
    again = parse(program.text)
    assert again == program and hash(again) == hash(program) and str(again) == program.text
    assert again.instructions == program.instructions and again.values == program.values


def test_programs_that_differ_in_a_sign_are_not_equal():
    programs = []
    for value in (0.0, -0.0, math.nan):
        b = Builder(1)
        b.output(b.constant(value, float32), "c")
        programs.append(b.program())
    assert len(set(programs)) == 3
    assert [parse(p.text) for p in programs] == programs


def test_a_builder_makes_nothing_twice():
    b = Builder(1)
    x = b.input(float32, "c")
    assert b("exp", x) == b("exp", x) != b("log", x)
    assert b.input(float32, "c") != x


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Instruction("halve", (0,)), "no instruction is called 'halve'"),
        (Instruction("add", (0, 1)), r"\[add\] \(float32, int32\): expected 2 operands of one"),
        (Instruction("add", (0,)), "expected 2 operands"),
        (Instruction("exp", (1,)), r"\[exp\] int32: expected a dtype of kind f"),
        (Instruction("bitwise_and", (0, 0)), "expected a dtype of kind b or i or u"),
        (Instruction("where", (0, 0, 0)), r"\[where\] .* expected bool"),
        (Instruction("sum", (0,), "rows"), "over 'rows': expected one operand and one of row, col"),
        (Instruction("cast", (0,), complex64), "expected a real dtype"),
        (Instruction("index", (), 2), r"\[index\] axis 2 of 2"),
        (Instruction("input", (), (float32, "c.")), "'c' or '2' for the last only"),
        (Instruction("gather", (1,), (float32, "s2")), "'2' is for inputs"),
        (Instruction("input", (), (float32, "s")), "expected a letter for each"),
        (Instruction("exp", (7,)), "the number of an earlier instruction"),
        (Instruction("gather", (0,), (float32, "sc")), "expected one index, int32 or int64"),
        (Instruction("random_bits", (0, 0), (1, 0)), "expected seed and offset"),
    ],
)
def test_instructions_that_make_no_sense(instruction, message):
    inputs = (Instruction("input", (), (float32, "sc")), Instruction("input", (), (int32, "sc")))
    with pytest.raises(ProgramError, match=message):
        Program(2, (*inputs, instruction), (Output(0, "sc"),))


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ("s.", "differs along others"),
        ("..", "differs along others"),
        ("s", "expected a letter for each"),
    ],
)
def test_outputs_move_where_their_values_do(axes, message):
    with pytest.raises(ProgramError, match=message):
        Program(2, (Instruction("input", (), (float32, "sc")),), (Output(0, axes),))
    with pytest.raises(ProgramError, match="without outputs"):
        Program(2, (Instruction("input", (), (float32, "sc")),), ())


@pytest.mark.parametrize(
    ("value", "axes", "at", "message"),
    [
        (1, ".c", 1, "expected int32 or int64 that differ from row to row alone"),
        (1, ".c", 2, "expected int32 or int64"),
        (3, ".c", 0, "float16 cannot be added up; cast %3 first"),
        (1, "sc", 0, "expected '.' for outer axes"),
        (1, "..", 0, "expected '.' for outer axes"),
        (1, ".c", 9, "there are 4 instructions"),
    ],
)
def test_outputs_that_are_added_to(value, axes, at, message):
    b = Builder(2)
    b.input(int32, "s.")
    b.input(int32, "sc")
    b.cast(b.input(float32, "s."), float16)
    b.output(value, axes, at)
    with pytest.raises(ProgramError, match=message):
        b.program()


def test_nothing_of_a_row_can_use_what_is_known_when_all_are_done():
    b = Builder(2)
    x = b.input(float32, "sc")
    b.output(b("subtract", x, b.reduce("max", x, "column")), "sc")
    with pytest.raises(ProgramError, match="make it a second program"):
        b.program()


def test_axes_of_a_row():
    with pytest.raises(ProgramError, match="2 axes, 3 of a row"):
        Program(2, (Instruction("constant", (), (boolean, True)),), (Output(0, "sc"),), 3)


def test_softmax_takes_three_passes_and_computes_exp_once():
    program = softmax()
    largest, exponentials, quotients = schedule(program).passes
    exp = next(i for i, made in enumerate(program.instructions) if made.op == "exp")
    assert exp in exponentials.compute and exp in exponentials.save
    assert exp in quotients.reload and exp not in quotients.compute
    assert not largest.outputs and not exponentials.outputs and len(quotients.outputs) == 1


def test_what_no_output_needs_is_not_computed():
    b = Builder(2)
    x = b.input(float32, "sc")
    b.reduce("sum", b("exp", x))
    b.output(b("negative", x), "sc")
    (only,) = schedule(b.program()).passes
    assert only.reductions == () and len(only.compute) == 2
