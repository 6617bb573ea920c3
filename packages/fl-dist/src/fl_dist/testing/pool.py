"""Worlds that stay: the suite sends its programs to ranks that are running already.

Starting a world of processes takes a second and more, and the suite has hundreds of tests. So there
is one world per communicator and size. Its ranks wait for programs on a socket. A program that
raises ends its world, as ``run`` would; the next test gets a new one.
"""

from __future__ import annotations

import atexit
import pickle
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from secrets import token_bytes
from typing import Any

from fl_dist.communicator import Communicator
from fl_dist.errors import DistError, ProgramError

LIMIT = 30.0  # seconds that an operation of a program may wait
START = 120.0  # seconds until all ranks must have called
_TOKEN_BYTES = 16

_worlds: dict[int, PooledWorld] = {}
_owner: type[Communicator] | None = None


def launch(
    communicator: type[Communicator], world_size: int, program: Callable[..., Any], *args: Any
) -> list[Any]:
    """As ``communicator.run(world_size, program, *args)``, in a world that may be older. What it
    leaves behind (messages nobody received) the next program finds."""
    global _owner
    if communicator is not _owner:
        close()
        _owner = communicator
    world = _worlds.get(world_size)
    if world is None:
        world = _worlds[world_size] = PooledWorld(communicator, world_size)
    try:
        return world.do(program, args)
    except BaseException:
        _worlds.pop(world_size).close()
        raise


def close() -> None:
    """End all worlds."""
    while _worlds:
        _worlds.popitem()[1].close()


atexit.register(close)


class PooledWorld:
    """A world that runs ``serve`` on every rank, and the connections to its ranks."""

    def __init__(self, communicator: type[Communicator], world_size: int) -> None:
        self._error: BaseException | None = None
        self._ranks: list[Connection] = []
        token = token_bytes(_TOKEN_BYTES)
        with socket.create_server(("127.0.0.1", 0), backlog=world_size) as server:
            server.settimeout(0.05)
            address = server.getsockname()[:2]

            def run() -> None:
                try:
                    communicator.run(world_size, serve, address, token, timeout=LIMIT)
                except BaseException as error:
                    self._error = error

            self._thread = threading.Thread(target=run, name="kit world", daemon=True)
            self._thread.start()
            self._ranks = self._accept(server, token, world_size)

    def _accept(self, server: socket.socket, token: bytes, world_size: int) -> list[Connection]:
        found: dict[int, Connection] = {}
        end = time.monotonic() + START
        while len(found) < world_size:
            try:
                caller, _ = server.accept()
            except TimeoutError:
                if self._error is not None:
                    raise self._error from None
                if not self._thread.is_alive() or time.monotonic() > end:
                    missing = sorted(set(range(world_size)) - set(found))
                    raise DistError(f"ranks {missing} of {world_size} did not start") from None
                continue
            caller.setblocking(True)
            connection = Connection(caller.detach())
            if connection.recv_bytes() == token:
                found[connection.recv()] = connection
        return [found[rank] for rank in range(world_size)]

    def do(self, program: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
        """The result of every rank. ProgramError when a rank raised."""
        for rank in self._ranks:
            rank.send((program, args))
        results: dict[int, Any] = {}
        errors: dict[int, tuple[float, BaseException]] = {}
        end = time.monotonic() + 2 * LIMIT
        while len(results) + len(errors) < len(self._ranks):
            waiting = [
                rank for r, rank in enumerate(self._ranks) if r not in results and r not in errors
            ]
            heard = wait(waiting, max(0.0, end - time.monotonic()))
            if not heard:
                late = [self._ranks.index(rank) for rank in waiting]
                raise DistError(f"ranks {late} did not finish {program.__name__}")
            for one in heard:
                r = self._ranks.index(one)  # type: ignore[arg-type]
                try:
                    fine, moment, value = pickle.loads(self._ranks[r].recv_bytes())
                except (EOFError, OSError) as error:
                    fine, moment, value = False, time.monotonic(), error
                if fine:
                    results[r] = value
                else:
                    errors[r] = (moment, value)
        if errors:
            first = min(errors, key=lambda r: errors[r][0])
            raised = {r: error for r, (_, error) in errors.items()}
            raise ProgramError(first, raised, len(self._ranks)) from raised[first]
        return [results[r] for r in range(len(self._ranks))]

    def close(self) -> None:
        for rank in self._ranks:
            rank.close()
        self._thread.join(10.0)


def serve(communicator: Communicator, address: tuple[str, int], token: bytes) -> None:
    """The program of a rank: do what comes until the connection ends."""
    connection = Connection(socket.create_connection((address[0], address[1])).detach())
    with connection:
        connection.send_bytes(token)
        connection.send(communicator.rank)
        while True:
            try:
                program, args = connection.recv()
            except (EOFError, OSError):
                return
            try:
                answer = pickle.dumps((True, 0.0, program(communicator, *args)))
            except BaseException as error:
                connection.send_bytes(pickle.dumps((False, time.monotonic(), error)))
                raise  # so that the others learn of it
            connection.send_bytes(answer)
