"""Fallback chain of kernel libraries: the first one that supports a descriptor serves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fl_jit.kernels.descriptors import Convolution, Matmul, OpDescriptor
from fl_jit.kernels.layout import Packed
from fl_jit.kernels.library import Kernel, KernelLibrary, UnsupportedError


class FallbackChain(KernelLibrary):
    """``libraries`` in order of priority. They cache kernels; the chain does not."""

    def __init__(self, libraries: Sequence[KernelLibrary]) -> None:
        super().__init__(capacity=0)
        self._libraries = tuple(libraries)
        self.name = ", ".join(each.name for each in libraries)
        self.has_epilogues = any(each.has_epilogues for each in libraries)
        self.activations = tuple({name: None for p in libraries for name in p.activations})

    @property
    def libraries(self) -> tuple[KernelLibrary, ...]:
        return self._libraries

    def prepare(self, descriptor: OpDescriptor) -> Kernel:
        kernel = self.find(descriptor)
        if kernel is None:
            raise UnsupportedError(self.why_not(descriptor))
        return kernel

    def find(self, descriptor: OpDescriptor) -> Kernel | None:
        for each in self._libraries:
            kernel = each.find(descriptor)
            if kernel is not None:
                return kernel
        return None

    def why_not(self, descriptor: OpDescriptor) -> str:
        if self.find(descriptor) is not None:
            return ""
        return "; ".join(f"{each.name}: {each.why_not(descriptor)}" for each in self._libraries)

    def serving(self, descriptor: OpDescriptor) -> KernelLibrary:
        for each in self._libraries:
            if each.find(descriptor) is not None:
                return each.serving(descriptor)
        return self

    def solves(self, kind: type) -> bool:
        return any(each.solves(kind) for each in self._libraries)

    def prepacked_layout(self, descriptor: Matmul | Convolution) -> Packed | None:
        return self._libraries[0].prepacked_layout(descriptor)  # the first one takes GEMMs

    def report(self) -> Mapping[str, str]:
        return {
            f"{e.name} {name}": value for e in self._libraries for name, value in e.report().items()
        }

    def choices(self) -> str:
        return "\n".join(filter(None, (each.choices() for each in self._libraries)))

    def forget(self) -> None:
        for each in self._libraries:
            each.forget()

    def remembered(self) -> int:
        return sum(each.remembered() for each in self._libraries)
