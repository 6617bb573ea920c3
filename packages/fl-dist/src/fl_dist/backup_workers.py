"""Synchronous training with backup workers: a step takes the first gradients and drops the rest.

More workers compute a gradient than a step needs. The coordinator updates with the first
``required`` of them. The gradient of a slower worker is dropped, and that worker goes on with the
newest parameters. A straggler costs its own work and no time of the others. An all-reduce cannot
drop anybody, so one rank coordinates and the others send to it.

Chen et al., "Revisiting Distributed Synchronous SGD", 2016; Abadi et al., "TensorFlow", OSDI 2016,
section 4.4.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import fl_tensor as ft
from fl_dist.communicator import Communicator
from fl_dist.errors import ArgumentError
from fl_tensor import Tensor

__all__ = ["Outcome", "coordinate", "work"]

Tensors = dict[str, Tensor]

#: Tags of the messages. A worker sends the number of its step, then its gradients; the coordinator
#: sends the number of the step that begins, then the parameters.
STEP, GRADIENT, PARAMETER = 0, 1, 2
#: In place of a step: a worker that has just joined, and training that is over.
JOINS, OVER = -1, -1


@dataclass
class Outcome:
    """What ``coordinate`` returns.

    parameters  their last values
    seconds     time of each step
    used        gradients of each rank that took part in an update
    dropped     gradients of each rank that came too late
    """

    parameters: Tensors
    seconds: list[float] = field(default_factory=list)
    used: dict[int, int] = field(default_factory=dict)
    dropped: dict[int, int] = field(default_factory=dict)


def coordinate(
    comm: Communicator,
    parameters: Mapping[str, Tensor],
    update: Callable[[Tensors, Tensors], Mapping[str, Tensor]],
    *,
    steps: int,
    required: int,
) -> Outcome:
    """Train for ``steps`` steps on the rank that calls it; all others call ``work``.

    ``update(parameters, gradients)`` returns the new parameters; gradients are the means over the
    first ``required`` workers of a step, summed in rank order. Which workers these are depends on
    time, so two runs differ. Raises ArgumentError for ``required`` outside of
    1 .. world_size - 1, and PeerError or DistTimeoutError when too few workers are left.
    """
    workers = [rank for rank in range(comm.world_size) if rank != comm.rank]
    if isinstance(required, bool) or not isinstance(required, int):
        raise ArgumentError(f"[coordinate] required {required!r}: expected a number of workers")
    if not 1 <= required <= len(workers):
        raise ArgumentError(
            f"[coordinate] required {required} of {len(workers)} workers: expected 1 .. "
            f"{len(workers)}, the world has {comm.world_size} ranks and one of them coordinates"
        )
    found = Outcome(dict(parameters), [], dict.fromkeys(workers, 0), dict.fromkeys(workers, 0))
    idle: list[int] = []  # workers whose gradient is in, and who wait for the next step
    for step in range(steps):
        began = time.perf_counter()
        for worker in idle:
            _send_step(comm, worker, step, found.parameters)
        came: dict[int, Tensors] = {}
        while len(came) < required:
            worker, gradients = _receive(comm, found, step)
            if gradients is None:
                _send_step(comm, worker, step, found.parameters)
            else:
                came[worker] = gradients
        idle = list(came)
        means = {name: _mean([came[w][name] for w in sorted(came)]) for name in found.parameters}
        found.parameters = dict(update(found.parameters, means))
        found.seconds.append(time.perf_counter() - began)
    for worker in idle:
        _send_step(comm, worker, OVER, {})
    for _ in range(len(workers) - len(idle)):
        worker, _ = _receive(comm, found, OVER - 1)
        _send_step(comm, worker, OVER, {})
    return found


def work(
    comm: Communicator,
    parameters: Mapping[str, Tensor],
    gradients: Callable[[Tensors, int], Mapping[str, Tensor]],
    *,
    coordinator: int = 0,
) -> int:
    """Compute gradients until the coordinator ends training; the number of them.

    ``parameters`` has the names, shapes and dtypes of the coordinator's. ``gradients(parameters,
    step)`` returns one gradient for each name. Raises ArgumentError where a name is missing.
    """
    step, count = JOINS, 0
    found: Mapping[str, Tensor] = {}
    while True:
        comm.send(ft.asarray(step, ft.int64), coordinator, tag=STEP)
        for name in parameters if step != JOINS else ():
            if name not in found:
                raise ArgumentError(f"[work] no gradient of {name!r} on rank {comm.rank}")
            comm.send(found[name], coordinator, tag=GRADIENT)
        step = comm.recv(coordinator, tag=STEP).item()
        if step == OVER:
            return count
        current = {
            name: comm.recv(coordinator, tag=PARAMETER, like=value)
            for name, value in parameters.items()
        }
        found = gradients(current, step)
        count += 1


def _send_step(comm: Communicator, worker: int, step: int, parameters: Tensors) -> None:
    comm.send(ft.asarray(step, ft.int64), worker, tag=STEP)
    for value in parameters.values():
        comm.send(value, worker, tag=PARAMETER)


def _receive(comm: Communicator, found: Outcome, step: int) -> tuple[int, Tensors | None]:
    """The next worker, and its gradients if they are of ``step``."""
    worker, number = comm.recv(None, tag=STEP)
    if number.item() == JOINS:
        return worker, None
    gradients = {
        name: comm.recv(worker, tag=GRADIENT, like=value)
        for name, value in found.parameters.items()
    }
    if number.item() != step:
        found.dropped[worker] += 1
        return worker, None
    found.used[worker] += 1
    return worker, gradients


def _mean(values: list[Tensor]) -> Tensor:
    total = values[0]
    for value in values[1:]:
        total = ft.add(total, value)
    return ft.divide(total, len(values))
