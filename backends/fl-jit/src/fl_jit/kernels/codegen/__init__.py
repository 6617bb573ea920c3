"""Fused kernels: a program, as machine code of this processor.

What a program is needs no library; ``codegen.kernel``, which compiles it, needs llvmlite.
"""

from fl_jit.kernels.codegen.program import Builder as Builder
from fl_jit.kernels.codegen.program import Instruction as Instruction
from fl_jit.kernels.codegen.program import Output as Output
from fl_jit.kernels.codegen.program import Program as Program
from fl_jit.kernels.codegen.text import parse as parse
