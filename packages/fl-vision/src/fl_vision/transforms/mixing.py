"""Batches whose images and labels are mixed in pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import fl_tensor as ft
from fl_data import Dataset, EpochDataset, Sample, check_index, mix
from fl_tensor.annotations import Checked, checked
from fl_tensor.arguments import seed_of
from fl_vision.datasets.image_data import image_and_label
from fl_vision.errors import ImageError
from fl_vision.transforms.draws import Draws
from fl_vision.transforms.pixels import require_share

MAX_ALPHA = 1e6


@checked
def label_distributions(labels: ft.Tensor, classes: int, label_smoothing: float = 0.0) -> ft.Tensor:
    """float32 (N, classes) of class numbers (N,): each row sums to 1.

    The class of an image gets 1 - s + s / classes, and every other one s / classes, where s is
    `label_smoothing` (Szegedy et al., 2016). Raises `ImageError` for numbers outside the classes.
    """
    where = "label_distributions"
    require_share(where, label_smoothing=label_smoothing)
    if classes < 1:
        raise ImageError(where, f"classes {classes}", "give 1 or more")
    if labels.ndim != 1 or not labels.dtype.is_integer:
        raise ft.ShapeError(
            f"[{where}] labels {labels.shape} of {labels.dtype}: give (N,) integers"
        )
    for number, label in enumerate(labels.tolist()):
        if not 0 <= label < classes:
            raise ImageError(
                where, f"label {label} of sample {number}", f"give numbers from 0 to {classes - 1}"
            )
    share = label_smoothing / classes
    return ft.one_hot(labels, classes, ft.float32) * (1.0 - label_smoothing) + share


@dataclass(frozen=True)
class Mixing(Checked):
    """Mixup or cutmix of a batch, and labels as distributions: `mixing(images, labels, generator)`.

    images  (N, C, H, W), floats; they are mixed with themselves in reverse order
    labels  (N,) integers
    result  images (N, C, H, W), and distributions (N, classes) float32 for a cross entropy

    * Mixup (Zhang et al., 2018): s x + (1 - s) x', with s from Beta(`mixup_alpha`, `mixup_alpha`).
    * Cutmix (Yun et al., 2019): a window of x' with the shape of the image in x. Its area is 1 - s,
      with s from Beta(`cutmix_alpha`, `cutmix_alpha`), before it is cut at the edges; s is then the
      share that is left of x.

    With both alphas above 0, a batch is cutmix with probability `switch`. An alpha of 0 turns one
    off. One s is drawn for a batch.
    """

    classes: int
    mixup_alpha: float = 0.8
    cutmix_alpha: float = 1.0
    switch: float = 0.5
    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        if self.classes < 1:
            raise ImageError("Mixing", f"classes {self.classes}", "give 1 or more")
        for name in ("mixup_alpha", "cutmix_alpha"):
            value = getattr(self, name)
            if not 0.0 <= value <= MAX_ALPHA:
                raise ImageError("Mixing", f"{name} {value}", f"give 0 to {MAX_ALPHA:g}")
        require_share("Mixing", switch=self.switch, label_smoothing=self.label_smoothing)

    @checked
    def __call__(
        self, images: ft.Tensor, labels: ft.Tensor, generator: ft.Generator | int
    ) -> tuple[ft.Tensor, ft.Tensor]:
        if images.ndim != 4 or not images.dtype.is_floating:
            raise ft.ShapeError(
                f"[Mixing] images {images.shape} of {images.dtype}: give (N, C, H, W) floats"
            )
        if labels.shape != (images.shape[0],):
            raise ft.ShapeError(
                f"[Mixing] labels {labels.shape} for images {images.shape}: give one for each"
            )
        targets = label_distributions(labels, self.classes, self.label_smoothing)
        if images.size == 0 or not (self.mixup_alpha or self.cutmix_alpha):
            return images, targets
        draws = Draws("Mixing", generator)
        both = bool(self.mixup_alpha and self.cutmix_alpha)
        is_cutmix = draws.chance(self.switch) if both else bool(self.cutmix_alpha)
        share = _beta(self.cutmix_alpha if is_cutmix else self.mixup_alpha, draws)
        if is_cutmix:
            mixed, share = _cut(images, share, draws)
        else:
            mixed = images * share + ft.flip(images, 0) * (1.0 - share)
        return mixed, targets * share + ft.flip(targets, 0) * (1.0 - share)


def _beta(alpha: float, draws: Draws) -> float:
    """A number from Beta(alpha, alpha)."""
    generator = ft.Generator(draws.integer(0, (1 << 62) - 1))
    return float(generator.beta(alpha, alpha, dtype="float64", backend="numpy").item())


def _cut(images: ft.Tensor, share: float, draws: Draws) -> tuple[ft.Tensor, float]:
    """Images with a window of others, and the share of their own pixels."""
    height, width = images.shape[-2:]
    side = math.sqrt(1.0 - share)
    rows, columns = int(height * side), int(width * side)
    y, x = draws.integer(0, height - 1), draws.integer(0, width - 1)
    top, bottom = max(y - rows // 2, 0), min(y + rows // 2, height)
    left, right = max(x - columns // 2, 0), min(x + columns // 2, width)
    mixed = images.copy()
    if bottom > top and right > left:
        window = (Ellipsis, slice(top, bottom), slice(left, right))
        mixed[window] = ft.flip(images, 0)[window]
    return mixed, 1.0 - (bottom - top) * (right - left) / (height * width)


class MixedBatches(EpochDataset):
    """The batches `(images, labels)` of `batches` after `mixing`, drawn by seed, epoch and number.

    Ranks mix their own parts of a batch, each with numbers of its own.
    """

    def __init__(self, batches: Dataset, mixing: Mixing, seed: int, *, rank: int = 0) -> None:
        self._batches, self._mixing = batches, mixing
        self._seed, self._rank = seed_of("MixedBatches", seed), rank

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (self._batches,)

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Sample:
        number = check_index(index, len(self), "MixedBatches")
        images, labels = image_and_label(self._batches[number])
        generator = ft.Generator(mix(self._seed, self._epoch, number, self._rank))
        return self._mixing(images, labels, generator)
