"""A kernel library that is created on first use.

A process that never runs a large operation does not import the compiler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from fl_jit.kernels.descriptors import Convolution, Matmul, OpDescriptor
from fl_jit.kernels.layout import Packed
from fl_jit.kernels.library import Kernel, KernelLibrary
from fl_memory import free_after_fork
from fl_tensor.extend import cached_property


class LazyLibrary(KernelLibrary):
    """Proxy of the library that ``make()`` returns.

    ``name`` and ``has_epilogues`` are known before it is created.
    """

    def __init__(self, name: str, has_epilogues: bool, make: Callable[[], KernelLibrary]) -> None:
        super().__init__(capacity=0)
        self.name, self.has_epilogues = name, has_epilogues
        self._make = make
        self._library: KernelLibrary | None = None
        self._lock = free_after_fork(threading.RLock())

    @cached_property
    def made(self) -> KernelLibrary:
        """The library, one for all threads."""
        with self._lock:
            if self._library is None:
                self._library = self._make()
            return self._library

    def prepare(self, descriptor: OpDescriptor) -> Kernel:
        return self.made.prepare(descriptor)

    def find(self, descriptor: OpDescriptor) -> Kernel | None:
        return self.made.find(descriptor)

    def why_not(self, descriptor: OpDescriptor) -> str:
        return self.made.why_not(descriptor)

    def solves(self, kind: type) -> bool:
        return self.made.solves(kind)

    def serving(self, descriptor: OpDescriptor) -> KernelLibrary:
        return self.made

    def prepacked_layout(self, descriptor: Matmul | Convolution) -> Packed | None:
        return self.made.prepacked_layout(descriptor)

    def report(self) -> Mapping[str, str]:
        return self.made.report()

    def choices(self) -> str:
        return self.made.choices()

    def forget(self) -> None:
        self.made.forget()

    def remembered(self) -> int:
        return self.made.remembered()
