"""Adaptive softmax and embedding for large numbers of classes.

Classes are numbered by falling frequency and divided into clusters. Clusters of rarer classes have
fewer features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import fl_tensor as ft
from fl_nn import init
from fl_nn.containers import Sequential
from fl_nn.errors import ModuleError
from fl_nn.layers.embedding import Embedding
from fl_nn.layers.linear import Linear
from fl_nn.losses.reduction import Loss, reduce
from fl_nn.module import Module
from fl_nn.parameter import Parameter
from fl_nn.values import check_classes, tensor_of


class AdaptiveSoftMax(Module):
    """Log-probabilities of `classes` for x (..., inputs). Grave et al., 2017.

    Classes below `cutoffs[0]` are the head's, which also gives the probability of every cluster:
    cluster i holds classes cutoffs[i] to cutoffs[i + 1] (the last one: to `classes`) and sees
    inputs / div_value^(i + 1) features, at least 1.

    Calling it gives all log-probabilities (..., classes); AdaptiveSoftMaxLoss computes those of
    targets without the clusters that are not needed. Parameters as PyTorch's
    AdaptiveLogSoftmaxWithLoss: head.weight, tail.0.0.weight, tail.0.1.weight, ...
    """

    def __init__(
        self,
        inputs: int,
        classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        self.inputs, self.classes, self.div_value = inputs, classes, div_value
        self.cutoffs = check_cutoffs("AdaptiveSoftMax", cutoffs, classes)
        _check_div_value("AdaptiveSoftMax", div_value)
        first = self.cutoffs[0]
        size = first + len(self.cutoffs) - 1
        self.head = Linear(inputs, size, head_bias, generator=generator, dtype=dtype)
        self.tail = [
            Sequential(
                Linear(inputs, width, False, generator=generator, dtype=dtype),
                Linear(width, high - low, False, generator=generator, dtype=dtype),
            )
            for low, high, width in self._clusters()
        ]

    def forward(self, x: ft.Array) -> ft.Array:
        head = ft.log_softmax(self.head(x), -1)
        first = self.cutoffs[0]
        parts = [head[..., :first]]
        for i, cluster in enumerate(self.tail):
            parts.append(ft.log_softmax(cluster(x), -1) + head[..., first + i : first + i + 1])
        return ft.concatenate(parts, -1)

    def predict(self, x: ft.Array) -> ft.Array:
        """The likeliest class of each sample, int64 (...)."""
        return ft.argmax(self(x), -1)

    def losses(self, x: ft.Array, targets: ft.Array) -> ft.Array:
        """`-log p(target)` for x (N, inputs) and integer targets (N,): every sample meets the head
        and at most one cluster."""
        head = ft.log_softmax(self.head(x), -1)
        first, columns = self.cutoffs[0], targets
        for i, (low, high, _) in enumerate(self._clusters()):
            inside = ft.logical_and(targets >= low, targets < high)
            columns = ft.where(inside, first + i, columns)
        losses = -_pick(head, columns)
        for cluster, (low, high, _) in zip(self.tail, self._clusters()):
            inside = ft.logical_and(targets >= low, targets < high)
            (rows,) = ft.nonzero(inside)
            if rows.size:
                log_probs = ft.log_softmax(cluster(ft.gather(x, rows)), -1)
                picked = _pick(log_probs, ft.gather(targets, rows) - low)
                losses = ft.scatter(losses, rows, -picked, mode="add")
        return losses

    def _clusters(self) -> list[tuple[int, int, int]]:
        # First class, class behind the last, features.
        pairs = zip(self.cutoffs, self.cutoffs[1:])
        return [
            (low, high, max(int(self.inputs // self.div_value ** (i + 1)), 1))
            for i, (low, high) in enumerate(pairs)
        ]

    def extra_repr(self) -> str:
        return f"{self.inputs}, {self.classes}, cutoffs={self.cutoffs[:-1]}"


class AdaptiveSoftMaxLoss(Loss):
    """The negative log-probability that `activation`, an AdaptiveSoftMax, gives to targets:
    x (..., inputs) and integers (...). Its parameters are found here too. Targets equal to
    `ignore_index` count for nothing, and the mean over no targets is 0."""

    def __init__(
        self, activation: AdaptiveSoftMax, reduction: str = "mean", ignore_index: int | None = None
    ) -> None:
        super().__init__(reduction)
        self.activation, self.ignore_index = activation, ignore_index

    def forward(self, x: ft.Array, targets: ft.Array) -> ft.Array:
        own, shape = self.activation, targets.shape
        if x.ndim < 1 or x.shape != (*shape, own.inputs):
            raise ft.ShapeError(
                f"[AdaptiveSoftMaxLoss] x {x.shape} and targets {shape}: expected x (..., "
                f"{own.inputs}) and a target for each"
            )
        x, targets = x.reshape(-1, own.inputs), tensor_of(targets).reshape(-1)
        counted = None
        if self.ignore_index is not None:
            counted = ft.not_equal(targets, self.ignore_index)
            targets = ft.where(counted, targets, 0)
        hint = "pass ignore_index for targets that do not count"
        check_classes("[AdaptiveSoftMaxLoss] targets", targets, own.classes, hint)
        losses = own.losses(x, targets)
        if counted is not None:
            losses = ft.where(counted, losses, 0.0)
            if self.reduction == "mean":
                number = ft.maximum(ft.sum(counted), 1)
                return ft.sum(losses) / number.astype(losses.dtype)
        return reduce(losses.reshape(shape) if self.reduction == "none" else losses, self.reduction)

    def extra_repr(self) -> str:
        ignored = "" if self.ignore_index is None else f", ignore_index={self.ignore_index}"
        return self.reduction + ignored


class AdaptiveEmbedding(Module):
    """Embedding of `count` classes in `size` features, rarer clusters by fewer: cluster i has
    size / div_value^i, and a Linear without bias to `size`. Clusters end at `cutoffs` and at
    `count`. Baevski & Auli, 2019.

    Parameters embeddings.i.weight and projections.i.weight. Rows start normal with standard
    deviation 1 / sqrt(their features), projections as Glorot's.
    """

    def __init__(
        self,
        count: int,
        size: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        self.count, self.size = count, size
        self.cutoffs = check_cutoffs("AdaptiveEmbedding", cutoffs, count)
        _check_div_value("AdaptiveEmbedding", div_value)
        self.embeddings: list[Embedding] = []
        self.projections: list[Linear] = []
        low = 0
        for i, high in enumerate(self.cutoffs):
            width = max(int(size // div_value**i), 1)
            rows = Embedding(high - low, width, generator=generator, dtype=dtype)
            rows.weight.tensor = rows.weight.tensor * width**-0.5
            projection = Linear(width, size, False, generator=generator, dtype=dtype)
            projection.weight = Parameter(
                init.glorot_uniform((size, width), generator=generator, dtype=dtype)
            )
            self.embeddings.append(rows)
            self.projections.append(projection)
            low = high

    def forward(self, indices: ft.Array) -> ft.Array:
        check_classes("[AdaptiveEmbedding] indices", indices, self.count, "give it more rows")
        low, y = 0, None
        for high, rows, projection in zip(self.cutoffs, self.embeddings, self.projections):
            inside = ft.logical_and(indices >= low, indices < high)
            part = projection(rows(ft.where(inside, indices - low, 0)))
            inside = ft.expand_dims(inside, -1)
            y = part if y is None else ft.where(inside, part, y)
            low = high
        assert y is not None  # there is at least one cluster
        return y

    def extra_repr(self) -> str:
        return f"{self.count}, {self.size}, cutoffs={self.cutoffs[:-1]}"


def _check_div_value(where: str, div_value: float) -> None:
    if not 1.0 <= div_value < math.inf:
        raise ModuleError(f"[{where}] div_value={div_value}: give a number of at least 1")


def check_cutoffs(where: str, cutoffs: Sequence[int], classes: int) -> tuple[int, ...]:
    """The ends of all clusters. Raises ModuleError unless they grow from 1 on, below `classes`."""
    ends = (*cutoffs, classes)
    if not cutoffs or ends[0] < 1 or any(a >= b for a, b in zip(ends, ends[1:])):
        raise ModuleError(
            f"[{where}] cutoffs {tuple(cutoffs)}: give rising numbers from 1 on, all below "
            f"{classes}"
        )
    return ends


def _pick(log_probs: ft.Array, columns: ft.Array) -> ft.Array:
    return ft.take_along_axis(log_probs, ft.expand_dims(columns, 1), 1)[:, 0]
