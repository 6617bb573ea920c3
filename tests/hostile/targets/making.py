"""Shorthand of the tables: a public name, its good arguments, the kinds of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fl_autograd as ag
import fl_data as data
import fl_dist as dist
import fl_memory as mem
import fl_nn as nn
import fl_speech as speech
import fl_tensor as ft
import fl_text as text
import fl_vision as vision
from cases import Target
from fl_speech import criteria, datasets, effects, features, reports
from fl_tensor import kernels
from fl_text import (
    classification,
    decoder,
    generation,
    heads,
    language_model,
    models,
    ngram,
    rescoring,
    token_model,
)
from fl_vision import detection, detectors, transforms
from fl_vision import models as vision_models

PACKAGES: dict[str, Any] = {
    "ft": ft,
    "ft.linalg": ft.linalg,
    "ft.fft": ft.fft,
    "ft.random": ft.random,
    "ft.kernels": kernels,
    "ag": ag,
    "nn": nn,
    "nn.lora": nn.lora,
    "nn.quantization": nn.quantization,
    "data": data,
    "mem": mem,
    "dist": dist,
    "speech": speech,
    "speech.features": features,
    "speech.effects": effects,
    "speech.criteria": criteria,
    "speech.datasets": datasets,
    "speech.reports": reports,
    "vision": vision,
    "vision.datasets": vision.datasets,
    "vision.detection": detection,
    "vision.detectors": detectors,
    "vision.transforms": transforms,
    "vision.models": vision_models,
    "text": text,
    "ngram": ngram,
    "generation": generation,
    "text.classification": classification,
    "text.decoder": decoder,
    "text.language_model": language_model,
    "text.token_model": token_model,
    "text.heads": heads,
    "text.models": models,
    "text.rescoring": rescoring,
}


class At:
    """A good path: this name in the empty folder of a case. With content it is a file, with
    contents by name a folder of files."""

    def __init__(self, name: str, content: bytes | Mapping[str, bytes] | None = None) -> None:
        self.name, self.content = name, content

    def make(self, folder: Path) -> Path:
        path = folder / self.name
        if isinstance(self.content, bytes):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.content)
        elif self.content is not None:
            for name, content in self.content.items():
                At(f"{self.name}/{name}", content).make(folder)
        return path


def target(
    name: str,
    good: Mapping[str, Any],
    /,
    *,
    call: Callable[..., Any] | None = None,
    **kinds: Any,
) -> Target:
    """A public callable by its name, ``ft.sum`` or ``ft.sum of nothing``.

    Good arguments that are functions are called to make them, ``Ready`` ones are functions
    themselves. The names of positional arguments are their numbers, with ``_`` before them among
    the kinds. ``call`` replaces the callable, say to use an object that it makes.
    """
    path = name.partition(" ")[0].split(".")
    function = call
    if function is None:
        function = PACKAGES[path[0]]
        for part in path[1:]:
            function = getattr(function, part)

    def make(folder: Path) -> Mapping[str, Any]:
        return {key: _good(value, folder) for key, value in good.items()}

    return Target(name, function, make, {key.lstrip("_"): kind for key, kind in kinds.items()})


class Ready:
    """A function that is an argument itself."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


def _good(value: Any, folder: Path) -> Any:
    if isinstance(value, Ready):
        return value.function
    if isinstance(value, At):
        return value.make(folder)
    return value() if callable(value) and not isinstance(value, type) else value


def x(*shape: int) -> Any:
    """Ones of float32."""
    return ft.ones(shape or (2, 3))


def ints(*shape: int) -> Any:
    """Ones of int64."""
    return ft.ones(shape or (2, 3), dtype="int64")
