"""``python -m fl_dist``: the command ``fl-dist``."""

from __future__ import annotations

import sys

from fl_dist.cli import main

if __name__ == "__main__":
    sys.exit(main())
