"""Moving a variable to another device or backend, with its gradient."""

from __future__ import annotations

from typing import Any

from fl_autograd.rules.table import Rule
from fl_autograd.variable import Variable, recorded
from fl_tensor.arrays.tensor import Tensor


def _back(ops: Any, g: Any, saved: tuple[Any, ...], ins: tuple[Any, ...]) -> tuple[Any, ...]:
    home, device, here = saved
    if isinstance(g, Variable):
        return (g.to(home).to(device),)
    return (Tensor(g, here).to(home).to(device)._adapter,)


_RULE = Rule("to", {"x": _back})
_RULE.backward = _back


def record(x: Variable, moved: Tensor) -> Variable:
    """``moved``, the copy of ``x`` elsewhere, as a variable whose gradient goes back to ``x``."""
    saved = (x._backend, x.device, moved._backend)
    return recorded(moved._adapter, moved._backend, _RULE, (x._node,), saved)
