"""How exact float32 can be: PyTorch's own error as the yardstick.

Some configurations lose digits by their nature: a bias in front of a batch norm has the gradient
zero, as a difference of large numbers; a layer norm over two elements divides by what is left of
their difference. There two right programs differ by more than any fixed bound. So where ours
differs from PyTorch's, both are held against the truth, which is PyTorch's in float64: ours may be
wrong by MARGIN times as much as PyTorch's in float32 is, at the worst of a few points that differ
from this one by roundings of inputs and parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # arrays are tiny

MARGIN = 8.0
POINTS = 16

Arrays = dict[str, Any]


class Yardstick:
    """What is true at one point, and how wrong PyTorch's float32 is around it.

    module  the one that has parameters and buffers; None for a function
    state   its state before the pass that is judged (``state_of``)
    run     ``run(inputs)``: all arrays of a pass, by name, in the dtype of inputs and module
    inputs  of the pass, float32
    """

    def __init__(
        self, module: Any, state: Arrays, run: Callable[[list[Any]], Arrays], inputs: list[Any]
    ) -> None:
        after = state_of(module)
        try:
            self.truth = _at(module, state, run, inputs, torch.float64)
            self.error = dict.fromkeys(self.truth, 0.0)
            generator = torch.Generator().manual_seed(0)
            for _ in range(POINTS):
                near = {name: _nudged(x, generator) for name, x in state.items()}
                xs = [_nudged(x, generator) for x in inputs]
                right = _at(module, near, run, xs, torch.float64)
                rounded = _at(module, near, run, xs, torch.float32)
                for name, x in rounded.items():
                    if x.is_floating_point() and x.numel():
                        worst = (x.double() - right[name]).abs().max().item()
                        self.error[name] = max(self.error[name], worst)
        finally:
            _load(module, after, torch.float32)

    def excuses(self, name: str, x: Any, bound: float) -> bool:
        """Whether ``x``, ours in float32, is as right as can be asked: to ``bound`` (relative, and
        absolute near zero), or to MARGIN times PyTorch's error."""
        truth = self.truth[name]
        if x.shape != truth.shape or x.dtype != torch.float32:
            return False
        allowed = bound * (1.0 + truth.abs()) + MARGIN * self.error[name]
        same = (x.double() - truth).abs() <= allowed
        return bool((same | (x.isnan() & truth.isnan()) | (x.double() == truth)).all())


def state_of(module: Any) -> Arrays:
    """Parameters and buffers, copied."""
    if module is None:
        return {}
    return {name: x.clone() for name, x in module.state_dict().items()}


def _at(
    module: Any, state: Arrays, run: Callable[[list[Any]], Arrays], inputs: list[Any], dtype: Any
) -> Arrays:
    _load(module, state, dtype)
    return run([x.to(dtype) if x.is_floating_point() else x for x in inputs])


def _load(module: Any, state: Arrays, dtype: Any) -> None:
    if module is not None:
        module.to(dtype).load_state_dict(state)


def _nudged(x: Any, generator: Any) -> Any:
    if not x.is_floating_point():
        return x
    noise = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    return (x.double() * (1.0 + torch.finfo(torch.float32).eps * noise)).float()
