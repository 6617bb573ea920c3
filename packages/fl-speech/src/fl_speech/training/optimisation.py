"""The optimizer of a recipe, and its learning rates."""

from __future__ import annotations

import math

import fl_nn as nn
from fl_speech.recipe import Recipe
from fl_speech.recogniser import Recogniser

CLASSES: dict[str, type[nn.Optimizer]] = {
    "adamw": nn.AdamW,
    "adam": nn.Adam,
    "sgd": nn.SGD,
    "nag": nn.NAG,
    "novograd": nn.Novograd,
    "adadelta": nn.Adadelta,
    "adagrad": nn.Adagrad,
    "rmsprop": nn.RMSprop,
}
_WITH_MOMENTUM = ("sgd", "nag")


def make_optimizer(recipe: Recipe, recogniser: Recogniser) -> nn.Optimizer:
    """One over encoder and criterion, whose parameters may have a learning rate of their own."""
    own = {id(parameter) for parameter in recogniser.criterion.parameters()}
    criterion = [p for p in recogniser.parameters() if id(p) in own]
    encoder = [p for p in recogniser.parameters() if id(p) not in own]
    groups = [{"params": encoder, "lr": recipe.lr}]
    if criterion:
        groups.append({"params": criterion, "lr": recipe.criterion_lr or recipe.lr})
    more = {"momentum": recipe.momentum} if recipe.optimizer in _WITH_MOMENTUM else {}
    kind = CLASSES[recipe.optimizer]
    return kind(groups, lr=recipe.lr, weight_decay=recipe.weight_decay, **more)


def make_schedule(recipe: Recipe, optimizer: nn.Optimizer, steps: int) -> nn.LRScheduler:
    """The learning rates of `steps` steps."""
    if recipe.schedule == "onecycle":
        first = optimizer.param_groups[0]
        return nn.OneCycleLR(
            optimizer,
            max_lr=[group["lr"] for group in optimizer.param_groups],
            total_steps=max(1, steps),
            cycle_momentum="betas" in first or "momentum" in first,
        )
    return nn.LambdaLR(optimizer, lambda step: factor(recipe, step, steps))


def factor(recipe: Recipe, step: int, steps: int) -> float:
    """What the learning rate of step `step`, from 0, is multiplied with: the linear rise of
    `warmup`, times the curve of the schedule."""
    rise = min(1.0, (step + 1) / recipe.warmup) if recipe.warmup else 1.0
    if recipe.schedule == "cosine":
        return rise * 0.5 * (1.0 + math.cos(math.pi * min(1.0, step / max(1, steps))))
    if recipe.schedule == "step":
        return rise * recipe.gamma ** (step // recipe.step_size)
    if recipe.schedule == "inverse_sqrt":
        return rise * math.sqrt(max(1, recipe.warmup) / max(1, recipe.warmup, step + 1))
    return rise
