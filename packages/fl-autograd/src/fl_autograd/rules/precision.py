"""Half precision in long rules: computed in float32 and rounded once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fl_tensor.dtypes import HALF, float32


def in_float32(joint: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Decorates a joint rule, as ``fl_tensor.derived.precision.in_float32`` does an operation:
    what is float16 or bfloat16 becomes float32, and the gradients become what ``g`` was."""

    @functools.wraps(joint)
    def wide(ops: Any, g: Any, needs: tuple[bool, ...], *kept: Any) -> tuple[Any, ...]:
        if g.dtype not in HALF:
            return joint(ops, g, needs, *kept)
        widened = [ops.cast(v, float32) if getattr(v, "dtype", None) in HALF else v for v in kept]
        found = joint(ops, ops.cast(g, float32), needs, *widened)
        return tuple([None if v is None else ops.cast(v, g.dtype) for v in found])

    return wide
