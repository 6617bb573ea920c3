"""The command ``fl-memory``: one file per subcommand, imported when it is called.

Each has ``main(arguments) -> exit status``: 0 success, 1 an error of the library or of a file, 2 a
usage error.
"""

from __future__ import annotations

from fl_memory._version import __version__
from fl_memory.subcommands import dispatch

COMMANDS = {
    "record": "run a Python program and write the trace of its memory events",
    "summary": "what a trace holds",
    "replay": "a trace through one manager",
    "compare": "figures of several managers on traces",
    "min-capacity": "the least memory on which a trace runs",
    "plot": "pictures of a trace",
    "export": "a trace for Perfetto or Chrome's about:tracing",
    "generate": "a synthetic trace",
    "info": "the installed managers and device memories",
}


def main(arguments: list[str] | None = None) -> int:
    """Run ``fl-memory``; returns the exit status."""
    return dispatch("fl-memory", __version__, __name__, COMMANDS, arguments)
