"""The store: a small table of bytes through which the ranks of a job find one another.

A launcher names it in a URL (``file:/folder``, ``tcp://host:port``). The values are addresses and
counters, no tensors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from fl_dist.errors import ArgumentError, DistError

#: Limits of every store, in bytes.
KEY_LIMIT = 1024
VALUE_LIMIT = 1 << 20


class StoreError(DistError):
    """The store cannot be opened, refuses this process, or is gone."""


class Store(ABC):
    """One job's table of bytes. Subclass it, state ``CONTRACT`` in your class, write the methods.

    Every call may come from several threads. A generation sees nothing that another generation of
    the job wrote. A distribution offers its store in the entry-point group ``fl.dist.store.v1``
    under the scheme of its URLs.
    """

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)

    @classmethod
    @abstractmethod
    def open(cls, url: str, token: str, generation: int, server: bool, timeout: float) -> Store:
        """The store behind ``url``.

        Rank 0 passes ``server=True``: it serves or creates the store where nobody else does. The
        others wait for it, ``timeout`` seconds at most. Raises StoreError (wrong token, stale
        generation, another job, not a store) or DistTimeoutError.
        """

    @abstractmethod
    def set(self, key: str, value: bytes) -> None:
        """Write ``value``: at once readable as a whole."""

    @abstractmethod
    def get(self, key: str, timeout: float) -> bytes:
        """The value of ``key``; waits until it is there, DistTimeoutError after ``timeout`` s."""

    @abstractmethod
    def add(self, key: str, n: int) -> int:
        """Add ``n`` to a counter that starts at 0; the new count. No two callers get the same.

        ``get`` reads the counter as decimal digits.
        """

    @abstractmethod
    def delete(self, prefix: str) -> None:
        """Remove every key that begins with ``prefix``."""

    @abstractmethod
    def close(self) -> None:
        """Leave the store; where this process served it, it ends for all. Idempotent."""

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def check_key(key: str) -> bytes:
    """The key in UTF-8; ArgumentError where it is too long."""
    if not isinstance(key, str) or not key:
        raise ArgumentError(f"[store] key {key!r}: expected text")
    raw = key.encode()
    if len(raw) > KEY_LIMIT:
        raise ArgumentError(f"[store] a key of {len(raw)} bytes: at most {KEY_LIMIT}")
    return raw


def check_value(key: str, value: bytes) -> bytes:
    """The value as bytes; ArgumentError where it is too long or no bytes."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise ArgumentError(f"[store] {key!r}: expected bytes, got {type(value).__name__}")
    raw = bytes(value)
    if len(raw) > VALUE_LIMIT:
        raise ArgumentError(f"[store] {key!r}: {len(raw)} bytes; a value has at most {VALUE_LIMIT}")
    return raw


def counter(key: str, value: bytes) -> int:
    """The count that a value holds; StoreError where it is none."""
    try:
        return int(value)
    except ValueError:
        raise StoreError(f"[store] {key!r} holds {value[:40]!r}, which is no counter") from None
