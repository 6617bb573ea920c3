"""``memory_snapshot``: all blocks that are alive, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fl_memory.block import Block
from fl_memory.causes import Cause
from fl_memory.observation import origin_of

if TYPE_CHECKING:
    from fl_memory.manager import MemoryManager

__all__ = ["memory_snapshot"]


def memory_snapshot(manager: MemoryManager | None = None) -> list[dict[str, Any]]:
    """The live blocks of ``manager``, or of all managers, the largest first; ``json.dumps`` takes
    them.

    Each has "manager" (its name), "device", "address", "nbytes", "capacity", "number", "stream" and
    "tag" (None or a text), "operation", "module", "phase", "step" and "site". The last five are
    known of blocks whose allocation an active ``observe`` has seen, and are "" (step: None) else.

    Nothing is kept for it while the program runs: the blocks are found among the objects that
    garbage collection knows. So it takes long (tens of milliseconds) and needs no observer.
    """
    found = [_entry(block) for block in _live_blocks() if manager in (None, block.manager)]
    return sorted(found, key=lambda entry: (-entry["nbytes"], entry["address"]))


def _live_blocks() -> list[Block]:
    import gc  # a module that ``import fl_memory`` need not load

    return [x for x in gc.get_objects() if isinstance(x, Block) and x.address]


def _entry(block: Block) -> dict[str, Any]:
    cause, site = origin_of(block.manager, block.number) or (None, "")
    return {
        "manager": block.manager.name,
        "device": block.device,
        "address": block.address,
        "nbytes": block.nbytes,
        "capacity": block.capacity,
        "number": block.number,
        "stream": None if block.stream is None else str(block.stream),
        "tag": None if block.tag is None else str(block.tag),
        **(cause or Cause())._asdict(),
        "site": site,
    }
