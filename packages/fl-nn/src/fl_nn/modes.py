"""`evaluating`: evaluation mode and `no_grad` as a context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import fl_autograd as ag
from fl_nn.module import Module
from fl_tensor.annotations import checked


@checked
@contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """`model` in evaluation mode and without gradients; afterwards every module is as it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with ag.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode
