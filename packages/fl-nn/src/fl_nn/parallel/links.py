"""Links: what the stages of a pipeline send to one another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import fl_autograd as ag
import fl_dist as dist
import fl_tensor as ft
from fl_nn.values import tensor_of

_ACTIVATIONS, _GRADIENTS, _LAYOUT = 0, 1, 2


class Links:
    """Activations to the stage after this one, gradients to the one before.

    Shapes and dtypes are told once for each shape of a batch; later messages are received into what
    is known.
    """

    def __init__(self, comm: dist.Communicator) -> None:
        self.comm = comm
        self.before, self.after = comm.rank - 1, comm.rank + 1
        #: On the first rank: the number of each shape of a batch so far.
        self._numbers: dict[Any, int] = {}
        self._batch = 0
        #: What this rank has told, and been told, by batch shape and microbatch.
        self._told: set[tuple[int, int]] = set()
        self._known: dict[tuple[int, int], tuple[bool, list[ft.Tensor]]] = {}

    def agree(self, shapes: Sequence[tuple[int, ...]]) -> int:
        """Begin a batch of these shapes, which the first rank gives; how many samples it has."""
        samples = 0
        if self.comm.rank == 0:
            samples = shapes[0][0] if shapes[0] else 0
            self._batch = self._numbers.setdefault(tuple(shapes), len(self._numbers))
        told = self.comm.broadcast(ft.asarray([samples, self._batch], ft.int64))
        samples, self._batch = told.tolist()
        return samples

    def send(self, microbatch: int, output: Any) -> None:
        """Activations to the next stage."""
        arrays = [tensor_of(x) for x in as_tuple(output)]
        key = self._batch, microbatch
        if key not in self._told:
            self._told.add(key)
            layout = [[list(x.shape), str(x.dtype)] for x in arrays]
            text = json.dumps([isinstance(output, tuple), layout]).encode()
            message = ft.frombytes(text, (len(text),), ft.uint8)
            self.comm.send(message, self.after, tag=_LAYOUT)
        for x in arrays:
            self.comm.send(x, self.after, tag=_ACTIVATIONS)

    def receive(self, microbatch: int) -> Any:
        """Those of the stage before; the floating ones require gradients."""
        key = self._batch, microbatch
        if key not in self._known:
            message = self.comm.recv(self.before, tag=_LAYOUT)
            several, layout = json.loads(bytes(message.tobytes()))
            self._known[key] = several, [_like(tuple(shape), dtype) for shape, dtype in layout]
        several, likes = self._known[key]
        arrays = tuple(
            self._input(self.comm.recv(self.before, tag=_ACTIVATIONS, like=like)) for like in likes
        )
        return arrays if several else arrays[0]

    def send_gradients(self, given: Any) -> None:
        """Gradients of what `receive` gave, to the stage before."""
        for x in as_tuple(given):
            if x.dtype.is_floating:
                gradient = ft.zeros_like(tensor_of(x)) if x.grad is None else x.grad.tensor
                self.comm.send(gradient, self.before, tag=_GRADIENTS)

    def receive_gradients(self, output: Any) -> list[ft.Tensor | None]:
        """Those of what `send` was given; None for arrays that are not floating."""
        return [
            self.comm.recv(self.after, tag=_GRADIENTS, like=tensor_of(x))
            if x.dtype.is_floating
            else None
            for x in as_tuple(output)
        ]

    @staticmethod
    def _input(x: ft.Tensor) -> ft.Array:
        floating = x.dtype.is_floating and ag.is_grad_enabled()
        return ag.Variable(x, requires_grad=True) if floating else x


def as_tuple(value: Any) -> tuple[Any, ...]:
    """The arrays of an input or output."""
    return value if isinstance(value, tuple) else (value,)


def _like(shape: tuple[int, ...], dtype: str) -> ft.Tensor:
    # One element for all: what is received has the shape and none of the memory.
    return ft.broadcast_to(ft.zeros((), ft.dtype(dtype)), shape)
