"""Every benchmark runs: in miniature, without PyTorch, for its own sake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1]
#: Those that compare with PyTorch and do nothing else; `tests/oracles` does that in miniature.
WITH_TORCH = {"check_models"}
NEEDS = {
    "gemm_conv": "llvmlite",
    "kernels": "llvmlite",
    "ops": "llvmlite",
    "packing": "llvmlite",
    "shape_latency": "llvmlite",
    "image_data": "PIL",
    "paper_models": "PIL",
    "data_loading": "soundfile",
}
COMMANDS = sorted(p.stem for p in FOLDER.glob("[!_]*.py") if p.stem not in WITH_TORCH)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_miniature_gives_a_table(name, tmp_path):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    result = tmp_path / "result.json"
    command = [sys.executable, FOLDER / f"{name}.py", "--tiny", "--markdown", "--json", result]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found = json.loads(result.read_text())
    assert found["benchmark"] == name
    about, header, _, *lines = run.stdout.splitlines()
    assert about.startswith("date ")
    assert len(lines) == len(found["rows"]) > 0
    assert len({line.count(" | ") for line in (header, *lines)}) == 1


def test_readme_has_every_benchmark():
    text = (FOLDER / "README.md").read_text()
    assert [name for name in (*COMMANDS, *WITH_TORCH) if f"`{name}.py`" not in text] == []
