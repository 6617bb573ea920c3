"""Communicators by name: the built-in ones and those that other distributions offer."""

from __future__ import annotations

from fl_dist.communicator import Communicator
from fl_memory.contract import Version
from fl_memory.plugins import Registry

REGISTRY = Registry(
    group="fl.dist.v1",
    what="communicator",
    host=Version(1, 0),
    host_package="fl-dist",
    base=Communicator,
    builtins={
        "local": "fl_dist.local:LocalCommunicator",
        "processes": "fl_dist.processes:ProcessesCommunicator",
        "threads": "fl_dist.threads:ThreadsCommunicator",
    },
)


def communicators() -> list[str]:
    """The names that ``load`` knows; nothing is imported."""
    return REGISTRY.names()


def load(name: str) -> type[Communicator]:
    """The communicator class of that name (or ``"module:Class"``), its contract negotiated.

    Raises PluginError (unknown, broken, offered twice) or ContractError (too new, no version).
    """
    found: type[Communicator] = REGISTRY.load(name)
    return found
