"""A test double of kernels, which checks the addresses that it is called with.

A bad address raises an error. A kernel itself would crash or give a wrong result. No address may be
0 or misaligned, and an output may share no element with another operand. The exception is an
epilogue that writes its output over its input in place.

Operands whose address ranges are disjoint, nearly all of them, take two comparisons. Ranges can
meet without a common element, as those of two column halves of one matrix do. Then a search decides
whether a sum of strides can reach a byte of both operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from fl_jit.kernels.descriptors import ConvWeightGrad, OpDescriptor
from fl_jit.kernels.layout import Layout, Packed, Placement
from fl_jit.kernels.library import Kernel, UnsupportedError
from fl_jit.kernels.llvm.library import GeneratedKernels
from fl_tensor.errors import ArgumentError

#: Steps of the search after which two operands count as overlapping.
_PATIENCE = 10_000
#: Distances in bytes that exceed any address space.
_FARTHEST = 1 << 62


class CheckedKernels(GeneratedKernels):
    """The generated kernels, each of them checked."""

    def prepare(self, descriptor: OpDescriptor) -> Kernel:
        return CheckedKernel(super().prepare(descriptor), descriptor)


class CheckedKernel:
    """A kernel with a check of the addresses of each call."""

    __slots__ = ("_first", "_kernel", "_pairs", "_ranges", "_strictest", "operands")

    def __init__(self, kernel: Kernel, descriptor: OpDescriptor) -> None:
        self._kernel = kernel
        self.operands = kernel.operands
        self._ranges = tuple(map(reach, self.operands))
        self._first = first = len(self.operands) - _outputs(descriptor)
        there = [n for n, (low, high) in enumerate(self._ranges) if low < high]
        #: (an operand, an output, first and last byte of each relative to its address)
        self._pairs = tuple(
            (one, other, *self._ranges[one], *self._ranges[other])
            for one, other in combinations(there, 2)
            if other >= first
        )
        self._strictest = max(each.dtype.itemsize for each in self.operands) - 1

    @property
    def about(self) -> str:
        """Description of the kernel."""
        return self._kernel.about

    def __call__(self, *addresses: int) -> None:
        if len(addresses) != len(self.operands):
            raise ArgumentError(
                f"{len(addresses)} addresses for {len(self.operands)} operands: "
                f"{', '.join(map(str, self.operands))}"
            )
        bits = 0
        for at in addresses:
            bits |= at
        if bits & self._strictest or 0 in addresses:
            self._check_each(addresses)
        for one, other, low, high, out_low, out_high in self._pairs:
            x, out = addresses[one], addresses[other]
            if x + low < out + out_high and out + out_low < x + high:
                self._compare(one, other, x, out)
        self._kernel(*addresses)

    def _check_each(self, addresses: Sequence[int]) -> None:
        for number, (low, high) in enumerate(self._ranges):
            at, itemsize = addresses[number], self.operands[number].dtype.itemsize
            if low < high and (at % itemsize or not at):
                why = f"expected a multiple of {itemsize}" if at else "there is nothing at 0"
                raise ArgumentError(
                    f"operand {number} ({self.operands[number]}) cannot be at address {at:#x}: "
                    f"{why}"
                )

    def _compare(self, one: int, other: int, x: int, out: int) -> None:
        same = x == out and self.operands[one] == self.operands[other]
        if same and 2 <= one < self._first < other:
            return  # an epilogue reads each element before it overwrites it
        if share(x, self.operands[one], out, self.operands[other]):
            raise ArgumentError(
                f"operands {one} and {other} overlap: {self.operands[one]} at {x:#x}, "
                f"{self.operands[other]} at {out:#x}; give the result memory of its own"
            )


def _outputs(descriptor: OpDescriptor) -> int:
    # Number of operands, at the end, that the kernel writes.
    if isinstance(descriptor, ConvWeightGrad):
        return 1 + (descriptor.bias is not None)
    follows = getattr(descriptor, "epilogue", None)
    return 1 + (len(follows.writes) if follows else 0)


def reach(operand: Placement) -> tuple[int, int]:
    """The range of bytes of an operand, relative to its address; (0, 0) without elements. Raises
    UnsupportedError for strides that exceed any address space."""
    if isinstance(operand, Packed) or operand.strides is None:
        return 0, operand.nbytes
    if 0 in operand.shape:
        return 0, 0
    itemsize = operand.dtype.itemsize
    ends = [(n - 1) * s for n, s in zip(operand.shape, operand.strides, strict=True)]
    low, high = sum(e for e in ends if e < 0), sum(e for e in ends if e > 0)
    if max(-low, high) * itemsize >= _FARTHEST:
        raise UnsupportedError(f"{operand} reaches over more memory than there are addresses")
    return low * itemsize, (high + 1) * itemsize


def share(x_address: int, x: Placement, y_address: int, y: Placement) -> bool:
    """Whether two operands have a byte in common, or the search takes too many steps."""
    distance = x_address - y_address
    steps: dict[int, int] = {}
    for operand, sign in ((x, 1), (y, -1)):
        for size, stride in _steps(operand):
            moved = sign * stride
            distance += min(moved, 0) * (size - 1)
            steps[abs(moved)] = steps.get(abs(moved), 0) + size - 1
    # Searches for distance + sum of step * (0 to count) in low .. high, the longest steps first.
    low, high = 1 - x.dtype.itemsize, y.dtype.itemsize - 1
    ordered = sorted(steps.items(), reverse=True)
    behind = [0]
    for step, count in reversed(ordered):
        behind.insert(0, behind[0] + step * count)
    waiting, patience = [(0, distance)], _PATIENCE
    while waiting:
        depth, at = waiting.pop()
        patience -= 1
        if patience < 0:
            return True
        if at > high or at + behind[depth] < low:
            continue
        if depth == len(ordered):
            return True
        step, count = ordered[depth]
        first = max(-((at + behind[depth + 1] - low) // step), 0)
        last = min((high - at) // step, count)
        waiting += [(depth + 1, at + step * times) for times in range(first, last + 1)]
    return False


def _steps(operand: Placement) -> Sequence[tuple[int, int]]:
    # (size, stride in bytes) of each axis that has several elements and a stride
    itemsize = operand.dtype.itemsize
    if not isinstance(operand, Layout) or operand.strides is None:
        return [(operand.nbytes // itemsize, itemsize)]
    axes = zip(operand.shape, operand.strides, strict=True)
    return [(n, s * itemsize) for n, s in axes if n > 1 and s]
