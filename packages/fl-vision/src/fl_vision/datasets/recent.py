"""`Recent`: the values that were asked for last, as far as there is room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any, Generic, TypeVar

from fl_memory import free_after_fork

T = TypeVar("T")


class Recent(Generic[T]):
    """Values by key, of at most `max_bytes` together. Threads may use it at once; a copy in another
    process begins empty."""

    def __init__(self, max_bytes: int) -> None:
        self._most, self._bytes = max_bytes, 0
        self._values: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._lock = free_after_fork(Lock())

    def get(self, key: Hashable) -> T | None:
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: Hashable, value: T, nbytes: int) -> None:
        with self._lock:
            if key in self._values or nbytes > self._most:
                return
            self._values[key] = value, nbytes
            self._bytes += nbytes
            while self._bytes > self._most:
                _, (_, gone) = self._values.popitem(last=False)
                self._bytes -= gone

    def __reduce__(self) -> tuple[Any, ...]:
        return Recent, (self._most,)
