"""The UCI handwritten digits: 1,797 real 8x8 images that scikit-learn carries, no download."""

from __future__ import annotations

import fl_tensor as ft
from fl_data import Subset, TensorDataset
from fl_vision.datasets.image_data import DataOptions, ImageData, stratified_split
from fl_vision.errors import ExtraMissingError, UsageError


def load_digits(options: DataOptions) -> ImageData:
    """1,797 images (1, 8, 8) uint8 with levels 0 to 16, split 80/20 with every class in proportion.

    The split depends on `options.split_seed` alone. Raises `ExtraMissingError` without
    scikit-learn.
    """
    options.reject("digits", "data_dir", "holdout", "image_size", "grayscale")
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ExtraMissingError(
            f"[digits] scikit-learn is needed ({error}); "
            "install the extra: python -m pip install 'fl-vision[digits]'"
        ) from error
    found = datasets.load_digits()
    images = ft.asarray(found.images).astype(ft.uint8)
    labels = ft.asarray(found.target).astype(ft.int64)
    if images.shape[0] != labels.shape[0] or images.ndim != 3:
        raise UsageError(
            f"[digits] scikit-learn gave images {images.shape} and labels {labels.shape}; "
            "install a released version of scikit-learn"
        )
    count, height, width = images.shape
    everything = TensorDataset(images.reshape(count, 1, height, width), labels)
    train, test = stratified_split(labels.tolist(), options.test_fraction, options.split_seed)
    return ImageData(
        name="digits",
        train=Subset(everything, train),
        test=Subset(everything, test),
        classes=tuple(str(digit) for digit in range(10)),
        image_shape=(1, height, width),
        peak=16,
    )
