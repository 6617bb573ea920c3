"""Reading an untrusted image file into a tensor, with bounds."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from PIL import Image, UnidentifiedImageError

import fl_tensor as ft
from fl_tensor.annotations import checked
from fl_tensor.files import found, require_regular
from fl_vision.errors import DataFileError, DataMissingError, UsageError

MAX_PIXELS = 50_000_000
"""The most pixels that `read_image` decodes; a small file may claim any number of them."""

MAX_FILE_BYTES = 256 << 20

_ORIENTATION = 0x0112
"""The entry of EXIF that says how a camera was held: 1 is upright."""

_FIRST_LYING = 5
"""From this orientation on, rows of the file are columns of the picture."""

_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

_ANOTHER = "give the path of an image file"

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm"})


@checked
def read_image(
    path: str | Path,
    *,
    size: tuple[int, int] | None = None,
    grayscale: bool = False,
    upright: bool = True,
    max_pixels: int = MAX_PIXELS,
) -> ft.Tensor:
    """A (C, H, W) uint8 tensor: C is 1 if `grayscale`, else 3 (transparency is dropped).

    `size` is (height, width); the image is resampled to it. Of an animation the first frame.
    With `upright`, the image is turned as the orientation in its EXIF data says, if it has one;
    without, it stays as it is stored (a TIFF file is always turned).
    16-bit levels are divided by 256, whatever the largest of them is: 12-bit data in such a file
    becomes 0 to 15, so scale those files before.
    Raises `UsageError` for a size that no image has.

    Raises `DataMissingError` where there is no such file, `DataFileError` where it may not be read,
    is no image, is cut off, or has more than `max_pixels` pixels (checked before any pixel is
    decoded).
    """
    if size is not None:
        require_size(size, max_pixels)
    with open_image(path, grayscale=grayscale, upright=upright, max_pixels=max_pixels) as image:
        return pixels_of(resized(image, size))


@checked
def decode_image(
    data: bytes,
    *,
    name: str | Path = "image",
    size: tuple[int, int] | None = None,
    grayscale: bool = False,
    upright: bool = True,
    max_pixels: int = MAX_PIXELS,
) -> ft.Tensor:
    """As `read_image`, of an image file's content that lies in memory, in an archive say. Errors
    call it `name`. Raises `UsageError` and `DataFileError` as `read_image` does."""
    if size is not None:
        require_size(size, max_pixels)
    mode = "L" if grayscale else "RGB"
    image = _picture(io.BytesIO(data), Path(name), len(data), mode, upright, max_pixels)
    return pixels_of(resized(image, size))


def resized(image: Image.Image, size: tuple[int, int] | None) -> Image.Image:
    """The picture resampled to (height, width), if that is given and it has another size."""
    if size is None or (image.height, image.width) == size:
        return image
    return image.resize((size[1], size[0]), Image.Resampling.BILINEAR, reducing_gap=3.0)


@checked
def image_size(path: str | Path) -> tuple[int, int]:
    """(height, width) of an image file as it is stored, from its header alone.

    Raises `DataMissingError` and `DataFileError` as `read_image` does.
    """
    path = Path(path)
    _size_of(path)
    with _blamed(path), Image.open(path) as image:
        width, height = image.size
    return height, width


@checked
@contextmanager
def open_image(
    path: str | Path,
    *,
    grayscale: bool = False,
    upright: bool = True,
    max_pixels: int = MAX_PIXELS,
    reduction: Callable[[int, int], int] | None = None,
) -> Iterator[Image.Image]:
    """The decoded picture, of mode L if `grayscale`, else RGB, turned as its EXIF data says if
    `upright`, for those who cut or scale it before
    they take the `pixels_of` it: a part of a picture is copied faster than all of it.

    `reduction` is called before anything is decoded, with the height and width of the picture. It
    says how many times smaller it may be. A JPEG is then decoded at 1/2, 1/4 or 1/8 of its size, no
    smaller than that, in less time; its extents are rounded up. Other files are not reduced.

    Raises as `read_image` does; what the block raises passes as it is.
    """
    yield _decoded(Path(path), "L" if grayscale else "RGB", upright, max_pixels, reduction)


def require_size(size: object, max_pixels: int = MAX_PIXELS) -> None:
    """Raises `UsageError` unless `size` is (height, width) of an image."""
    match size:
        case (int(height), int(width)) if min(height, width) > 0 and height * width <= max_pixels:
            return
    raise UsageError(
        f"[image] size {size!r}: expected (height, width), each at least 1, of {max_pixels} pixels "
        "(max_pixels) together at most"
    )


def _decoded(
    path: Path,
    mode: str,
    upright: bool,
    max_pixels: int,
    reduction: Callable[[int, int], int] | None = None,
) -> Image.Image:
    nbytes = _size_of(path)
    return _picture(path, path, nbytes, mode, upright, max_pixels, reduction)


def _picture(
    source: Path | BinaryIO,
    path: Path,
    nbytes: int,
    mode: str,
    upright: bool,
    max_pixels: int,
    reduction: Callable[[int, int], int] | None = None,
) -> Image.Image:
    with _blamed(path, max_pixels), Image.open(source) as image:
        width, height = image.size
        if width * height > max_pixels:
            raise _too_large(path, f"{width} x {height} pixels", max_pixels)
        # The decoder begins again, in part, with each piece of a file: it gets all at once.
        image.decodermaxblock = max(image.decodermaxblock, nbytes)
        if reduction is not None:
            _reduce(image, upright, reduction)
        image.load()
        picture = image if image.mode == mode else _eight_bit(image).convert(mode)
        turn = _UPRIGHT.get(_orientation(image)) if upright else None
        return picture if turn is None else picture.transpose(turn)


@contextmanager
def _blamed(path: Path, max_pixels: int = MAX_PIXELS) -> Iterator[None]:
    """Errors of decoders as errors of the file."""
    try:
        yield
    except DataFileError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _too_large(path, "far too many pixels", max_pixels) from None
    except UnidentifiedImageError:
        raise _unreadable(path, "not an image of a known format") from None
    except PermissionError as error:
        raise _no_access(path, error) from None
    # Decoders fail on damaged data in many ways; to the caller they are one: this file is bad.
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError, Warning) as error:
        raise _unreadable(path, f"damaged or cut off ({error})") from None


def _reduce(image: Image.Image, upright: bool, reduction: Callable[[int, int], int]) -> None:
    """Sets the decoder to the smallest size that `reduction` allows."""
    width, height = image.size
    lies = upright and _orientation(image) >= _FIRST_LYING
    extents = (width, height) if lies else (height, width)
    # The largest power of 2 that is allowed: `draft` would round others up.
    factor = 1 << min(max(int(reduction(*extents)), 1).bit_length() - 1, 3)
    if factor > 1:
        image.draft(None, (max(1, width // factor), max(1, height // factor)))


def _size_of(path: Path) -> int:
    """The bytes of a file that may be an image."""
    try:
        about = found(path)
        require_regular(path, about)
    except FileNotFoundError:
        raise DataMissingError(f"[image] {path}: no such file; check the path") from None
    except PermissionError as error:
        raise _no_access(path, error) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataFileError("image", path, f"cannot be read ({reason})", _ANOTHER) from None
    if about.st_size > MAX_FILE_BYTES:
        raise DataFileError(
            "image",
            path,
            f"{about.st_size} bytes, the limit is {MAX_FILE_BYTES}",
            "make the image smaller, or remove it",
        )
    return about.st_size


def _no_access(path: Path, error: OSError) -> DataFileError:
    reason = error.strerror or "no access"
    return DataFileError("image", path, f"cannot be read ({reason})", "check its permissions")


def _too_large(path: Path, found: str, limit: int) -> DataFileError:
    return DataFileError(
        "image", path, f"{found}, the limit is {limit}", "make the image smaller, or remove it"
    )


def _unreadable(path: Path, problem: str) -> DataFileError:
    return DataFileError("image", path, problem, "replace the file, or remove it")


def _orientation(image: Image.Image) -> int:
    """What EXIF says of it, else 1; damaged EXIF says nothing, and harms no pixel."""
    try:
        value = image.getexif().get(_ORIENTATION)
    except (OSError, SyntaxError, ValueError, LookupError, TypeError, struct.error, Warning):
        return 1
    return value if isinstance(value, int) else 1


def _eight_bit(image: Image.Image) -> Image.Image:
    """16-bit grey levels scaled to 8 bits; `convert` alone would clip them to white."""
    if image.mode == "F":
        raise ValueError("floating-point pixels, which have no known range")
    if not image.mode.startswith("I"):
        return image
    wide = image.convert("I")
    if wide.point(lambda level: level * (1 / 0x10000)).getbbox() is not None:
        raise ValueError("more than 16 bits per pixel")
    return wide.point(lambda level: level * (1 / 256)).convert("L")


def pixels_of(image: Image.Image) -> ft.Tensor:
    """The (C, H, W) uint8 tensor of a picture of mode L or RGB."""
    channels = len(image.getbands())
    shape = (image.height, channels, image.width)
    # Row by row, in each the channels one after the other: what follows reads whole rows of them.
    data = image.tobytes("raw", "RGB;L") if channels == 3 else image.tobytes()
    return ft.frombytes(data, shape, ft.uint8).permute(1, 0, 2)
