"""A communicator whose messages are keys of the store: slow, but it needs nothing but the store.

The tests of the launchers use it, so that they test no other transport.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import fl_tensor as ft
from fl_dist import Communicator, Deadline, DistTimeoutError, RankInfo, open_store, rendezvous
from fl_dist.store import Store
from fl_tensor import Tensor


class StoreCommunicator(Communicator):
    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)
    name = "store"
    capabilities = frozenset({"agreement"})

    def __init__(self, info: RankInfo, store: Store) -> None:
        super().__init__(info.rank, info.world_size)
        self._store = store
        self._sent: Counter[str] = Counter()
        self._received: Counter[str] = Counter()

    @classmethod
    def join(cls, info: RankInfo, *, timeout: float | None = None) -> StoreCommunicator:
        seconds = timeout or cls.timeout
        server = info.rank == 0
        store = open_store(info.store, info.token, info.generation, server, timeout=seconds)
        try:
            rendezvous(store, info, cls.name, timeout=seconds)
        except BaseException:
            store.close()
            raise
        communicator = cls(info, store)
        communicator.timeout = seconds
        return communicator

    def do_send(self, x: Tensor, dst: int, tag: int, channel: int, deadline: Deadline) -> None:
        line = f"message/{channel}/{tag}/{self.rank}/{dst}"
        text = " ".join([str(x.dtype), *map(str, x.shape)])
        self._store.set(f"{line}/{self._sent[line]}", text.encode() + b"\n" + x.tobytes())
        self._sent[line] += 1

    def do_recv(
        self, src: int, tag: int, channel: int, deadline: Deadline, like: Tensor | None = None
    ) -> Tensor:
        line = f"message/{channel}/{tag}/{src}/{self.rank}"
        key = f"{line}/{self._received[line]}"
        try:
            message = self._store.get(key, deadline.remaining())
        except DistTimeoutError:
            raise deadline.error(f"rank {src}") from None
        self._received[line] += 1
        self._store.delete(key)
        text, _, content = message.partition(b"\n")
        dtype, *shape = text.decode().split()
        return ft.frombytes(content, tuple(map(int, shape)), ft.dtype(dtype))

    def do_close(self, deadline: Deadline) -> None:
        """Rank 0, which serves the store, leaves last."""
        self._store.set(f"left/{self._store.add('left', 1)}", b"")
        if self.rank == 0:
            for number in range(1, self.world_size + 1):
                self._store.get(f"left/{number}", deadline.remaining())
        self._store.close()

    def abort(self, cause: str) -> None:
        super().abort(cause)
        self._store.close()
