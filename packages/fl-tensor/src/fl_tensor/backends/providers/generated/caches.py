"""How large the caches of this processor are, as its system says."""

from __future__ import annotations

import functools
from pathlib import Path

_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
#: Where the system does not say: what most processors have at least.
_DEFAULT = {1: 32 << 10, 2: 512 << 10}


@functools.cache
def level(number: int) -> int:
    """Bytes of the data cache of a level (1 or 2) that a core has for itself."""
    for index in sorted(_FOLDER.glob("index*")):
        try:
            told = {name: (index / name).read_text().strip() for name in ("level", "type", "size")}
        except OSError:
            continue
        if told["level"] == str(number) and told["type"] in ("Data", "Unified"):
            return _bytes(told["size"]) or _DEFAULT[number]
    return _DEFAULT[number]


def _bytes(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "")
    return int(number) * units.get(unit, 1) if number.isdigit() else 0
