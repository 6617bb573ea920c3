"""The UCI handwritten digits: 1,797 real 8x8 images that scikit-learn carries, no download."""

from __future__ import annotations

import fl_tensor as ft
from fl_data import TensorDataset
from fl_vision.datasets.image_data import DataOptions, ImageData
from fl_vision.errors import ExtraMissingError, UsageError


def load_digits(options: DataOptions) -> ImageData:
    """1,797 images (1, 8, 8) uint8 with levels 0 to 16, split 80/20 with every class in proportion.

    The split depends on `options.split_seed` alone. Raises `ExtraMissingError` without
    scikit-learn.
    """
    options.reject("digits", "data_dir", "holdout", "image_size", "grayscale", "skip_bad", "cache")
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ExtraMissingError(
            f"[digits] scikit-learn is needed ({error}); "
            "install the extra: python -m pip install 'fl-vision[digits]'"
        ) from error
    found = datasets.load_digits()
    # scikit-learn has float64 images with whole levels. They become bytes here, in Python, because
    # a backend need not have float64.
    levels, labels = memoryview(found.images), memoryview(found.target).tolist()
    if levels.shape is None or levels.format != "d" or len(labels) != levels.shape[0]:
        raise UsageError(
            f"[digits] scikit-learn gave images {levels.shape} and {len(labels)} labels; "
            "install a released version of scikit-learn"
        )
    count, height, width = levels.shape
    flat = memoryview(levels.tobytes()).cast("d").tolist()
    pixels = ft.frombytes(bytes(map(int, flat)), (count, 1, height, width), ft.uint8)
    everything = TensorDataset(pixels, ft.asarray(labels, dtype=ft.int64))
    train, test = options.split(everything, labels)
    return ImageData(
        name="digits",
        train=train,
        test=test,
        classes=tuple(str(digit) for digit in range(10)),
        image_shape=(1, height, width),
        peak=16,
    )
