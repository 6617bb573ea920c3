"""Settings from environment variables: parsing, and errors for invalid values."""

from __future__ import annotations

import os

from fl_tensor.errors import ArgumentError

_SWITCH = {"1": True, "on": True, "yes": True, "true": True}
_SWITCH |= {"0": False, "off": False, "no": False, "false": False}


def number(name: str, default: int, least: int, what: str = "a number") -> int:
    """The variable ``name``, ``default`` where it is not set or empty. Raises ArgumentError for
    what is no integer of at least ``least``; ``what`` says what it counts."""
    given = os.environ.get(name)
    if not given:
        return default
    try:
        found = int(given)
    except ValueError:
        found = least - 1
    if found < least:
        raise ArgumentError(f"{name}={given!r}: expected {what}, {least} or more")
    return found


def switch(name: str, default: bool) -> bool:
    """The variable ``name``: on (1, on, yes, true) or off (0, off, no, false), ``default`` where it
    is not set or empty. Raises ArgumentError for anything else."""
    given = os.environ.get(name)
    if not given:
        return default
    found = _SWITCH.get(given.strip().lower())
    if found is None:
        raise ArgumentError(f"{name}={given!r}: expected 1 (on) or 0 (off)")
    return found
