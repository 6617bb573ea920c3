"""oneDNN as a kernel library."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from fl_jit.kernels.autotune import Tuner, Tuners
from fl_jit.kernels.descriptors import (
    BatchNorm,
    BatchNormGradient,
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Matmul,
    OpDescriptor,
    Pooling,
    PoolingGradient,
    Reorder,
)
from fl_jit.kernels.layout import Layout, Packed, Placement
from fl_jit.kernels.library import CAPACITY, Kernel, KernelLibrary, UnsupportedError
from fl_jit.kernels.onednn import convolution, forks, matmul, normalization, pooling
from fl_jit.kernels.onednn.binding import Binding
from fl_jit.kernels.onednn.descriptors import ACTIVATIONS, describe
from fl_jit.kernels.onednn.primitives import DST, SRC, Operand, assemble, reorder
from fl_jit.kernels.onednn.shared_library import OPENMP, Library
from fl_tensor.extend import threads


class OneDNN(KernelLibrary):
    """Kernels of oneDNN, which divides the work when a kernel is prepared.

    The cache is therefore cleared when the number of threads changes.
    """

    name = "oneDNN"
    activations = ACTIVATIONS

    def __init__(self, library: Library, capacity: int = CAPACITY) -> None:
        super().__init__(capacity)
        self.binding = Binding(library)
        self._tuners = Tuners(self._about)
        self._prepare: dict[type, Callable[[Any], Kernel]] = {
            Matmul: self._tuned(matmul.prepare),
            Convolution: self._tuned(convolution.prepare),
            ConvDataGrad: self._tuned(convolution.prepare),
            ConvWeightGrad: self._tuned(convolution.prepare),
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

    def prepare(self, descriptor: OpDescriptor) -> Kernel:
        if forks.lost():
            raise UnsupportedError("this process was forked: OpenMP has no threads in it")
        self.binding.use_threads(threads.get_num_threads())
        return self._prepare[type(descriptor)](descriptor)

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
        """The tuner for the current number of threads."""
        return self._tuners.current()

    def _about(self) -> dict[str, str]:
        return {
            "library": f"oneDNN {self.binding.library.version}",
            "instructions": hex(self.binding.c.dnnl_get_effective_cpu_isa()),
        }

    def _tuned(self, prepare: Callable[[Binding, Any, Tuner], Kernel]) -> Callable[[Any], Kernel]:
        return lambda descriptor: prepare(self.binding, descriptor, self.tuner)

    def _state_of_threads(self) -> str:
        if self.binding.library.runtime != OPENMP:
            return "as its library decides"
        return f"{threads.get_num_threads()} threads, shared by oneDNN and generated kernels"


def _prepare_reorder(binding: Binding, descriptor: Reorder) -> Kernel:
    x, out = _split(descriptor.x, descriptor.out), _split(descriptor.out, descriptor.x)
    made = reorder(binding, describe(binding, x), describe(binding, out))
    return assemble(made, [Operand(SRC, x), Operand(DST, out, output=True)])


def _split(given: Placement, beside: Placement) -> Placement:
    # Packed weights have an axis for the groups. Plain weights get one, too.
    if isinstance(given, Packed) or len(beside.shape) != len(given.shape) + 1:
        return given
    groups = beside.shape[0]
    shape = (groups, given.shape[0] // groups, *given.shape[1:])
    strides = given.strides and (given.strides[0] * shape[1], *given.strides)
    return Layout(given.dtype, shape, strides)
