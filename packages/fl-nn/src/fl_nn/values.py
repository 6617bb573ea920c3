"""Small conversions and checks of arrays that layers, losses and meters share."""

from __future__ import annotations

import fl_tensor as ft
from fl_autograd import Variable


def tensor_of(x: ft.Array) -> ft.Tensor:
    """The value without its history: the tensor of a Variable, a Tensor itself."""
    return x.tensor if isinstance(x, Variable) else x  # type: ignore[return-value]


def check_classes(where: str, classes: ft.Array, count: int, hint: str) -> None:
    """Raise DTypeError unless `classes` are integers, IndexingError unless all lie in [0, count).

    Looks at the values, unless the backend has none.
    """
    if not classes.dtype.is_integer:
        raise ft.DTypeError(f"{where} are {classes.dtype}: expected integers; use astype")
    if classes.size and classes.backend.has_values:
        low, high = ft.min(classes).item(), ft.max(classes).item()
        if low < 0 or high >= count:
            bad = low if low < 0 else high
            raise ft.IndexingError(f"{where} hold {bad}: expected 0 .. {count - 1}; {hint}")


def arange_like(x: ft.Array, start: int, stop: int, dtype: ft.DType) -> ft.Tensor:
    """`start`, `start + 1`, ... below `stop`, on the backend and device of `x`."""
    with ft.use(x.backend):
        return ft.arange(start, stop, dtype=dtype, device=x.device)
