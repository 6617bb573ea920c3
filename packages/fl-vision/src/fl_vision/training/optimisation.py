"""Network, loss, optimizer and learning rates of a recipe."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_data import Dataset
from fl_vision.datasets.class_counts import class_counts, class_weights
from fl_vision.errors import UsageError
from fl_vision.models.by_name import create_network, weight_table
from fl_vision.models.feature_network import FeatureNetwork, freeze_stages
from fl_vision.models.fine_tuning import load_pretrained, parameter_groups
from fl_vision.recipe import Recipe, milestones_of, rates_of

#: Steps of the linear rise before an exponential decay, where a recipe has no warm-up.
WARM_UP_STEPS = 50
#: OneCycle: the share of steps that rise, and the first and last part of the peak.
_RISE, _FIRST, _LAST = 0.3, 1 / 25, 1 / 25e4


def network_options(recipe: Recipe) -> dict[str, Any]:
    """The options of `create_network` in a recipe, those that differ from the defaults."""
    names = ("width", "small_stem", "patch", "dropout", "drop_path")
    return {name: getattr(recipe, name) for name in names}


def build_network(
    recipe: Recipe, classes: int, image_shape: Sequence[int], *, pretrained: bool = True
) -> nn.Module:
    """The network of a recipe, with its weights and frozen stages. `pretrained` False: a run that
    is resumed has weights of its own, and the file need not be there."""
    model = create_network(recipe.network, classes, image_shape, network_options(recipe))
    if recipe.weights and pretrained:
        table = weight_table(recipe.network, recipe.weights_from)
        load_pretrained(recipe.weights, model, rename=table)
    model.to(ft.dtype(recipe.dtype))
    if recipe.freeze and isinstance(model, FeatureNetwork):
        freeze_stages(model, recipe.freeze)
    return model


def build_optimizer(recipe: Recipe, model: nn.Module) -> nn.Optimizer:
    """The optimizer of a recipe, with groups for rates and weight decay."""
    groups = parameter_groups(
        model,
        recipe.lr,
        recipe.weight_decay,
        rates=rates_of(recipe.rates),
        decay_vectors=recipe.decay_vectors,
    )
    if recipe.optimizer == "sgd":
        return nn.SGD(groups, recipe.lr, recipe.momentum, nesterov=recipe.nesterov)
    kind = nn.AdamW if recipe.optimizer == "adamw" else nn.Adam
    return kind(groups, recipe.lr)


def build_loss(recipe: Recipe, samples: Dataset, classes: int) -> Callable[..., Any]:
    """The cross entropy of a recipe. Mixed labels are smoothed where they are mixed."""
    options: dict[str, Any] = {}
    if recipe.label_smoothing and not is_mixed(recipe):
        options["label_smoothing"] = recipe.label_smoothing
    if recipe.class_weights:
        counts = class_counts(samples, classes)
        weights = class_weights(counts, power=recipe.class_weights)
        options["weight"] = ft.asarray(list(weights), dtype=ft.dtype(recipe.dtype))
    return partial(nn.cross_entropy, **options) if options else nn.cross_entropy


def is_mixed(recipe: Recipe) -> bool:
    """Whether labels become distributions."""
    return bool(recipe.mixup or recipe.cutmix)


def learning_rate(recipe: Recipe, step: int, steps_per_epoch: int) -> float:
    """The rate of step `step`, from 0, with `steps_per_epoch` steps in an epoch.

    exponential  a rise over the warm-up, or 50 steps, and a factor of `lr_decay` per epoch. It does
                 not depend on the number of epochs: a run that is resumed for more of them goes on
                 as if it had been longer from the start
    step         `gamma` after each of the milestones
    cosine       from the end of the warm-up to `min_lr` at the last step (Loshchilov and Hutter,
                 2017)
    onecycle     from 1/25 up to the peak in 30 % of the steps, and down to 1/250,000, both along
                 half a cosine (Smith and Topin, 2019); without a change of momentum
    """
    per_epoch = max(1, steps_per_epoch)
    total, warm = recipe.epochs * per_epoch, round(recipe.warmup * per_epoch)
    if recipe.schedule == "exponential":
        rise = min(1.0, (step + 1) / (warm or WARM_UP_STEPS))
        rate = recipe.lr * rise * recipe.lr_decay ** (step / per_epoch)
        return max(rate, recipe.min_lr) if recipe.min_lr else rate
    factor = min(1.0, (step + 1) / warm) if warm else 1.0
    if recipe.schedule == "step":
        passed = sum(step >= epoch * per_epoch for epoch in milestones_of(recipe.milestones))
        factor *= recipe.gamma**passed
    elif recipe.schedule == "cosine" and step >= warm:
        low = min(1.0, recipe.min_lr / recipe.lr)
        factor *= _between(1.0, low, (step - warm) / max(1, total - 1 - warm))
    elif recipe.schedule == "onecycle":
        peak = max(1.0, _RISE * total - 1.0)
        rising = step <= peak
        part = step / peak if rising else (step - peak) / max(1.0, total - 1 - peak)
        factor *= _between(_FIRST, 1.0, part) if rising else _between(1.0, _LAST, part)
    return max(recipe.lr * factor, recipe.min_lr)


def build_schedule(recipe: Recipe, optimizer: nn.Optimizer, steps_per_epoch: int) -> nn.LambdaLR:
    """The schedule of a recipe, for the groups in proportion to their rates."""
    # The shape of the schedule alone: the rates are those of the groups.
    unit = recipe.changed(lr=1.0, min_lr=recipe.min_lr / recipe.lr)
    return nn.LambdaLR(optimizer, lambda step: learning_rate(unit, step, steps_per_epoch))


def check_images(recipe: Recipe, image_shape: Sequence[int]) -> None:
    """Raise `UsageError` where the normalisation of a recipe is not for such images."""
    if recipe.normalise == "imagenet" and image_shape[0] != 3:
        raise UsageError(
            f"[train] normalise is imagenet, for colour images, and these are {tuple(image_shape)}:"
            " leave it out, or read the images in colour"
        )


def _between(start: float, stop: float, part: float) -> float:
    """Along half a cosine."""
    return stop + (start - stop) * 0.5 * (1.0 + math.cos(math.pi * min(1.0, part)))
