"""Folders of Hugging Face: `config.json`, and steps of rename tables that several models share."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_nn.rename import Merge, Rule, Step

MAX_BYTES = 1 << 20


class Config:
    """The settings of a `config.json`. Raises CheckpointError, which names the file and the
    setting, for what is missing, of another type, or not supported."""

    def __init__(self, folder: str | os.PathLike[str], kind: str) -> None:
        self.path = Path(os.fspath(folder)) / "config.json"
        try:
            data = self.path.read_bytes() if self.path.is_file() else None
        except OSError as error:
            raise self.error(f"cannot be read: {error.strerror or error}") from error
        if data is None:
            raise self.error("there is no such file: give the folder with it and model.safetensors")
        if len(data) > MAX_BYTES:
            raise self.error(f"longer than {MAX_BYTES} bytes: no configuration")
        try:
            self.values: Any = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self.error(f"no JSON: {error}") from error
        if not isinstance(self.values, dict):
            raise self.error("expected an object of settings")
        if self.values.get("model_type") != kind:
            raise self.error(f"model_type is {self.values.get('model_type')!r}, not {kind!r}")

    def error(self, problem: str) -> nn.CheckpointError:
        return nn.CheckpointError(f"{self.path}: {problem}")

    def size(self, name: str, default: int, least: int = 1) -> int:
        """A whole number."""
        value = self.values.get(name, default)
        if type(value) is not int or not least <= value <= 1_000_000:
            raise self.error(f"{name} is {value!r}: expected a whole number of at least {least}")
        return value

    def sizes(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """Several of them."""
        value = self.values.get(name, default)
        fits = isinstance(value, (list, tuple)) and 0 < len(value) <= 64
        if not fits or not all(type(n) is int and 1 <= n <= 1_000_000 for n in value):
            raise self.error(f"{name} is {value!r}: expected whole numbers of at least 1")
        return tuple(value)

    def number(self, name: str, default: float) -> float:
        """A number from 0 to below 1."""
        value = self.values.get(name, default)
        if type(value) not in (int, float) or not 0 <= value < 1:
            raise self.error(f"{name} is {value!r}: expected a number from 0 to below 1")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """true or false."""
        value = self.values.get(name, default)
        if type(value) is not bool:
            raise self.error(f"{name} is {value!r}: expected true or false")
        return value

    def require(self, expected: Mapping[str, Any]) -> None:
        """Settings that have one supported value, which is also the default."""
        for name, only in expected.items():
            value = self.values.get(name, only)
            if value != only:
                raise self.error(f"{name} is {value!r}: only {only!r} is supported")


class WithoutKeyBias(Step):
    """The biases of queries and values there; here those of queries, keys and values in one, with
    zeros for keys."""

    def forward(self, tensors: list[ft.Tensor]) -> list[ft.Tensor]:
        queries, values = tensors
        return [ft.concatenate([queries, ft.zeros_like(queries), values], 0)]

    def backward(self, tensors: list[ft.Tensor]) -> list[ft.Tensor]:
        queries, _, values = ft.split(tensors[0], 3, 0)
        return [queries, values]


def attention_rules(theirs: str, ours: str, key_bias: bool) -> list[Rule]:
    """Projections one by one there, in one matrix here."""
    parts = [f"{theirs}.{part}_proj" for part in "qkv"]
    rules = [
        Rule([f"{p}.weight" for p in parts], f"{ours}.in_proj_weight", Merge(3)),
        Rule(f"{theirs}.out_proj.{{p}}", f"{ours}.out_proj.{{p}}"),
    ]
    if key_bias:
        return [*rules, Rule([f"{p}.bias" for p in parts], f"{ours}.in_proj_bias", Merge(3))]
    biases = [f"{parts[0]}.bias", f"{parts[2]}.bias"]
    return [*rules, Rule(biases, f"{ours}.in_proj_bias", WithoutKeyBias())]
