"""Kernel library of generated machine code: dispatch of descriptors to kernel modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from fl_jit.kernels.autotune import Tuners
from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen import threads as pools
from fl_jit.kernels.descriptors import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Matmul,
    OpDescriptor,
    Reorder,
)
from fl_jit.kernels.layout import Packed, any_layout
from fl_jit.kernels.library import CAPACITY, Kernel, KernelLibrary, UnsupportedError
from fl_jit.kernels.llvm import microkernel_registry, reorder, tuning_cache
from fl_jit.kernels.llvm import tile as tiles
from fl_jit.kernels.llvm.argument_checks import CheckedKernel
from fl_jit.kernels.llvm.conv import forward as convolution
from fl_jit.kernels.llvm.conv_wgrad import wgrad as convolution_weights
from fl_jit.kernels.llvm.depthwise import forward as depthwise
from fl_jit.kernels.llvm.depthwise import wgrad as depthwise_weights
from fl_jit.kernels.llvm.depthwise.groups import is_depthwise
from fl_jit.kernels.llvm.gemm import gemm_problem, matmul
from fl_tensor.dtypes import float32, float64
from fl_tensor.extend import threads

Prepare: TypeAlias = Callable[[Any], Kernel]

#: Operations with a choice of several tiles.
_PREPARE_TILED: dict[type, tuning_cache.Prepare] = {
    Matmul: matmul.prepare,
    Convolution: convolution.prepare,
    ConvDataGrad: convolution.prepare,
    ConvWeightGrad: convolution_weights.prepare,
}
_PREPARE: dict[type, Prepare] = {Reorder: reorder.prepare}
#: Depthwise convolutions, and convolutions of small groups.
_PREPARE_DEPTHWISE: dict[type, Prepare] = {
    Convolution: depthwise.prepare,
    ConvDataGrad: depthwise.prepare_data,
    ConvWeightGrad: depthwise_weights.prepare,
}


class GeneratedKernels(KernelLibrary):
    """GEMMs and convolutions, generated for the processor of this process."""

    name = "generated"
    has_epilogues = True

    def __init__(self, capacity: int = CAPACITY) -> None:
        super().__init__(capacity)
        target.initialize()
        # Prepared kernels depend on the number of threads and on the registered micro-kernels.
        threads.register(threads.Pool("generated", lambda count: self.forget(), self._state))
        microkernel_registry.watch(self)
        self._tuners = Tuners(tuning_cache.about)

    def prepare(self, descriptor: OpDescriptor) -> Kernel:
        kind = type(descriptor)
        if not self.solves(kind):
            raise UnsupportedError(f"nothing generates {kind.__name__}")
        if is_depthwise(descriptor):
            kernel = _PREPARE_DEPTHWISE[kind](descriptor)
        elif isinstance(descriptor, Matmul | Convolution | ConvDataGrad | ConvWeightGrad):
            kernel = tuning_cache.choose(descriptor, _PREPARE_TILED[kind], self._tuners.current())
        else:
            kernel = _PREPARE[kind](descriptor)
        return CheckedKernel(kernel, descriptor)

    def solves(self, kind: type) -> bool:
        return kind in _PREPARE or kind in _PREPARE_TILED

    def prepacked_layout(self, descriptor: Matmul | Convolution) -> Packed | None:
        if isinstance(descriptor, Matmul):
            y = descriptor.y
            return (
                gemm_problem.packed_layout(y.dtype, y.shape)
                if y.dtype in (float32, float64)
                else None
            )
        if is_depthwise(descriptor):
            return None  # weights are read in place
        kernel = self.find(
            descriptor._replace(w=any_layout(descriptor.w.dtype, descriptor.w.shape))
        )
        found = None if kernel is None else kernel.operands[1]
        if not isinstance(found, Packed) or found.dtype is not descriptor.w.dtype:
            return None  # float16 would be packed as float32, in twice the memory
        return found

    def choices(self) -> str:
        return self._tuners.current().table()

    def report(self) -> Mapping[str, str]:
        machine = target.host()
        large, best = tiles.of_product(machine, *gemm_problem.LARGE), tiles.best(machine)
        return {
            "processor": machine.cpu,
            "vectors": f"{machine.vector_bits} bits",
            "tiles": f"{_words(large)} in products, {_words(best)} in convolutions",
            "micro-kernels of users": str(len(microkernel_registry.registered())),
            "threads": str(pools.limit()),
        }

    def _state(self) -> str:
        pool = pools.pool()
        return f"{pools.limit()} of {pool.name if pool else 'none: serially'}"


def _words(tile: tiles.Tile) -> str:
    return f"{tile.rows} rows x {tile.vectors} vectors"
