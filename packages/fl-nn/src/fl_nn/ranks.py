"""Communication in training: equal initial values, sums of gradients, plain values."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import fl_tensor as ft
from fl_autograd import RowGradient
from fl_dist import Communicator
from fl_nn.module import Module
from fl_nn.parameter import Parameter, SparseParameter


def all_gather_plain(communicator: Communicator, value: Any) -> list[Any]:
    """Every rank's `value` (what JSON can carry; floats keep every bit), in rank order."""
    if communicator.world_size == 1:
        return [value]
    text = json.dumps(value).encode()
    longest = int(communicator.all_reduce(ft.asarray(len(text)), "max").item())
    padded = ft.frombytes(text.ljust(longest), (longest,), ft.uint8)
    return [json.loads(bytes(part.tobytes())) for part in communicator.all_gather(padded)]


def broadcast_model(communicator: Communicator, model: Module) -> None:
    """Give every rank the parameters and buffers of rank 0."""
    broadcast_parameters(communicator, model.parameters())
    broadcast_buffers(communicator, model)


def broadcast_parameters(communicator: Communicator, parameters: Iterable[Parameter]) -> None:
    if communicator.world_size > 1:
        for parameter in parameters:
            parameter.tensor = communicator.broadcast(parameter.tensor)


def broadcast_buffers(communicator: Communicator, model: Module) -> None:
    """Give every rank the persistent buffers of rank 0, such as running statistics."""
    if communicator.world_size > 1:
        for module in model.modules():
            for name, persistent in module._buffers.items():
                value = getattr(module, name)
                if persistent and value is not None:
                    setattr(module, name, communicator.broadcast(value))


def separate_generators(communicator: Communicator, model: Module) -> None:
    """Give the model's generators a stream for each rank: ranks that seeded alike must not drop the
    same places of different samples."""
    size, rank = communicator.world_size, communicator.rank
    if size > 1:
        for _, generator in model.named_generators():
            generator.set_state(generator.split(size)[rank].state())


def all_agree(communicator: Communicator | None, fine: bool) -> bool:
    """Whether it is `fine` on every rank."""
    if communicator is None or communicator.world_size == 1:
        return fine
    return not communicator.all_reduce(ft.asarray(int(not fine)), "max").item()


def total(communicator: Communicator, number: float, dtype: ft.DType) -> float:
    """The sum of a number over ranks."""
    if communicator.world_size == 1:
        return number
    found: float = communicator.all_reduce(ft.asarray(number, dtype)).item()
    return found


def sum_gradients(communicator: Communicator, parameters: Iterable[Parameter]) -> None:
    """Replace every gradient by its sum over ranks; a rank without one adds zeros. Those of a
    SparseParameter stay rows unless a rank has a dense one."""
    if communicator.world_size == 1:
        return
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    tables = [parameter for parameter in trained if isinstance(parameter, SparseParameter)]
    if tables:
        rows = _sum_rows(communicator, tables)
        trained = [parameter for parameter in trained if id(parameter) not in rows]
    totals = communicator.all_reduce_many([_dense(parameter) for parameter in trained])
    for parameter, total in zip(trained, totals):
        parameter.grad = total


def _dense(parameter: Parameter) -> ft.Tensor:
    grad = parameter.grad
    if grad is None:
        return ft.zeros_like(parameter.tensor)
    return (grad.to_dense() if isinstance(grad, RowGradient) else grad).tensor


def _sum_rows(communicator: Communicator, tables: list[SparseParameter]) -> set[int]:
    """Sum the gradients that are rows, or missing, on all ranks; the ids of their tables."""
    counts = [_count_rows(table) for table in tables]
    everyone = communicator.all_gather(ft.asarray(counts, ft.int64))
    done = set()
    for table, counted in zip(tables, zip(*(one.tolist() for one in everyone))):
        if min(counted) < 0:
            continue
        done.add(id(table))
        own = table.grad if isinstance(table.grad, RowGradient) else _no_rows(table)
        own, longest = own.detach().coalesced(), max(counted)
        missing = longest - own.indices.size
        indices = ft.pad(own.indices, ((0, missing),))
        values = own.values.tensor
        values = ft.pad(values, ((0, missing), *((0, 0),) * (values.ndim - 1)))
        indices, values = (
            ft.concatenate([x[:n] for x, n in zip(communicator.all_gather(part), counted)])
            for part in (indices, values)
        )
        table.grad = RowGradient(indices, values, table.shape).coalesced()
    return done


def _count_rows(table: SparseParameter) -> int:
    # Negative: a dense gradient.
    grad = table.grad
    if isinstance(grad, RowGradient):
        return grad.coalesced().indices.size
    return 0 if grad is None else -1


def _no_rows(table: SparseParameter) -> RowGradient:
    none = table.tensor[:0]
    place = {"device": none.device, "backend": none.backend}
    return RowGradient(ft.full((0,), 0, ft.int64, **place), none, table.shape)
