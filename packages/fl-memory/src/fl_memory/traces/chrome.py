"""Export to the JSON format of Chrome's ``about:tracing``, which Perfetto reads.

Format: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
Bytes are counters, lifetimes of blocks are asynchronous events, marks and refusals are instants.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fl_memory.traces.file import AnyPath, replacing
from fl_memory.traces.replay import AnyManager
from fl_memory.traces.timeline import timeline
from fl_memory.traces.trace import ALLOC, FREE, KINDS, Trace

__all__ = ["write_chrome"]


def write_chrome(
    trace: Trace, path: AnyPath, manager: AnyManager = "caching", *, hints: bool = True
) -> None:
    """Write ``trace``, replayed through ``manager``, to a file for Perfetto or ``about:tracing``.

    All of it, or nothing. Raises OSError where the file cannot be written.
    """
    with replacing(path) as file:
        file.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
        for place, event in enumerate(_events(trace, manager, hints)):
            line = json.dumps(event, separators=(",", ":"))
            file.write((",\n" if place else "").encode() + line.encode())
        file.write(b"\n]}\n")


def _events(trace: Trace, manager: AnyManager, hints: bool) -> Iterator[dict[str, Any]]:
    state = timeline(trace, manager, hints=hints)
    device = {"pid": 0}
    yield {"ph": "M", "name": "process_name", "args": {"name": trace.device}, **device}
    columns = ("kind", "block", "nbytes", "ns", "thread", "tag", "operation", "module", "phase")
    names: dict[int, str] = {}
    for row, cells in enumerate(trace.rows(*columns)):
        kind, block, nbytes, ns, thread, tag, *cause = cells
        about = {"ts": ns / 1000, "tid": thread, **device}
        if kind == ALLOC:
            operation, module, phase = (
                trace.tables[table][number]
                for table, number in zip(("operation", "module", "phase"), cause)
            )
            names[block] = operation or "block"
            sizes = {"nbytes": nbytes, "tag": trace.tables["tag"][tag]}
            args = {**sizes, "module": module, "phase": phase}
            yield {
                "ph": "b",
                "cat": "block",
                "id": block,
                "name": names[block],
                "args": args,
            } | about
        elif kind == FREE:
            yield {"ph": "e", "cat": "block", "id": block, "name": names.pop(block)} | about
        else:
            name = trace.tables["tag"][tag] if KINDS[kind] == "mark" else KINDS[kind]
            yield {"ph": "i", "s": "g", "name": name, "args": {"nbytes": nbytes}} | about
        if row < len(state.live):
            bytes_now = {"live": state.live[row], "used": state.used[row]}
            bytes_now["reserved"] = state.reserved[row]
            yield {"ph": "C", "name": "bytes", "args": bytes_now} | about
