"""SyncBatchNorm: BatchNorm over the batch of all ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import fl_autograd as ag
import fl_tensor as ft
from fl_autograd.extend import defop
from fl_dist import Communicator
from fl_dist.reducer import check_communicator
from fl_nn.errors import ModuleError
from fl_nn.layers.norm import BatchNorm
from fl_nn.module import Module
from fl_nn.optim.precision import to_float32
from fl_nn.values import tensor_of

M = TypeVar("M", bound=Module)


class SyncBatchNorm(BatchNorm):
    """BatchNorm whose statistics in training are those of the batch of all ranks: with equal
    batches together, what BatchNorm computes on one rank. Parameters, buffers and evaluation are
    those of BatchNorm.

    A forward pass is one collective of 2 features + 1 numbers, a backward pass another. So every
    rank makes as many calls, one with an empty batch where it has no samples (`Trainer` sees to
    that). Variances of parts are combined without cancellation (Chan et al., 1979).

    communicator   the ranks; None: this rank alone. It is no part of the configuration. Where
                   ranks may use different parts of a model, give it one of its own,
                   `communicator.split(0)`, so that gradients on their way do not come in between
    """

    communicator: Communicator | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "communicator": None}  # copies belong to no world

    def _normalised(self, x: ft.Array, axis: int) -> ft.Array:
        communicator = self.communicator
        batch_statistics = self.training or self.running_mean is None
        if communicator is None or communicator.world_size == 1 or not batch_statistics:
            return super()._normalised(x, axis)
        y, mean, variance, samples = _sync_batch_norm(
            x, self.weight, self.bias, axis, self.eps, communicator
        )
        if samples < 2:
            raise ft.ShapeError(
                f"[SyncBatchNorm] x {x.shape}: {samples} values per feature on all ranks have no "
                "variance; train with larger batches"
            )
        if self.training and self.running_mean is not None:
            self._track(mean, variance * (samples / (samples - 1)))
        return y


def convert_sync_batchnorm(model: M, communicator: Communicator) -> M:
    """Make every BatchNorm of a model, itself included, a SyncBatchNorm over these ranks, in place,
    with the same parameters and buffers; the model."""
    check_communicator("convert_sync_batchnorm", communicator)
    if not isinstance(model, Module):
        raise ModuleError(f"[convert_sync_batchnorm] {model!r} is no Module")
    for module in list(model.modules()):
        if type(module) is BatchNorm:
            module.__class__ = SyncBatchNorm
        if isinstance(module, SyncBatchNorm):
            module.communicator = communicator
    return model


def is_synchronised(model: Module) -> bool:
    """Whether forward passes of a model in training are collective."""
    return any(
        isinstance(module, SyncBatchNorm) and module.communicator is not None
        for module in model.modules()
    )


@contextmanager
def on_one_rank(model: Module) -> Iterator[None]:
    """Inside, the model computes with the batches of this rank alone."""
    layers = [module for module in model.modules() if isinstance(module, SyncBatchNorm)]
    before = [layer.communicator for layer in layers]
    for layer in layers:
        layer.communicator = None
    try:
        yield
    finally:
        for layer, communicator in zip(layers, before):
            layer.communicator = communicator


@ag.as_operation("sync_batch_norm", casts_like="batch_norm")
def _sync_batch_norm(
    x: ft.Array,
    weight: ft.Array | None,
    bias: ft.Array | None,
    axis: int,
    eps: float,
    communicator: Communicator,
) -> tuple[ft.Array, ft.Tensor, ft.Tensor, int]:
    features, others = x.shape[axis], tuple(i for i in range(x.ndim) if i != axis)
    count = math.prod(x.shape[i] for i in others)
    wide = to_float32(x)
    mean = ft.sum(wide, others, keepdims=True) / max(count, 1)
    spread = ft.sum(ft.square(wide - mean), others)
    number = ft.full((1,), float(count), wide.dtype, x.device, x.backend)
    own = ft.concatenate([number, ft.reshape(mean, (features,)), spread])
    every = _gather(own, communicator, x.backend)
    counts = every[:, :1]
    means, spreads = every[:, 1 : features + 1], every[:, features + 1 :]
    everyones = ft.sum(counts)
    samples = int(everyones.item())
    total = max(samples, 1)
    mean = ft.sum(means * counts, 0) / total
    variance = (ft.sum(spreads, 0) + ft.sum(ft.square(means - mean) * counts, 0)) / total
    y = ft.batch_norm(x, mean.astype(x.dtype), variance.astype(x.dtype), weight, bias, axis, eps)
    return y, tensor_of(mean), tensor_of(variance), samples


# ---- collectives with a gradient -----------------------------------------------------------------


def _gathered(ops: Any, x: Any, communicator: Communicator, backend: Any) -> Any:
    """The vectors of all ranks, (world_size, n)."""
    return ft.stack(communicator.all_gather(ft.Tensor(x, backend))).adapter


def _own_row(ops: Any, x: Any, communicator: Communicator, backend: Any) -> Any:
    """This rank's row of the sum over ranks of matrices (world_size, n)."""
    return communicator.all_reduce(ft.Tensor(x, backend))[communicator.rank].adapter


def _applied(operation: Any, g: Any, communicator: Communicator, backend: Any) -> Any:
    # Of a variable where gradients are recorded.
    if isinstance(g, ag.Variable):
        return operation(g, communicator, backend)
    return operation(ft.Tensor(g, backend), communicator, backend).adapter


def _to_own_row(ops: Any, g: Any, communicator: Communicator, backend: Any) -> Any:
    return _applied(_scatter_sum, g, communicator, backend)


def _to_all_rows(ops: Any, g: Any, communicator: Communicator, backend: Any) -> Any:
    return _applied(_gather, g, communicator, backend)


_gather: Any = defop("gather_over_ranks", _gathered, x=_to_own_row)
_scatter_sum: Any = defop("scatter_sum_over_ranks", _own_row, x=_to_all_rows)
