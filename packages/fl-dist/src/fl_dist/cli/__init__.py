"""The command ``fl-dist``: one file per subcommand, imported when it is called.

Each has ``main(arguments) -> exit status``: 0 success, 1 an error of the library, 2 a usage error;
``run`` returns the status of the rank that failed first.
"""

from __future__ import annotations

from fl_dist._version import __version__
from fl_memory.subcommands import dispatch

COMMANDS = {
    "run": "start a script on N ranks, watch them, restart them",
    "bench": "latency and bandwidth of the collectives of a communicator",
}


def main(arguments: list[str] | None = None) -> int:
    """Run ``fl-dist``; returns the exit status."""
    return dispatch("fl-dist", __version__, __name__, COMMANDS, arguments)
