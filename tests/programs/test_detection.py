"""The experiments of `examples/detection` in miniature."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import fl_tensor as ft

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "detection"
SETTINGS = ("epochs=1", "width=4", "size=8", "hidden=8", "batch_size=2")


@pytest.fixture(scope="module")
def results() -> Any:
    # Another example has a module of this name.
    sys.path.append(str(FOLDER))
    spec = importlib.util.spec_from_file_location("detection_results", FOLDER / "results.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_figures_are_written_and_missed_bars_are_a_failure(
    results: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["--train", "2", "--valid", "1", "--out", str(tmp_path)]
    with ft.use("numpy"):
        assert results.main(["detr", *size, "--", *SETTINGS]) == 1
    assert "MISSED" in capsys.readouterr().out
    assert set(json.loads((tmp_path / "detr.json").read_text())) == {"ap50", "ap", "seconds"}


def test_unknown_experiments_are_refused(results: Any) -> None:
    with pytest.raises(SystemExit):
        results.main(["other"])
