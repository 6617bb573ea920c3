"""The memory limit of a control group."""

from __future__ import annotations

from pathlib import Path

import pytest

from fl_memory.cgroups import memory_limit

V2, V1 = "0::/user/job\n", "12:cpu,cpuacct:/a\n7:memory:/user/job\n"


@pytest.mark.parametrize(
    "groups, limits, expected",
    [
        (V2, {"user/job/memory.max": "4096\n"}, 4096),
        (V2, {"user/job/memory.max": "max\n"}, None),
        (V2, {"user/job/memory.max": "max\n", "user/memory.max": "9000\n"}, 9000),
        (V2, {"user/job/memory.max": "9000\n", "user/memory.max": "5000\n"}, 5000),
        ("0::/\n", {"memory.max": "7000\n"}, 7000),
        ("0::/../job\n", {"memory.max": "7000\n"}, 7000),  # seen from inside a container
        (V1, {"memory/user/job/memory.limit_in_bytes": "8192\n"}, 8192),
        (V1, {"memory/user/job/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        (V1, {"memory/memory.limit_in_bytes": "6000\n"}, 6000),
        (V1 + "0::/x\n", {"memory/user/job/memory.limit_in_bytes": "1", "memory.max": "2"}, 1),
        (V2, {"user/job/memory.max": "nonsense"}, None),
        ("no group", {}, None),
        ("", {}, None),
    ],
)
def test_limit(tmp_path: Path, groups: str, limits: dict[str, str], expected: int | None) -> None:
    files = {"proc/self/cgroup": groups}
    files |= {f"sys/fs/cgroup/{name}": text for name, text in limits.items()}
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert memory_limit(str(tmp_path)) == expected


def test_no_control_groups(tmp_path: Path) -> None:
    assert memory_limit(str(tmp_path)) is None
