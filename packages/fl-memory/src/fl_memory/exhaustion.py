"""The error of exhausted memory: the figures, what holds most, and what to try.

The holders are found among the objects that the garbage collector knows, when it is too late. So
nothing is recorded before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fl_memory.block import Block
from fl_memory.errors import OutOfMemoryError
from fl_memory.observation import origin_of

if TYPE_CHECKING:
    from fl_memory.account import Account
    from fl_memory.manager import MemoryManager

__all__ = ["explained", "largest_holders"]

_FRAGMENTED = (
    "what is cached is in smaller pieces: call release_cached() between phases, or try another "
    "manager (fl_memory.available())"
)


def largest_holders(
    manager: MemoryManager, device: str, count: int = 3
) -> tuple[tuple[object, int, int], ...]:
    """The ``count`` largest holders of live bytes: (what, bytes, number of blocks), largest first.

    What: operation and module, of blocks that an active ``observe`` knows, else the tag.
    """
    import gc  # here alone

    held: dict[str, tuple[object, int, int]] = {}
    for found in gc.get_objects():
        if type(found) is Block and _is_live(found, manager, device):
            what = _origin(found) or found.tag
            _, nbytes, blocks = held.get(str(what), (what, 0, 0))
            held[str(what)] = what, nbytes + found.nbytes, blocks + 1
    return tuple(sorted(held.values(), key=lambda entry: -entry[1])[:count])


def explained(
    error: OutOfMemoryError, nbytes: int, account: Account, manager: MemoryManager
) -> OutOfMemoryError:
    """``error`` of the device, with the figures of the account and the largest holders."""
    memory = account.memory
    cached, largest = account.reserved_bytes - account.used_bytes, account.largest_free_chunk()
    return OutOfMemoryError(
        nbytes,
        memory.device,
        live_bytes=account.live_bytes,
        cached_bytes=cached,
        largest_free_chunk=largest,
        capacity=memory.capacity(),
        limit=error.limit,
        holders=largest_holders(manager, memory.device),
        hint=_FRAGMENTED if cached >= nbytes > largest > 0 else error.hint,
    )


def _origin(block: Block) -> str:
    """ "matmul in encoder.0"; "" if no observer saw the allocation."""
    cause, _ = origin_of(block.manager, block.number) or (None, "")
    if cause is None or not cause.operation + cause.module:
        return ""
    return " in ".join(part for part in (cause.operation, cause.module) if part)


def _is_live(block: Block, manager: MemoryManager, device: str) -> bool:
    # Another thread may be in the middle of the constructor.
    owner = getattr(block, "manager", None)
    return owner is manager and block.device == device and getattr(block, "address", 0) != 0
