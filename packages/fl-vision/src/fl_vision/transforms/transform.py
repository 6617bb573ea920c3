"""The base of image transforms: what they take, and how they draw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import fl_tensor as ft
from fl_data import DataError, Sample
from fl_tensor.annotations import Checked
from fl_vision.errors import ImageError
from fl_vision.transforms.annotated import AnnotatedImage
from fl_vision.transforms.draws import Draws
from fl_vision.transforms.pixels import ImageLike, image_size

AnyImage = TypeVar("AnyImage", ft.Tensor, ImageLike, AnnotatedImage)


class ImageTransform(Checked, ABC):
    """A change of images. `transform(image, generator)` returns what it got, changed:

    * a tensor (..., C, H, W) of uint8 levels, or of floats from 0 to 1; batches are changed alike,
    * a picture of Pillow of mode L or RGB,
    * an `AnnotatedImage`: its boxes and masks move along.

    `generator` is an `ft.Generator` or a seed; transforms that draw nothing need none. What is
    drawn depends on it alone, and not on the kind of image.

    In a dataset, `fl_data.RandomTransform(ds, transform.on(0), seed)` draws by seed, epoch and
    index. A class of your own derives from `FixedTransform` or `DrawnTransform`.

    Raises `ImageError` for images without pixels and for channels that it cannot use,
    `DTypeError` for dtypes other than uint8 and floats.
    """

    def __call__(self, image: AnyImage, generator: ft.Generator | int | None = None) -> AnyImage:
        where = type(self).__name__
        draws = Draws(where, generator)
        if not isinstance(image, AnnotatedImage):
            image_size(where, image)
            return self.run(image, draws)
        try:
            return self.run(image, draws)
        except ImageError as error:
            if not image.name or image.name in error.where:
                raise
            raise ImageError(
                f"{error.where} of {image.name}", error.problem, error.remedy
            ) from error

    @abstractmethod
    def run(self, image: Any, draws: Draws) -> Any:
        """The image, or the `AnnotatedImage`, changed by numbers from `draws`."""

    def on(self, field: int | str = 0) -> Callable[[Sample, ft.Generator], Sample]:
        """A function `(sample, generator) -> sample` for `fl_data.RandomTransform` and
        `Stream.random_map`: the transform on one field of a sample, by number or name."""
        return partial(change_field, self, field)


class FixedTransform(ImageTransform):
    """A transform that draws nothing. Those that move pixels define all three methods."""

    @abstractmethod
    def change(self, image: Any) -> Any:
        """A tensor, or a picture, changed."""

    def change_boxes(self, boxes: list[list[float]], height: int, width: int) -> list[list[float]]:
        """Where boxes x0, y0, x1, y1 of an image of this size come to; they may lie outside."""
        return boxes

    def change_masks(self, masks: ft.Tensor) -> ft.Tensor:
        """Masks (n, H, W) of 0 and 1, moved as the image is; new pixels are 0."""
        return masks

    def area_scale(self, height: int, width: int) -> float:
        """By how much areas of objects grow."""
        return 1.0

    def run(self, image: Any, draws: Draws) -> Any:
        if not isinstance(image, AnnotatedImage):
            return self.change(image)
        size = image_size(type(self).__name__, image.image)
        fields: dict[str, Any] = {"image": self.change(image.image)}
        if type(self).change_boxes is not FixedTransform.change_boxes:
            boxes = self.change_boxes(image.boxes.tolist(), *size)
            made = ft.asarray(boxes, dtype=image.boxes.dtype)
            fields["boxes"] = made.reshape(image.boxes.shape)
            if image.masks is not None:
                masks = image.masks
                none = masks.shape[0] == 0
                # One of no masks would have no planes: its size is what is wanted.
                wide = ft.zeros((1, *size), ft.uint8) if none else masks.astype(ft.uint8)
                moved = self.change_masks(wide)
                fields["masks"] = (moved[:0] if none else moved).astype(masks.dtype)
            if image.areas is not None:
                scale = self.area_scale(*size)
                fields["areas"] = image.areas if scale == 1.0 else image.areas * scale
            return image.replace(**fields).clipped()
        return image.replace(**fields)


class DrawnTransform(ImageTransform):
    """A transform that draws which one is applied."""

    @abstractmethod
    def choose(self, height: int, width: int, draws: Draws) -> ImageTransform | None:
        """The transform for an image of this size; None leaves the image as it is."""

    def run(self, image: Any, draws: Draws) -> Any:
        pixels = image.image if isinstance(image, AnnotatedImage) else image
        chosen = self.choose(*image_size(type(self).__name__, pixels), draws)
        return image if chosen is None else chosen.run(image, draws)


@dataclass(frozen=True)
class Compose(ImageTransform):
    """Transforms in their order; one of none changes nothing."""

    transforms: tuple[ImageTransform, ...] = ()

    def __len__(self) -> int:
        return len(self.transforms)

    def __iter__(self) -> Iterator[ImageTransform]:
        return iter(self.transforms)

    def run(self, image: Any, draws: Draws) -> Any:
        for transform in self.transforms:
            image = transform.run(image, draws)
        return image


@dataclass(frozen=True)
class RandomApply(DrawnTransform):
    """`transform` with probability `p`."""

    transform: ImageTransform
    p: float = 0.5

    def __post_init__(self) -> None:
        _require_probability("RandomApply", self.p)

    def choose(self, height: int, width: int, draws: Draws) -> ImageTransform | None:
        return self.transform if draws.chance(self.p) else None


@dataclass(frozen=True)
class RandomSelect(DrawnTransform):
    """`first` with probability `p`, else `second`."""

    first: ImageTransform
    second: ImageTransform
    p: float = 0.5

    def __post_init__(self) -> None:
        _require_probability("RandomSelect", self.p)

    def choose(self, height: int, width: int, draws: Draws) -> ImageTransform:
        return self.first if draws.chance(self.p) else self.second


def _require_probability(where: str, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ImageError(where, f"p {p}", "give a probability from 0 to 1")


def change_field(
    transform: ImageTransform, field: int | str, sample: Sample, generator: ft.Generator
) -> Sample:
    """`sample` with `transform(value, generator)` in one field."""
    fields: Any = list(sample) if isinstance(sample, tuple) else dict(sample)
    try:
        image = fields[field]
    except (KeyError, IndexError, TypeError):
        names = sorted(sample) if isinstance(sample, dict) else list(range(len(sample)))
        raise DataError(f"[ImageTransform] no field {field!r}: the sample has {names}") from None
    fields[field] = transform(image, generator)
    return tuple(fields) if isinstance(sample, tuple) else fields
