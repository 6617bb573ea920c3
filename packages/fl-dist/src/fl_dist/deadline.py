"""Timeouts of operations, and their error."""

from __future__ import annotations

import time

from fl_dist.errors import ArgumentError, DistTimeoutError


class Deadline:
    """A point in time that all steps of one operation share.

    where     prefix of messages: ``"[all_reduce #3] rank 0 of 4"``
    seconds   how long may be waited in all
    explicit  whether the caller said so (else it is the communicator's default)
    """

    __slots__ = ("at", "explicit", "seconds", "where")

    def __init__(self, timeout: float | None, where: str, default: float = 600.0) -> None:
        seconds = default if timeout is None else timeout
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not seconds > 0:
            raise ArgumentError(f"{where}: timeout {seconds!r}: expected seconds greater than 0")
        self.seconds = float(seconds)
        self.explicit = timeout is not None
        self.where = where
        self.at = time.monotonic() + self.seconds

    @classmethod
    def past(cls, where: str) -> Deadline:
        """A deadline that is over: for a look that must not wait."""
        made = cls(1.0, where)
        made.at = 0.0
        return made

    def remaining(self) -> float:
        """Seconds left; 0.0 when there are none."""
        return max(0.0, self.at - time.monotonic())

    def error(self, what: str) -> DistTimeoutError:
        """The error to raise when time is up; ``what`` names what was waited for."""
        return DistTimeoutError(
            f"{self.where}: gave up after {self.seconds:g} s waiting for {what}; if the others are "
            "only slow, pass a larger timeout"
        )
