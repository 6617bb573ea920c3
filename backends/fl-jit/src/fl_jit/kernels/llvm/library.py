"""Kernel library of generated machine code: dispatch of descriptors to kernel modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from fl_jit.kernels import autotune, cpu
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

    def prepare(self, descriptor: OpDescriptor) -> Kernel:
        kind = type(descriptor)
        if is_depthwise(descriptor):
            return _PREPARE_DEPTHWISE[kind](descriptor)
        if isinstance(descriptor, Matmul | Convolution | ConvDataGrad | ConvWeightGrad):
            candidates = tuning_cache.candidates(descriptor, _PREPARE_TILED[kind])
            return _tuner().choose(tuning_cache.key(descriptor), candidates)
        if isinstance(descriptor, Reorder):
            return reorder.prepare(descriptor)
        raise UnsupportedError(f"nothing generates {kind.__name__}")

    def tune(self, descriptor: OpDescriptor) -> str:
        if isinstance(descriptor, Reorder) or is_depthwise(descriptor):
            return ""
        candidates = tuning_cache.candidates(descriptor, _PREPARE_TILED[type(descriptor)])
        choice = _tuner().tune(tuning_cache.key(descriptor), candidates)
        self.forget()
        return "" if choice == tuning_cache.RULE else choice

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
        return _tuner().table()

    def report(self) -> Mapping[str, str]:
        machine = target.host()
        large = tiles.of_product(cpu.host(), *gemm_problem.LARGE)
        best = tiles.best(machine)
        return {
            "processor": machine.cpu,
            "vectors": f"{machine.vector_bits} bits",
            "tiles": f"{_tile_text(large)} in products, {_tile_text(best)} in convolutions",
            "micro-kernels of users": str(len(microkernel_registry.registered())),
            "threads": str(pools.limit()),
        }

    def _state(self) -> str:
        pool = pools.pool()
        return f"{pools.limit()} of {pool.name if pool else 'none: serially'}"


def _tuner() -> autotune.Tuner:
    return autotune.tuner(tuning_cache.about())


def _tile_text(tile: tiles.Tile) -> str:
    return f"{tile.rows} rows x {tile.vectors} vectors"
