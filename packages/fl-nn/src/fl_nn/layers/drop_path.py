"""DropPath: in training, whole samples of a residual branch are zero."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.layers.dropout import Dropout


class DropPath(Dropout):
    """In training, zeroes each sample of x (N, ...) with probability `p` and scales the rest by
    1 / (1 - p); in evaluation, passes its input on.

    Put on the branch of a residual, `x + drop_path(f(x))`, it leaves that branch out for a sample:
    stochastic depth (Huang et al., 2016), as vision transformers have it (Touvron et al., 2021).
    The generator is as in Dropout.
    """

    def forward(self, x: ft.Array) -> ft.Array:
        if x.ndim < 1:
            raise ft.ShapeError("[DropPath] x (): expected (N, ...), with an axis of samples")
        factors = self.factors((x.shape[0], *(1,) * (x.ndim - 1)), x)
        return x if factors is None else x * factors
