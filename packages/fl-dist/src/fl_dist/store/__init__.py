"""Stores by URL: where the ranks of a job meet."""

from __future__ import annotations

from fl_dist.deadline import Deadline
from fl_dist.errors import ArgumentError
from fl_dist.store.store import KEY_LIMIT as KEY_LIMIT
from fl_dist.store.store import VALUE_LIMIT as VALUE_LIMIT
from fl_dist.store.store import Store as Store
from fl_dist.store.store import StoreError as StoreError
from fl_memory.contract import Version
from fl_memory.plugins import Registry

__all__ = ["KEY_LIMIT", "REGISTRY", "Store", "StoreError", "VALUE_LIMIT", "open_store"]

REGISTRY = Registry(
    group="fl.dist.store.v1",
    what="store",
    host=Version(1, 0),
    host_package="fl-dist",
    base=Store,
    builtins={"file": "fl_dist.store.file:FileStore", "tcp": "fl_dist.store.tcp:TCPStore"},
)


def open_store(
    url: str, token: str = "", generation: int = 0, server: bool = False, *, timeout: float = 600.0
) -> Store:
    """The store behind ``url``: ``file:/folder``, ``tcp://host:port``, or the scheme of an
    installed one.

    token       the secret of the job, the same on all ranks; "" trusts whoever reaches the store
    generation  how often the job was restarted
    server      True on rank 0: serve or create it, unless it is served already
    timeout     seconds to wait for the one who serves

    Raises StoreError, DistTimeoutError, or PluginError for an unknown scheme.
    """
    if not isinstance(token, str):
        raise ArgumentError(f"[store] token {token!r}: expected a text")
    if isinstance(generation, bool) or not isinstance(generation, int) or generation < 0:
        raise ArgumentError(f"[store] generation {generation!r}: expected a number from 0")
    Deadline(timeout, "[store]")
    scheme = url.partition(":")[0] if isinstance(url, str) else ""
    if not scheme:
        raise ArgumentError(
            f"[store] {url!r}: expected file:/folder or tcp://host:port; FL_DIST_STORE sets it"
        )
    if scheme == "mpi":
        raise StoreError(
            "[store] mpi: ranks under mpiexec meet through MPI, which is no store; a communicator "
            "that needs one takes it from FL_DIST_STORE=file:/folder or tcp://host:port"
        )
    cls: type[Store] = REGISTRY.load(scheme)
    return cls.open(url, token, generation, server, timeout)
