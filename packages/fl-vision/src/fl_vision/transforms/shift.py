"""Random shifts of whole batches, for training."""

from __future__ import annotations

import fl_tensor as ft
from fl_data import Batch, Dataset, EpochDataset, Sample, check_index, mix, share
from fl_tensor.annotations import checked
from fl_tensor.arguments import seed_of
from fl_vision.datasets.image_data import image_and_label


@checked
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
