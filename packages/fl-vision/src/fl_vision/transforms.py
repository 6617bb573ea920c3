"""Image transforms: normalisation, and random shifts for training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import fl_tensor as ft
from fl_data import Batch, Dataset, EpochDataset, Sample, check_index, mix, share
from fl_tensor.annotations import Checked
from fl_tensor.arguments import seed_of
from fl_vision.datasets.image_data import image_and_label
from fl_vision.errors import UsageError

_STATISTICS_SAMPLES = 10_000
_BLOCK = 256


@dataclass(frozen=True)
class Normalise(Checked):
    """Pixels (N, C, H, W) or (C, H, W) of any dtype to mean 0 and deviation 1 per channel.

    `mean` and `std` are in pixel levels, one number per channel; the result has `dtype`.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: ft.DType = ft.float32

    def __call__(self, pixels: ft.Tensor) -> ft.Tensor:
        channels = len(self.mean)
        if pixels.ndim < 3 or pixels.shape[-3] != channels:
            raise ft.ShapeError(
                f"[normalise] pixels {pixels.shape}: expected (..., {channels}, height, width)"
            )
        place = (pixels.device, pixels.backend)
        mean = _per_channel(self.mean, self.dtype, *place)
        deviation = _per_channel(self.std, self.dtype, *place)
        return ft.divide(ft.subtract(pixels.astype(self.dtype), mean), deviation)


@lru_cache(maxsize=32)  # the same few for every image
def _per_channel(
    values: tuple[float, ...], dtype: ft.DType, device: ft.Device, backend: ft.TensorBackend
) -> ft.Tensor:
    made = ft.asarray(list(values), dtype=dtype, device=device, backend=backend)
    return made.reshape(len(values), 1, 1)


def channel_statistics(dataset: Dataset) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, in pixel levels.

    Over all images, or 10,000 evenly spread ones where there are more. The sums are sums of
    integers: exact, and the same on every backend. A channel of one constant level gets 1 as its
    deviation.
    """
    if len(dataset) == 0:
        raise UsageError("[normalise] no images to take the mean of; give a larger data set")
    stride = -(-len(dataset) // _STATISTICS_SAMPLES)
    chosen = range(0, len(dataset), stride)
    count = 0
    first: list[int] = []
    second: list[int] = []
    for start in range(0, len(chosen), _BLOCK):
        block = dataset.__getitems__(list(chosen[start : start + _BLOCK]))
        pixels = image_and_label(block)[0].astype(ft.int64)
        sums = ft.sum(pixels, axis=(0, 2, 3)).tolist()
        squares = ft.sum(ft.multiply(pixels, pixels), axis=(0, 2, 3)).tolist()
        first = [a + b for a, b in zip(first or [0] * len(sums), sums, strict=True)]
        second = [a + b for a, b in zip(second or [0] * len(squares), squares, strict=True)]
        count += pixels.shape[0] * pixels.shape[2] * pixels.shape[3]
    mean = tuple(total / count for total in first)
    # n * sum(x^2) - (sum x)^2 in integers: no cancellation.
    variance = [(count * b - a * a) / count**2 for a, b in zip(first, second, strict=True)]
    return mean, tuple(math.sqrt(v) if v > 0 else 1.0 for v in variance)


def random_shift(
    images: ft.Tensor,
    reach: int,
    generator: ft.Generator,
    *,
    first: int = 0,
    total: int | None = None,
) -> ft.Tensor:
    """(N, C, H, W), every image moved by up to `reach` pixels down or up and right or left.

    What is moved in from outside is 0; shifts are whole pixels, each equally likely. With `total`,
    shifts are drawn for so many images, of which these are the ones from number `first` on.
    """
    count, channels, height, width = images.shape
    total = count if total is None else total
    offsets = generator.integers(0, 2 * reach + 1, (2, total, 1, 1, 1))[:, first : first + count]
    padded = ft.pad(images, [(0, 0), (0, 0), (reach, reach), (reach, reach)])
    rows = offsets[0] + ft.arange(height).reshape(1, 1, height, 1)
    columns = offsets[1] + ft.arange(width).reshape(1, 1, 1, width)
    wide = (count, channels, height, width + 2 * reach)
    moved = ft.take_along_axis(padded, ft.broadcast_to(rows, wide), axis=2)
    return ft.take_along_axis(moved, ft.broadcast_to(columns, images.shape), axis=3)


class RandomShift(EpochDataset):
    """The batches of `batches` with `random_shift`, anew in every epoch.

    An image is moved alike whichever rank has it: the shifts depend on the seed, the epoch, the
    number of the batch and the place in the global batch.
    """

    def __init__(
        self, batches: Batch, reach: int, seed: int, *, rank: int = 0, world_size: int = 1
    ) -> None:
        self._batches, self._reach = batches, reach
        self._seed = seed_of("RandomShift", seed)
        self._rank, self._world_size = rank, world_size

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (self._batches,)

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Sample:
        number = check_index(index, len(self), "RandomShift")
        pixels, labels = image_and_label(self._batches[number])
        _, total = self._batches.counts(number)
        first, _ = share(total, self._rank, self._world_size)
        generator = ft.Generator(mix(self._seed, self._epoch, number))
        return random_shift(pixels, self._reach, generator, first=first, total=total), labels
