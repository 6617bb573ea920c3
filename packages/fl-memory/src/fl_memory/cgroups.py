"""The memory limit of the control group that this process belongs to (Linux, cgroup v1 and v2).

``/proc/self/cgroup`` names the group. In version 2 it is the line ``0::/PATH``, and limits are in
``/sys/fs/cgroup/PATH/memory.max`` and in the same file of every parent. In version 1 it is the line
of the controller ``memory``, and limits are in ``/sys/fs/cgroup/memory/PATH``. In a container the
path may not exist below the mount; the mount itself is then the group of the container.

Format: https://docs.kernel.org/admin-guide/cgroup-v2.html and .../cgroup-v1/memory.html.
"""

from __future__ import annotations

import os

__all__ = ["memory_limit"]

#: Version 1 has no word for "no limit"; it shows the largest page count in bytes.
_NO_LIMIT = 1 << 60


def memory_limit(root: str = "/") -> int | None:
    """Bytes that the control group of this process may use, the least of its own limit and those of
    its parents; None without a limit, or without control groups. root: where /proc and /sys are."""
    found = []
    for line in (_read(os.path.join(root, "proc/self/cgroup")) or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            folder, name = os.path.join(root, "sys/fs/cgroup"), "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = os.path.join(root, "sys/fs/cgroup/memory"), "memory.limit_in_bytes"
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            text = _read(os.path.join(folder, *parts[:depth], name)) or ""
            if text.strip().isdigit() and int(text) < _NO_LIMIT:
                found.append(int(text))
    return min(found, default=None)


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None
