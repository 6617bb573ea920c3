"""Text form of programs: one line per instruction and output. Equal texts mean equal programs."""

from __future__ import annotations

import ast
from typing import Any

from fl_jit.kernels.codegen import instructions
from fl_jit.kernels.codegen.program import Instruction, Output, Program
from fl_tensor import dtypes
from fl_tensor.dtypes import DType


def written(program: Program) -> str:
    """The text that ``parse`` reads."""
    lines = [f"program rank={program.rank} row_axes={program.row_axes}"]
    for number, (op, operands, parameter) in enumerate(program.instructions):
        tokens = [f"%{number} = {op}", *(f"%{i}" for i in operands)]
        if parameter is not None:
            parts = parameter if isinstance(parameter, tuple) else (parameter,)
            tokens.append("[" + " ".join(map(_word, parts)) + "]")
        lines.append(" ".join(tokens))
    for value, axes, index in program.outputs:
        lines.append(f"output %{value}{'' if index is None else f' %{index}'} [{axes}]")
    return "\n".join(lines) + "\n"


def _word(part: Any) -> str:
    return str(part) if isinstance(part, (DType, str)) else repr(part)


def parse(text: str) -> Program:
    """The program with this text."""
    first, *lines = text.strip().split("\n")
    head = dict(token.split("=") for token in first.split()[1:])
    made: list[Instruction] = []
    outputs: list[Output] = []
    for line in lines:
        body, _, rest = line.partition(" [")
        tokens = body.split()
        parts = rest.removesuffix("]").split()
        if tokens[0] == "output":
            value, *index = (int(token[1:]) for token in tokens[1:])
            outputs.append(Output(value, parts[0], *index))
        else:
            operands = tuple(int(token[1:]) for token in tokens[3:])
            made.append(Instruction(tokens[2], operands, _parameter(tokens[2], parts)))
    return Program(int(head["rank"]), tuple(made), tuple(outputs), int(head["row_axes"]))


def _parameter(op: str, parts: list[str]) -> Any:
    if not parts:
        return None
    if op in instructions.ARRAYS:
        return dtypes.dtype(parts[0]), parts[1]
    if op == "constant":
        return dtypes.dtype(parts[0]), _number(parts[1])
    if op in ("scalar", "cast"):
        return dtypes.dtype(parts[0])
    if op == "index":
        return int(parts[0])
    return tuple(map(int, parts)) if op == "random_bits" else parts[0]


def _number(token: str) -> Any:
    return float(token) if token.lstrip("-") in ("inf", "nan") else ast.literal_eval(token)
