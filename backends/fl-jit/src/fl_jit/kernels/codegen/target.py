"""The processor that kernels are for: its features, and how wide its vectors are.

``FL_VECTOR_BITS`` has kernels made for narrower vectors than the processor has (256 or 128), or for
any processor of its kind (``generic``: 128 bits, none of the features that came later).
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
from dataclasses import dataclass, replace

from fl_memory.forks import free_after_fork
from fl_tensor import extras
from fl_tensor.cached import cached_property
from fl_tensor.errors import ArgumentError

try:
    import llvmlite.binding as llvm
except ModuleNotFoundError as error:
    raise extras.missing("code generation", "llvmlite", "jit") from error

ENVIRONMENT = "FL_VECTOR_BITS"
#: Features that the generator asks about; what else the processor has, LLVM knows.
AVX512 = ("+avx512f", "+avx512bw", "+avx512dq", "+avx512vl")
#: Processors that compute vectors of 512 bits as two halves, one after the other.
HALF_RATE = ("znver4",)

#: Bytes of a result from which it is written past the caches: whoever reads it next would not find
#: it there anyway.
STREAMED = 64 << 20


@dataclass(frozen=True)
class Target:
    """``cpu`` and ``features`` as LLVM names them; ``vector_bits`` is how much a kernel works on at
    a time, a power of two from 128 up."""

    cpu: str
    features: str
    vector_bits: int

    @property
    def has_fma(self) -> bool:
        """Whether a fused multiply-add is one instruction."""
        return self.has("+fma") or self.has("+neon") or "aarch64" in triple()

    @property
    def has_half_rate(self) -> bool:
        """Whether an instruction on 512 bits takes as long as two on 256."""
        return self.cpu in HALF_RATE

    @property
    def has_half(self) -> bool:
        """Whether float16 is converted by instructions, not by functions of a C library."""
        return self.has("+f16c") or self.has("+avx512f") or "aarch64" in triple()

    @property
    def has_bfloat_products(self) -> bool:
        """Whether pairs of bfloat16 are multiplied, and added to float32, by one instruction."""
        return self.has("+avx512bf16", "+avx512vl")

    @property
    def has_fences(self) -> bool:
        """Whether stores past the caches are ordered by an instruction."""
        return triple().startswith("x86_64")

    @cached_property
    def _found(self) -> frozenset[str]:
        return frozenset(self.features.split(","))

    def has(self, *features: str) -> bool:
        """Whether the processor has all of these."""
        return self._found.issuperset(features)

    def lanes(self, itemsize: int) -> int:
        """Elements per vector, where elements have ``itemsize`` bytes, 4 or 8 of them."""
        return max(self.vector_bits // (8 * min(max(itemsize, 4), 8)), 2)


#: Held by the thread that is in LLVM, or makes code that others wait for; by this one while the
#: process forks, or ends. LLVM's binding has a lock of its own, which forks do not wait for.
lock = free_after_fork(threading.RLock())
atexit.register(lock.acquire)


@functools.cache
def initialize() -> None:
    """Prepares LLVM for this machine, once."""
    with lock:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()


@functools.cache
def triple() -> str:
    """The kind of machine and system, as LLVM names it."""
    with lock:
        return str(llvm.get_process_triple())


@functools.cache
def host() -> Target:
    """What kernels of this process are for: its processor, as far as FL_VECTOR_BITS lets them.
    Raises ArgumentError where that asks for what there is not."""
    return chosen(os.environ.get(ENVIRONMENT, ""), processor())


def chosen(preferred: str, found: Target) -> Target:
    """``found``, with the vectors that FL_VECTOR_BITS asks for."""
    if not preferred:
        return found
    if preferred == "generic":
        return generic()
    widths = [str(bits) for bits in (128, 256, 512) if bits <= found.vector_bits]
    if preferred not in widths:
        raise ArgumentError(
            f"[{ENVIRONMENT}] {preferred!r}: expected {', '.join(widths)} or generic; vectors of "
            f"{found.cpu} have {found.vector_bits} bits"
        )
    return replace(found, vector_bits=int(preferred))


def processor() -> Target:
    """The processor of this process."""
    with lock:
        found = Target(llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), 128)
    bits = 512 if found.has(*AVX512) else 256 if found.has("+avx2") else 128
    return replace(found, vector_bits=bits)


def avx2() -> Target:
    """An x86-64 of 2013 and later: 256 bits, fused multiply-add, conversion of float16."""
    return Target("haswell", "+avx2,+fma,+f16c", 256)


def generic() -> Target:
    """What every processor of this kind can do: 128 bits."""
    return Target("x86-64" if triple().startswith("x86_64") else "generic", "", 128)
