"""``fl-text info``: what a language model is, and what can be done with it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import runtime, runtime_options
from fl_text.cli.model_options import MODEL, is_tied
from fl_text.generation.growing import takes_fixed_caches
from fl_text.language_model_folder import LanguageModelFolder, load_language_model

#: Names of dtypes in the table of memory.
_DTYPES = ("float32", "float16", "int8")


def main(arguments: list[str]) -> int:
    """Print a line for each fact."""
    parser = argparse.ArgumentParser(
        prog="fl-text info",
        description="Architecture, sizes, parameters and memory of a language model, its tokenizer "
        "and its context, and which commands it supports.",
        allow_abbrev=False,
    )
    parser.add_argument("model", type=Path, metavar="FOLDER", help=MODEL)
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    runtime_options(parser)
    given = parser.parse_args(arguments)
    with runtime(given):
        found = facts(load_language_model(given.model))
    if given.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    for name, value in found.items():
        print(f"{name}: {_shown(value)}")
    return 0


def facts(model: LanguageModelFolder) -> dict[str, Any]:
    """What is known of a model, as plain values."""
    network = model.network
    parameters = list(network.parameters())
    total = sum(parameter.size for parameter in parameters)
    found: dict[str, Any] = {
        "network": model.kind,
        "task": "hidden tokens" if model.masked else "the next token",
        "source": "fl-text" if model.generation is None else "Hugging Face",
        "settings": dict(model.settings or {}),
        "parameters": total,
        "memory": memory(network),
        "tokenizer": f"{type(model.tokenizer).__name__}, {len(model.tokenizer)} tokens",
    }
    for role in ("bos", "eos", "pad", "unk", "mask"):
        number = getattr(model.tokenizer, f"{role}_id", None)
        if number is not None:
            found[f"{role} token"] = number
    found["context"] = model.context
    most = getattr(network, "context", getattr(network, "steps", None))
    found["longest text"] = most if isinstance(most, int) else "any"
    found |= _caches(network)
    commands = ["info", "eval"] if model.masked else ["info", "eval", "generate", "bench"]
    found["commands"] = commands
    return found


def memory(network: nn.Module) -> dict[str, int]:
    """Bytes of the weights as they are, and in other dtypes. In int8, what `--int8` rounds has one
    byte an element and a float32 scale a row, and other weights stay as they are."""
    parameters = list(network.parameters())
    now = sum(parameter.size * parameter.dtype.itemsize for parameter in parameters)
    found = {"now": now}
    for name in _DTYPES[:2]:
        found[name] = sum(parameter.size for parameter in parameters) * ft.dtype(name).itemsize
    matrices: dict[int, int] = {}
    tied = is_tied(network)
    tables = {id(m.weight) for m in network.modules() if isinstance(m, nn.Embedding) and not tied}
    for module in network.modules():
        attention = isinstance(module, nn.MultiHeadAttention)
        if attention or isinstance(module, nn.Linear | nn.Embedding if tied else nn.Linear):
            name = "in_proj_weight" if attention else "weight"
            weight = getattr(module, name)
            matrices[id(weight)] = weight.size + 4 * weight.shape[0]
    # The matrix of an embedding stays, though an output that shares it has one of 8 bits.
    kept = [p for p in parameters if id(p) not in matrices or id(p) in tables]
    found["int8"] = sum(matrices.values()) + sum(4 * parameter.size for parameter in kept)
    return found


def _caches(network: Any) -> dict[str, Any]:
    """How generation keeps the tokens so far."""
    if not callable(getattr(network, "caches", None)):
        return {}
    caches = network.caches()
    kinds = sorted({type(cache).__name__ for cache in caches})
    fixed = takes_fixed_caches(network, caches)
    return {
        "caches": f"{len(caches)} {' and '.join(kinds)}",
        "steps of generation": "one graph" if fixed else "without a graph",
    }


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
