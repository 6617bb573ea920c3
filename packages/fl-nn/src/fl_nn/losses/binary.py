"""Losses over probabilities: binary cross entropy, focal loss, Kullback-Leibler divergence."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.losses.reduction import REDUCTIONS, Loss, check_reduction, reduce, same_shapes
from fl_nn.values import check_probabilities
from fl_tensor.annotations import explained

_FROM_LOGITS = "apply sigmoid, or pass what comes before it to binary_cross_entropy_with_logits"


@explained
def binary_cross_entropy(
    probs: ft.Array, targets: ft.Array, reduction: str = "mean", weight: ft.Array | None = None
) -> ft.Array:
    """`-(t log p + (1 - t) log(1 - p))` for probabilities and targets in [0, 1] of one shape, times
    `weight`, which broadcasts. Logarithms end at -100, as in PyTorch, so that a sure mistake has a
    finite price. From the numbers before the sigmoid, `binary_cross_entropy_with_logits` is exact.

    Raises ShapeError, and ArgumentError for a probability outside [0, 1]. Where a deferred backend
    has not computed the probabilities yet, the loss of such a one is NaN instead.
    """
    check_reduction("binary_cross_entropy", reduction)
    same_shapes("binary_cross_entropy", probs, targets, "probs and targets")
    check_probabilities("[binary_cross_entropy] probs", probs, _FROM_LOGITS)
    losses = -(targets * _log(probs) + (1.0 - targets) * _log(1.0 - probs))
    return reduce(losses if weight is None else losses * weight, reduction)


@explained
def binary_cross_entropy_with_logits(
    logits: ft.Array,
    targets: ft.Array,
    reduction: str = "mean",
    weight: ft.Array | None = None,
    pos_weight: ft.Array | None = None,
) -> ft.Array:
    """`binary_cross_entropy(sigmoid(logits), targets)` without its cancellation:
    `(1 - t) x + (1 + (pos_weight - 1) t) softplus(-x)`. `weight` and `pos_weight`, what a positive
    target counts, broadcast."""
    check_reduction("binary_cross_entropy_with_logits", reduction)
    same_shapes("binary_cross_entropy_with_logits", logits, targets, "logits and targets")
    missed = ft.softplus(-logits)
    if pos_weight is not None:
        missed = missed * (1.0 + (pos_weight - 1.0) * targets)
    losses = (1.0 - targets) * logits + missed
    return reduce(losses if weight is None else losses * weight, reduction)


@explained
def focal(
    logits: ft.Array,
    targets: ft.Array,
    reduction: str = "mean",
    alpha: float | None = 0.25,
    gamma: float = 2.0,
) -> ft.Array:
    """Binary cross entropy that turns to what is still wrong: times (1 - q)^gamma, where q is the
    probability given to the target, and times alpha for positive targets, 1 - alpha for others
    (None: no such weights). Lin et al., 2017; torchvision's sigmoid_focal_loss."""
    check_reduction("focal", reduction)
    losses = binary_cross_entropy_with_logits(logits, targets, "none")
    p = ft.sigmoid(logits)
    wrong = p * (1.0 - targets) + (1.0 - p) * targets
    losses = losses * ft.power(wrong, gamma)
    if alpha is not None:
        losses = losses * (alpha * targets + (1.0 - alpha) * (1.0 - targets))
    return reduce(losses, reduction)


@explained
def kl_div(
    log_probs: ft.Array, targets: ft.Array, reduction: str = "mean", log_target: bool = False
) -> ft.Array:
    """`t (log t - log_probs)` for targets t of the same shape, or their logarithms with
    `log_target`. Summed over classes that is the Kullback-Leibler divergence: "batchmean" divides
    the sum by the first size, "mean", as in PyTorch, by all of them."""
    check_reduction("kl_div", reduction, (*REDUCTIONS, "batchmean"))
    same_shapes("kl_div", log_probs, targets, "log_probs and targets")
    if log_target:
        losses = ft.exp(targets) * (targets - log_probs)
    else:
        some = targets > 0.0
        entropy = ft.where(some, targets * ft.log(ft.where(some, targets, 1.0)), 0.0)
        losses = entropy - targets * log_probs
    if reduction == "batchmean":
        return ft.sum(losses) / float(log_probs.shape[0] if log_probs.ndim else 1)
    return reduce(losses, reduction)


class BinaryCrossEntropy(Loss):
    """`binary_cross_entropy` as a module; `weight` is a buffer."""

    def __init__(self, reduction: str = "mean", weight: ft.Tensor | None = None) -> None:
        super().__init__(reduction)
        self.weight: ft.Tensor | None
        self.register_buffer("weight", weight)

    def forward(self, probs: ft.Array, targets: ft.Array) -> ft.Array:
        return binary_cross_entropy(probs, targets, self.reduction, self.weight)


class BinaryCrossEntropyWithLogits(Loss):
    """`binary_cross_entropy_with_logits` as a module; weights are buffers."""

    def __init__(
        self,
        reduction: str = "mean",
        weight: ft.Tensor | None = None,
        pos_weight: ft.Tensor | None = None,
    ) -> None:
        super().__init__(reduction)
        self.weight: ft.Tensor | None
        self.pos_weight: ft.Tensor | None
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, logits: ft.Array, targets: ft.Array) -> ft.Array:
        return binary_cross_entropy_with_logits(
            logits, targets, self.reduction, self.weight, self.pos_weight
        )


class FocalLoss(Loss):
    """`focal` as a module."""

    def __init__(
        self, reduction: str = "mean", alpha: float | None = 0.25, gamma: float = 2.0
    ) -> None:
        super().__init__(reduction)
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logits: ft.Array, targets: ft.Array) -> ft.Array:
        return focal(logits, targets, self.reduction, self.alpha, self.gamma)

    def extra_repr(self) -> str:
        return f"{self.reduction}, alpha={self.alpha}, gamma={self.gamma}"


class KLDivergence(Loss):
    """`kl_div` as a module."""

    allowed = (*REDUCTIONS, "batchmean")

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target = log_target

    def forward(self, log_probs: ft.Array, targets: ft.Array) -> ft.Array:
        return kl_div(log_probs, targets, self.reduction, self.log_target)


def _log(p: ft.Array) -> ft.Array:
    # No logarithm of 0 is taken: its gradient would be infinite times nothing. Below 0 it is NaN,
    # so that a probability outside [0, 1] makes a loss of NaN: either it or its complement is.
    zero = p == 0.0
    return ft.where(zero, -100.0, ft.maximum(ft.log(ft.where(zero, 1.0, p)), -100.0))
