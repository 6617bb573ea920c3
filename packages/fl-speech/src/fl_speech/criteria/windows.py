"""Windows of attention: where a decoder may look at each step, as numbers added to the scores.

They are logarithms of weights: 0 where attention is free, -10000 where it must not go, in between
for soft windows. -10000 and not -inf: where a window excludes all frames, the scores decide.
"""

from __future__ import annotations

import math
from typing import ClassVar

import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import arange_like
from fl_tensor.annotations import explained
from fl_tensor.arguments import choice_of

#: What a window adds to the scores of frames that it excludes.
EXCLUDED = -10000.0

WINDOWS = ("none", "median", "step", "soft", "softpretrain")


class Window(nn.Module):
    """Base class: the window of some steps of a decoder over the frames of an encoder's output. A
    subclass defines `weights`."""

    #: Whether it follows the weights of the step before, so that a call has a single step.
    stepwise: ClassVar[bool] = False

    def forward(
        self,
        steps: ft.Array,
        frames: int,
        lengths: ft.Array,
        target_lengths: ft.Array | None = None,
        previous: ft.Array | None = None,
    ) -> ft.Array:
        """Logarithms of weights (B, U, frames), 0 to -10000, in the dtype of `lengths`.

        steps           (U,): which steps of the decoder, from 0
        frames          of the encoder's output, with padding
        lengths         (B,): frames of each sample, floating
        target_lengths  (B,): labels of each target; None: not known, as in decoding
        previous        (B, heads, frames): the weights of the step before; None in the first one

        Raises ShapeError for shapes that do not fit, DTypeError for lengths that are not floating.
        """
        name = type(self).__name__
        if lengths.ndim != 1 or steps.ndim != 1:
            raise ft.ShapeError(
                f"[{name}] steps {steps.shape} and lengths {lengths.shape}: give (U,) and (B,)"
            )
        if not lengths.dtype.is_floating:
            raise ft.DTypeError(
                f"[{name}] lengths are {lengths.dtype}: expected floating; use astype(ft.float32)"
            )
        if target_lengths is not None and target_lengths.shape != lengths.shape:
            raise ft.ShapeError(
                f"[{name}] target_lengths {target_lengths.shape}: expected {lengths.shape}"
            )
        if self.stepwise and steps.shape[0] != 1:
            raise ft.ShapeError(
                f"[{name}] {steps.shape[0]} steps: it follows the weights of the step before, so "
                "give one step in a call"
            )
        if previous is not None and (
            previous.ndim != 3 or previous.shape[::2] != (lengths.shape[0], frames)
        ):
            raise ft.ShapeError(
                f"[{name}] previous {previous.shape}: expected ({lengths.shape[0]}, heads, "
                f"{frames})"
            )
        place = arange_like(lengths, 0, frames, ft.int64).astype(lengths.dtype)
        step = ft.expand_dims(steps.astype(lengths.dtype), (0, 2))  # (1, U, 1)
        ends = ft.expand_dims(lengths, (1, 2))  # (B, 1, 1)
        labels = None
        if target_lengths is not None:
            labels = ft.expand_dims(target_lengths.astype(lengths.dtype), (1, 2))
        found = ft.maximum(self.weights(place, step, ends, labels, previous), EXCLUDED)
        return ft.broadcast_to(found, (lengths.shape[0], steps.shape[0], frames))

    def weights(
        self,
        place: ft.Array,
        step: ft.Array,
        lengths: ft.Array,
        labels: ft.Array | None,
        previous: ft.Array | None,
    ) -> ft.Array:
        """The window, of arrays that broadcast to (B, U, frames): the frame, the step, the lengths
        of samples and of targets."""
        raise nn.ModuleError(f"{type(self).__name__} defines no weights(); write it")


class MedianWindow(Window):
    """`left` frames before and `right` frames from the median of the weights of the step before,
    moved so that they lie within the sample; the first frames in the first step. The median is
    the first frame up to which the weights sum to 0.5, that of heads of their mean. After
    Chorowski et al., 2015.

    Raises nn.ModuleError for widths below 1.
    """

    stepwise = True

    def __init__(self, left: int = 50, right: int = 50) -> None:
        if min(left, right) < 1:
            raise nn.ModuleError(f"[MedianWindow] left={left}, right={right}: both at least 1")
        self.left, self.right = left, right

    def weights(
        self,
        place: ft.Array,
        step: ft.Array,
        lengths: ft.Array,
        labels: ft.Array | None,
        previous: ft.Array | None,
    ) -> ft.Array:
        width = self.left + self.right
        start = lengths * 0.0
        if previous is not None:
            sums = ft.cumulative_sum(ft.mean(previous, 1), axis=-1)
            median = ft.sum((sums < 0.5).astype(lengths.dtype), -1)
            start = ft.expand_dims(median, (1, 2)) - self.left
            start = ft.maximum(ft.minimum(start, lengths - width), 0.0)
        return _inside(place, start, start + width)

    def extra_repr(self) -> str:
        return f"{self.left}, {self.right}"


