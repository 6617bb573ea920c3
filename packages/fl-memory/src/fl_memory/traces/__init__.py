"""Traces of memory events: record a program once, replay it through any manager.

from fl_memory import traces

with traces.Recorder() as recorder:
    train()
traces.write(recorder.trace, "run.flmt")

trace = traces.read("run.flmt")
for row in traces.compare(trace, {"caching": "caching", "mine": MyManager}):
    print(row.manager, row.fits, row.replay.over, row.replay.internal, row.replay.external)

The command ``fl-memory`` does the same without a line of Python.
"""

from fl_memory.traces.addresses import AddressMemory
from fl_memory.traces.chrome import write_chrome
from fl_memory.traces.compare import Comparison, compare, minimum_capacity
from fl_memory.traces.file import MAX_ROWS, read, write
from fl_memory.traces.plans import planned_off_line, requests
from fl_memory.traces.recorder import Recorder
from fl_memory.traces.replay import AnyManager, Replay, replay
from fl_memory.traces.synthetic import buddy_adversary, phases, power_law, random_lengths
from fl_memory.traces.timeline import Range, Timeline, timeline
from fl_memory.traces.trace import COLUMNS, KINDS, TABLES, Trace

__all__ = [
    "AddressMemory",
    "AnyManager",
    "COLUMNS",
    "Comparison",
    "KINDS",
    "MAX_ROWS",
    "Range",
    "Recorder",
    "Replay",
    "TABLES",
    "Timeline",
    "Trace",
    "buddy_adversary",
    "compare",
    "minimum_capacity",
    "phases",
    "planned_off_line",
    "power_law",
    "random_lengths",
    "read",
    "replay",
    "requests",
    "timeline",
    "write",
    "write_chrome",
]
