"""Steps of a plan as native calls on fixed memory (``planning.static_program``)."""

from __future__ import annotations

from typing import NamedTuple

from fl_jit.kernels.native_calls import NativeCall
from fl_tensor.graph import Value


class NativePart(NamedTuple):
    """One call of a step.

    call      with memory for its arguments
    operands  in the order of its addresses: the root of each, and the bytes before the operand
    scalars   the numbers that are its scalar arguments
    constant  scalar arguments behind them, which never change
    aligned   whether results have to begin at multiples of 64 bytes
    """

    call: NativeCall
    operands: list[tuple[Value, int]]
    scalars: list[Value] = []
    constant: list[complex] = []
    aligned: bool = False


class NativeStep(NamedTuple):
    """The calls of a step, in order.

    writes     the roots that they write, each with the roots that it may overwrite
    temporary  those of them that no other step reads
    """

    parts: list[NativePart]
    writes: list[tuple[Value, list[Value]]]
    temporary: list[Value] = []
