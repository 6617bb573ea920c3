"""oneDNN as a provider."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from fl_tensor import threads
from fl_tensor.backends.providers.layout import Layout, Packed, Placement
from fl_tensor.backends.providers.onednn import convolution, forks, matmul, normalization, pooling
from fl_tensor.backends.providers.onednn.binding import Binding
from fl_tensor.backends.providers.onednn.descriptors import ACTIVATIONS, describe
from fl_tensor.backends.providers.onednn.library import OPENMP, Library
from fl_tensor.backends.providers.onednn.primitives import DST, SRC, Operand, assemble, reorder
from fl_tensor.backends.providers.problems import (
    BatchNorm,
    BatchNormGradient,
    Convolution,
    ConvolutionData,
    ConvolutionWeights,
    Matmul,
    Pooling,
    PoolingGradient,
    Problem,
    Reorder,
)
from fl_tensor.backends.providers.provider import CAPACITY, Kernel, Provider, UnsupportedError
from fl_tensor.backends.providers.tuning import Tuner, Tuners


class OneDNN(Provider):
    """Kernels of the library; one set per number of threads, because it divides work beforehand."""

    name = "oneDNN"
    activations = ACTIVATIONS

    def __init__(self, library: Library, capacity: int = CAPACITY) -> None:
        super().__init__(capacity)
        self.binding = Binding(library)
        self._tuners = Tuners(self._about)
        self._prepare: dict[type, Callable[[Any], Kernel]] = {
            Matmul: self._tuned(matmul.prepare),
            Convolution: self._tuned(convolution.prepare),
            ConvolutionData: self._tuned(convolution.prepare),
            ConvolutionWeights: self._tuned(convolution.prepare),
            Pooling: functools.partial(pooling.prepare, self.binding),
            PoolingGradient: functools.partial(pooling.prepare_gradient, self.binding),
            BatchNorm: functools.partial(normalization.prepare, self.binding),
            BatchNormGradient: functools.partial(normalization.prepare_gradient, self.binding),
            Reorder: functools.partial(_prepare_reorder, self.binding),
        }
        forks.watch(self)
        threads.register(
            threads.Pool(library.runtime, lambda count: self.forget(), self._state_of_threads)
        )

    def prepare(self, problem: Problem) -> Kernel:
        if forks.lost():
            raise UnsupportedError("this process was forked: OpenMP has no threads in it")
        self.binding.use_threads(threads.get_num_threads())
        return self._prepare[type(problem)](problem)

    def report(self) -> Mapping[str, str]:
        library, tuner = self.binding.library, self.tuner
        return {
            "library": library.path,
            "version": library.version,
            "runtime": library.runtime,
            "threads": str(threads.get_num_threads()),
            "choices": f"{len(tuner.decisions())} in {tuner.path or 'memory'}",
        }

    def choices(self) -> str:
        return self.tuner.table()

    @property
    def tuner(self) -> Tuner:
        """The choices for the present number of threads."""
        return self._tuners.current()

    def _about(self) -> dict[str, str]:
        return {
            "library": f"oneDNN {self.binding.library.version}",
            "instructions": hex(self.binding.c.dnnl_get_effective_cpu_isa()),
        }

    def _tuned(self, prepare: Callable[[Binding, Any, Tuner], Kernel]) -> Callable[[Any], Kernel]:
        return lambda problem: prepare(self.binding, problem, self.tuner)

    def _state_of_threads(self) -> str:
        if self.binding.library.runtime != OPENMP:
            return "as its library decides"
        return f"{threads.get_num_threads()} threads, shared by oneDNN and generated kernels"


def _prepare_reorder(binding: Binding, problem: Reorder) -> Kernel:
    x, out = _split(problem.x, problem.out), _split(problem.out, problem.x)
    made = reorder(binding, describe(binding, x), describe(binding, out))
    return assemble(made, [Operand(SRC, x), Operand(DST, out, output=True)])


def _split(given: Placement, beside: Placement) -> Placement:
    # Packed weights have an axis for their groups: plain ones get it, too.
    if isinstance(given, Packed) or len(beside.shape) != len(given.shape) + 1:
        return given
    groups = beside.shape[0]
    shape = (groups, given.shape[0] // groups, *given.shape[1:])
    strides = given.strides and (given.strides[0] * shape[1], *given.strides)
    return Layout(given.dtype, shape, strides)
