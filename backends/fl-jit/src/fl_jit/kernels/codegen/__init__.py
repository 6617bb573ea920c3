"""Code generator for fused kernels: a program is compiled to machine code for this processor."""

from fl_jit.kernels.codegen.program import Builder as Builder
from fl_jit.kernels.codegen.program import Instruction as Instruction
from fl_jit.kernels.codegen.program import Output as Output
from fl_jit.kernels.codegen.program import Program as Program
from fl_jit.kernels.codegen.text import parse as parse
