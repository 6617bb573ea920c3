"""Data parallel training: the gradients of a step, averaged over ranks while backward runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import fl_tensor as ft
from fl_autograd import SparseGradient
from fl_dist import BucketReducer, Communicator, Reducer
from fl_dist.reducer import check_communicator
from fl_nn.errors import ModuleError, TrainingError
from fl_nn.optim.precision import accumulation_dtype
from fl_nn.parameter import Parameter, SparseParameter

# What travels beside the gradients, behind them in the last bucket. Gradients have numbers as keys.
_SAMPLES, _LOSS, _PRESENT = "samples", "loss", "present"


class GradientAverage:
    """Averages gradients over ranks, weighted by the samples of each rank:

        average = GradientAverage(communicator, optimizer.parameters)
        unit = average.begin(samples)
        with average.overlapped():
            loss.backward(samples / unit)
        mean = average.finish(loss.item() * samples / unit)

    Loss, samples and gradients go into one reduction, so that all ranks compute the same numbers
    afterwards, whether finite or not. A parameter without a gradient on any rank has none
    afterwards. Gradients in half precision are summed in float32, and stay so. Those of a
    SparseParameter are gathered as rows, unless a rank has a dense one.

    reducer   what sums the gradients: `fl_dist.BucketReducer` unless another is given
    samples   of all ranks together in the last step, after `finish`
    """

    def __init__(
        self,
        communicator: Communicator,
        parameters: Sequence[Parameter],
        reducer: Reducer | None = None,
    ) -> None:
        check_communicator("GradientAverage", communicator)
        if not isinstance(parameters, Sequence):
            raise ModuleError(f"[GradientAverage] parameters {parameters!r}: expected a list")
        self.communicator = communicator
        self.reducer = BucketReducer(communicator) if reducer is None else reducer
        self.parameters = list(parameters)
        self.samples = 0
        self._unit = 0.0
        self._planned: list[Parameter] | None = None
        self._given: set[int] = set()
        self._latest: Parameter | None = None
        self._own = 0

    def begin(self, samples: int) -> float:
        """Begin a step with this many samples here; the number by which every rank divides its own.

        It is a power of 2, so that no digit depends on it, about the samples of all ranks in the
        first step: losses and gradients are as small as those of a mean, also in float16.
        """
        self._own, self._given, self._latest = samples, set(), None
        trained = [
            p for p in self.parameters if p.requires_grad and not isinstance(p, SparseParameter)
        ]
        if self._planned is None or list(map(id, trained)) != list(map(id, self._planned)):
            wide = any(str(p.dtype) in ("float64", "complex128") for p in trained)
            self._dtype = ft.float64 if wide else ft.float32
            specs: list[Any] = [(_SAMPLES, (), self._dtype), (_LOSS, (), self._dtype)]
            specs.append((_PRESENT, (len(trained),), self._dtype))
            for i, p in enumerate(trained):
                specs.append((str(i), p.shape, accumulation_dtype(p.dtype)))
            self.reducer.plan(specs)
            self._planned = trained
        if not self._unit:
            everyones = self.communicator.all_reduce(ft.asarray(samples, ft.int64)).item()
            self._unit = 2.0 ** math.ceil(math.log2(everyones)) if everyones else 1.0
        return self._unit

    @contextmanager
    def overlapped(self) -> Iterator[None]:
        """Inside, each gradient is sent as soon as it is complete: enter it around the last
        backward pass of a step. Until `finish`, parameters then have no gradient."""
        planned = self._begun("overlapped")
        removals = [p.register_hook(partial(self._send, i, p)) for i, p in enumerate(planned)]
        try:
            yield
        except BaseException:
            self._planned = None  # the next step begins anew
            raise
        finally:
            for remove in removals:
                remove()

    def finish(self, loss: float) -> float:
        """Put the mean gradient of all samples in place; the mean loss of all samples, from the
        sum of the losses of the samples here, divided by the number that `begin` gave. Where no
        rank has any sample, gradients and loss are 0."""
        planned, self._planned = self._begun("finish"), None
        present = []
        for i, parameter in enumerate(planned):
            if i not in self._given and parameter.grad is not None:
                self._add(i, _dense(parameter.grad))  # of an earlier backward pass of the step
            present.append(float(i in self._given))
        own = {_PRESENT: present, _LOSS: loss, _SAMPLES: self._own / self._unit}
        for key, value in own.items():
            self.reducer.add(key, ft.asarray(value, self._dtype))
        sums = self.reducer.finalize()
        self._planned, self._latest = planned, None
        total = sums[_SAMPLES].item()
        self.samples = round(total * self._unit)
        share = ft.per_step(1.0 / (total or 1.0), "1 / samples of all ranks")
        found = sums[_PRESENT].tolist()
        for i, parameter in enumerate(planned):
            mean = beside(parameter, sums[str(i)])
            if share != 1.0:
                mean = mean * share
            parameter.grad = mean if found[i] else None
        tables = [p for p in self.parameters if p.requires_grad and isinstance(p, SparseParameter)]
        if tables:
            _sum_tables(self.communicator, tables, share)
        return float(sums[_LOSS].item()) * share

    def _begun(self, what: str) -> list[Parameter]:
        if self._planned is None:
            raise TrainingError(f"[GradientAverage] {what}() without begin() in this step")
        return self._planned

    def _send(self, number: int, parameter: Parameter, gradient: Any) -> None:
        if self._latest is not None:
            self._latest.grad = None  # the reducer has it, and frees it early
        self._latest = parameter
        value = _dense(gradient)
        if parameter.grad is not None:
            value = _dense(parameter.grad) + value
        self._add(number, value)

    def _add(self, number: int, value: ft.Tensor) -> None:
        self._given.add(number)
        self.reducer.add(str(number), value.astype(accumulation_dtype(value.dtype)))


def beside(parameter: Parameter, value: ft.Tensor) -> ft.Tensor:
    """`value` on the backend of a parameter."""
    return value if value.backend is parameter.backend else value.to(parameter.backend)


def _dense(gradient: Any) -> ft.Tensor:
    dense = gradient.to_dense() if isinstance(gradient, SparseGradient) else gradient
    found: ft.Tensor = dense.tensor
    return found


# ---- gradients of rows -------------------------------------------------------------------------


def _sum_tables(
    communicator: Communicator, tables: Sequence[SparseParameter], share: float
) -> None:
    """Replace the gradients of tables by `share` times their sums over ranks: rows, unless a rank
    has a dense one; none where no rank has any."""
    counts = ft.asarray([_count_rows(table) for table in tables], ft.int64)
    everyone = [one.tolist() for one in communicator.all_gather(counts)]
    for table, counted in zip(tables, zip(*everyone)):
        if max(counted) == min(counted) == _NONE:
            table.grad = None
        elif _DENSE in counted:
            own = table.tensor * 0.0 if table.grad is None else _dense(table.grad)
            table.grad = communicator.all_reduce(own) * share
        else:
            lengths = [max(count, 0) for count in counted]
            own = table.grad if isinstance(table.grad, SparseGradient) else _no_rows(table)
            own = own.detach().coalesced()
            indices = communicator.all_gather_tensor(own.indices, counts=lengths)
            values = communicator.all_gather_tensor(own.values.tensor, counts=lengths)
            table.grad = SparseGradient(indices, values * share, table.shape).coalesced()


#: In place of a number of rows: a dense gradient, and none at all.
_DENSE, _NONE = -1, -2


def _count_rows(table: SparseParameter) -> int:
    grad = table.grad
    if isinstance(grad, SparseGradient):
        return grad.coalesced().indices.size
    return _NONE if grad is None else _DENSE


def _no_rows(table: SparseParameter) -> SparseGradient:
    none = table.tensor[:0]
    place = {"device": none.device, "backend": none.backend}
    return SparseGradient(ft.full((0,), 0, ft.int64, **place), none, table.shape)
