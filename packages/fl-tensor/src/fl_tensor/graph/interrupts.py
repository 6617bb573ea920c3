"""Delayed handling of SIGINT while a computation overwrites its operands.

A partial update of all parameters cannot be repeated: its operands, and thus the model, are lost.
So the first SIGINT (Control-C) is delayed until the results are stored, as by any call into C. A
second one acts at once. Python runs signal handlers in the main thread only.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` without conversions to enums
import signal
import threading
from typing import Any

__all__ = ["hold", "release"]

_SIGINT = int(signal.SIGINT)
_handler: Any = None  # the program's handler, while it is replaced
_is_pending = False


def hold() -> None:
    """Delay SIGINT until ``release``."""
    global _handler
    if _handler is not None or not _is_main():
        return
    handler = _signal.getsignal(_SIGINT)
    if callable(handler):  # else it ends the process or is ignored
        _handler = handler
        _signal.signal(_SIGINT, _delay)


def release() -> None:
    """Restore the handler of SIGINT, and deliver a delayed signal now."""
    global _handler, _is_pending
    if _handler is None or not _is_main():
        return
    handler, is_pending = _handler, _is_pending
    try:
        _signal.signal(_SIGINT, handler)
    finally:
        _handler, _is_pending = None, False
    if is_pending:
        signal.raise_signal(signal.SIGINT)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _delay(number: int, frame: Any) -> None:
    global _is_pending
    if _is_pending:
        _handler(number, frame)
    _is_pending = True
