"""Interface of kernel libraries: a library maps an operation descriptor to a kernel.

    kernel = library.find(Matmul(x, y, out))      # None: fall back
    kernel(x_address, y_address, out_address)

To write a kernel library, derive from ``KernelLibrary`` and implement ``prepare`` and ``report``.
The base class caches kernels and unsupported descriptors, and is thread-safe.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Protocol

from fl_jit.kernels import workload_log
from fl_jit.kernels.descriptors import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Matmul,
    OpDescriptor,
    Shape,
)
from fl_jit.kernels.layout import Packed, Placement
from fl_tensor.errors import FlError
from fl_tensor.extend import is_reproducible

#: Kernels in the cache of a library. The least recently used one is evicted first.
CAPACITY = 2048


class KernelLibraryError(FlError, RuntimeError):
    """A kernel library that cannot be used, or that failed."""


class UnsupportedError(KernelLibraryError, NotImplementedError):
    """A descriptor without a (fast) kernel in this library. The caller falls back."""


class Kernel(Protocol):
    """A prepared computation. Calls from several threads may overlap.

    operands    the layout of every argument, in the order of the call; where the descriptor left
                the choice open, the one that the library chose
    about       name of the implementation, for reports
    """

    operands: tuple[Placement, ...]

    @property
    def about(self) -> str: ...

    def __call__(self, *addresses: int) -> None:
        """Run the kernel.

        Each address is that of an operand's first element, aligned to its dtype. The old contents
        of outputs are ignored. Outputs must not overlap inputs.
        """


class KernelLibrary(ABC):
    """A library, or a generator, of kernels."""

    #: For messages and for ``fl-jit info``.
    name: str = ""
    #: Whether it supports descriptors with an epilogue.
    has_epilogues: bool = False
    #: How many times libraries cleared their caches. Holders of kernels look them up again then.
    generation: ClassVar[int] = 0

    def __init__(self, capacity: int = CAPACITY) -> None:
        # typed: descriptors of different types can have equal fields.
        self._found = functools.lru_cache(maxsize=capacity, typed=True)(self._prepared)

    # -------------------------------------------------------------- abstract methods

    @abstractmethod
    def prepare(self, descriptor: OpDescriptor) -> Kernel:
        """A kernel for ``descriptor``.

        Raises UnsupportedError if there is none, or none that is fast enough. If
        ``is_reproducible()``, the choice must not depend on measurements.

        Calls are rare: choosing, compiling and measuring belong here. Two threads may call it at
        once, even for the same descriptor.
        """

    @abstractmethod
    def report(self) -> Mapping[str, str]:
        """Properties for ``fl-jit info``: version, threads, origin."""

    # -------------------------------------------------------------- inherited methods

    def find(self, descriptor: OpDescriptor) -> Kernel | None:
        """The kernel for ``descriptor``; None where ``prepare`` raised UnsupportedError.

        Kernels are cached: a cached one is not prepared again.
        """
        found = self._found(descriptor, is_reproducible())
        return None if isinstance(found, str) else found

    def why_not(self, descriptor: OpDescriptor) -> str:
        """The reason why ``find`` returns None; "" if it returns a kernel."""
        found = self._found(descriptor, is_reproducible())
        return found if isinstance(found, str) else ""

    def serving(self, descriptor: OpDescriptor) -> KernelLibrary:
        """The library whose kernel ``find`` returns; a chain returns one of its libraries."""
        return self

    def prepacked_layout(self, descriptor: Matmul | Convolution) -> Packed | None:
        """The packed layout of B (the weights) for use in many calls.

        None if no layout also serves GEMMs with other operands. Kernels for ``Reorder`` convert to
        it and back.
        """
        return None

    def tune(self, descriptor: OpDescriptor) -> str:
        """Measure the kernels that could compute ``descriptor``, and record the fastest.

        ``fl-jit tune`` calls it. Returns the name of the fastest, "" if the heuristic's choice
        stays.
        """
        return ""

    def preferred_order(self, kind: type, x: Shape, y: Shape, out: Shape) -> Shape | None:
        """The axis order, slowest first, in which kernels for ``kind`` write a result best; None:
        C order. The shapes are those of the operands in the order of the descriptor.

        This is channels last for images. Where weights have more elements than the images and
        gradients together, packing them takes a noticeable part of the time. The order of their
        gradient is then (*places, channels, features): a packed panel is then rows of that array,
        or their transpose. Layers with 512 channels of 7x7 pixels are 7 to 10 % faster.
        """
        if kind in (Convolution, ConvDataGrad):
            return (0, *range(2, len(out)), 1)
        if kind is ConvWeightGrad and math.prod(out) > math.prod(x) + math.prod(y):
            return (*range(2, len(out)), 1, 0)
        return None

    def choices(self) -> str:
        """The autotuner's choices among several kernels, one per line; "" if there are none."""
        return ""

    def forget(self) -> None:
        """Clear the cache of kernels. Kernels in use elsewhere stay valid."""
        self._found.cache_clear()
        KernelLibrary.generation += 1

    def _prepared(self, descriptor: OpDescriptor, reproducible: bool) -> Kernel | str:
        # ``reproducible`` is part of the cache key: the prepared kernels may differ.
        if not self.has_epilogues and getattr(descriptor, "epilogue", None) is not None:
            return "no epilogues"
        try:
            made = self.prepare(descriptor)
        except UnsupportedError as error:
            return str(error) or "unsupported"
        workload_log.note(descriptor)
        return made
