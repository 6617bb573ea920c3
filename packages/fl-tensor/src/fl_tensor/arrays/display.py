"""The printed form of a tensor: values, shape, dtype and backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fl_tensor.arrays.tensor import Tensor

#: Along an axis longer than this only the first and last three elements are shown.
THRESHOLD = 8


def describe(x: Tensor) -> str:
    """``Tensor([[1., 2.], [3., 4.]], shape=(2, 2), dtype=float32, backend=numpy)``."""
    about = f"shape={x.shape}, dtype={x.dtype}, backend={x.backend.name}"
    if not x.backend.has_values:
        return f"Tensor({about})"
    if x.size == 0:
        return f"Tensor([], {about})"
    return f"Tensor({_text(_shortened(x), x.ndim, 8)}, {about})"


def _shortened(x: Tensor) -> Any:
    # Nested lists; None stands for what is left out.
    if x.ndim == 0:
        return x.item()
    if len(x) <= THRESHOLD:
        return [_shortened(x[i]) for i in range(len(x))]
    ends = [*range(3), *range(len(x) - 3, len(x))]
    parts = [_shortened(x[i]) for i in ends]
    return [*parts[:3], None, *parts[3:]]


def _text(values: Any, depth: int, indent: int) -> str:
    if values is None:
        return "..."
    if not isinstance(values, list):
        return f"{values:.5g}" if isinstance(values, (float, complex)) else str(values)
    parts = [_text(v, depth - 1, indent) for v in values]
    if depth == 1:
        return f"[{', '.join(parts)}]"
    gap = "," + "\n" * (depth - 1) + " " * indent
    return f"[{gap.join(parts)}]"
