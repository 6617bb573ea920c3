"""``python -m fl_dist.testing NAME [--report FILE]``: the suite without a test file."""

from __future__ import annotations

import sys

from fl_dist.registry import REGISTRY
from fl_memory.testing.command import run

if __name__ == "__main__":
    sys.exit(
        run(
            None,
            registry=REGISTRY,
            suite="fl_dist.testing:CommunicatorSuite",
            attribute="communicator",
            prog="python -m fl_dist.testing",
        )
    )
