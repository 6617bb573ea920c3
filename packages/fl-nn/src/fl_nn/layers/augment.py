"""SpecAugment: random masks of frequency and time on spectra, and time warping."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.padding import Lengths, own_steps
from fl_nn.settings import WHOLE
from fl_nn.values import arange_like


class SpecAugment(Module):
    """In training, warps and masks each sample of x (N, F, T) or (N, C, F, T), F frequencies over T
    steps, a way of its own; channels share it. In evaluation, passes its input on. Park et al.,
    2019.

    time_warp        W: time up to a random step is stretched, or shrunk, by at most W steps, and
                     the rest shrunk, or stretched, to fit; values between steps are interpolated
    frequency_masks  how many bands are masked, each of 0 to `frequency_width` frequencies
    time_masks       how many stretches are masked, each of 0 to `time_width` steps, and at most
                     the share `time_share` of all steps
    fill             what stands in their place: "zero", or "mean", the sample's own

    Widths are uniform, and so are the places where a mask of that width fits; masks may overlap.
    The numbers come from the module's own `generator` (split from the default one unless given).
    """

    takes_lengths = True

    def __init__(
        self,
        time_warp: int = 0,
        frequency_width: int = 27,
        frequency_masks: int = 2,
        time_width: int = 100,
        time_share: float = 1.0,
        time_masks: int = 2,
        fill: str = "zero",
        *,
        generator: ft.Generator | None = None,
    ) -> None:
        check("SpecAugment", time_share, fill, time_warp=time_warp,
              frequency_width=frequency_width, frequency_masks=frequency_masks,
              time_width=time_width, time_masks=time_masks)  # fmt: skip
        self.time_warp, self.fill = time_warp, fill
        self.frequency_width, self.frequency_masks = frequency_width, frequency_masks
        self.time_width, self.time_share, self.time_masks = time_width, time_share, time_masks
        self.generator = generator or ft.default_generator().split(1)[0]

    def forward(self, x: ft.Array, lengths: Lengths | None = None) -> ft.Array:
        """`lengths` as in Sequential: warps and masks keep to the steps of each sample, shares and
        means are of these, and padding stays what it is."""
        if x.ndim not in (3, 4):
            raise ft.ShapeError(f"[SpecAugment] x {x.shape}: expected (N, F, T) or (N, C, F, T)")
        if not self.training or not x.size:
            return x
        own, longest = own_places("SpecAugment", x, lengths, self.time_width, self.time_share)
        if self.time_warp and x.shape[-1] > 2:
            x = warped(self.generator, x, own, self.time_warp)
        size = x.shape[-2]
        width = min(self.frequency_width, size)
        bands = spans(self.generator, x, -2, self.frequency_masks, width, size)
        stretches = spans(self.generator, x, -1, self.time_masks, longest, own)
        return filled(x, ft.logical_or(bands, stretches), self.fill, own)

    def extra_repr(self) -> str:
        warp = f"time_warp={self.time_warp}, " if self.time_warp else ""
        return (
            f"{warp}{self.frequency_masks} bands up to {self.frequency_width}, "
            f"{self.time_masks} stretches up to {self.time_width}, {self.fill}"
        )


def check(layer: str, time_share: float, fill: str, **counts: int) -> None:
    """Raise ModuleError for settings of masks that make no sense."""
    for name, value in counts.items():
        if not WHOLE.fits(value):
            raise ModuleError(f"[{layer}] {name}={value!r}: give {WHOLE.words}")
    if not 0.0 <= time_share <= 1.0:
        raise ModuleError(f"[{layer}] time_share={time_share}: a share lies in [0, 1]")
    if fill not in ("zero", "mean"):
        raise ModuleError(f"[{layer}] fill {fill!r}: there are 'zero' and 'mean'")


#: A number for all samples, or one for each: int64 (N, 1).
Count = int | ft.Tensor


def own_places(
    layer: str, x: ft.Array, lengths: Lengths | None, longest: int, share: float
) -> tuple[ft.Tensor, ft.Tensor]:
    """How many places on the last axis of `x` (N, ...) are each sample's own; and how long a mask
    may be there: `longest`, or that `share` of them."""
    own = [x.shape[-1]] * x.shape[0]
    if lengths is not None:
        own = own_steps(layer, lengths, x.shape[0], x.shape[-1])
    bounds = [min(longest, int(share * n)) for n in own]
    column = [ft.asarray([[n] for n in c], ft.int64, x.device, x.backend) for c in (own, bounds)]
    return column[0], column[1]


def draw(generator: ft.Generator, x: ft.Array, count: int, bound: Count) -> ft.Tensor:
    """`count` whole numbers for each sample of `x`, uniform from 0 to `bound` - 1: int64 (N,
    count). Computed in whole numbers, which do not round up to `bound`."""
    drawn = generator.integers(0, 1 << 31, (x.shape[0], count), None, x.device, x.backend)
    return drawn * bound >> 31


def draw_spans(
    generator: ft.Generator, x: ft.Array, count: int, longest: Count, size: Count
) -> tuple[ft.Tensor, ft.Tensor]:
    """For each sample of `x`, where `count` spans within `size` places begin and end, int64
    (N, count): widths uniform from 0 to `longest`, places uniform among those that fit."""
    width = draw(generator, x, count, longest + 1)
    start = draw(generator, x, count, size - width + 1)
    return start, start + width


def spans(
    generator: ft.Generator, x: ft.Array, axis: int, count: int, longest: Count, size: Count
) -> ft.Tensor:
    """For each sample of `x`, the union of `count` random spans in the first `size` places along
    `axis` (negative): bool, of the rank of `x`, with size 1 on all other axes but the first."""
    start, end = draw_spans(generator, x, count, longest, size)
    places = arange_like(x, 0, x.shape[axis], ft.int64)
    begun, open_ = places >= ft.expand_dims(start, -1), places < ft.expand_dims(end, -1)
    return _along(x, ft.any(ft.logical_and(begun, open_), 1), axis)


def inside(x: ft.Array, own: ft.Tensor) -> ft.Tensor:
    """Which places of `x` are each sample's own: bool, as `spans`."""
    return _along(x, arange_like(x, 0, x.shape[-1], ft.int64) < own, -1)


