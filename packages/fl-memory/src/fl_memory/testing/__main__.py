"""``python -m fl_memory.testing [--device] NAME [--report FILE]``: a suite without a test file."""

from __future__ import annotations

import argparse
import sys

from fl_memory.device import DEVICES
from fl_memory.selection import REGISTRY
from fl_memory.testing.command import run

if __name__ == "__main__":
    option = argparse.ArgumentParser(add_help=False)
    option.add_argument(
        "--device", action="store_true", help="NAME is a device memory, such as cpu; no manager"
    )
    given, others = option.parse_known_args()
    subject = "DeviceMemorySuite" if given.device else "MemoryManagerSuite"
    sys.exit(
        run(
            others,
            registry=DEVICES if given.device else REGISTRY,
            suite=f"fl_memory.testing:{subject}",
            attribute="memory" if given.device else "manager",
            prog="python -m fl_memory.testing",
            parents=[option],
        )
    )
