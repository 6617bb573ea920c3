"""Independent seeds out of a seed and counters: nothing depends on what was drawn before."""

from __future__ import annotations

_MASK = (1 << 64) - 1


def mix(seed: int, *counters: int) -> int:
    """A 63-bit seed that depends on `seed` and every counter (SplitMix64 after each)."""
    state = seed & _MASK
    for counter in counters:
        state = _splitmix((state + 0x9E3779B97F4A7C15 * (counter + 1)) & _MASK)
    return state >> 1


def _splitmix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)
