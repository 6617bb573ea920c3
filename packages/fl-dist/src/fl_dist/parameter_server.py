"""Asynchronous training: servers hold the parameters, workers pull them and push gradients.

Parameters are shared out over the server ranks by a hash of their names. A server updates as soon
as a gradient comes. ``staleness`` bounds how far workers may drift apart: a worker whose clock is c
waits in ``pull`` until every other clock is at least ``c - staleness``. With 0, workers march in
step; without a bound nobody ever waits.

Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014; Ho et al.,
"More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import fl_tensor as ft
from fl_dist.communicator import Communicator
from fl_dist.errors import ArgumentError, DistError
from fl_dist.values import pack_text, unpack_text
from fl_tensor import Tensor

__all__ = ["ParameterClient", "ParameterServer", "server_of"]

#: Tags of the messages: a worker's request, the tensors of a request, and the tensors of an answer.
REQUEST, GRADIENT, PARAMETER = 0, 1, 2

Update = Callable[[str, Tensor, Tensor], Tensor]
RowUpdate = Callable[[str, Tensor, Tensor, Tensor], Tensor]


def server_of(key: str, servers: Sequence[int]) -> int:
    """The rank that holds ``key``: the same on every rank and in every run."""
    return servers[zlib.crc32(key.encode()) % len(servers)]


class ParameterServer:
    """The server of one rank.

    parameters  initial values of all parameters; the server keeps those that fall to its rank
    update      ``update(key, value, gradient)`` returns the new value
    update_rows ``update_rows(key, value, rows, gradient)``, for a gradient of the rows ``rows``
                (int64, (k,)) alone, of shape (k, ...); without it rows are refused
    servers     the ranks that serve; all others are workers
    staleness   how many steps the fastest worker may be ahead of the slowest; None: no bound

    Raises ArgumentError where this rank is no server or nobody is left to work.
    """

    def __init__(
        self,
        comm: Communicator,
        parameters: Mapping[str, Tensor],
        update: Update,
        *,
        update_rows: RowUpdate | None = None,
        servers: Sequence[int] = (0,),
        staleness: int | None = None,
    ) -> None:
        workers = _workers("ParameterServer", comm, servers)
        if comm.rank not in servers:
            raise ArgumentError(
                f"[ParameterServer] rank {comm.rank} is no server: servers are {list(servers)}"
            )
        if staleness is not None and (
            isinstance(staleness, bool) or not isinstance(staleness, int) or staleness < 0
        ):
            raise ArgumentError(
                f"[ParameterServer] staleness {staleness!r}: expected a number of steps, or None"
            )
        self.parameters = {
            key: value for key, value in parameters.items() if server_of(key, servers) == comm.rank
        }
        self.staleness = staleness
        self.updates = 0
        self._comm = comm
        self._update, self._update_rows = update, update_rows
        self._clocks = dict.fromkeys(workers, 0)
        self._waiting: list[tuple[int, list[str]]] = []  # pulls of workers that are ahead

    def serve(self) -> dict[str, Tensor]:
        """Answer until every worker has closed its client; the last values of this server.

        Raises DistTimeoutError when no worker asks for anything within the communicator's timeout,
        and PeerError for a worker that is gone without closing.
        """
        while self._clocks:
            worker, text = self._comm.recv(None, tag=REQUEST)
            request = json.loads(unpack_text(text))
            kind, keys = request["kind"], request["keys"]
            if kind == "pull":
                self._waiting.append((worker, keys))
            elif kind == "push":
                for key in keys:
                    value = self.parameters[key]
                    gradient = self._comm.recv(worker, tag=GRADIENT, like=value)
                    self._set(key, self._update(key, value, gradient))
            elif kind == "push rows":
                self._take_rows(worker, *keys)
            elif kind == "step":
                self._clocks[worker] += 1
            else:  # "close"
                del self._clocks[worker]
            self._answer()
        return self.parameters

    def _take_rows(self, worker: int, key: str) -> None:
        rows = self._comm.recv(worker, tag=GRADIENT)
        gradient = self._comm.recv(worker, tag=GRADIENT)
        if self._update_rows is None:
            raise DistError(
                f"[ParameterServer] rank {worker} pushed rows of {key!r}: give update_rows="
            )
        self._set(key, self._update_rows(key, self.parameters[key], rows, gradient))

    def _set(self, key: str, value: Tensor) -> None:
        self.parameters[key] = value
        self.updates += 1

    def _answer(self) -> None:
        """Send the parameters to those that wait for them and are not too far early."""
        slowest = min(self._clocks.values(), default=0)
        early = []
        for worker, keys in self._waiting:
            clock = self._clocks.get(worker, 0)
            if self.staleness is not None and clock - slowest > self.staleness:
                early.append((worker, keys))
                continue
            for key in keys:
                self._comm.send(self.parameters[key], worker, tag=PARAMETER)
        self._waiting = early


class ParameterClient:
    """The worker's side. ``parameters`` has the names, shapes and dtypes of the servers'.

    for step in range(steps):
        values = client.pull()
        client.push(gradients(values))
        client.step()
    client.close()
    """

    def __init__(
        self, comm: Communicator, parameters: Mapping[str, Tensor], *, servers: Sequence[int] = (0,)
    ) -> None:
        _workers("ParameterClient", comm, servers)
        if comm.rank in servers:
            raise ArgumentError(f"[ParameterClient] rank {comm.rank} is a server")
        self.clock = 0
        self._comm = comm
        self._like = dict(parameters)
        self._servers = list(servers)
        self._closed = False

    def pull(self, keys: Iterable[str] | None = None) -> dict[str, Tensor]:
        """The present values of ``keys`` (all of them without). Waits where this worker is further
        ahead than the servers' ``staleness`` allows."""
        wanted = list(self._like if keys is None else keys)
        shares = self._shared_out("pull", wanted)
        for server, share in shares.items():
            self._ask("pull", server, share)
        found = {
            key: self._comm.recv(server, tag=PARAMETER, like=self._like[key])
            for server, share in shares.items()
            for key in share
        }
        return {key: found[key] for key in wanted}

    def push(self, gradients: Mapping[str, Tensor]) -> None:
        """Send gradients to the servers of their keys; never waits for the updates."""
        for server, share in self._shared_out("push", gradients).items():
            for key in share:
                self._check("push", key, gradients[key], self._like[key].shape)
            self._ask("push", server, share)
            for key in share:
                self._comm.send(gradients[key], server, tag=GRADIENT)

    def push_rows(self, key: str, rows: Tensor, gradient: Tensor) -> None:
        """Send a gradient of the rows ``rows`` (int64, (k,)) of a table alone: (k, ...)."""
        ((server, share),) = self._shared_out("push_rows", [key]).items()
        if rows.ndim != 1 or rows.dtype is not ft.int64:
            raise ArgumentError(f"[push_rows] rows {rows.dtype} {rows.shape}: expected int64 (k,)")
        self._check("push_rows", key, gradient, (rows.size, *self._like[key].shape[1:]))
        self._ask("push rows", server, share)
        self._comm.send(rows, server, tag=GRADIENT)
        self._comm.send(gradient, server, tag=GRADIENT)

    def step(self) -> None:
        """This worker has finished a step: its clock goes on by one, on every server."""
        self.clock += 1
        for server in self._servers:
            self._ask("step", server, [])

    def close(self) -> None:
        """This worker is done; the others do not wait for its clock any more. Idempotent."""
        if not self._closed:
            for server in self._servers:
                self._ask("close", server, [])
            self._closed = True

    def _shared_out(self, operation: str, keys: Iterable[str]) -> dict[int, list[str]]:
        shares: dict[int, list[str]] = {}
        for key in keys:
            if key not in self._like:
                raise ArgumentError(f"[{operation}] no parameter {key!r}: {', '.join(self._like)}")
            shares.setdefault(server_of(key, self._servers), []).append(key)
        return shares

    def _check(self, operation: str, key: str, x: Tensor, shape: tuple[int, ...]) -> None:
        dtype = self._like[key].dtype
        if x.shape != shape or x.dtype is not dtype:
            raise ArgumentError(
                f"[{operation}] gradient of {key!r} is {x.dtype} {x.shape}: expected {dtype} "
                f"{shape}"
            )

    def _ask(self, kind: str, server: int, keys: list[str]) -> None:
        if self._closed:
            raise DistError(f"[ParameterClient] {kind} on rank {self._comm.rank}: it is closed")
        text = json.dumps({"kind": kind, "keys": keys})
        self._comm.send(pack_text(text), server, tag=REQUEST)


def _workers(where: str, comm: Communicator, servers: Sequence[int]) -> list[int]:
    known = sorted(set(servers))
    if not known or len(known) < len(servers) or not 0 <= known[0] <= known[-1] < comm.world_size:
        raise ArgumentError(
            f"[{where}] servers {list(servers)}: expected different ranks of 0 .. "
            f"{comm.world_size - 1}"
        )
    workers = [rank for rank in range(comm.world_size) if rank not in known]
    if not workers:
        raise ArgumentError(f"[{where}] all {comm.world_size} ranks serve: nobody is left to work")
    return workers
