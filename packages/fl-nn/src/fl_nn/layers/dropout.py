"""Dropout: in training, random elements are zero."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.module import Module


def probability(where: str, name: str, p: float) -> float:
    """`p`, which lies in [0, 1]: ModuleError otherwise."""
    if not 0.0 <= p <= 1.0:
        raise ModuleError(f"[{where}] {name}={p}: a probability lies in [0, 1]")
    return p


class Dropout(Module):
    """In training, zeroes each element with probability `p` and scales the rest by 1 / (1 - p);
    in evaluation, passes its input on.

    The masks come from the module's own `generator` (split from the default one unless given), so
    that what other layers draw does not change them. Srivastava et al., 2014.
    """

    def __init__(self, p: float = 0.5, *, generator: ft.Generator | None = None) -> None:
        self.p = probability("Dropout", "p", p)
        self.generator = generator or ft.default_generator().split(1)[0]

    def forward(self, x: ft.Array) -> ft.Array:
        if not self.training or self.p == 0.0:
            return x
        if self.p == 1.0:
            return x * 0.0
        return x * self.factors(x.shape, x)

    def factors(self, shape: tuple[int, ...], like: ft.Array) -> ft.Tensor | None:
        """What an array of a shape would be multiplied with now, drawn with the dtype, device and
        backend of `like`; None where nothing is dropped."""
        if not self.training or self.p == 0.0:
            return None
        keep = 1.0 - self.p
        mask = self.generator.bernoulli(shape, keep, device=like.device, backend=like.backend)
        return mask.astype(like.dtype) * (1.0 / keep if keep else 0.0)

    def extra_repr(self) -> str:
        return f"{self.p}"
