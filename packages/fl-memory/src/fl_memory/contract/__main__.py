"""``python -m fl_memory.contract [--check | --write]``: the pinned memory contract."""

from __future__ import annotations

import sys
from pathlib import Path

from fl_memory.contract import main
from fl_memory.manager import contract_manifest

PINNED = Path(__file__).resolve().parent.parent / "contracts" / "memory-1.0.json"

if __name__ == "__main__":
    sys.exit(main(PINNED, contract_manifest))
