"""Compilers of kernels: the suite, on an evaluator that walks trees; and how one is found."""

from __future__ import annotations

from kernel_evaluator import Evaluator

from fl_tensor.testing import KernelCompilerSuite


class TestEvaluator(KernelCompilerSuite):
    compiler = Evaluator
    programs = 40
