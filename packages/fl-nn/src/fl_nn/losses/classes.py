"""Losses over class numbers: cross entropy and negative log-likelihood."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.config import register_class
from fl_nn.errors import ModuleError
from fl_nn.losses.reduction import Loss, check_reduction, reduce
from fl_nn.values import check_classes, tensor_of
from fl_tensor.annotations import explained
from fl_tensor.arguments import int_of


@explained
def cross_entropy(
    logits: ft.Array,
    targets: ft.Array,
    reduction: str = "mean",
    ignore_index: int | None = None,
    axis: int = 1,
    weight: ft.Array | None = None,
    label_smoothing: float = 0.0,
) -> ft.Array:
    """The cross entropy of target classes and unnormalised scores, as in PyTorch:
    `nll_loss(log_softmax(logits, axis), ...)`.

    logits      (N, classes, ...) as a last Linear gives them, floating; classes on `axis`.
                Log-probabilities are logits too: `log_softmax` leaves them as they are
    targets     integers in [0, classes), the shape of logits without `axis`; or distributions over
                the classes: floating, the shape of logits, such as mixed labels. Their loss is
                -sum(targets * log_softmax(logits)), and its mean is not divided by weights
    reduction   "mean" over the targets, "sum", or "none": one number per target
    ignore_index  targets of this value count for nothing: loss 0, and not in the mean, which over
                no targets at all is 0
    weight      (classes,): what each class counts; the mean is divided by the weights of the
                targets
    label_smoothing  the share of the target that goes to all classes alike: each loss becomes
                (1 - share) times itself plus share times the mean over classes. Szegedy et al.,
                2016

    Gives a scalar, or with "none" the shape of targets. Raises ShapeError, DTypeError, IndexError.
    """
    where, smoothing = "cross_entropy", label_smoothing
    if targets.ndim == logits.ndim and targets.dtype.is_floating:
        return _distribution_loss(where, logits, targets, reduction, ignore_index, axis, weight,
                                  smoothing)  # fmt: skip
    axis = _checked(
        where, "logits", logits, targets, reduction, axis, weight, smoothing, ignore_index
    )
    log_probs = ft.log_softmax(logits, axis)
    return _loss(where, log_probs, targets, reduction, ignore_index, axis, weight, smoothing)


@explained
def nll_loss(
    log_probs: ft.Array,
    targets: ft.Array,
    reduction: str = "mean",
    ignore_index: int | None = None,
    axis: int = 1,
    weight: ft.Array | None = None,
    label_smoothing: float = 0.0,
) -> ft.Array:
    """The negative log-probability of the target classes, as in PyTorch.

    log_probs   (N, classes, ...) from LogSoftmax, floating; classes on `axis`

    What else there is, result and errors are as of `cross_entropy`.
    """
    where, smoothing = "nll_loss", label_smoothing
    axis = _checked(
        where, "log_probs", log_probs, targets, reduction, axis, weight, smoothing, ignore_index
    )
    return _loss(where, log_probs, targets, reduction, ignore_index, axis, weight, smoothing)


#: The name of the Flashlight paper.
categorical_cross_entropy = cross_entropy


def _checked(
    where: str,
    name: str,
    scores: ft.Array,
    targets: ft.Array,
    reduction: str,
    axis: int,
    weight: ft.Array | None,
    label_smoothing: float,
    ignore_index: int | None,
) -> int:
    """`axis` counted from the front, once everything but the values of the targets fits."""
    check_reduction(where, reduction)
    _check_smoothing(where, label_smoothing)
    if ignore_index is not None:
        int_of(where, ignore_index, "ignore_index")
    if not -scores.ndim <= axis < scores.ndim:
        raise ft.ShapeError(f"[{where}] {name} {scores.shape} have no axis {axis}")
    axis = axis % scores.ndim
    expected = (*scores.shape[:axis], *scores.shape[axis + 1 :])
    if targets.shape != expected:
        raise ft.ShapeError(
            f"[{where}] {name} {scores.shape} and targets {targets.shape}: targets must be "
            f"{expected} for classes on axis {axis}"
        )
    classes = scores.shape[axis]
    if weight is not None and weight.shape != (classes,):
        raise ft.ShapeError(f"[{where}] weight {weight.shape}: expected ({classes},)")
    return axis


def _loss(
    where: str,
    log_probs: ft.Array,
    targets: ft.Array,
    reduction: str,
    ignore_index: int | None,
    axis: int,
    weight: ft.Array | None,
    label_smoothing: float,
) -> ft.Array:
    targets = tensor_of(targets)
    counted = None
    if ignore_index is not None:
        counted = ft.not_equal(targets, ignore_index)
        targets = ft.where(counted, targets, 0)
    hint = "pass ignore_index for targets that do not count"
    if ignore_index is not None:
        hint = f"or ignore_index={ignore_index}"
    check_classes(f"[{where}] targets", targets, log_probs.shape[axis], hint)

    losses = ft.nll_loss(log_probs, targets, axis)
    shares = None if weight is None else ft.gather(tensor_of(weight), targets, 0)
    if shares is not None:
        losses = losses * shares
    if label_smoothing:
        spread = log_probs
        if weight is not None:
            over = tuple(i for i in range(log_probs.ndim) if i != axis)
            spread = log_probs * ft.expand_dims(weight, over)
        losses = losses * (1.0 - label_smoothing) - ft.mean(spread, axis) * label_smoothing
    if counted is not None:
        losses = ft.where(counted, losses, 0.0)
    if reduction != "mean" or (counted is None and shares is None):
        return reduce(losses, reduction)
    if shares is None:
        number = ft.maximum(ft.sum(counted), 1).astype(losses.dtype)
    else:
        number = ft.sum(shares if counted is None else ft.where(counted, shares, 0.0))
        number = ft.where(number == 0.0, 1.0, number)
    return ft.sum(losses) / number


def _distribution_loss(
    where: str,
    logits: ft.Array,
    targets: ft.Array,
    reduction: str,
    ignore_index: int | None,
    axis: int,
    weight: ft.Array | None,
    label_smoothing: float,
) -> ft.Array:
    """The cross entropy of distributions over classes, which have the shape of the logits."""
    check_reduction(where, reduction)
    _check_smoothing(where, label_smoothing)
    if ignore_index is not None:
        raise ModuleError(
            f"[{where}] ignore_index={ignore_index} and distributions as targets: give it with "
            "class numbers, or distributions of zeros"
        )
    if not -logits.ndim <= axis < logits.ndim:
        raise ft.ShapeError(f"[{where}] logits {logits.shape} have no axis {axis}")
    axis = axis % logits.ndim
    if targets.shape != logits.shape:
        raise ft.ShapeError(
            f"[{where}] logits {logits.shape} and floating targets {targets.shape}: distributions "
            "have the shape of the logits, and class numbers are integers"
        )
    classes = logits.shape[axis]
    if weight is not None and weight.shape != (classes,):
        raise ft.ShapeError(f"[{where}] weight {weight.shape}: expected ({classes},)")
    shares = targets
    if label_smoothing:
        shares = shares * (1.0 - label_smoothing) + label_smoothing / classes
    if weight is not None:
        over = tuple(i for i in range(logits.ndim) if i != axis)
        shares = shares * ft.expand_dims(weight, over)
    return reduce(-ft.sum(shares * ft.log_softmax(logits, axis), axis), reduction)


class _ClassLoss(Loss):
    """What the losses over class numbers have in common; `weight` is a buffer."""

    def __init__(
        self,
        reduction: str = "mean",
        ignore_index: int | None = None,
        axis: int = 1,
        weight: ft.Tensor | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction)
        _check_smoothing(type(self).__name__, label_smoothing)
        self.ignore_index, self.axis = ignore_index, axis
        self.label_smoothing = label_smoothing
        self.weight: ft.Tensor | None
        self.register_buffer("weight", weight)

    def extra_repr(self) -> str:
        text = self.reduction
        if self.ignore_index is not None:
            text += f", ignore_index={self.ignore_index}"
        if self.axis != 1:
            text += f", axis={self.axis}"
        return text + (f", label_smoothing={self.label_smoothing}" if self.label_smoothing else "")


class CrossEntropy(_ClassLoss):
    """`cross_entropy`, of logits, as a module; `weight` is a buffer."""

    def forward(self, logits: ft.Array, targets: ft.Array) -> ft.Array:
        return cross_entropy(
            logits, targets, self.reduction, self.ignore_index, self.axis, self.weight,
            self.label_smoothing,
        )  # fmt: skip


class NLLLoss(_ClassLoss):
    """`nll_loss`, of log-probabilities, as a module; `weight` is a buffer."""

    def forward(self, log_probs: ft.Array, targets: ft.Array) -> ft.Array:
        return nll_loss(
            log_probs, targets, self.reduction, self.ignore_index, self.axis, self.weight,
            self.label_smoothing,
        )  # fmt: skip


#: The name of the Flashlight paper, and of configurations written before there were two losses,
#: when it took log-probabilities alone. Those are logits too: it computes what it did.
CategoricalCrossEntropy = CrossEntropy
register_class("CategoricalCrossEntropy", CrossEntropy)


def _check_smoothing(where: str, share: float) -> None:
    if not 0.0 <= share <= 1.0:
        raise ModuleError(f"[{where}] label_smoothing={share}: a share lies in [0, 1]")
