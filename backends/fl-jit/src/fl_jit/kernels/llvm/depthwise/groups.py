"""Small channel groups in vector lanes, and the test for convolutions that have them.

A vector of the source holds whole groups, contiguously. The contribution of a group to one channel
of the result is a sum over lanes. The inner loops avoid operations across lanes. There is therefore
an accumulator for every *turn*, in which a lane multiplies for one channel of the result:

    turn:      0             1                       for two groups of two channels
    lanes:     a0 a1 b0 b1   a0 a1 b0 b1             of the source
    sums for:  A0 A1 B0 B1   A1 A0 B1 B0             of the result

Lanes are combined once, after all additions: A0 = a0 of turn 0 + a1 of turn 1. Groups may have
different numbers of channels in the source and in the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.vectors import IR, Vectors
from fl_jit.kernels.descriptors import ConvDataGrad, Convolution, ConvWeightGrad, OpDescriptor
from fl_jit.kernels.layout import Layout, Placement, Shape
from fl_jit.kernels.llvm.loop_nest import computed
from fl_tensor.dtypes import DType, float32, float64

Convolved: TypeAlias = Convolution | ConvDataGrad | ConvWeightGrad
#: Maximum channels of a group: with more, a GEMM fills the lanes.
_MOST = 8
#: (vector, lane), of several vectors in sequence. None: any.
Lane = tuple[int, int] | None


def is_depthwise(descriptor: OpDescriptor) -> bool:
    """Whether it is a convolution, or a gradient of one, that is depthwise or has small groups, and
    has elements to compute."""
    if not isinstance(descriptor, Convolved) or descriptor.groups < 2:
        return False
    images = _images(descriptor)
    if any(0 in image.shape for image in images):
        return False
    groups = Groups.of(descriptor)
    return groups == (1, 1) or (max(groups) <= _MOST and _fills(descriptor, groups))


def _images(descriptor: Convolved) -> tuple[Placement, Placement]:
    # Images of the data, and of the result of the convolution.
    if isinstance(descriptor, Convolution):
        return descriptor.x, descriptor.out
    if isinstance(descriptor, ConvDataGrad):
        return descriptor.out, descriptor.gradient
    return descriptor.x, descriptor.gradient


def _fills(descriptor: Convolved, groups: Groups) -> bool:
    # Whether a GEMM would leave most lanes of a vector empty, and this algorithm fills them.
    w = descriptor.out if isinstance(descriptor, ConvWeightGrad) else descriptor.w
    dtypes = {place.dtype for place in (*_images(descriptor), w)}
    wide = {computed(dtype) for dtype in dtypes}
    fits = groups.source <= target.host().lanes(max(dtype.itemsize for dtype in wide))
    return isinstance(w, Layout) and fits and wide in ({float32}, {float64})


class Groups(NamedTuple):
    """Channels of a group, in the source and in the target."""

    source: int
    target: int

    @classmethod
    def of(cls, descriptor: Convolved) -> Groups:
        """Channels that are summed over, and channels of the result. In a wgrad the source is the
        data, as it has vectors of the data, too."""
        channels, features = (image.shape[1] // descriptor.groups for image in _images(descriptor))
        if isinstance(descriptor, ConvDataGrad):
            return cls(features, channels)
        return cls(channels, features)

    def held(self, lanes: int) -> int:
        """Groups in a vector of the source."""
        return lanes // self.source

    def results(self, lanes: int) -> int:
        """Vectors of the target that correspond to one of the source."""
        return -(-self.held(lanes) * self.target // lanes)

    def channel(self, lane: int, turn: int) -> int:
        """The channel, in its group of the target, that a lane of the source multiplies for."""
        return (lane % self.source + turn) % self.target

    def spread(self, lanes: int, turn: int) -> list[Lane]:
        """For each lane of the source, the position of that channel in vectors of the target."""
        found: list[Lane] = []
        for lane in range(lanes):
            group = lane // self.source
            place = group * self.target + self.channel(lane, turn)
            found.append(divmod(place, lanes) if group < self.held(lanes) else None)
        return found

    def terms(self, lanes: int, result: int) -> list[list[Lane]]:
        """The terms of vector ``result`` of the target: for each lane, its (turn, lane) in the
        source, or None for a lane without a group."""
        return [
            [self._term(lane, term, lanes) for lane in range(result * lanes, (result + 1) * lanes)]
            for term in range(self.source)
        ]

    def _term(self, lane: int, term: int, lanes: int) -> Lane:
        group, channel = divmod(lane, self.target)
        source = (channel - term) % self.source
        turn = (channel - source) % self.target
        return (turn, group * self.source + source) if group < self.held(lanes) else None


class Task(NamedTuple):
    """A computation on ``batch`` images with ``number`` groups, a kernel of three axes, in
    ``dtype``."""

    batch: int
    number: int
    groups: Groups
    kernel: Shape
    dtype: DType

    @property
    def kernel_size(self) -> int:
        """Places of the kernel."""
        return math.prod(self.kernel)


def gathered(of: Vectors, groups: Groups, accumulators: Sequence[IR]) -> list[IR]:
    """The vectors of the target, from accumulators by turn."""
    found = []
    for result in range(groups.results(of.lanes)):
        first, *others = (
            picked(of, accumulators, lanes) for lanes in groups.terms(of.lanes, result)
        )
        for term in others:
            first = of.b.fadd(first, term)
        found.append(first)
    return found


def picked(of: Vectors, vectors: Sequence[IR], lanes: Sequence[Lane]) -> IR:
    """A vector of these lanes of ``vectors``."""
    used = sorted({lane[0] for lane in lanes if lane})
    found = vectors[used[0]]
    here = [lane[1] if lane and lane[0] == used[0] else i for i, lane in enumerate(lanes)]
    if len(used) == 1 and here == list(range(of.lanes)):
        return found
    for number in used[1:] or used:
        pairs = zip(lanes, here, strict=True)
        places = [of.lanes + lane[1] if lane and lane[0] == number else i for lane, i in pairs]
        found = of.shuffle(found, vectors[number], places)
        here = list(range(of.lanes))
    return found
