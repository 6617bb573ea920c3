"""Control-C while a computation writes over its operands.

Half of an update of all parameters cannot be run again: what it read is gone, and with it the
model. So the first SIGINT then waits until the results are there, as it waits for any call into C;
a second one acts at once. Python runs handlers of signals in the main thread alone.
"""

from __future__ import annotations

import signal
import threading
from typing import Any

_handler: Any = None  # the program's, while it waits
_came = False


def hold() -> None:
    """Let SIGINT wait until ``release``."""
    global _handler
    if _handler is not None or not _is_main():
        return
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):  # else it ends the process, or nobody is told
        _handler = handler
        signal.signal(signal.SIGINT, _note)


def release() -> None:
    """SIGINT acts as before ``hold``; one that came meanwhile does so now."""
    global _handler, _came
    if _handler is None or not _is_main():
        return
    handler, came = _handler, _came
    try:
        signal.signal(signal.SIGINT, handler)
    finally:
        _handler, _came = None, False
    if came:
        signal.raise_signal(signal.SIGINT)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _note(number: int, frame: Any) -> None:
    global _came
    if _came:
        _handler(number, frame)
    _came = True
