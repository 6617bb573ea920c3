"""Records of a profile as events of Chrome's Trace Event Format, which Perfetto reads, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fl_tensor.wrappers.profile import Record

_PROCESS = 1


def events(records: Sequence[Record], in_use: Sequence[tuple[int, str, int]]) -> dict[str, Any]:
    """A complete event ("X") per record, a counter ("C") per change of the bytes in use; times in
    microseconds from the first."""
    begin = min([r.start for r in records] + [t for t, _, _ in in_use], default=0)
    threads = {ident: i + 1 for i, ident in enumerate(dict.fromkeys(r.thread for r in records))}
    made: list[dict[str, Any]] = [_name("process_name", 0, "fl_tensor")]
    made += [_name("thread_name", i, f"thread {i}") for i in threads.values()]
    for record in records:
        made.append(
            {
                "ph": "X",
                "name": record.name,
                "cat": record.kind,
                "ts": (record.start - begin) / 1e3,
                "dur": record.duration / 1e3,
                "pid": _PROCESS,
                "tid": threads[record.thread],
                "args": _arguments(record),
            }
        )
    for when, manager, live in in_use:
        made.append(
            {
                "ph": "C",
                "name": f"memory in use ({manager})",
                "ts": (when - begin) / 1e3,
                "pid": _PROCESS,
                "args": {"bytes": live},
            }
        )
    return {"traceEvents": made, "displayTimeUnit": "ms"}


def _arguments(record: Record) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if record.operands:
        found["operands"] = [f"{dtype}{shape}" for dtype, shape in record.operands]
    if record.backend:
        found["backend"] = record.backend
    if record.error:
        found["error"] = record.error
    return found


def _name(what: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": _PROCESS, "tid": thread, "args": {"name": name}}
