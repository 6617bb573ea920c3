"""``python -m fl_memory``: the command ``fl-memory``."""

from __future__ import annotations

import sys

from fl_memory.cli import main

if __name__ == "__main__":
    sys.exit(main())
