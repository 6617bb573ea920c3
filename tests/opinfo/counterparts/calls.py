"""PyTorch's argument names translated to those of the array API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import fl_tensor as ft

Function = Callable[..., Any]

_DTYPES = {
    getattr(torch, name): getattr(ft, name)
    for name in (
        "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
    ).split()
}
_RENAMED = {"dim": "axis", "keepdim": "keepdims", "dims": "axis", "other": "y", "unbiased": None}


def dtype_of(theirs: torch.dtype) -> ft.DType:
    """Our dtype of the same name."""
    return _DTYPES[theirs]


def renamed(options: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments by our names: ``dim`` is ``axis``, ``keepdim`` is ``keepdims``."""
    return {_RENAMED.get(name) or name: value for name, value in options.items()}


def with_axes(function: Function) -> Function:
    """A function of an array whose further arguments are called ``dim`` and ``keepdim``."""
    return lambda x, *args, **options: function(x, *args, **renamed(options))


def sizes(args: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape given as one sequence or as several integers."""
    if len(args) == 1 and not isinstance(args[0], int):
        return tuple(args[0])
    return tuple(args)
