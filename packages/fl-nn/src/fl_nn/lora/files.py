"""Files of adapters alone, in the layout of Hugging Face's PEFT: adapter_config.json and
adapter_model.safetensors."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import fl_tensor as ft
from fl_nn.errors import CheckpointError, ModuleError
from fl_nn.files.lazy import LazyTensor
from fl_nn.files.shards import open_tensors, save_tensors
from fl_nn.files.tensorfile import WRITER
from fl_nn.lora.apply import Place, adapted, add_adapters, places
from fl_nn.lora.layers import PARTS, WHOLE, LowRank
from fl_nn.module import Module
from fl_nn.rename import Table
from fl_nn.settings import ABOVE_ZERO, COUNT, FRACTION
from fl_nn.values import like
from fl_tensor import untrusted_json
from fl_tensor.annotations import checked
from fl_tensor.files import open_regular, replacing

M = TypeVar("M", bound=Module)
AnyPath = str | os.PathLike[str]

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_MAX_CONFIG = 1 << 20
#: Settings of PEFT that change what an adapter computes, and the values that are supported.
_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none", None),
    "use_rslora": (False, None),
    "use_dora": (False, None),
    "use_qalora": (False, None),
    "lora_bias": (False, None),
    "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None),
    "modules_to_save": (None, []),
    "layer_replication": (None,),
    "trainable_token_indices": (None,),
    "target_parameters": (None, []),
}


@checked
def save_adapter(folder: AnyPath, model: Module, *, rename: Table | None = None) -> None:
    """Write the adapters of a model, without its other weights.

    rename  the table of the model's own weights: the files are then for PEFT and its model

    Raises ModuleError for a model without adapters, or with adapters of different rank, alpha or
    dropout, which the files cannot say, and CheckpointError for a layer that the table has no name
    for.
    """
    found = adapted(model)
    settings = {(a.rank, a.alpha, a.dropout.p) for a in map(_lora, found)}
    if len(settings) != 1:
        raise ModuleError(
            f"[save_adapter] this {type(model).__name__} has "
            + ("adapters of different settings" if found else "no adapters: use apply_lora before")
        )
    ((rank, alpha, dropout),) = settings
    names = {place.name: _their_name(place, rename) for place in found}
    tensors: dict[str, ft.Tensor] = {}
    for place in found:
        for matrix in ("lora_A", "lora_B"):
            value = getattr(_lora(place), matrix).tensor
            tensors[f"{_PREFIX}{names[place.name]}.{matrix}.weight"] = value
    config = {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": None,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": dropout,
        "target_modules": sorted({name.rpartition(".")[2] for name in names.values()}),
        "bias": "none",
        "inference_mode": True,
    }
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder}: cannot be made a folder ({error})") from error
    save_tensors(folder / WEIGHTS, tensors, {"format": "pt", WRITER: "adapter"})
    with replacing(folder / CONFIG) as file:
        file.write(json.dumps(config, indent=2).encode())


@checked
def load_adapter(folder: AnyPath, model: M, *, rename: Table | None = None) -> M:
    """Add the adapters of a folder to a model, in place; the model. Adapters that it has already
    take the values of the files, and must be in the same places.

    rename  as in `save_adapter`

    Raises CheckpointError for files that are missing, damaged, not supported, or of another model;
    the model is then as it was.
    """
    path = Path(folder) / CONFIG
    config = _read_config(path)
    with open_tensors(Path(folder) / WEIGHTS) as file:
        file.verify()
        chosen = _fitting(Path(folder) / WEIGHTS, model, file.tensors, config["r"], rename)
        before = {place.name for place in adapted(model)}
        if before and before != {place.name for place in chosen}:
            raise CheckpointError(
                f"{folder}: has adapters of other layers than this {type(model).__name__}: use "
                "remove_lora before"
            )
        values = {
            (place.name, matrix): file.tensors[key].load()
            for place, keys in chosen.items()
            for matrix, key in keys.items()
        }
    options = (config["r"], config["lora_alpha"], config["lora_dropout"])
    if not before:
        try:
            add_adapters(list(chosen), *options)
        except ModuleError as error:
            raise CheckpointError(f"{path}: {error}") from error
        model.freeze()
    for place in chosen:
        lora = _lora(place)
        if before and (lora.rank, lora.alpha) != options[:2]:
            raise CheckpointError(
                f"{path}: rank {options[0]} and alpha {options[1]}, here {lora.rank} and "
                f"{lora.alpha}: use remove_lora before"
            )
        if lora.merged:
            place.change_weight(-1.0)
        for matrix in ("lora_A", "lora_B"):
            parameter = getattr(lora, matrix)
            value = values[place.name, matrix].astype(parameter.dtype)
            parameter.tensor = like(value, parameter.tensor)
        lora.freeze(False)
    return model


def _fitting(
    path: Path,
    model: Module,
    tensors: Mapping[str, LazyTensor],
    rank: int,
    rename: Table | None,
) -> dict[Place, dict[str, str]]:
    """The places whose adapters a file has, with the names of their matrices; or CheckpointError
    for names that no place has, and shapes that do not fit."""
    left, chosen, problems = set(tensors), {}, []
    for place in places(model):
        try:
            name = _their_name(place, rename)
        except CheckpointError:
            continue
        keys = {m: f"{_PREFIX}{name}.{m}.weight" for m in ("lora_A", "lora_B")}
        if not left.intersection(keys.values()):
            continue
        outputs, inputs = place.shape
        for matrix, shape in (("lora_A", (rank, inputs)), ("lora_B", (outputs, rank))):
            found = tensors.get(keys[matrix])
            if found is None:
                problems.append(f"missing {keys[matrix]}")
            elif found.shape != shape or not found.dtype.is_floating:
                problems.append(
                    f"{keys[matrix]} is {found.dtype} {found.shape}, {place.name} needs {shape}"
                )
        left.difference_update(keys.values())
        chosen[place] = keys
    problems += [f"no layer has {name[:200]}" for name in sorted(left)]
    if problems or not chosen:
        more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise CheckpointError(
            f"{path}: is no adapter of this {type(model).__name__}: "
            f"{'; '.join(problems[:5]) or 'it is empty'}{more}; load it into the model it was "
            "trained with, and pass the rename table of that model"
        )
    return chosen


def _their_name(place: Place, rename: Table | None) -> str:
    """What a layer is called in the files."""
    if rename is None:
        return place.name
    names = rename.origins(place.weight_name)
    if place.part in PARTS and len(names) == len(PARTS):
        names = [names[PARTS.index(place.part)]]
    elif place.part in PARTS or (place.part == WHOLE and len(names) > 1):
        names = []
    if len(names) != 1 or not names[0].endswith(".weight"):
        raise CheckpointError(
            f"the table has no layer of its own for {place.name}: adapt "
            + (WHOLE if place.part in PARTS else "other layers")
        )
    return names[0].removesuffix(".weight")


def _read_config(path: Path) -> dict[str, Any]:
    """Settings of the adapter; only those that are supported."""
    try:
        with open_regular(path) as file:
            text = file.read(_MAX_CONFIG + 1)
        config = untrusted_json.parse(text) if len(text) <= _MAX_CONFIG else None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise CheckpointError(f"{path}: is not valid JSON ({error})") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{path}: is no configuration of an adapter")
    for key, supported in _SUPPORTED.items():
        value = config.get(key, supported[-1] if key != "peft_type" else None)
        if not any(type(value) is type(one) and value == one for one in supported):
            raise CheckpointError(
                f"{path}: {key} is {repr(value)[:80]}: supported is "
                f"{' or '.join(map(repr, supported))}"
            )
    config.setdefault("lora_dropout", 0.0)
    for key, kind in (("r", COUNT), ("lora_alpha", ABOVE_ZERO), ("lora_dropout", FRACTION)):
        if not kind.fits(config.get(key)):
            raise CheckpointError(f"{path}: {key} is {config.get(key)!r}: expected {kind.words}")
    return config


def _lora(place: Place) -> LowRank:
    assert place.lora is not None
    return place.lora
