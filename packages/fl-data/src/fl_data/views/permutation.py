"""Permutations: the order of random keys for small data sets, a computed order for large ones."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import fl_tensor as ft

_MATERIALISED = 1 << 20
"""A permutation of at most so many numbers is kept; a longer one is computed where it is asked."""

_ROUNDS = 6
_BLOCK = 1 << 12
"""So many neighbours are computed together: NumPy takes 0.4 us for each, Python 3 us for one."""

_MASK = (1 << 64) - 1
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def permutation(n: int, generator: ft.Generator) -> Sequence[int]:
    """`0 .. n - 1` in random order, which depends on `generator` alone. Up to 2^20 numbers every
    order is equally likely, to 2^-62; above that see `FeistelPermutation`."""
    if n <= _MATERIALISED:
        if n < 2 or not ft.current_backend().has_values:  # where there are only shapes, any will do
            return array("q", range(n))
        order = array("q")
        order.frombytes(generator.permutation(n).tobytes())
        return order
    keys = generator.integers(0, 1 << 62, (_ROUNDS,), backend="numpy").tolist()
    return FeistelPermutation(n, keys)


class FeistelPermutation(Sequence[int]):
    """The numbers `0 .. n - 1` in a pseudorandom order that is computed and takes no memory.

    A Feistel network of `len(keys)` rounds, an even number, over `a * b >= n` places, `a` and `b`
    close to the root of `n`; a value outside goes through it again (Black and Rogaway, "Ciphers
    with arbitrary finite domains", 2002). Rounds are hashed as in SplitMix64. Among the orders that
    `keys` select, the places of a few samples look independent; not every one of the `n!` orders is
    possible.

    A slice is an `array("q")`. Several threads may ask at once.
    """

    def __init__(self, n: int, keys: Sequence[int]) -> None:
        self._n, self._keys = n, tuple(keys)
        self._sides = (side := math.isqrt(n - 1) + 1, -(-n // side))
        #: The block that was computed last and where it begins, and the last place outside it.
        self._block: tuple[int, array[int]] = (0, array("q"))
        self._last = -1

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> array[int]: ...
    def __getitem__(self, place: int | slice) -> int | array[int]:
        if isinstance(place, slice):
            return self.take(range(*place.indices(self._n)))
        start, values = self._block
        if start <= place < start + len(values):
            return values[place - start]
        if not -self._n <= place < self._n:
            raise IndexError(f"place {place} of a permutation of {self._n} numbers")
        place %= self._n
        near, self._last = abs(place - self._last) < _BLOCK, place
        if not near:
            return self._one(place)
        start = place - place % _BLOCK  # those beside it will be asked for, too
        values = self._many(range(start, min(start + _BLOCK, self._n)))
        self._block = start, values
        return values[place - start]

    def __iter__(self) -> Iterator[int]:
        for start in range(0, self._n, _BLOCK):
            yield from self._many(range(start, min(start + _BLOCK, self._n)))

    def take(self, places: Sequence[int]) -> array[int]:
        """The values at `places`, which are not negative, and below `n`."""
        found = array("q")
        for start in range(0, len(places), _BLOCK):
            found += self._many(places[start : start + _BLOCK])
        return found

    def _many(self, places: Iterable[int]) -> array[int]:
        a, b = self._sides
        x = ft.asarray(array("Q", places), backend="numpy")
        left = x // b
        right = x - left * b
        for number, key in enumerate(self._keys):
            side = b if number % 2 else a
            z = (right ^ key) * _FIRST
            z = (z ^ (z >> 32)) * _SECOND
            moved = left + ((z >> 32) * side >> 32)
            left, right = right, moved - (moved >= side).astype("uint64") * side
        found = array("q")
        found.frombytes((left * b + right).tobytes())
        if max(found, default=0) >= self._n:  # a few of them
            found = array("q", [x if x < self._n else self._one(x) for x in found])
        return found

    def _one(self, place: int) -> int:
        a, b = self._sides
        while True:
            left, right = divmod(place, b)
            for number, key in enumerate(self._keys):
                side = b if number % 2 else a
                z = (right ^ key) * _FIRST & _MASK
                z = (z ^ z >> 32) * _SECOND & _MASK
                left, right = right, (left + ((z >> 32) * side >> 32)) % side
            place = left * b + right
            if place < self._n:
                return place
