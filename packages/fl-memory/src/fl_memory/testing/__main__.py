"""``python -m fl_memory.testing NAME [--report FILE]``: the suite without a test file."""

from __future__ import annotations

import sys

from fl_memory.selection import REGISTRY
from fl_memory.testing.command import run

if __name__ == "__main__":
    sys.exit(
        run(
            None,
            registry=REGISTRY,
            suite="fl_memory.testing:MemoryManagerSuite",
            attribute="manager",
            prog="python -m fl_memory.testing",
        )
    )
