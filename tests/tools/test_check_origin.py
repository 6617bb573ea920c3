"""A distribution with one of our names, installed from an index, fails the check."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_origin.py"


def install(folder: Path, name: str, *, from_path: bool) -> None:
    about = folder / f"{name.replace('-', '_')}-9.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.0\n")
    if from_path:
        (about / "direct_url.json").write_text('{"url": "file:///somewhere", "dir_info": {}}')


def checked(folder: Path) -> subprocess.CompletedProcess[str]:
    # -I -S: the packages of this interpreter are out of sight.
    path, tool = repr(str(folder)), repr(str(TOOL))
    code = (
        f"import runpy, sys; sys.path.append({path}); runpy.run_path({tool}, run_name='__main__')"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))


@pytest.mark.parametrize("name", ["fl-tensor", "fl-jit", "acme-backend"])
def test_ours_from_an_index_fails_and_is_named(tmp_path: Path, name: str) -> None:
    install(tmp_path, name, from_path=False)
    found = checked(tmp_path)
    assert found.returncode == 1
    assert f"installed from an index: {name}." in found.stdout


def test_ours_from_a_path_and_others_from_an_index_pass(tmp_path: Path) -> None:
    install(tmp_path, "fl-tensor", from_path=True)
    install(tmp_path, "numpy", from_path=False)
    assert checked(tmp_path).returncode == 0
