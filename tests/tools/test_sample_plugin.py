"""``--every N`` of ``tools/sample_plugin.py``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.mark.parametrize(
    ("every", "kept"), [(1, "abcdefg"), (2, "aceg"), (3, "adg"), (9, "a")], ids=str
)
def test_each_nth_test_of_every_file_is_kept(tmp_path: Path, every: int, kept: str) -> None:
    for name in ("one", "two"):
        code = "".join(f"def test_{letter}():\n    pass\n" for letter in "abcdefg")
        (tmp_path / f"test_{name}.py").write_text(code)
    options = ["-v", "-p", "sample_plugin", "-p", "no:cacheprovider", "--every", str(every)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TOOLS)},
    )
    ran = [line.split()[0] for line in done.stdout.splitlines() if "PASSED" in line]
    names = [f"test_{name}.py::test_{letter}" for name in ("one", "two") for letter in kept]
    assert ran == names, done.stdout + done.stderr
