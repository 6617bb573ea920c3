"""SpecAugment: spectra with bands of frequencies and stretches of time masked, and time warped."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.module import Module
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

    def forward(self, x: ft.Array) -> ft.Array:
        if x.ndim not in (3, 4):
            raise ft.ShapeError(f"[SpecAugment] x {x.shape}: expected (N, F, T) or (N, C, F, T)")
        if not self.training or not x.size:
            return x
        steps = x.shape[-1]
        # The step that moves stays between the first and the last.
        reach = min(self.time_warp, (steps - 3) // 2)
        if reach > 0:
            x = warped(self.generator, x, reach)
        longest = min(self.time_width, int(self.time_share * steps))
        bands = spans(self.generator, x, -2, self.frequency_masks, self.frequency_width)
        stretches = spans(self.generator, x, -1, self.time_masks, longest)
        return filled(x, ft.logical_or(bands, stretches), self.fill)

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


def draw_spans(
    generator: ft.Generator, x: ft.Array, count: int, longest: int, size: int
) -> tuple[ft.Tensor, ft.Tensor]:
    """For each sample of `x`, where `count` spans within `size` places begin and end, int64
    (N, count): widths uniform from 0 to `longest`, places uniform among those that fit."""
    shape, place = (x.shape[0], count), _place(x)
    width = generator.integers(0, min(longest, size) + 1, shape, **place)
    # In whole numbers, which do not round up to a place too many.
    start = generator.integers(0, 1 << 31, shape, **place) * (size - width + 1) >> 31
    return start, start + width


def spans(generator: ft.Generator, x: ft.Array, axis: int, count: int, longest: int) -> ft.Tensor:
    """For each sample of `x`, the union of `count` random spans along `axis` (negative): bool, of
    the rank of `x`, with size 1 on all other axes but the first."""
    size = x.shape[axis]
    start, end = draw_spans(generator, x, count, longest, size)
    places = arange_like(x, 0, size, ft.int64)
    begun, open_ = places >= ft.expand_dims(start, -1), places < ft.expand_dims(end, -1)
    inside = ft.any(ft.logical_and(begun, open_), 1)
    return ft.reshape(inside, (x.shape[0], *(1,) * (x.ndim + axis - 1), size, *(1,) * (-axis - 1)))


def filled(x: ft.Array, mask: ft.Tensor, fill: str) -> ft.Array:
    """`x` with 0, or each sample's mean, where `mask` is true."""
    if fill == "zero":
        return ft.where(mask, 0.0, x)
    return ft.where(mask, ft.mean(x, tuple(range(1, x.ndim)), keepdims=True), x)


def warped(generator: ft.Generator, x: ft.Array, reach: int) -> ft.Array:
    """Each sample of `x` (N, ..., T) with a random step, more than `reach` away from both ends,
    moved by up to `reach` steps, and time on both sides of it stretched linearly. T > 2 * reach +
    2."""
    last, count = x.shape[-1] - 1, (x.shape[0], 1)
    place = _place(x)
    origin = generator.integers(reach + 1, last - reach, count, **place).astype(ft.float32)
    target = origin + generator.uniform(count, -float(reach), float(reach), ft.float32, **place)
    # Step t of the result is found at `source`: 0, target and last at 0, origin and last.
    t = arange_like(x, 0, last + 1, ft.float32)
    early = t * (origin / target)
    late = last - (last - t) * ((last - origin) / (last - target))
    source = ft.clip(ft.where(t < target, early, late), 0.0, float(last))
    before = ft.minimum(ft.floor(source), float(last - 1))
    share = (source - before).astype(x.dtype)
    shape = (x.shape[0], *(1,) * (x.ndim - 2), last + 1)
    index = ft.broadcast_to(ft.reshape(before.astype(ft.int64), shape), x.shape)
    share = ft.reshape(share, shape)
    left, right = (ft.take_along_axis(x, index + i, -1) for i in (0, 1))
    return left * (1.0 - share) + right * share


def _place(x: ft.Array) -> dict[str, Any]:
    return {"device": x.device, "backend": x.backend}
