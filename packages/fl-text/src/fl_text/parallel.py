"""Control of the tokenizer library's threads.

The library reads TOKENIZERS_PARALLELISM whenever it starts work, and a process that forks after it
used threads may hang. If the user sets the variable, it stays. Otherwise it is set to false when a
tokenizer is first made, and to true only while a tokenizer is trained or a corpus encoded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from fl_memory import free_after_fork

_VARIABLE = "TOKENIZERS_PARALLELISM"

_lock = free_after_fork(Lock())
_ours = False
_inside = 0


def settle() -> None:
    """Decide for the user, unless the user did."""
    global _ours
    with _lock:
        if _VARIABLE not in os.environ:
            os.environ[_VARIABLE] = "false"
            _ours = True


@contextmanager
def many_threads() -> Iterator[None]:
    """Let the library use all cores inside, unless the user decided otherwise."""
    settle()
    _turn(+1)
    try:
        yield
    finally:
        _turn(-1)


def _turn(step: int) -> None:
    global _inside, _ours
    with _lock:
        before = "true" if _inside else "false"
        _inside += step
        if _ours and os.environ.get(_VARIABLE) != before:
            _ours = False  # the user has set it meanwhile
        if _ours:
            os.environ[_VARIABLE] = "true" if _inside else "false"
