"""tools/run_notebooks.py: outputs, warnings and pictures are found. No kernel is started."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import run_notebooks as tool


def executed(*outputs: Any) -> Any:
    notebook = tool.notebook_of(["1 + 1"])
    notebook["cells"][0] |= {"outputs": list(outputs), "execution_count": 1}
    return notebook


def test_a_fresh_notebook_is_stripped_and_one_that_ran_is_not() -> None:
    fresh = tool.notebook_of(["1 + 1"])
    assert tool.is_stripped(fresh)
    for output in ([], [{"output_type": "stream", "name": "stdout", "text": "2"}]):
        assert not tool.is_stripped(executed(*output))
        assert tool.stripped(executed(*output)) == fresh


def test_one_with_outputs_is_refused_before_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "page.ipynb"
    path.write_text(tool.written(executed()))
    assert "--strip" in tool.problem_of(path, None)


def test_warnings_are_found_and_progress_is_none() -> None:
    bad = {"output_type": "stream", "name": "stderr", "text": "a.py:1: UserWarning: no\n  x\n"}
    fine = {"output_type": "stream", "name": "stderr", "text": "epoch 1/3\n"}
    assert tool.warnings_in(executed(fine, bad)) == ["a.py:1: UserWarning: no"]


def test_pictures_are_found() -> None:
    data = {"image/png": base64.b64encode(b"picture").decode(), "text/plain": "<Figure>"}
    shown = {"output_type": "display_data", "data": data, "metadata": {}}
    assert list(tool.pictures_in(executed(shown))) == [b"picture"]


PAGES = sorted(tool.ROOT.glob("docs/tutorials/*.ipynb"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_notebooks_of_the_checkout_are_stripped_and_written_as_jupyter_writes(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert tool.is_stripped(notebook)
    assert tool.written(notebook) == text
