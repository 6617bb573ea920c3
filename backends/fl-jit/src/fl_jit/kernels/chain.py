"""Fallback chain of kernel libraries: the first one that supports a descriptor serves it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from fl_jit.kernels.descriptors import Convolution, Matmul, OpDescriptor, Shape
from fl_jit.kernels.layout import Packed
from fl_jit.kernels.library import Kernel, KernelLibrary, UnsupportedError
from fl_memory import free_after_fork
from fl_tensor.extend import cached_property


class FallbackChain(KernelLibrary):
    """Kernel libraries in order of priority.

    ``load()`` returns them. It is called at the first descriptor: a process that never runs a large
    operation imports no compiler and no library. The libraries cache kernels; the chain does not.
    """

    def __init__(self, load: Callable[[], tuple[KernelLibrary, ...]]) -> None:
        super().__init__(capacity=0)
        self._load = load
        self._lock = free_after_fork(threading.RLock())
        self._loaded: tuple[KernelLibrary, ...] | None = None

    @cached_property
    def libraries(self) -> tuple[KernelLibrary, ...]:
        """The libraries, loaded once for all threads."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    @property
    def has_epilogues(self) -> bool:  # type: ignore[override]  # depends on the libraries
        return any(each.has_epilogues for each in self.libraries)

    def prepare(self, descriptor: OpDescriptor) -> Kernel:
        kernel = self.find(descriptor)
        if kernel is None:
            raise UnsupportedError(self.why_not(descriptor))
        return kernel

    def find(self, descriptor: OpDescriptor) -> Kernel | None:
        for each in self.libraries:
            kernel = each.find(descriptor)
            if kernel is not None:
                return kernel
        return None

    def why_not(self, descriptor: OpDescriptor) -> str:
        if self.find(descriptor) is not None:
            return ""
        return "; ".join(f"{each.name}: {each.why_not(descriptor)}" for each in self.libraries)

    def serving(self, descriptor: OpDescriptor) -> KernelLibrary:
        for each in self.libraries:
            if each.find(descriptor) is not None:
                return each
        return self

    def prepacked_layout(self, descriptor: Matmul | Convolution) -> Packed | None:
        return self.libraries[0].prepacked_layout(descriptor)

    def preferred_order(self, kind: type, x: Shape, y: Shape, out: Shape) -> Shape | None:
        return self.libraries[0].preferred_order(kind, x, y, out)

    def tune(self, descriptor: OpDescriptor) -> str:
        return self.serving(descriptor).tune(descriptor) if self.find(descriptor) else ""

    def report(self) -> Mapping[str, str]:
        return {
            f"{e.name} {key}": value for e in self.libraries for key, value in e.report().items()
        }

    def forget(self) -> None:
        for each in self.libraries:
            each.forget()
