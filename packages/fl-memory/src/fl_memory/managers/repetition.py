"""Where a sequence of requests repeats: steps of a program that does not mark them.

A round is a number of requests that equal the same number before them. As many bytes must be in
use as a round ago. This tells steps from layers: equal layers repeat within a step, but the memory
in use grows from one to the next.
"""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["Repetition"]

#: So many requests that have been there before are taken for the beginning of a repetition.
WINDOW = 16
#: The history ends here, so rounds have at most half as many requests.
MOST_REQUESTS = 1 << 16
_BASE, _MODULUS = 1_000_003, (1 << 61) - 1
_OLDEST = pow(_BASE, WINDOW, _MODULUS)


class Repetition:
    """Hears of each request, and tells where a round ends."""

    __slots__ = ("_fingerprint", "_keys", "_left", "_matches", "_period", "_places", "_used")

    def __init__(self) -> None:
        self._keys: list[Hashable] = []
        self._used: list[int] = []
        #: Where the latest window of each fingerprint (Rabin and Karp's) ends.
        self._places: dict[int, int] = {}
        self._fingerprint = 0
        self._period = 0  # the distance of the repetition that is being followed
        self._matches = 0  # requests that equal those a period before, without a gap
        self._left = 0  # requests until the round ends; 0: not known to repeat

    def add(self, key: Hashable, used_bytes: int) -> bool:
        """Whether a round ends with this request. ``used_bytes``: in use before it."""
        keys, used, period = self._keys, self._used, self._period
        if len(keys) >= MOST_REQUESTS:
            self._shorten()
        keys.append(key)
        used.append(used_bytes)
        count = len(keys)
        self._fingerprint = (self._fingerprint * _BASE + hash(key)) % _MODULUS
        if count > WINDOW:
            oldest = hash(keys[count - 1 - WINDOW])
            self._fingerprint = (self._fingerprint - oldest * _OLDEST) % _MODULUS
        if period and key == keys[count - 1 - period]:
            self._matches += 1
        else:
            self._period = self._left = 0
            self._find_period(count)
        self._places[self._fingerprint] = count
        if self._left:
            self._left -= 1
            if self._left:
                return False
            self._left = self._period
            return True
        period = self._period
        if period and self._matches >= period and used_bytes == used[count - 1 - period]:
            self._left = period
            return True
        return False

    def _find_period(self, count: int) -> None:
        place = self._places.get(self._fingerprint, 0)
        keys = self._keys
        if place >= WINDOW and keys[place - WINDOW : place] == keys[count - WINDOW : count]:
            self._period, self._matches = count - place, WINDOW

    def _shorten(self) -> None:
        # A period that repeats is kept, and everything else forgotten.
        kept = self._period if self._left else 0
        if not kept:
            self._period = 0
        forgotten = len(self._keys) - kept
        del self._keys[:forgotten], self._used[:forgotten]
        self._places.clear()
        self._fingerprint = 0
        for key in self._keys[-WINDOW:]:
            self._fingerprint = (self._fingerprint * _BASE + hash(key)) % _MODULUS
