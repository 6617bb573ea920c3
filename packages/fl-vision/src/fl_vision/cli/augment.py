"""``fl-vision augment``: a picture of what random changes make of an image."""

from __future__ import annotations

import math
from pathlib import Path

from PIL import Image

import fl_tensor as ft
from fl_data import mix
from fl_vision.cli.options import Parser, image_size, whole
from fl_vision.errors import RecipeError, UsageError
from fl_vision.images import read_image
from fl_vision.recipe import Recipe
from fl_vision.training.augmentation import augmentation, augmentation_names, augmentation_text
from fl_vision.transforms import picture_of

_GAP = 4
_MOST = 1000


def main(arguments: list[str]) -> None:
    """Write a grid: the image itself, and what the chain makes of it."""
    given = _parser().parse_args(arguments)
    if given.out.is_dir() or given.out.suffix.lower() not in Image.registered_extensions():
        raise UsageError(f"[augment] --out {given.out}: name a picture, such as grid.png")
    if given.count > _MOST:
        raise UsageError(f"[augment] --count {given.count}: give at most {_MOST}")
    name, erase = given.augment, given.erase
    if given.recipe is not None:
        if name is not None or erase is not None:
            raise RecipeError("--recipe and --augment or --erase: the recipe says both; give one")
        recipe = Recipe.read(given.recipe)
        name, erase = recipe.augment, recipe.erase
    image = read_image(given.image, size=given.size, grayscale=given.grayscale)
    chain = augmentation(augmentation_text(name or "none"), image.shape[1:], erase or 0.0)
    made = [image]
    for number in range(given.count):
        made.append(chain(image, ft.Generator(mix(given.seed, number))))
    grid(made).save(given.out)
    print(f"wrote {given.out}: the image and {given.count} draws of {len(chain)} changes")


def grid(images: list[ft.Tensor]) -> Image.Image:
    """Images (C, H, W) in a square, row by row, on white."""
    pictures = [picture_of(image) for image in images]
    columns = math.ceil(math.sqrt(len(pictures)))
    wide = max(picture.width for picture in pictures) + _GAP
    high = max(picture.height for picture in pictures) + _GAP
    sheet = Image.new("RGB", (columns * wide, -(-len(pictures) // columns) * high), "white")
    for number, picture in enumerate(pictures):
        sheet.paste(picture, (number % columns * wide, number // columns * high))
    return sheet


def _parser() -> Parser:
    names = ", ".join(augmentation_names())
    parser = Parser("fl-vision augment", "Draw an image after random changes.")
    add = parser.add_argument
    add("image", type=Path, help="image file")
    add("-o", "--out", type=Path, required=True, metavar="FILE", help="picture to write")
    add("--augment", metavar="TEXT", help=f"one of {names}, or a JSON file")
    add("--erase", type=_share, metavar="X", help="probability of random erasing")
    add("--recipe", metavar="FILE", help="take both from a recipe")
    add("--size", type=image_size, metavar="HxW", help="resize the image before (default: as is)")
    add("--grayscale", action="store_true", help="one channel")
    add("--count", type=whole(1), default=15, metavar="N", help="draws (%(default)s)")
    add("--seed", type=whole(0), default=0, metavar="N", help="(%(default)s)")
    return parser


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(text)
    return value
