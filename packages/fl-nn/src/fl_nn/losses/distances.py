"""Distance losses: squared, absolute, Huber, cosine."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.losses.reduction import Loss, check_reduction, reduce, same_shapes
from fl_tensor.annotations import explained


@explained
def mse(predictions: ft.Array, targets: ft.Array, reduction: str = "mean") -> ft.Array:
    """Squared differences of two floating arrays of the same shape; reduced as `cross_entropy`."""
    check_reduction("mse", reduction)
    same_shapes("mse", predictions, targets)
    return reduce(ft.square(predictions - targets), reduction)


@explained
def mae(predictions: ft.Array, targets: ft.Array, reduction: str = "mean") -> ft.Array:
    """Absolute differences of two floating arrays of the same shape: PyTorch's l1_loss."""
    check_reduction("mae", reduction)
    same_shapes("mae", predictions, targets)
    return reduce(ft.absolute(predictions - targets), reduction)


@explained
def huber(
    predictions: ft.Array, targets: ft.Array, reduction: str = "mean", delta: float = 1.0
) -> ft.Array:
    """Half the squared difference d up to `delta`, and `delta (|d| - delta / 2)` from there on.
    Huber, 1964. (PyTorch's smooth_l1_loss is this divided by its beta.)"""
    check_reduction("huber", reduction)
    same_shapes("huber", predictions, targets)
    if delta <= 0:
        raise ModuleError(f"[huber] delta={delta}: must be positive")
    distance = ft.absolute(predictions - targets)
    near = ft.minimum(distance, delta)
    return reduce(near * (distance - near * 0.5), reduction)


@explained
def cosine_similarity(x: ft.Array, y: ft.Array, axis: int = 1, eps: float = 1e-8) -> ft.Array:
    """The cosine of the angle between x and y along `axis` of their common shape, to which they
    broadcast: their product by their lengths, each at least `eps`. Raises ShapeError."""
    if x.shape != y.shape:
        x, y = ft.broadcast_arrays(x, y)
    lengths = [ft.maximum(ft.norm(v, axis=axis), eps) for v in (x, y)]
    return ft.sum(x * y, axis) / (lengths[0] * lengths[1])


@explained
def cosine_embedding(
    x: ft.Array, y: ft.Array, targets: ft.Array, reduction: str = "mean", margin: float = 0.0
) -> ft.Array:
    """`1 - cos(x, y)` where the target is 1, `max(cos(x, y) - margin, 0)` where it is -1: vectors
    (N, size) or (size,), targets (N,) or (). PyTorch's cosine_embedding_loss."""
    check_reduction("cosine_embedding", reduction)
    same_shapes("cosine_embedding", x, y, "x and y")
    if not x.ndim or targets.shape != x.shape[:-1]:
        raise ft.ShapeError(
            f"[cosine_embedding] x {x.shape} and targets {targets.shape}: expected one target for "
            "every vector on the last axis"
        )
    squares = (ft.sum(ft.square(v), -1) + 1e-12 for v in (x, y))
    cosine = ft.sum(x * y, -1) * ft.rsqrt(next(squares) * next(squares))
    apart = ft.relu(cosine - margin)
    losses = ft.where(targets == 1, 1.0 - cosine, ft.where(targets == -1, apart, 0.0))
    return reduce(losses, reduction)


class MeanSquaredError(Loss):
    """`mse` as a module."""

    def forward(self, predictions: ft.Array, targets: ft.Array) -> ft.Array:
        return mse(predictions, targets, self.reduction)


class MeanAbsoluteError(Loss):
    """`mae` as a module."""

    def forward(self, predictions: ft.Array, targets: ft.Array) -> ft.Array:
        return mae(predictions, targets, self.reduction)


class HuberLoss(Loss):
    """`huber` as a module."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        if delta <= 0:
            raise ModuleError(f"[HuberLoss] delta={delta}: must be positive")
        self.delta = delta

    def forward(self, predictions: ft.Array, targets: ft.Array) -> ft.Array:
        return huber(predictions, targets, self.reduction, self.delta)

    def extra_repr(self) -> str:
        return f"{self.reduction}, delta={self.delta}"


class CosineEmbeddingLoss(Loss):
    """`cosine_embedding` as a module."""

    def __init__(self, reduction: str = "mean", margin: float = 0.0) -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, x: ft.Array, y: ft.Array, targets: ft.Array) -> ft.Array:
        return cosine_embedding(x, y, targets, self.reduction, self.margin)

    def extra_repr(self) -> str:
        return f"{self.reduction}, margin={self.margin}"
