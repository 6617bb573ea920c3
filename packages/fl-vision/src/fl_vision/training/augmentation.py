"""Chains of random changes by name, or of a JSON file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence

from fl_tensor.annotations import checked
from fl_vision.errors import RecipeError
from fl_vision.transforms import (
    Compose,
    ImageTransform,
    RandAugment,
    RandomAffine,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResize,
    RandomResizedCrop,
    create_transforms,
    read_transforms,
)

_Chain = tuple[ImageTransform, ...]
_Size = tuple[int, int]


def _affine(size: _Size) -> _Chain:
    """Small turns, moves and scales, for digits and letters, which have no mirror images."""
    return (RandomAffine(10.0, (0.1, 0.1), (0.9, 1.1), (-10.0, 10.0), "bilinear"),)


def _pad_crop(size: _Size) -> _Chain:
    """Moves by an eighth of the image, and mirror images: He et al., 2016, for CIFAR."""
    return RandomCrop(size, padding=max(1, min(size) // 8)), RandomHorizontalFlip()


def _crop(size: _Size) -> _Chain:
    """Windows of 8 % to 100 % of the area, and mirror images: Szegedy et al., 2015."""
    return RandomResizedCrop(size), RandomHorizontalFlip()


def _shortest_side(size: _Size) -> _Chain:
    """The shortest side has 256 to 480 pixels for windows of 224: Simonyan and Zisserman, 2015."""
    low, high = (max(size) * side // 224 for side in (256, 480))
    return RandomResize(tuple(range(low, high + 1))), RandomCrop(size), RandomHorizontalFlip()


def _rand_augment(size: _Size) -> _Chain:
    """Windows, mirror images, and two of 15 operations: Touvron et al., 2021."""
    crop = RandomResizedCrop(size, interpolation="bicubic")
    return crop, RandomHorizontalFlip(), RandAugment()


_CHAINS: dict[str, Callable[[_Size], _Chain]] = {
    "none": lambda size: (),
    "affine": _affine,
    "pad_crop": _pad_crop,
    "crop": _crop,
    "shortest_side": _shortest_side,
    "rand_augment": _rand_augment,
}


def augmentation_names() -> tuple[str, ...]:
    """The names that `augmentation` knows."""
    return tuple(_CHAINS)


@checked
def augmentation(name: str, size: Sequence[int], erase: float = 0.0) -> Compose:
    """The chain called `name`, or the one of JSON text, for images of `size` (height, width); with
    probability `erase`, a window of each image is erased at the end.

    A chain of a file has to give images of that size itself. Raises `RecipeError` for an unknown
    name, `ImageError` for text that describes no chain.
    """
    height, width = size
    if name.lstrip().startswith("{"):
        try:
            chain: _Chain = tuple(create_transforms(json.loads(name)))
        except (ValueError, RecursionError) as error:
            if isinstance(error, json.JSONDecodeError | RecursionError):
                raise RecipeError(f"augment is no JSON ({error})") from error
            raise
    elif name in _CHAINS:
        chain = _CHAINS[name]((height, width))
    else:
        raise RecipeError(
            f"augment is {name!r}: give one of {', '.join(_CHAINS)}, or a JSON file of transforms"
        )
    return Compose((*chain, *((RandomErasing(erase),) if erase else ())))


def augmentation_text(source: str) -> str:
    """What a recipe keeps of `source`: the name of a chain, or the text of a file, so that a run
    goes on when the file has changed. Raises `ImageError` for a file of no chain."""
    if source in _CHAINS or source.lstrip().startswith("{"):
        return source
    if not os.path.exists(source):
        augmentation(source, (1, 1))  # says which names there are
    read_transforms(source)
    with open(source, encoding="utf-8") as file:
        return json.dumps(json.load(file))
