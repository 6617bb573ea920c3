"""The registry of data sets for `--dataset` and for programs.

A loader is `fn(options: DataOptions) -> ImageData`. `register` adds one under a name.
"""

from __future__ import annotations

from fl_tensor.annotations import checked
from fl_vision.datasets.crops import RandomCrops
from fl_vision.datasets.digits import load_digits
from fl_vision.datasets.folder import ImageFolder, load_folder
from fl_vision.datasets.image_data import DataOptions, ImageData, Loader
from fl_vision.datasets.mnist import load_mnist
from fl_vision.errors import UsageError

__all__ = [
    "DataOptions",
    "ImageData",
    "ImageFolder",
    "Loader",
    "RandomCrops",
    "dataset_names",
    "load_dataset",
    "load_digits",
    "load_folder",
    "load_mnist",
    "register",
]

_LOADERS: dict[str, Loader] = {"digits": load_digits, "mnist": load_mnist, "folder": load_folder}


def register(name: str, loader: Loader) -> None:
    """Make `loader` available as `--dataset name`; a taken name is an error."""
    if name in _LOADERS:
        raise UsageError(f"[dataset] the name {name!r} is taken; choose another one")
    _LOADERS[name] = loader


def dataset_names() -> tuple[str, ...]:
    """The names that `load_dataset` knows."""
    return tuple(_LOADERS)


@checked
def load_dataset(name: str, options: DataOptions | None = None) -> ImageData:
    """The training and test images of the data set called `name`."""
    loader = _LOADERS.get(name)
    if loader is None:
        known = ", ".join(dataset_names())
        raise UsageError(f"[dataset] unknown data set {name!r}; choose one of {known}")
    return loader(options if options is not None else DataOptions())