def filled(x: ft.Array, mask: ft.Tensor, fill: str, own: ft.Tensor) -> ft.Array:
    """`x` with 0, or each sample's mean, where `mask` is true, in the sample's own places."""
    known = inside(x, own)
    mask = ft.logical_and(mask, known)
    if fill == "zero":
        return ft.where(mask, 0.0, x)
    mean = ft.mean(ft.where(known, x, 0.0), tuple(range(1, x.ndim)), keepdims=True)
    scale = ft.divide(x.shape[-1], own).astype(x.dtype)
    return ft.where(mask, mean * ft.reshape(scale, mean.shape), x)


def warped(generator: ft.Generator, x: ft.Array, own: ft.Tensor, reach: int) -> ft.Array:
    """Each sample of `x` (N, ..., T), T > 2, with a random step moved by up to `reach` steps, and
    time on both sides of it, in its `own` steps, stretched linearly. The step is further away from
    both ends than it moves; a sample that is too short for that moves less."""
    last = ft.maximum(own - 1, 2)
    moves = ft.minimum((last - 2) // 2, reach)
    origin = moves + 1 + draw(generator, x, 1, last - 2 * moves - 1)
    last, moves, origin = (n.astype(ft.float32) for n in (last, moves, origin))
    way = generator.uniform(last.shape, -1.0, 1.0, ft.float32, x.device, x.backend)
    target = origin + moves * way
    # Step t of the result is found at `source`: 0, target and last at 0, origin and last.
    steps = x.shape[-1]
    t = arange_like(x, 0, steps, ft.float32)
    early = t * (origin / target)
    late = last - (last - t) * ((last - origin) / (last - target))
    source = ft.where(t < target, early, ft.where(t < last, late, t))
    before = ft.clip(ft.floor(source), 0.0, float(steps - 2))
    share = _along(x, (source - before).astype(x.dtype), -1)
    index = ft.broadcast_to(_along(x, before.astype(ft.int64), -1), x.shape)
    left, right = (ft.take_along_axis(x, index + i, -1) for i in (0, 1))
    return left * (1.0 - share) + right * share


def _along(x: ft.Array, values: ft.Tensor, axis: int) -> ft.Tensor:
    # (N, size of the axis) as values of the rank of x.
    n, size = values.shape
    return ft.reshape(values, (n, *(1,) * (x.ndim + axis - 1), size, *(1,) * (-axis - 1)))
