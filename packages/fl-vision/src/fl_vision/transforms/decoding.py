"""Random resized crops of image files, decoded no larger than the crop needs."""

from __future__ import annotations

from pathlib import Path

import fl_tensor as ft
from fl_data import Dataset, EpochDataset, check_index, mix
from fl_tensor.annotations import checked
from fl_tensor.arguments import seed_of
from fl_vision.datasets.folder import ImageFolder
from fl_vision.images import open_image, pixels_of
from fl_vision.transforms.crops import Crop
from fl_vision.transforms.draws import Draws
from fl_vision.transforms.pixels import Picture, tensor_of
from fl_vision.transforms.random_crops import RandomResizedCrop
from fl_vision.transforms.resize import INTERPOLATIONS, Resize
from fl_vision.transforms.transform import ImageTransform


@checked
def read_crop(
    path: str | Path,
    crop: RandomResizedCrop,
    generator: ft.Generator | int,
    *,
    reduced: bool = True,
    grayscale: bool = False,
    upright: bool = True,
) -> Picture:
    """The picture that `crop` makes of an image file, of mode L if `grayscale`, else RGB.

    The window is the same for either value of `reduced`. With it, a JPEG is decoded at 1/2, 1/4 or
    1/8 of its size, if the window has at least as many pixels as the result then. Levels differ a
    little from those of full decoding. Raises as `open_image` does.
    """
    draws = Draws("read_crop", generator)
    window = Crop(0, 0, *crop.size)
    extent = (0, 0)

    def reduction(height: int, width: int) -> int:
        nonlocal window, extent
        window, extent = crop.window(height, width, draws), (height, width)
        return min(window.height // crop.size[0], window.width // crop.size[1]) if reduced else 1

    options = {"grayscale": grayscale, "upright": upright}
    with open_image(path, reduction=reduction, **options) as picture:
        if (picture.height, picture.width) == extent:
            made = Resize(crop.size, crop.interpolation).change(window.change(picture))
            assert isinstance(made, Picture)
            return made
        # A pixel stands for so many ones each way; those of the last row and column for fewer.
        factor = next(s for s in (2, 4, 8) if -(-extent[0] // s) == picture.height)
        box = (
            *(window.left / factor, window.top / factor),
            *((window.left + window.width) / factor, (window.top + window.height) / factor),
        )
        return picture.resize(crop.size[::-1], INTERPOLATIONS[crop.interpolation], box)


class RandomResizedCrops(EpochDataset):
    """Random resized crops of the images of `folder`, after `transform` if there is one.

    Samples are `(image, label)`. They depend on the seed, the epoch and the index alone, and with
    `reduced` are decoded as `read_crop` does. The images may differ in size; the `size` of the
    folder, if it has one, is not applied.
    """

    def __init__(
        self,
        folder: ImageFolder,
        crop: RandomResizedCrop,
        transform: ImageTransform | None = None,
        *,
        seed: int = 0,
        reduced: bool = True,
    ) -> None:
        self._folder, self._crop, self._transform = folder, crop, transform
        self._seed, self._reduced = seed_of("RandomResizedCrops", seed), reduced

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (self._folder,)

    def __len__(self) -> int:
        return len(self._folder)

    def __getitem__(self, index: int) -> tuple[ft.Tensor, ft.Tensor]:
        number = check_index(index, len(self), "RandomResizedCrops")
        folder = self._folder
        generator = ft.Generator(mix(self._seed, self._epoch, number))
        options = {"grayscale": folder.grayscale, "upright": folder.upright}
        path = folder.paths[number]
        image = read_crop(path, self._crop, generator, reduced=self._reduced, **options)
        if self._transform is None:
            pixels = pixels_of(image)
        else:
            pixels = tensor_of(self._transform(image, generator))
        return pixels, ft.asarray(folder.labels[number], dtype=ft.int64)
