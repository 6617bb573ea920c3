"""Functions of all parameters of a model: their number, and equality of two models."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.module import Module
from fl_tensor.annotations import checked


@checked
def num_total_params(model: Module) -> int:
    """How many numbers `model` learns; what modules share counts once, frozen ones too."""
    return sum(parameter.size for parameter in model.parameters())


@checked
def all_params_close(first: Module, second: Module, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
    """Whether two models have parameters of the same names, shapes and dtypes, and close values:
    |a - b| <= atol + rtol * |b| everywhere. Buffers are not compared."""
    ours, theirs = dict(first.named_parameters()), dict(second.named_parameters())
    if ours.keys() != theirs.keys():
        return False
    return all(
        a.shape == b.shape
        and a.dtype is b.dtype
        and ft.allclose(a.tensor, b.tensor, rtol, atol).item()
        for a, b in ((ours[name], theirs[name]) for name in ours)
    )
