"""The launchers of several hosts: they start the same generation, and end it together.

The launcher of host 0 serves two stores. In one the launchers meet, for the whole job; the ranks of
each generation meet in another, on a port that the first one tells.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from dataclasses import dataclass

from fl_dist.errors import ArgumentError, DistTimeoutError
from fl_dist.store import StoreError
from fl_dist.store.tcp import TCPStore
from fl_dist.store.wire import address

#: Seconds that the launchers wait for one another at the beginning; between two looks into the
#: store; without a sign of life; and at the end.
MEETING, LOOK, SILENCE, FAREWELL = 600.0, 0.5, 30.0, 10.0


@dataclass(frozen=True)
class Place:
    """One generation of a job as a host sees it.

    store, token, job, world_size  as in ``RankInfo``
    node, nodes  number of this host, and of how many
    ranks        those of this host
    master       host and port for scripts that read MASTER_ADDR and MASTER_PORT
    """

    store: str
    token: str
    job: str
    world_size: int
    node: int
    nodes: int
    ranks: range
    master: tuple[str, int]


class Nodes:
    """This host among the hosts of a job. ``with Nodes.meet(...) as nodes``."""

    def __init__(self, store: TCPStore, token: str, node: int, count: int) -> None:
        self._store = store
        self._token = token
        self._node = node
        self._count = count
        self._generation = 0
        self._job = secrets.token_hex(4)
        self._next_look = 0.0
        self._ranks_store: TCPStore | None = None

    @classmethod
    def meet(cls, url: str, token: str, node: int, count: int) -> Nodes:
        """Open the launchers' store. Raises ArgumentError, StoreError or DistTimeoutError."""
        if not 0 <= node < count:
            raise ArgumentError(f"--node {node} of --nodes {count}: expected 0..{count - 1}")
        if not url.startswith("tcp:"):
            raise ArgumentError(f"--store {url!r}: several hosts meet at tcp://HOST:PORT of host 0")
        if not token:
            raise ArgumentError(
                "FL_DIST_TOKEN is not set: give all hosts the same secret, so that nobody else "
                "on the network can join"
            )
        store = TCPStore.open(url, token, 0, node == 0, MEETING)
        nodes = cls(store, token, node, count)
        if store.add(f"node/{node}", 1) > 1:
            store.close()
            raise StoreError(f"host {node} has a launcher already: --node is to be different")
        return nodes

    def begin(self, generation: int, ranks: int) -> Place:
        """Agree on a generation with this number of ranks here."""
        self._generation = generation
        host, port = address(self._store.url)
        if self._node == 0:
            url = self._store.url.removesuffix(str(port)) + "0"  # any free port
            self._ranks_store = TCPStore.open(url, self._token, generation, True, MEETING)
            shared = {"store": self._ranks_store.url, "job": self._job}
            self._store.set(self._key("shared"), json.dumps(shared).encode())
        self._store.set(self._key(f"ranks/{self._node}"), b"%d" % ranks)
        counts = [int(self._get(f"ranks/{node}", node)) for node in range(self._count)]
        shared = json.loads(self._get("shared", 0))
        first = sum(counts[: self._node])
        return Place(
            store=shared["store"],
            token=self._token,
            job=shared["job"],
            world_size=sum(counts),
            node=self._node,
            nodes=self._count,
            ranks=range(first, first + ranks),
            master=(host, port + 1),
        )

    def failed(self) -> bool:
        """Whether a rank of any host has failed, or host 0 is gone. Tells that this one is alive.
        Asks the store only now and then."""
        if time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + LOOK
        try:
            self._store.add(f"alive/{self._node}", 1)
            self._store.get(self._key("failure"), 0.0)
        except DistTimeoutError:
            return False
        except StoreError:
            return True
        return True

    def fail(self, status: int, words: str) -> None:
        """Tell the other hosts of a failure here; the first one of the generation counts."""
        if self._store.add(self._key("failures"), 1) == 1:
            said = {"status": status, "words": f"{words} on host {self._node}"}
            self._store.set(self._key("failure"), json.dumps(said).encode())

    def end(self, status: int) -> tuple[int, str]:
        """Wait until the ranks of all hosts have ended: status and words of the first failure."""
        if status:
            self.fail(status, f"the ranks ended with status {status}")
        self._store.set(self._key(f"ended/{self._node}"), b"")
        for node in range(self._count):
            self._wait_for_end(node)
        if self._ranks_store is not None:
            self._ranks_store.close()
            self._ranks_store = None
        try:
            said = json.loads(self._store.get(self._key("failure"), 0.0))
        except DistTimeoutError:
            return 0, ""
        return int(said["status"]), str(said["words"])

    def _wait_for_end(self, node: int) -> None:
        beats, silent_since = -1, time.monotonic()
        while True:
            self.failed()
            try:
                self._store.get(self._key(f"ended/{node}"), LOOK)
                return
            except DistTimeoutError:
                now = self._store.add(f"alive/{node}", 0)
            if now != beats:
                beats, silent_since = now, time.monotonic()
            elif time.monotonic() > silent_since + SILENCE:
                raise DistTimeoutError(
                    f"the launcher of host {node} has not been heard of for {SILENCE:g} s"
                )

    def _key(self, name: str) -> str:
        return f"generation/{self._generation}/{name}"

    def _get(self, name: str, node: int) -> bytes:
        try:
            return self._store.get(self._key(name), MEETING)
        except DistTimeoutError:
            raise DistTimeoutError(
                f"the launcher of host {node} of {self._count} has not come after {MEETING:g} s"
            ) from None

    def __enter__(self) -> Nodes:
        return self

    def __exit__(self, *exception: object) -> None:
        """Leave; host 0, which serves, leaves last."""
        with contextlib.suppress(StoreError, DistTimeoutError):
            self._store.set(f"left/{self._node}", b"")
            for node in range(self._count if self._node == 0 else 0):
                self._store.get(f"left/{node}", FAREWELL)
        if self._ranks_store is not None:
            self._ranks_store.close()
        self._store.close()
