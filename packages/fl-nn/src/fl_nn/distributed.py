"""Communication in training: equal initial values, separate random numbers, votes."""

from __future__ import annotations

from collections.abc import Iterable

import fl_tensor as ft
from fl_dist import Communicator
from fl_nn.module import Module
from fl_nn.parameter import Parameter


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
