"""``python -m fl_memory.contract [--check | --write | --freeze | --card]``: the memory contract."""

from __future__ import annotations

import sys

from fl_memory.contract.memory import PINNED

if __name__ == "__main__":
    sys.exit(PINNED.main())
