"""``fl_memory`` and ``fl_dist``, and what of ``fl_tensor`` looks into a run."""

from __future__ import annotations

import tempfile
from typing import Any

import fl_dist as dist
import fl_memory as mem
from cases import Target
from targets.making import target, x


def allocated(nbytes: Any = 64, **options: Any) -> Any:
    manager = mem.get("caching")
    manager.free(manager.alloc(nbytes, device="cpu", **options))


def reduced(value: Any, **options: Any) -> Any:
    return dist.local().all_reduce(value, **options)


def store() -> Any:
    return dist.open_store("file:" + tempfile.mkdtemp(), server=True)


def done() -> Any:
    return dist.local().barrier(async_op=True)


TARGETS: list[Target] = [
    target("mem.get", {"name": "caching"}, name="choice"),
    target("mem.use", {"manager": "caching"}, manager="choice"),
    target("mem.device_memory", {"device": "cpu"}, device="device"),
    target("mem.observe", {"max_events": 10}, max_events="count"),
    target("mem.on_usage", {"budget": 1 << 50, "callback": lambda: print}, budget="positive"),
    target(
        "mem.get to allocate", {"nbytes": 64}, nbytes="count", alignment="positive", call=allocated
    ),
    target(
        "mem.register_device",
        {"kind": "x1", "factory": lambda: mem.device_memory},
        kind="string",
        factory="callable",
    ),
    target("dist.load", {"name": "local"}, name="choice"),
    target("dist.local reduces", {"value": x}, value="required_array", call=reduced),
    target(
        "dist.average_gradients",
        {"communicator": dist.local, "gradients": lambda: [x()]},
        communicator="module",
        gradients="iterable",
    ),
    target(
        "dist.even_counts",
        {"length": 5, "world_size": 2},
        length="count",
        world_size="positive",
    ),
    target(
        "dist.all_gather_object",
        {"communicator": dist.local, "value": 1},
        communicator="module",
    ),
    target(
        "dist.broadcast_object",
        {"communicator": dist.local, "value": 1},
        communicator="module",
    ),
    target(
        "dist.BucketReducer",
        {"communicator": dist.local},
        communicator="module",
        bucket_bytes="positive",
        first_bucket_bytes="positive",
    ),
    target(
        "dist.CompressedReducer", {"communicator": dist.local}, communicator="module", dtype="dtype"
    ),
    target(
        "dist.mesh",
        {"communicator": dist.local},
        communicator="module",
        tensor="positive",
        pipe="positive",
    ),
    target(
        "dist.open_store",
        {"url": lambda: "file:" + tempfile.mkdtemp(), "server": True},
        url="string",
        token="string",
        generation="count",
    ),
    target(
        "dist.rendezvous",
        {"store": store, "info": lambda: dist.RankInfo(), "communicator": "local"},
        store="module",
        info="module",
    ),
    target("dist.wait_any", {"works": lambda: [done()]}, works="iterable"),
    target("ft.profile", {}, path=[]),
    target("ft.wrapped", {"backend": "numpy"}, backend="device"),
    target("ft.synchronize", {}, device="device"),
    target("ft.Device", {"kind": "cpu"}, kind="string", index="count"),
    target("ft.Tensor moved", {"0": "cpu"}, _0="device", call=lambda device: x().to(device)),
    target(
        "ft.Tensor reshaped", {"0": (3, 2)}, _0="other_shape", call=lambda shape: x().reshape(shape)
    ),
    target("ft.Tensor cast", {"0": "float32"}, _0="dtype", call=lambda dtype: x().astype(dtype)),
    target("ft.Tensor indexed", {"0": 0}, _0="choice", call=lambda index: x()[index]),
    target(
        "ft.Tensor with too many indices",
        {"0": 1},
        _0="absurd",
        call=lambda n: x()[(None,) * min(n, 100)],
    ),
]
UNTRIED: dict[str, str] = {
    "mem.free_after_fork": "registers a lock of the standard library as it is",
    "dist.Communicator": "an interface; its kit tests it",
    "dist.LocalCommunicator": "takes no arguments",
    "dist.ThreadsCommunicator": "made by a launch",
    "dist.Reducer": "an interface",
    "dist.InlineReducer": "takes a communicator, and nothing is done before a gradient comes",
    "dist.RankInfo": "plain data; who joins with it checks it",
    "dist.Mesh": "what `mesh` returns",
    "dist.Store": "an interface; its tests are those of the stores",
    "dist.environment": "variables of the environment are texts; its own tests try them",
    "dist.init": "a name and seconds; its own tests try them, in processes of their own",
    "dist.Work": "what a collective returns",
    "dist.Deadline": "of the modules below",
    "dist.communicators": "takes no arguments",
    "mem.Account": "the books of a manager; made by it",
    "mem.AccountingManager": "a base class of managers",
    "mem.Block": "made by a manager",
    "mem.Cause": "a tuple that events carry",
    "mem.cause": "carries what it is given",
    "mem.current_cause": "takes no arguments",
    "mem.current_tag": "takes no arguments",
    "mem.DeviceMemory": "an interface of devices",
    "mem.limit": "in effect only within a block; the tests of fl-memory try it",
    "mem.mark": "any name, and a number that observers are told",
    "mem.memory_snapshot": "a manager chooses the blocks; any other object has none",
    "mem.register_instrumentation": "for layers, which register when they are imported",
    "mem.tagged": "a tag is any object",
    "mem.Usage": "a tuple that observers return",
    "mem.Event": "what observers are told",
    "mem.MemoryManager": "an interface; its kit tests it",
    "mem.Registry": "for packages that define contracts; its own tests try it",
    "mem.Stats": "what a manager returns",
    "mem.available": "takes no arguments",
    "mem.current": "takes no arguments",
}
