"""Cache sizes of this processor, as reported by the operating system."""

from __future__ import annotations

import functools
from pathlib import Path

_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
#: Defaults if the system reports nothing: the minimum of most processors.
_DEFAULT = {1: 32 << 10, 2: 512 << 10, 3: 0}
_TOLD = ("level", "type", "size", "shared_cpu_map")
#: Maximum ratio of the L3 share to L2 for which the share counts. A virtual machine with few
#: processors reports the whole L3 of its host. That L3 is far away (10 bytes per cycle, half of
#: what multiply-adds take) and shared with others. A real share is 1 to 16 times L2.
_MOST_SHARE = 32


def level(number: int) -> int:
    """Bytes of the data cache of a level (1 to 3) that one processor has for itself; of L3 its
    equal share."""
    return _levels().get(number, _DEFAULT[number])


def private_l3_bytes() -> int:
    """Bytes of L3 that are near and private to a processor; 0 if there are none."""
    return level(3) if level(3) <= _MOST_SHARE * level(2) else 0


@functools.cache
def _levels() -> dict[int, int]:
    found: dict[int, int] = {}
    for index in sorted(_FOLDER.glob("index*")):
        try:
            told = {name: (index / name).read_text().strip() for name in _TOLD}
        except OSError:
            continue
        size, number = _bytes(told["size"]), int(told["level"])
        if size and told["type"] in ("Data", "Unified"):
            share = _sharing(told["shared_cpu_map"]) if number == 3 else 1
            found.setdefault(number, size // share)
    return found


def _bytes(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "")
    return int(number) * units.get(unit, 1) if number.isdigit() else 0


def _sharing(processors: str) -> int:
    # A hexadecimal mask with a comma after every 32 processors.
    digits = processors.replace(",", "")
    return max(bin(int(digits, 16)).count("1"), 1) if digits else 1
