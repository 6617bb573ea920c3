"""The meeting of all ranks of a job in its store, before the first collective."""

from __future__ import annotations

import base64
import json
import os
import platform
import socket
from typing import Any

from fl_dist._version import __version__
from fl_dist.deadline import Deadline
from fl_dist.errors import ArgumentError, DistTimeoutError
from fl_dist.rank_info import RankInfo
from fl_dist.store.store import Store, StoreError

#: Seconds that the others wait for the verdict of rank 0 beyond the time that it waits for them,
#: and seconds that rank 0 waits until all have read a verdict of failure.
SLACK, LINGER = 10.0, 5.0


def rendezvous(
    store: Store, info: RankInfo, communicator: str, payload: bytes = b"", timeout: float = 600.0
) -> list[bytes]:
    """Every rank's ``payload`` (an address, say), in rank order, once all have come.

    Rank 0 takes the ranks in the order in which they come, and publishes one verdict for all:
    so every rank gets the same error where one comes twice, with another world size, another
    communicator or another version of fl-dist (StoreError), or never (DistTimeoutError). Rank 0
    returns last, so that it may close the store at once.
    """
    Deadline(timeout, "[rendezvous]")
    if not isinstance(store, Store) or not isinstance(info, RankInfo):
        raise ArgumentError(
            f"[rendezvous] expected a Store and a RankInfo, got {store!r}, {info!r}"
        )
    mine = greeting(info, communicator, payload)
    place = store.add("rendezvous/arrivals", 1)
    store.set(f"rendezvous/arrival/{place}", json.dumps(mine).encode())
    if place > info.world_size:
        raise StoreError(
            f"[rendezvous] {who(mine)} came when all {info.world_size} had come: a rank was "
            f"started twice, or two jobs share the store {info.store}"
        )
    if info.rank == 0:
        said = verdict(store, mine, timeout)
        store.set("rendezvous/verdict", json.dumps(said).encode())
        wait_for_readers(store, said, timeout)
    else:
        try:
            said = json.loads(store.get("rendezvous/verdict", timeout + SLACK))
        except DistTimeoutError:
            raise DistTimeoutError(
                f"[rendezvous] gave up after {timeout:g} s: rank 0 of {info.world_size} did not "
                f"come to {info.store}"
            ) from None
        store.set(f"rendezvous/reader/{store.add('rendezvous/readers', 1)}", b"")
    if "late" in said:
        raise DistTimeoutError(f"[rendezvous] rank {info.rank}: {said['late']}")
    if "error" in said:
        raise StoreError(f"[rendezvous] rank {info.rank}: {said['error']}")
    return [base64.b64decode(text) for text in said["payloads"]]


def greeting(info: RankInfo, communicator: str, payload: bytes) -> dict[str, Any]:
    """What a rank says about itself: what has to be equal, and who it is."""
    return {
        "rank": info.rank,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "payload": base64.b64encode(payload).decode(),
        "equal": {
            "world size": info.world_size,
            "communicator": communicator,
            "version of fl-dist": __version__,
            "version of Python": ".".join(platform.python_version_tuple()[:2]),
            "generation": info.generation,
        },
    }


def verdict(store: Store, mine: dict[str, Any], timeout: float) -> dict[str, Any]:
    """What rank 0 finds about those who come: all payloads, or what is wrong."""
    wanted = mine["equal"]
    world_size: int = wanted["world size"]
    came: dict[int, dict[str, Any]] = {}
    deadline = Deadline(timeout, "[rendezvous]")
    for place in range(1, world_size + 1):
        try:
            other = json.loads(store.get(f"rendezvous/arrival/{place}", deadline.remaining()))
        except DistTimeoutError:
            missing = [str(r) for r in range(world_size) if r not in came]
            ranks = f"rank{'s' * (len(missing) > 1)} {', '.join(missing)} of {world_size}"
            return {
                "late": f"gave up after {timeout:g} s: {ranks} did not come",
                "readers": len(came) - 1,
            }
        if other["rank"] in came:
            first = came[other["rank"]]
            return {
                "error": f"rank {other['rank']} was started twice: {who(first)}, {who(other)}",
                "readers": world_size - 1,
            }
        for name, value in other["equal"].items():
            if value != wanted.get(name):
                return {
                    "error": f"the ranks differ in the {name}: {wanted.get(name)} in {who(mine)}, "
                    f"{value} in {who(other)}",
                    "readers": world_size - 1,
                }
        came[other["rank"]] = other
    payloads = [came[rank]["payload"] for rank in range(world_size)]
    return {"payloads": payloads, "readers": world_size - 1}


def wait_for_readers(store: Store, said: dict[str, Any], timeout: float) -> None:
    """Until the others have read the verdict; after a failure some may never come to do so."""
    deadline = Deadline(timeout if "payloads" in said else LINGER, "[rendezvous]")
    for number in range(1, said["readers"] + 1):
        try:
            store.get(f"rendezvous/reader/{number}", deadline.remaining())
        except DistTimeoutError:
            return


def who(said: dict[str, Any]) -> str:
    """A rank with its process and its host."""
    return f"rank {said['rank']} (process {said['pid']} on {said['host']})"
