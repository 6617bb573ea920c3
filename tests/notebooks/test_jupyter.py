"""What a real Jupyter kernel shows: tables, figures without pyplot, one progress bar.

`nox -s notebooks` runs these; they need nbclient and ipykernel.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import run_notebooks

CELLS = [
    "import fl_data as data, fl_nn as nn, fl_tensor as ft, sys, time\nft.ones((2, 2))",
    "nn.Linear(2, 3)",
    "data.TensorDataset(ft.ones((4, 2)))",
    "nn.plot.curves({'loss': [3.0, 2.0, 1.0]})",
    "assert 'matplotlib.pyplot' not in sys.modules",
    """
with nn.Progress('work', 3) as bar:
    for done in (1, 2):
        time.sleep(0.3)
        bar.update(done, 'fine')
""",
    """
bar = nn.Progress('other work', 2)
time.sleep(0.3)
bar.update(1, 'fine')
""",
]


@pytest.fixture(scope="module")
def outputs() -> list[list[Any]]:
    """The outputs of each cell."""
    done = run_notebooks.run(run_notebooks.notebook_of(CELLS))
    return [cell["outputs"] for cell in done["cells"]]


@pytest.mark.parametrize(
    ("cell", "start"), [(0, "<div>Tensor: "), (1, "<div>Linear: "), (2, "<div>TensorDataset: ")]
)
def test_tables(outputs: list[list[Any]], cell: int, start: str) -> None:
    (output,) = outputs[cell]
    assert "".join(output["data"]["text/html"]).startswith(start)


def test_a_figure_needs_no_pyplot(outputs: list[list[Any]]) -> None:
    (output,) = outputs[3]
    assert len(output["data"]["image/png"]) > 5000
    assert outputs[4] == []


def test_a_bar_is_one_output_and_empty_at_the_end(outputs: list[list[Any]]) -> None:
    (output,) = outputs[5]
    assert "".join(output["data"]["text/html"]) == ""


def test_a_bar_that_is_not_finished_stays(outputs: list[list[Any]]) -> None:
    (output,) = outputs[6]
    assert "".join(output["data"]["text/html"]).startswith('<progress value="1" max="2">')
