"""Small conversions and checks of arrays that layers, losses and meters share."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeGuard

import fl_tensor as ft
from fl_autograd import Variable
from fl_tensor.assumptions import is_captured


def tensor_of(x: ft.Array) -> ft.Tensor:
    """The value without its history: the tensor of a Variable, a Tensor itself."""
    return x.tensor if isinstance(x, Variable) else x  # type: ignore[return-value]


def cast_results(value: Any, dtype: ft.DType | None) -> Any:
    """`value`, and what tuples, lists and dicts hold, with arrays of 16 or 32 floating bits in
    `dtype`; as it is for None."""
    if isinstance(value, ft.Array):
        narrow = value.dtype.is_floating and value.dtype.itemsize <= 4
        return value.astype(dtype) if dtype is not None and narrow else value
    if type(value) in (tuple, list):
        return type(value)(cast_results(part, dtype) for part in value)
    if type(value) is dict:
        return {key: cast_results(part, dtype) for key, part in value.items()}
    return value


def widest(x: ft.Array) -> ft.Tensor:
    """The value in float64, or in float32 on a backend without it: for sums of many."""
    return tensor_of(x).astype(ft.float64 if ft.float64 in x.backend.dtypes else ft.float32)


def check_classes(where: str, classes: ft.Array, count: int, hint: str) -> None:
    """Raise DTypeError unless `classes` are integers, IndexingError unless all lie in [0, count).

    Looks at the values, unless the backend has none or a graph is captured.
    """
    if not classes.dtype.is_integer:
        raise ft.DTypeError(f"{where} are {classes.dtype}: expected integers; use astype")
    if classes.size and classes.backend.has_values and not is_captured():
        low, high = ft.min(classes).item(), ft.max(classes).item()
        if low < 0 or high >= count:
            bad = low if low < 0 else high
            raise ft.IndexingError(f"{where} hold {bad}: expected 0 .. {count - 1}; {hint}")


def check_probabilities(where: str, probs: ft.Array, hint: str) -> None:
    """Raise ArgumentError if any of `probs` lies outside [0, 1]; NaN passes.

    Looks at values that are there: a deferred backend is not made to compute them for this.
    """
    if is_captured():
        return
    if probs.size and probs.backend.has_values and ft.is_ready(probs):
        value = tensor_of(probs)
        low, high = ft.min(value).item(), ft.max(value).item()
        if low < 0.0 or high > 1.0:
            bad = low if low < 0.0 else high
            raise ft.ArgumentError(f"{where} hold {bad:g}: expected 0 .. 1; {hint}")


def arange_like(x: ft.Array, start: int, stop: int, dtype: ft.DType) -> ft.Tensor:
    """`start`, `start + 1`, ... below `stop`, on the backend and device of `x`."""
    with ft.use(x.backend):
        return ft.arange(start, stop, dtype=dtype, device=x.device)


def snapshot(value: ft.Tensor) -> ft.Tensor:
    """A handle of its own: an update of the other one, `x[0] = 1`, does not show here."""
    return copy.copy(value)


def like(value: ft.Tensor, own: ft.Tensor) -> ft.Tensor:
    """A handle of its own on `value`, on the backend and device of `own`."""
    if value.backend is not own.backend:
        value = value.to(own.backend)
    return value.to(own.device) if value.device != own.device else snapshot(value)


def defers(backend: ft.TensorBackend) -> bool:
    """Whether a backend may put operations off: others inherit an `evaluate` that does nothing."""
    return type(backend).evaluate is not ft.TensorBackend.evaluate


def are_tensors(value: Any) -> TypeGuard[Mapping[str, ft.Tensor]]:
    """Whether `value`, of a state that somebody gave, is a dict of tensors."""
    return isinstance(value, Mapping) and all(isinstance(x, ft.Tensor) for x in value.values())
