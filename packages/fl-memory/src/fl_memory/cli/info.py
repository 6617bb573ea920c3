"""``fl-memory info``: the installed managers and device memories, or why they cannot be used."""

from __future__ import annotations

import argparse
import json
from typing import Any

from fl_memory._version import __version__
from fl_memory.device import DEVICES
from fl_memory.errors import FlError
from fl_memory.manager import HOST
from fl_memory.plugins import Registry
from fl_memory.selection import REGISTRY

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Print what is installed; 0 also when a part of it is broken."""
    parser = argparse.ArgumentParser(
        prog="fl-memory info",
        description="List the installed memory managers and device memories: where each comes "
        "from, or why it cannot be used.",
    )
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    given = parser.parse_args(arguments)
    found: dict[str, Any] = {
        "version": __version__,
        "contract": str(HOST),
        "managers": [_facts(REGISTRY, name) for name in REGISTRY.names()],
        "devices": [_facts(DEVICES, name) for name in DEVICES.names()],
    }
    if given.json:
        print(json.dumps(found, indent=1))
        return 0
    print(f"fl-memory {__version__}, contract memory {HOST}")
    for title in ("managers", "devices"):
        print(title)
        for facts in found[title]:
            print(f"  {facts['name']:<12} {facts['origin']:<20} {facts['class'] or facts['error']}")
    return 0


def _facts(registry: Registry, name: str) -> dict[str, Any]:
    facts = {
        "name": name,
        "origin": registry.origin(name) or f"fl-memory {__version__}",
        "class": None,
        "error": None,
    }
    try:
        cls = registry.load(name)
    except FlError as error:
        return {**facts, "error": str(error)}
    return {**facts, "class": f"{cls.__module__}:{cls.__qualname__}"}
