"""The optimizer of a recipe, and its learning rates."""

from __future__ import annotations

import math

import fl_nn as nn
from fl_vision.detectors.detector import Detector
from fl_vision.detectors.network import BACKBONES
from fl_vision.detectors.recipe import DetectionRecipe
from fl_vision.models import parameter_groups

__all__ = ["factor", "make_optimizer", "make_schedule"]


def make_optimizer(detector: Detector) -> nn.Optimizer:
    """One over what is not frozen; the backbone may have a learning rate of its own."""
    recipe, network = detector.recipe, detector.network
    backbone = dict(network.named_modules())[BACKBONES[recipe.network]]
    learns = any(parameter.requires_grad for parameter in backbone.parameters())
    rates = {BACKBONES[recipe.network]: recipe.backbone_lr} if learns else None
    groups = parameter_groups(network, recipe.lr, recipe.weight_decay, rates=rates)
    if recipe.optimizer == "sgd":
        return nn.SGD(groups, lr=recipe.lr, momentum=0.9)
    return nn.AdamW(groups, lr=recipe.lr)


def make_schedule(
    recipe: DetectionRecipe, optimizer: nn.Optimizer, steps_per_epoch: int
) -> nn.LRScheduler:
    """The learning rates of a training with so many steps in an epoch."""
    return nn.LambdaLR(optimizer, lambda step: factor(recipe, step, steps_per_epoch))


def factor(recipe: DetectionRecipe, step: int, steps_per_epoch: int) -> float:
    """What the learning rate of step `step`, from 0, is multiplied with."""
    rise = min(1.0, (step + 1) / recipe.warmup) if recipe.warmup else 1.0
    if recipe.schedule == "cosine":
        share = min(1.0, step / max(1, recipe.epochs * steps_per_epoch))
        return rise * 0.5 * (1.0 + math.cos(math.pi * share))
    if recipe.schedule == "step":
        return rise * recipe.gamma ** (step // (recipe.step_epochs * steps_per_epoch))
    return rise
