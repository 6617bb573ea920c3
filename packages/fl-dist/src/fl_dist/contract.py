"""The communicator contract as data, pinned in ``contracts/dist-1.0.json``.

python -m fl_dist.contract [--check | --write | --freeze | --card]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fl_dist import reduction
from fl_dist.arguments import TAG_LIMIT
from fl_dist.communicator import Communicator
from fl_dist.deadline import Deadline
from fl_dist.reducer import Reducer
from fl_dist.work import Work
from fl_memory import contract as pinned
from fl_memory.contract.cards import meanings
from fl_memory.contract.series import Contract

CAPABILITIES = {
    "agreement": "ranks that disagree on a collective all get MismatchError and stay in step",
    "ordered": "reductions combine in rank order, to the bit",
}


def manifest() -> dict[str, Any]:
    """What the contract promises, generated from the classes."""
    return pinned.manifest(
        "dist",
        Communicator.CONTRACT,
        {
            Communicator: ("CONTRACT", "name", "capabilities", "timeout"),
            Work: (),
            Deadline: (),
            Reducer: (),
        },
        reductions=list(reduction.OPS),
        capabilities=CAPABILITIES,
        tag_limit=TAG_LIMIT,
    )


PINNED = Contract(
    name="dist",
    folder=Path(__file__).resolve().parent / "contracts",
    build=manifest,
    descriptions=lambda: meanings((Communicator, Work, Deadline, Reducer)),
    module="fl_dist.contract",
    version_location="Communicator.CONTRACT in fl_dist/communicator.py",
)

if __name__ == "__main__":
    sys.exit(PINNED.main())
