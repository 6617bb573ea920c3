"""oneDNN as a kernel library."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fl_jit.kernels import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Kernel,
    KernelLibrary,
    Layout,
    Matmul,
    OpDescriptor,
    Packed,
    Placement,
    Reorder,
    Tuner,
    UnsupportedError,
    tuner,
)
from fl_tensor.extend import threads
from onednn_kernels import convolution, forks, matmul
from onednn_kernels.binding import Binding
from onednn_kernels.memory_descriptors import describe
from onednn_kernels.primitives import DST, SRC, Operand, assemble, reorder
from onednn_kernels.shared_library import OPENMP, Library, load


class OneDNN(KernelLibrary):
    """Kernels of oneDNN, which divides the work when a kernel is prepared.

    The cache is therefore cleared when the number of threads changes. ``library`` is the shared
    library, by default the one that ``load`` finds.
    """

    name = "oneDNN"

    def __init__(self, library: Library | None = None, capacity: int = 2048) -> None:
        super().__init__(capacity)
        self.binding = Binding(library or load())
        forks.watch(self)
        threads.register(
            threads.Pool(
                self.binding.library.runtime, lambda count: self.forget(), self._state_of_threads
            )
        )

    def prepare(self, descriptor: OpDescriptor) -> Kernel:
        if forks.lost():
            raise UnsupportedError("this process was forked: OpenMP has no threads in it")
        self.binding.use_threads(threads.get_num_threads())
        if isinstance(descriptor, Reorder):
            return _prepare_reorder(self.binding, descriptor)
        key, candidates = self._candidates(descriptor)
        return self.tuner.choose(key, candidates)

    def tune(self, descriptor: OpDescriptor) -> str:
        if isinstance(descriptor, Reorder) or self.find(descriptor) is None:
            return ""
        key, candidates = self._candidates(descriptor)
        choice = self.tuner.tune(key, candidates)
        self.forget()
        return "" if choice == next(iter(candidates)) else choice

    def report(self) -> Mapping[str, str]:
        library = self.binding.library
        return {
            "library": library.path,
            "version": library.version,
            "runtime": library.runtime,
            "threads": str(threads.get_num_threads()),
            "choices": f"{len(self.tuner.decisions())} in {self.tuner.path or 'memory'}",
        }

    def choices(self) -> str:
        return self.tuner.table()

    @property
    def tuner(self) -> Tuner:
        """The tuner for the current number of threads."""
        return tuner(
            {
                "library": f"oneDNN {self.binding.library.version}",
                "instructions": hex(self.binding.c.dnnl_get_effective_cpu_isa()),
            }
        )

    def _candidates(self, descriptor: OpDescriptor) -> tuple[str, dict[str, Callable[[], Kernel]]]:
        # The key of a choice, and the kernels among which it is.
        if isinstance(descriptor, Matmul):
            return matmul.key(descriptor), matmul.candidates(self.binding, descriptor)
        if isinstance(descriptor, Convolution | ConvDataGrad | ConvWeightGrad):
            return convolution.key(descriptor), convolution.candidates(self.binding, descriptor)
        raise UnsupportedError(f"oneDNN computes no {type(descriptor).__name__}")

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
