"""Activation layers: elementwise functions, softmax, and gated linear units."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn import init
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.parameter import Parameter


class ReLU(Module):
    """`max(x, 0)`."""

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.relu(x)


class ReLU6(Module):
    """`min(max(x, 0), 6)`. Krizhevsky, 2010."""

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.minimum(ft.relu(x), 6.0)


class LeakyReLU(Module):
    """`x` where positive, `slope * x` elsewhere. Maas et al., 2013. (Flashlight's slope is 0.)"""

    def __init__(self, slope: float = 0.01) -> None:
        self.slope = slope

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.where(x > 0, x, x * self.slope)

    def extra_repr(self) -> str:
        return f"{self.slope}"


class PReLU(Module):
    """LeakyReLU with learned slopes: `weight` (count,), one for all or one per channel on `axis`,
    starting at `slope`. He et al., 2015."""

    def __init__(
        self,
        count: int = 1,
        slope: float = 0.25,
        axis: int = 1,
        *,
        dtype: ft.DType | None = None,
    ) -> None:
        if count < 1:
            raise ModuleError(f"[PReLU] count {count}: give at least 1")
        self.count, self.axis = count, axis
        self.weight = Parameter(init.constant((count,), slope, dtype=dtype))

    def forward(self, x: ft.Array) -> ft.Array:
        slopes: ft.Array = self.weight
        if self.count > 1:
            axis = self.axis + x.ndim if self.axis < 0 else self.axis
            if not 0 <= axis < x.ndim or x.shape[axis] != self.count:
                raise ft.ShapeError(
                    f"[PReLU] x {x.shape}: expected {self.count} channels, axis {self.axis}"
                )
            slopes = slopes.reshape(self.count, *(1,) * (x.ndim - 1 - axis))
        return ft.where(x > 0, x, x * slopes)

    def extra_repr(self) -> str:
        return f"{self.count}" + (f", axis={self.axis}" if self.axis != 1 else "")


class ELU(Module):
    """`x` where positive, `alpha * (exp(x) - 1)` elsewhere. Clevert et al., 2016."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: ft.Array) -> ft.Array:
        # exp sees no large x, whose infinity would become NaN in the gradient.
        return ft.where(x > 0, x, ft.expm1(ft.minimum(x, 0.0)) * self.alpha)

    def extra_repr(self) -> str:
        return f"{self.alpha}"


class ThresholdReLU(Module):
    """`x` where it exceeds `threshold`, 0 elsewhere: PyTorch's Threshold(threshold, 0)."""

    def __init__(self, threshold: float = 1.0) -> None:
        self.threshold = threshold

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.where(x > self.threshold, x, 0.0)

    def extra_repr(self) -> str:
        return f"{self.threshold}"


class HardTanh(Module):
    """`x` limited to [low, high]."""

    def __init__(self, low: float = -1.0, high: float = 1.0) -> None:
        if not low < high:
            raise ModuleError(f"[HardTanh] low {low}, high {high}: need low < high")
        self.low, self.high = low, high

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.clip(x, self.low, self.high)

    def extra_repr(self) -> str:
        return f"{self.low}, {self.high}"


class Tanh(Module):
    """`tanh(x)`."""

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.tanh(x)


class Sigmoid(Module):
    """`1 / (1 + exp(-x))`."""

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.sigmoid(x)


class Log(Module):
    """The natural logarithm."""

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.log(x)


class Softplus(Module):
    """`log(1 + exp(x))`, a smooth ReLU."""

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.softplus(x)


class Swish(Module):
    """`x * sigmoid(beta * x)`: PyTorch's SiLU for beta = 1. Ramachandran et al., 2017."""

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.silu(x) if self.beta == 1.0 else x * ft.sigmoid(x * self.beta)

    def extra_repr(self) -> str:
        return "" if self.beta == 1.0 else f"{self.beta}"


class GELU(Module):
    """`x` times the probability that a standard normal is below x; `approximate="tanh"` for the
    form with tanh, which is Flashlight's. Hendrycks & Gimpel, 2016."""

    def __init__(self, approximate: str = "none") -> None:
        if approximate not in ("none", "tanh"):
            raise ModuleError(f"[GELU] approximate {approximate!r}: 'none' or 'tanh'")
        self.approximate = approximate

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return "" if self.approximate == "none" else f"approximate={self.approximate!r}"


class _AlongAxis(Module):
    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def extra_repr(self) -> str:
        return "" if self.axis == -1 else f"axis={self.axis}"


class Softmax(_AlongAxis):
    """`exp(x)` divided by its sum along `axis`."""

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.softmax(x, self.axis)


class LogSoftmax(_AlongAxis):
    """`log(softmax(x))` along `axis`."""

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.log_softmax(x, self.axis)


class GatedLinearUnit(_AlongAxis):
    """`a * sigmoid(b)`, where a and b are the halves of x along `axis`: half the size comes out.
    PyTorch's GLU. Dauphin et al., 2017."""

    def forward(self, x: ft.Array) -> ft.Array:
        if not -x.ndim <= self.axis < x.ndim or x.shape[self.axis] % 2:
            raise ft.ShapeError(
                f"[GatedLinearUnit] x {x.shape}: expected an even size on axis {self.axis}"
            )
        value, gate = ft.split(x, 2, self.axis)
        return value * ft.sigmoid(gate)
