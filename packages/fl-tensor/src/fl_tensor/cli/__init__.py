"""The command ``fl-tensor``: one file per subcommand, imported on demand.

Each has ``main(arguments) -> exit status``: 0 done, 1 something does not fit, 2 a wrong call.
"""

from __future__ import annotations

from fl_memory.subcommands import dispatch
from fl_tensor._version import __version__

COMMANDS = {
    "new-backend": "write a package with a backend that passes the kit, to be made your own",
    "backends": "the installed backends: what they offer, or why they cannot be loaded",
    "info": "the size of the contract and of the code",
    "conformance": "run the conformance kit on a backend",
    "contract": "print, compare and check the pinned contract",
}


def main(arguments: list[str] | None = None) -> int:
    """Run ``fl-tensor``; the exit status."""
    return dispatch("fl-tensor", __version__, __name__, COMMANDS, arguments)
