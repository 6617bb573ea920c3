"""Small groups of channels in the lanes of vectors: which convolutions have such.

A vector of the source holds whole groups, side by side. What a group's channels give to one channel
of the result is a sum over lanes, and lanes are best left alone where most of the work is. So there
is a vector of sums for every *turn*, in which a lane multiplies for one channel of the result:

    turn:      0             1                       for two groups of two channels
    lanes:     a0 a1 b0 b1   a0 a1 b0 b1             of the source
    sums for:  A0 A1 B0 B1   A1 A0 B1 B0             of the result

Only when all is added up lanes are brought together, A0 = a0 of turn 0 + a1 of turn 1. Groups need
not have as many channels in the result as in the source.
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
#: Channels of a group at most: a product of matrices fills the lanes where there are more.
_MOST = 8
#: Of a vector, or of several one after the other: which vector, and which lane. None: any.
Lane = tuple[int, int] | None


def is_depthwise(descriptor: OpDescriptor) -> bool:
    """Whether it is a convolution, or a gradient of one, of which each of several channels has one
    kernel, or channels are in small groups; and there is something to compute."""
    if not isinstance(descriptor, Convolved) or descriptor.groups < 2:
        return False
    images = _images(descriptor)
    if any(0 in image.shape for image in images):
        return False
    groups = Groups.of(descriptor)
    return groups == (1, 1) or (max(groups) <= _MOST and _fills(descriptor, groups))


def _images(descriptor: Convolved) -> tuple[Placement, Placement]:
    # Of the data, and of the result of the convolution.
    if isinstance(descriptor, Convolution):
        return descriptor.x, descriptor.out
    if isinstance(descriptor, ConvDataGrad):
        return descriptor.out, descriptor.gradient
    return descriptor.x, descriptor.gradient


def _fills(descriptor: Convolved, groups: Groups) -> bool:
    # Whether a product of matrices has no use for most lanes of a vector, but this has.
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
        """Those that are summed over, and those that result. A gradient of weights has vectors of
        the data, too, whose channels are the source."""
        channels, features = (image.shape[1] // descriptor.groups for image in _images(descriptor))
        if isinstance(descriptor, ConvDataGrad):
            return cls(features, channels)
        return cls(channels, features)

    def held(self, lanes: int) -> int:
        """Groups in a vector of the source."""
        return lanes // self.source

    def results(self, lanes: int) -> int:
        """Vectors of the target that belong to one of the source."""
        return -(-self.held(lanes) * self.target // lanes)

    def channel(self, lane: int, turn: int) -> int:
        """Which channel of its group in the target a lane of the source multiplies for."""
        return (lane % self.source + turn) % self.target

    def spread(self, lanes: int, turn: int) -> list[Lane]:
        """For each lane of the source, where in vectors of the target that channel is."""
        found: list[Lane] = []
        for lane in range(lanes):
            group = lane // self.source
            place = group * self.target + self.channel(lane, turn)
            found.append(divmod(place, lanes) if group < self.held(lanes) else None)
        return found

    def terms(self, lanes: int, result: int) -> list[list[Lane]]:
        """What vector ``result`` of the target is the sum of: for each lane, which turn and lane of
        the source."""
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
    """What is computed: for so many images a ``number`` of groups, with a kernel of three axes, in
    ``dtype``."""

    batch: int
    number: int
    groups: Groups
    kernel: Shape
    dtype: DType

    @property
    def taps(self) -> int:
        """Places of the kernel."""
        return math.prod(self.kernel)


def gathered(of: Vectors, groups: Groups, accumulators: Sequence[IR]) -> list[IR]:
    """The vectors of the target, of sums by turns."""
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
