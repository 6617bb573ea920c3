"""Every program of `examples/programs` runs: here some steps, in `nox -s programs` to its goal."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "programs"
sys.path.insert(0, str(FOLDER))

import run  # noqa: E402 - found on the path above


@pytest.mark.parametrize("name", run.PROGRAMS)
def test_a_few_steps_give_a_figure(name):
    if name == "tabular":
        pytest.importorskip("sklearn")
    figure, goal = run.trained(name, steps=2)
    assert not math.isnan(figure) and math.isfinite(goal)


@pytest.mark.parametrize("name", run.PROGRAMS)
def test_a_program_fits_on_a_page_and_is_described(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert len(text.splitlines()) <= 80
    assert f"| `{name}.py` |" in (FOLDER / "README.md").read_text()
