"""Stored tensors: shape and dtype of a tensor that is still in its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import fl_tensor as ft
from fl_nn.values import tensor_of


@dataclass(frozen=True)
class Stored:
    """A tensor to be: `shape`, `dtype`, and `load()`, which makes it on the default backend."""

    shape: tuple[int, ...]
    dtype: ft.DType
    load: Callable[[], ft.Tensor]


#: What can be written to a file, or loaded into a model.
Loadable = ft.Tensor | Stored


def loaded(value: Loadable) -> ft.Tensor:
    """The tensor itself."""
    return value.load() if isinstance(value, Stored) else value


def loadable(state: Mapping[str, Any]) -> dict[str, Loadable]:
    """A state dict of tensors, or of what `ft.asarray` reads; what is in a file stays there."""
    return {
        name: value if isinstance(value, Stored) else tensor_of(ft.asarray(value))
        for name, value in state.items()
    }


def equal(first: Loadable, second: Loadable) -> bool:
    """Whether both have the same shape, dtype and bits."""
    if first is second:
        return True
    if first.shape != second.shape or first.dtype is not second.dtype:
        return False
    return loaded(first).tobytes() == loaded(second).tobytes()
