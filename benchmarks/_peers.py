"""Libraries that a benchmark compares with or counts: what is said where one is not installed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec


def require(modules: Iterable[str], way_out: str) -> None:
    """End the program, with what to do instead, unless all of these modules are there."""
    missing = [name for name in dict.fromkeys(modules) if not installed(name)]
    if missing:
        raise SystemExit(f"not installed: {', '.join(missing)}; {way_out}")


def installed(module: str) -> bool:
    return find_spec(module) is not None
