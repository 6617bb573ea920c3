"""Clipping by the norm of gradients that are divided over ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import fl_dist as dist
import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.optim.precision import to_float32
from fl_nn.optim.sparse import map_stored_gradient, stored_gradient_values
from fl_nn.parallel.sharded_parameter import ShardedParameter
from fl_nn.parameter import Parameter
from fl_tensor.annotations import checked

#: Parameters, each with the ranks that have the other shares of it, or None.
Shares = Sequence[tuple[Parameter, dist.Communicator | None]]


@checked
def clip_grad_norm_(
    parameters: Iterable[Parameter],
    max_norm: float,
    norm_type: float = 2.0,
    *,
    over: Sequence[dist.Communicator] = (),
) -> ft.Tensor:
    """`fl_nn.clip_grad_norm_` where each rank has a part of the parameters: the norm is that of all
    parts, a tensor () of at least float32, equal on all ranks, which all call it.

    A `ShardedParameter` is measured over its ranks, others once. `over` are ranks that hold other
    parameters, such as the stages of a pipeline.
    """
    found = [(p, p.comm if isinstance(p, ShardedParameter) else None) for p in parameters]
    return clip_shares(found, max_norm, norm_type, over)


def clip_shares(
    shares: Shares, max_norm: float, norm_type: float, over: Sequence[dist.Communicator]
) -> ft.Tensor:
    """The same of parameters with the ranks that have the other shares of each."""
    if not max_norm >= 0.0 or not norm_type > 0.0:
        raise ModuleError(
            f"[clip_grad_norm_] max_norm={max_norm}, norm_type={norm_type}: give a number of at "
            "least 0, and a norm of more than 0"
        )
    op = "max" if norm_type == math.inf else "sum"
    sums: dict[int, tuple[dist.Communicator | None, list[ft.Tensor]]] = {}
    for parameter, comm in shares:
        _, parts = sums.setdefault(id(comm), (comm, []))
        if parameter.grad is not None:
            parts.append(_measure(stored_gradient_values(parameter), norm_type))
    totals = []
    for comm, parts in sums.values():
        part = _combined(parts, op)
        totals.append(part if comm is None else comm.all_reduce(part, op))
    total = _combined(totals, op)
    for comm in over:
        total = comm.all_reduce(total, op)
    norm = total if op == "max" else total ** (1.0 / norm_type)
    scale = ft.minimum(max_norm / (norm + 1e-6), 1.0)
    for parameter, _ in shares:
        if parameter.grad is not None:
            map_stored_gradient(parameter, lambda g: (to_float32(g) * scale).astype(g.dtype))
    return norm


def _measure(gradient: ft.Tensor, norm_type: float) -> ft.Tensor:
    """What adds up, or has the maximum, over the parts of a gradient."""
    size = ft.absolute(to_float32(gradient))
    if norm_type == math.inf:
        return ft.max(size) if gradient.size else ft.zeros(())
    return ft.sum(size * size if norm_type == 2.0 else size**norm_type)


def _combined(parts: Sequence[ft.Tensor], op: str) -> ft.Tensor:
    if not parts:
        return ft.zeros(())
    stacked = ft.stack(list(parts))
    return ft.max(stacked) if op == "max" else ft.sum(stacked)
