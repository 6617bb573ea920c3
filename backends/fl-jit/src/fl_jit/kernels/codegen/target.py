"""Target processor of kernels: its features and its vector width.

``FL_VECTOR_BITS`` selects narrower vectors than the processor has (256 or 128). ``generic`` selects
the baseline of the architecture: 128 bits and no optional features.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
from dataclasses import dataclass, replace

import llvmlite.binding as llvm

from fl_memory import free_after_fork
from fl_tensor.errors import ArgumentError
from fl_tensor.extend import cached_property

ENVIRONMENT = "FL_VECTOR_BITS"
#: Features that the generator tests. LLVM uses the processor's other features by itself.
AVX512 = ("+avx512f", "+avx512bw", "+avx512dq", "+avx512vl")


@dataclass(frozen=True)
class Target:
    """A processor.

    ``cpu`` and ``features`` are LLVM's names. ``vector_bits`` is the vector width of kernels, a
    power of two from 128 up.
    """

    cpu: str
    features: str
    vector_bits: int

    @property
    def has_fma(self) -> bool:
        """Whether a fused multiply-add is one instruction."""
        return self.has("+fma") or self.has("+neon") or "aarch64" in triple()

    @property
    def registers(self) -> int:
        """Number of vector registers."""
        return 32 if self.has(*AVX512) or not triple().startswith("x86_64") else 16

    @property
    def has_half(self) -> bool:
        """Whether instructions, and not functions of a C library, convert float16."""
        return self.has("+f16c") or self.has("+avx512f") or "aarch64" in triple()

    @property
    def has_bfloat_products(self) -> bool:
        """Whether one instruction multiplies pairs of bfloat16 and adds them to float32."""
        return self.has("+avx512bf16", "+avx512vl")

    @property
    def has_fences(self) -> bool:
        """Whether an instruction orders non-temporal stores."""
        return triple().startswith("x86_64")

    @cached_property
    def _found(self) -> frozenset[str]:
        return frozenset(self.features.split(","))

    def has(self, *features: str) -> bool:
        """Whether the processor has all of these features."""
        return self._found.issuperset(features)

    def lanes(self, itemsize: int) -> int:
        """Elements per vector, for elements of ``itemsize`` bytes (4 or 8)."""
        return max(self.vector_bits // (8 * min(max(itemsize, 4), 8)), 2)


#: Held by a thread that runs LLVM, or that generates code for others. The forking or exiting
#: thread holds it, too. LLVM's binding has a lock of its own, which forks do not wait for.
lock = free_after_fork(threading.RLock())
atexit.register(lock.acquire)


@functools.cache
def initialize() -> None:
    """Initialize LLVM for this machine, once."""
    with lock:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()


@functools.cache
def triple() -> str:
    """LLVM's target triple of this machine."""
    with lock:
        return str(llvm.get_process_triple())


@functools.cache
def host() -> Target:
    """The target of this process's kernels: its processor, limited by FL_VECTOR_BITS.

    Raises ArgumentError if FL_VECTOR_BITS is invalid.
    """
    return chosen(os.environ.get(ENVIRONMENT, ""), processor())


def chosen(preferred: str, machine: Target) -> Target:
    """``found``, with the vector width that FL_VECTOR_BITS selects."""
    if not preferred:
        return machine
    if preferred == "generic":
        return generic()
    widths = [str(bits) for bits in (128, 256, 512) if bits <= machine.vector_bits]
    if preferred not in widths:
        raise ArgumentError(
            f"[{ENVIRONMENT}] {preferred!r}: expected {', '.join(widths)} or generic; vectors of "
            f"{machine.cpu} have {machine.vector_bits} bits"
        )
    return replace(machine, vector_bits=int(preferred))


def processor() -> Target:
    """The processor of this process."""
    with lock:
        machine = Target(llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), 128)
    bits = 512 if machine.has(*AVX512) else 256 if machine.has("+avx2") else 128
    return replace(machine, vector_bits=bits)


def avx2() -> Target:
    """An x86-64 processor of 2013 or later: 256 bits, fused multiply-add, conversion of float16."""
    return Target("haswell", "+avx2,+fma,+f16c", 256)


def generic() -> Target:
    """The baseline of the architecture: 128 bits."""
    return Target("x86-64" if triple().startswith("x86_64") else "generic", "", 128)