class StepWindow(Window):
    """At step u, frames from min_start + min_rate * u to max_start + max_rate * u, rounded: what
    is possible where each label takes `min_rate` to `max_rate` frames. The last `max_rate` frames
    of a sample are always in it.

    Raises nn.ModuleError unless 0 <= min_start < max_start and 0 <= min_rate <= max_rate.
    """

    def __init__(
        self,
        min_start: int = 0,
        max_start: int = 50,
        min_rate: float = 3.0,
        max_rate: float = 10.0,
    ) -> None:
        if not (0 <= min_start < max_start and 0 <= min_rate <= max_rate < math.inf):
            raise nn.ModuleError(
                f"[StepWindow] min_start={min_start}, max_start={max_start}, min_rate={min_rate}, "
                f"max_rate={max_rate}: starts are 0 <= min < max, rates 0 <= min <= max"
            )
        self.min_start, self.max_start = min_start, max_start
        self.min_rate, self.max_rate = min_rate, max_rate

    def weights(
        self,
        place: ft.Array,
        step: ft.Array,
        lengths: ft.Array,
        labels: ft.Array | None,
        previous: ft.Array | None,
    ) -> ft.Array:
        first = ft.minimum(lengths - self.max_rate, self.min_start + step * self.min_rate)
        start = ft.maximum(_rounded(first), 0.0)
        return _inside(place, start, _rounded(self.max_start + step * self.max_rate))

    def extra_repr(self) -> str:
        return f"{self.min_start}, {self.max_start}, {self.min_rate}, {self.max_rate}"


class SoftWindow(Window):
    """A normal density (without its factor) of deviation `std` around frame offset + rate * u at
    step u, rounded, and `rate` frames before the end of a sample at most.

    Raises nn.ModuleError unless `std` and `rate` are above 0.
    """

    def __init__(self, std: float = 5.0, rate: float = 5.0, offset: float = 10.0) -> None:
        _positive("SoftWindow", std=std, rate=rate)
        self.std, self.rate, self.offset = std, rate, offset

    def weights(
        self,
        place: ft.Array,
        step: ft.Array,
        lengths: ft.Array,
        labels: ft.Array | None,
        previous: ft.Array | None,
    ) -> ft.Array:
        centre = _rounded(ft.minimum(self.offset + step * self.rate, lengths - self.rate))
        return ft.square(place - centre) * (-0.5 / self.std**2)

    def extra_repr(self) -> str:
        return f"{self.std}, {self.rate}, {self.offset}"


class SoftPretrainWindow(Window):
    """A normal density (without its factor) of deviation `std` around the diagonal: frame
    u * length / labels at step u. For the first updates, in which attention learns to go on.

    Where the lengths of targets are not known, the rate is one frame a step. Raises nn.ModuleError
    unless `std` is above 0.
    """

    def __init__(self, std: float = 5.0) -> None:
        _positive("SoftPretrainWindow", std=std)
        self.std = std

    def weights(
        self,
        place: ft.Array,
        step: ft.Array,
        lengths: ft.Array,
        labels: ft.Array | None,
        previous: ft.Array | None,
    ) -> ft.Array:
        centre = step if labels is None else step * (lengths / ft.maximum(labels, 1.0))
        return ft.square(place - centre) * (-0.5 / self.std**2)

    def extra_repr(self) -> str:
        return f"{self.std}"


@explained
def make_window(kind: str, *numbers: float) -> Window | None:
    """A window by the name that Flashlight's option `attnWindow` has for it, with its arguments in
    their order: none (None), median, step, soft, softpretrain.

    Raises ArgumentError for an unknown kind, nn.ModuleError for numbers that do not fit.
    """
    choice_of("make_window", kind, "kind", WINDOWS)
    makers = {"median": MedianWindow, "step": StepWindow, "soft": SoftWindow}
    if kind == "none":
        return None
    return makers.get(kind, SoftPretrainWindow)(*numbers)


def _inside(place: ft.Array, start: ft.Array, end: ft.Array) -> ft.Array:
    inside = ft.logical_and(place >= start, place < end)
    return (1.0 - inside.astype(start.dtype)) * EXCLUDED


def _rounded(x: ft.Array) -> ft.Array:
    # Halves upwards, as in the original; none of these numbers is below -0.5 where it matters.
    return ft.floor(x + 0.5)


def _positive(where: str, **numbers: float) -> None:
    if not all(0 < value < math.inf for value in numbers.values()):
        given = ", ".join(f"{name}={value}" for name, value in numbers.items())
        raise nn.ModuleError(f"[{where}] {given}: finite numbers above 0")
