"""The contract cards in docs/contracts: a page of Markdown per contract, checked in.

python tools/contract_cards.py [--check | --write]

A card is made of the pinned JSON and the docstrings; one that is out of date fails.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fl_dist.contract import PINNED as DIST
from fl_memory.contract.memory import PINNED as MEMORY
from fl_tensor.contract import PINNED as TENSOR
from fl_tensor.kernels.contract import PINNED as KERNELS

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "contracts"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare (default)")
    parser.add_argument("--write", action="store_true", help="write what is out of date")
    given = parser.parse_args(argv)
    stale = 0
    for contract in (MEMORY, TENSOR, KERNELS, DIST):
        path, text = FOLDER / f"{contract.path().stem}.md", contract.card()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if given.write:
            path.write_text(text, encoding="utf-8")
            print(f"{path.name}: written")
        else:
            stale += 1
            print(f"{path.name} is out of date: python tools/contract_cards.py --write")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
