"""`tools/sizes.py`: limits of distributions, folders and files, on a small checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "sizes.py"
LIMITS = """
[code.kelp]
total = 5
"." = 2
graph = 3
[file]
most = 2
[file.exceptions]
"packages/kelp/src/kelp/graph/ir.py" = { most = 3, reason = "one class" }
"""


@pytest.fixture
def checked(tmp_path):
    """Writes the limits of a distribution of 2 + 3 lines of code and checks it."""
    files = {"__init__.py": '"""Two."""\na = 1\n\n# why\nb = 2\n', "graph/ir.py": "a = 1\n" * 3}
    for name, text in files.items():
        path = tmp_path / "packages/kelp/src/kelp" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "tools").mkdir()

    def check(limits: str, *options: str) -> str:
        (tmp_path / "tools/sizes.toml").write_text(limits)
        command = [sys.executable, str(TOOL), "--root", str(tmp_path), *options]
        done = subprocess.run(command, capture_output=True, text=True)
        assert not done.stderr
        assert done.returncode == (not done.stdout.splitlines()[-1].startswith("0 limits"))
        return done.stdout

    return check


def test_code_within_its_limits_passes(checked):
    assert checked(LIMITS) == "\n0 limits of tools/sizes.toml are broken\n"
    assert "      3 of       3       0 left  kelp graph" in checked(LIMITS, "--remaining")


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ("total = 5", "total = 4", "kelp total: 5 lines of code, the limit is 4"),
        ("graph = 3", "graph = 2", "kelp graph: 3 lines of code, the limit is 2"),
        ("graph = 3", "", "kelp graph: 3 lines of code and no limit"),
        ("graph = 3", "graph = 3\nrules = 9", "kelp rules: there is no such folder"),
        ("{ most = 3,", "{ most = 2,", "graph/ir.py: 3 lines of code, the limit is 2"),
        ("most = 2\n", "most = 3\n", "graph/ir.py: 3 lines of code need no exception"),
        ("graph/ir.py", "graph/gone.py", "gone.py: an exception for a file that is not there"),
    ],
)
def test_what_breaks_a_limit_is_named(checked, old, new, problem):
    assert problem in checked(LIMITS.replace(old, new))
