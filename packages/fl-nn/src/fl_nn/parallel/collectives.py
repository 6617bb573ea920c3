"""Collectives with gradients: the borders of a region in which ranks compute parts of one result.

Each is the conjugate of another: what one does forward, the other does backward (Shoeybi et al.,
"Megatron-LM", 2019). All ranks of `comm` call them, and their backward passes, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import fl_autograd as ag
import fl_dist as dist
import fl_tensor as ft
from fl_autograd import extend
from fl_nn.errors import ModuleError


def copy_to(x: ft.Array, comm: dist.Communicator) -> Any:
    """`x`, equal on all ranks, on its way to where each computes something else with it. Backward:
    the sum of the gradients."""
    return x if comm.world_size == 1 else _copy(x, _Calls(comm, x))


def reduce_from(x: ft.Array, comm: dist.Communicator) -> Any:
    """The sum of every rank's `x`. Backward: the gradient as it is."""
    return x if comm.world_size == 1 else _reduce(x, _Calls(comm, x))


def gather_from(x: ft.Array, comm: dist.Communicator) -> Any:
    """Every rank's `x`, of one shape, joined along the last axis. Backward: this rank's part."""
    return x if comm.world_size == 1 else _gather(x, _Calls(comm, x))


def scatter_to(x: ft.Array, comm: dist.Communicator) -> Any:
    """This rank's part of the last axis of `x`, which is equal on all ranks. Backward: the parts
    of all, joined. Raises ModuleError where the axis does not divide."""
    if x.shape[-1] % comm.world_size:
        raise ModuleError(
            f"[scatter_to] the last axis of {x.shape} does not divide over {comm.world_size} ranks"
        )
    return x if comm.world_size == 1 else _scatter(x, _Calls(comm, x))


def exchange(
    x: ft.Array, sent: Sequence[int], received: Sequence[int], comm: dist.Communicator
) -> Any:
    """An all_to_all of rows: of `x`, `sent[0]` go to rank 0, and so on; gives the `received[0]`
    rows of rank 0, and so on. Backward: the gradients of the rows go back."""
    if comm.world_size == 1:
        return x
    return _exchange(x, _Calls(comm, x), tuple(sent), tuple(received))


class _Calls:
    """The collectives on what a backend computes with: adapters, or variables where a gradient is
    recorded."""

    def __init__(self, comm: dist.Communicator, like: ft.Array) -> None:
        self.comm, self.backend = comm, like.backend

    def all_reduce(self, x: Any) -> Any:
        return self._call(x, self.comm.all_reduce, reduce_from)

    def all_gather(self, x: Any) -> Any:
        return self._call(x, lambda t: ft.concatenate(self.comm.all_gather(t), -1), gather_from)

    def own_part(self, x: Any) -> Any:
        def part(tensor: ft.Tensor) -> ft.Tensor:
            return ft.split(tensor, self.comm.world_size, -1)[self.comm.rank]

        return self._call(x, part, scatter_to)

    def exchange(self, x: Any, sent: tuple[int, ...], received: tuple[int, ...]) -> Any:
        def moved(tensor: ft.Tensor) -> ft.Tensor:
            return ft.concatenate(self.comm.all_to_all(ft.split(tensor, list(sent), 0)))

        return self._call(x, moved, lambda v, comm: exchange(v, sent, received, comm))

    def _call(
        self, x: Any, call: Callable[[ft.Tensor], ft.Tensor], recorded: Callable[..., Any]
    ) -> Any:
        if isinstance(x, ag.Variable):
            return recorded(x, self.comm)
        return call(ft.Tensor(x, self.backend)).adapter


_copy = extend.defop(
    "copy_to", lambda ops, x, calls: x, x=lambda ops, g, calls: calls.all_reduce(g)
)
_reduce = extend.defop("reduce_from", lambda ops, x, calls: calls.all_reduce(x), x=lambda ops, g: g)
_gather = extend.defop(
    "gather_from",
    lambda ops, x, calls: calls.all_gather(x),
    x=lambda ops, g, calls: calls.own_part(g),
)
_scatter = extend.defop(
    "scatter_to",
    lambda ops, x, calls: calls.own_part(x),
    x=lambda ops, g, calls: calls.all_gather(g),
)
_exchange = extend.defop(
    "exchange",
    lambda ops, x, calls, sent, received: calls.exchange(x, sent, received),
    x=lambda ops, g, calls, sent, received: calls.exchange(g, received, sent),
)
