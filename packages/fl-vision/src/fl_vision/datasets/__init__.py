"""Image data sets: with labels, with boxes, and the registry of those for `--dataset`.

A loader of the registry is `fn(options: DataOptions) -> ImageData`. `register` adds one under a
name.
"""

from __future__ import annotations

from fl_tensor.annotations import checked
from fl_vision.datasets.blob_folder import load_blobs, write_blobs
from fl_vision.datasets.box_lists import BoxList, write_box_list
from fl_vision.datasets.cached_images import CachedImages
from fl_vision.datasets.cifar import load_cifar10, load_cifar100, read_cifar
from fl_vision.datasets.class_counts import (
    BoxStatistics,
    box_statistics,
    class_counts,
    class_weights,
)
from fl_vision.datasets.coco import CocoDetection
from fl_vision.datasets.coco_writer import write_coco
from fl_vision.datasets.crops import RandomCrops
from fl_vision.datasets.detection import Corrections, DetectionDataset
from fl_vision.datasets.detection_shards import DetectionShards, write_detection_shards
from fl_vision.datasets.digits import load_digits
from fl_vision.datasets.folder import ImageFolder, load_folder
from fl_vision.datasets.image_blob import ImageBlob, write_image_blob
from fl_vision.datasets.image_data import DataOptions, ImageData, Loader
from fl_vision.datasets.imagenet import ImageNet, load_imagenet, read_labels
from fl_vision.datasets.mnist import load_mnist
from fl_vision.datasets.scenes import Scenes
from fl_vision.datasets.tar_shards import ImageShards, write_image_shards
from fl_vision.datasets.target import Target, detection_collate
from fl_vision.datasets.voc import VOC_CLASSES, VocDetection
from fl_vision.errors import UsageError

__all__ = [
    "VOC_CLASSES",
    "BoxList",
    "BoxStatistics",
    "CachedImages",
    "CocoDetection",
    "Corrections",
    "DataOptions",
    "DetectionDataset",
    "DetectionShards",
    "ImageBlob",
    "ImageData",
    "ImageFolder",
    "ImageNet",
    "ImageShards",
    "Loader",
    "RandomCrops",
    "Scenes",
    "Target",
    "VocDetection",
    "box_statistics",
    "class_counts",
    "class_weights",
    "dataset_names",
    "detection_collate",
    "load_blobs",
    "load_cifar10",
    "load_cifar100",
    "load_dataset",
    "load_digits",
    "load_folder",
    "load_imagenet",
    "load_mnist",
    "read_cifar",
    "read_labels",
    "register",
    "write_blobs",
    "write_box_list",
    "write_coco",
    "write_detection_shards",
    "write_image_blob",
    "write_image_shards",
]

_LOADERS: dict[str, Loader] = {
    "digits": load_digits,
    "mnist": load_mnist,
    "cifar10": load_cifar10,
    "cifar100": load_cifar100,
    "folder": load_folder,
    "imagenet": load_imagenet,
    "blobs": load_blobs,
}


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
