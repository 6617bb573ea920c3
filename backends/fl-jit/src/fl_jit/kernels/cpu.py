"""Facts about a processor that choices of kernels depend on, in one table.

BLIS calls this the *context* of an architecture (F. Van Zee and R. van de Geijn, "BLIS: a framework
for rapidly instantiating BLAS functionality", 2015). Rules of tiles, blocks, packing, prefetch and
streaming read these fields, and nothing else about the machine. ``codegen.target`` has the
instruction set, which ``FL_VECTOR_BITS`` limits.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.target import Target

#: Bytes of a cache line.
LINE = 64
#: Processors that compute 512-bit vectors as two halves in sequence, by LLVM's names.
_HALF_RATE = ("znver4",)
_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
#: Bytes of caches that the system does not report: the minimum of most processors.
_DEFAULT = {1: 32 << 10, 2: 512 << 10, 3: 0}
#: Maximum ratio of the L3 share to L2 for which the share counts. A virtual machine with few
#: processors reports the whole L3 of its host. That L3 is far away (10 bytes per cycle, half of
#: what multiply-adds take) and shared with others. A real share is 1 to 16 times L2.
_MOST_SHARE = 32


@dataclass(frozen=True)
class CpuContext:
    """A processor.

    target           instruction set
    l1, l2           bytes of data cache that a core has for itself
    l3               bytes of L3 that are near a core: its equal share; 0 if L3 is far, or missing
    half_rate        whether an instruction on 512 bits takes as long as two on 256
    streaming_bytes  size from which a result is too large to stay in the caches, so that it is
                     written by non-temporal stores
    """

    target: Target
    l1: int
    l2: int
    l3: int
    half_rate: bool = False
    streaming_bytes: int = 64 << 20

    @property
    def registers(self) -> int:
        """Number of vector registers."""
        return self.target.registers

    @property
    def l3_feeds_fma(self) -> bool:
        """Whether L3 delivers B as fast as the micro-kernels of a GEMM use it.

        L3 must be near, and tiles take about 5 bytes per cycle. Tiles of 16 registers take twice as
        much per multiply-add. So do 512-bit vectors, unless the processor splits them over two
        cycles. The demand is then 10 bytes per cycle, on every core.
        """
        slow = self.target.vector_bits < 512 or self.half_rate
        return self.l3 > 0 and self.registers >= 32 and slow


@functools.cache
def host() -> CpuContext:
    """The processor of this process. Raises ArgumentError if FL_VECTOR_BITS is invalid."""
    machine = target.host()
    sizes = _DEFAULT | _caches()
    near = sizes[3] <= _MOST_SHARE * sizes[2]
    half_rate = machine.cpu in _HALF_RATE
    return CpuContext(machine, sizes[1], sizes[2], sizes[3] if near else 0, half_rate)


def _caches() -> dict[int, int]:
    # Bytes of the data caches of a core, by level, as the system reports them. Of L3 its share.
    found: dict[int, int] = {}
    for index in sorted(_FOLDER.glob("index*")):
        try:
            level, kind, size, map_ = (
                (index / name).read_text().strip()
                for name in ("level", "type", "size", "shared_cpu_map")
            )
        except OSError:
            continue
        nbytes, number = _bytes(size), int(level)
        if nbytes and kind in ("Data", "Unified"):
            found.setdefault(number, nbytes // (_processors(map_) if number == 3 else 1))
    return found


def _bytes(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "")
    return int(number) * units.get(unit, 1) if number.isdigit() else 0


def _processors(mask: str) -> int:
    # Processors in a hexadecimal mask with a comma after every 32 of them.
    digits = mask.replace(",", "")
    return max(bin(int(digits, 16)).count("1"), 1) if digits else 1
