"""The seam: a provider turns a problem into a kernel, or says why it cannot.

    kernel = provider.find(Matmul(x, y, out))      # None: fall back
    kernel(x_address, y_address, out_address)

To write a provider, derive from ``Provider`` and write ``prepare``; finding kernels again,
remembering what is not supported, and safety between threads are dealt with here.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

from fl_jit.kernels import workload_log
from fl_jit.kernels.descriptors import Convolution, Matmul, OpDescriptor
from fl_jit.kernels.layout import Packed, Placement
from fl_tensor.errors import FlError
from fl_tensor.reproducible import is_reproducible

#: Kernels that a provider keeps for problems asked again; the least recently used one goes first.
CAPACITY = 2048


class KernelLibraryError(FlError, RuntimeError):
    """A provider's library that cannot be used, or that failed."""


class UnsupportedError(KernelLibraryError, NotImplementedError):
    """A problem that the provider has no (fast) kernel for. The caller falls back."""


class Kernel(Protocol):
    """A prepared computation. Calls may overlap in time, from any threads.

    operands    the layout of every argument in the order of the call; where the problem left the
                choice open, what the provider chose
    workspace   bytes of the workspace that the problem speaks of, 0 if there is none
    about       which implementation it is, for people
    """

    operands: tuple[Placement, ...]
    workspace: int

    @property
    def about(self) -> str: ...

    def __call__(self, *addresses: int) -> None:
        """Compute. Each address is that of an operand's first element, aligned as its dtype is;
        what outputs hold before does not matter, and they must not overlap inputs."""


class KernelLibrary(ABC):
    """A library, or a generator, of kernels."""

    #: For people and for ``fl-tensor info``.
    name: str = ""
    #: Whether it is asked for problems with an epilogue.
    has_epilogues: bool = False
    #: If it is not: the activations that it computes by name, with a bias or without ("" is none).
    activations: tuple[str, ...] = ()

    def __init__(self, capacity: int = CAPACITY) -> None:
        # typed: two problems with the same fields are different problems.
        self._found = functools.lru_cache(maxsize=capacity, typed=True)(self._prepared)

    # -------------------------------------------------------------- you must write

    @abstractmethod
    def prepare(self, descriptor: OpDescriptor) -> Kernel:
        """A kernel for ``problem``. Raises UnsupportedError where there is none that is worth it.
        Where ``is_reproducible()``, no measurement may decide which.

        Called seldom: whatever takes time (choosing, compiling, measuring) belongs here. May be
        called by two threads at once, even for the same problem.
        """

    @abstractmethod
    def report(self) -> Mapping[str, str]:
        """What it is, for ``fl-tensor info``: version, threads, where it came from."""

    # -------------------------------------------------------------- you get these

    @property
    def libraries(self) -> tuple[KernelLibrary, ...]:
        """Those that it stands for, in the order in which they are asked."""
        return (self,)

    def find(self, descriptor: OpDescriptor) -> Kernel | None:
        """The kernel for ``problem``, prepared at most once while it is remembered; None where
        ``prepare`` raised UnsupportedError."""
        found = self._found(descriptor, is_reproducible())
        return None if isinstance(found, str) else found

    def why_not(self, descriptor: OpDescriptor) -> str:
        """Why ``find`` gives None; "" where it gives a kernel."""
        found = self._found(descriptor, is_reproducible())
        return found if isinstance(found, str) else ""

    def serving(self, descriptor: OpDescriptor) -> KernelLibrary:
        """Whose kernel ``find`` gives: this provider's, but where it stands for several."""
        return self

    def solves(self, kind: type) -> bool:
        """Whether there are kernels for problems of this kind at all."""
        return True

    def prepacked_layout(self, descriptor: Matmul | Convolution) -> Packed | None:
        """How the second operand is best packed where it serves many calls; None where there is no
        layout that serves products with others as well. Kernels for ``Reorder`` lead to it and
        back."""
        return None

    def choices(self) -> str:
        """What was chosen among several kernels for one problem, a line each; "" if there is no
        such thing."""
        return ""

    def forget(self) -> None:
        """Drop all remembered kernels (those in use elsewhere stay valid)."""
        self._found.cache_clear()

    def remembered(self) -> int:
        """How many problems are remembered now."""
        return self._found.cache_info().currsize

    def _prepared(self, descriptor: OpDescriptor, reproducible: bool) -> Kernel | str:
        # Known by both: what is prepared may differ.
        if not self.has_epilogues and getattr(descriptor, "epilogue", None) is not None:
            return "no epilogues"
        try:
            made = self.prepare(descriptor)
        except UnsupportedError as error:
            return str(error) or "unsupported"
        workload_log.note(descriptor)
        return made
