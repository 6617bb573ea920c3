"""Published weights for other classes, and settings of the optimizer for parts of a model."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import fl_nn as nn
from fl_nn.rename import Renamed, Table
from fl_tensor.annotations import checked
from fl_vision.errors import UsageError


@checked
def load_pretrained(
    path: str | os.PathLike[str],
    model: nn.Module,
    *,
    rename: Table | None = None,
    ignore_head: bool = True,
) -> list[str]:
    """Load published weights into `model`, whose last layer may have another number of classes.

    rename       a table for files of other programs, as `nn.load_weights` takes
    ignore_head  leave the layers that `model.head_names` lists as they are; all else must fit

    Gives the names of the model that were left out, which therefore have their random start. Raises
    CheckpointError for a file that lacks a name or has one too many, `UsageError` for a model
    without `head_names`; the model is then as it was.
    """
    if not ignore_head:
        nn.load_weights(path, model, rename=rename)
        return []
    heads = _heads(model)
    with nn.open_tensors(path) as file:
        file.verify()
        found = Renamed(dict(file.tensors), [], {}, [])
        if rename is not None:
            found = rename.to_ours(file.tensors)
        problems = found.problems + [f"unexpected {name}" for name in found.unexpected]
        if problems:
            raise nn.CheckpointError(f"{path}: {'; '.join(problems)}; give the table for this file")
        state: dict[str, Any] = {n: v for n, v in found.tensors.items() if not _below(n, heads)}
        own = model.state_dict()
        left_out = [name for name in own if _below(name, heads)]
        try:
            model.load_state_dict({**state, **{name: own[name] for name in left_out}})
        except nn.StateDictError as error:
            raise nn.CheckpointError(f"{path}: {error}") from error
    return left_out


@checked
def replace_head(model: nn.Module, classes: int) -> None:
    """Give `model` a new last layer for `classes` classes, with a random start (that of DETR has
    one score more). Build the optimizer afterwards.

    Raises `UsageError` for a model whose last layer is none of ours, and below 1 class.
    """
    if classes < 1:
        raise UsageError(f"[replace_head] {classes} classes: at least 1")
    (head,) = _heads(model)
    above, _, name = head.rpartition(".")
    holder = dict(model.named_modules())[above]
    old = getattr(holder, name)
    if isinstance(old, nn.Linear):
        inputs = old.weight.shape[1]
        made: nn.Module = nn.Linear(inputs, classes + 1 if head == "class_embed" else classes)
    else:
        raise UsageError(
            f"[replace_head] {head} is a {type(old).__name__}, not a Linear: build the model with "
            "classes=... and load weights with load_pretrained, which leaves the head out"
        )
    made.train(old.training)
    setattr(holder, name, made.to(old.weight.dtype).to(old.weight.backend))


@checked
def parameter_groups(
    model: nn.Module,
    lr: float,
    weight_decay: float = 0.0,
    *,
    rates: Mapping[str, float] | None = None,
    decay_vectors: bool = True,
) -> list[dict[str, Any]]:
    """Groups of the parameters of `model` for an optimizer: `nn.AdamW(parameter_groups(model, 1e-4,
    0.05), lr=1e-4)`.

    rates          factors of the learning rate by the beginning of names: {"backbone": 0.1}
    decay_vectors  False: biases and scales, of one axis, have no weight decay either

    What a module lists in `undecayed`, class token and positions of ViT, has no weight decay.
    Frozen parameters are in no group. Raises `UsageError` where a beginning fits no name, two fit
    one name, or a number is below 0.
    """
    factors = dict(rates or {})
    if min(lr, weight_decay, *factors.values()) < 0 or not math.isfinite(lr):
        raise UsageError(
            f"[parameter_groups] lr={lr}, weight_decay={weight_decay}, rates={factors}: numbers of "
            "at least 0"
        )
    named = list(model.named_parameters())
    _check_beginnings(list(factors), [name for name, _ in named])
    plain = _undecayed(model)
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in named:
        if not parameter.requires_grad:
            continue
        factor = next((f for start, f in factors.items() if _below(name, (start,))), 1.0)
        keeps = name in plain or (parameter.ndim < 2 and not decay_vectors)
        key = (lr * factor, 0.0 if keeps else weight_decay)
        groups.setdefault(key, []).append(parameter)
    return [
        {"params": parameters, "lr": rate, "weight_decay": decay}
        for (rate, decay), parameters in groups.items()
    ]


def _heads(model: nn.Module) -> tuple[str, ...]:
    heads = getattr(model, "head_names", ())
    if not heads:
        raise UsageError(
            f"[fl_vision.models] {type(model).__name__} does not say in head_names which layers "
            "depend on the classes; set it, or load with nn.load_weights(strict=False)"
        )
    return tuple(heads)


def _undecayed(model: nn.Module) -> set[str]:
    return {
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        for name in getattr(module, "undecayed", ())
    }


def _below(name: str, starts: tuple[str, ...]) -> bool:
    return any(name == start or name.startswith(f"{start}.") for start in starts)


def _check_beginnings(starts: list[str], names: list[str]) -> None:
    for start in starts:
        if not any(_below(name, (start,)) for name in names):
            raise UsageError(
                f"[parameter_groups] rates: no parameter begins with {start!r}; the first parts of "
                f"names are {', '.join(dict.fromkeys(name.partition('.')[0] for name in names))}"
            )
        if any(other != start and _below(start, (other,)) for other in starts):
            raise UsageError(f"[parameter_groups] rates: {start!r} is below another beginning")
