"""`RandomCrops`: random windows of image files, for training."""

from __future__ import annotations

from PIL import Image

import fl_tensor as ft
from fl_data import Dataset, EpochDataset, check_count, check_index, mix
from fl_tensor.arguments import seed_of
from fl_vision.datasets.folder import ImageFolder
from fl_vision.errors import DataFileError
from fl_vision.images import open_image, pixels_of


class RandomCrops(EpochDataset):
    """A window of `size` (height, width) out of each image of `folder`, and with `flip` half of
    them left and right exchanged; anew in every epoch.

    Samples are `(window (C, height, width) uint8, label)`. Every place is equally likely; it
    depends on the seed, the epoch and the index alone. The images may differ in size; a smaller one
    than the window is a `DataFileError`. The `size` of the folder, if it has one, is not applied.
    """

    def __init__(
        self, folder: ImageFolder, size: tuple[int, int], *, flip: bool = True, seed: int = 0
    ) -> None:
        for extent, name in zip(size, ("height", "width"), strict=True):
            check_count(extent, name, "RandomCrops", least=1)
        self._folder, self._size, self._flip = folder, size, flip
        self._seed = seed_of("RandomCrops", seed)

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (self._folder,)

    def __len__(self) -> int:
        return len(self._folder)

    def __getitem__(self, index: int) -> tuple[ft.Tensor, ft.Tensor]:
        number = check_index(index, len(self), "RandomCrops")
        down, right, mirror = (mix(self._seed, self._epoch, number, draw) for draw in range(3))
        path = self._folder.paths[number]
        height, width = self._size
        folder = self._folder
        with open_image(path, grayscale=folder.grayscale, upright=folder.upright) as image:
            if image.height < height or image.width < width:
                raise DataFileError(
                    "crops",
                    path,
                    f"is {image.height} x {image.width}, the window is {height} x {width}",
                    "give a smaller window, or remove the image",
                )
            top = down * (image.height - height + 1) >> 63
            left = right * (image.width - width + 1) >> 63
            window = image.crop((left, top, left + width, top + height))
        if self._flip and mirror >> 62:
            window = window.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return pixels_of(window), ft.asarray(self._folder.labels[number], dtype=ft.int64)
