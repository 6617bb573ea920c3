"""The experiment of `examples/images` in miniature: rows of pixels in place of digits."""

from __future__ import annotations

import importlib.util
import json
import struct
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).resolve().parents[2] / "examples" / "images" / "results.py"


@pytest.fixture(scope="module")
def results() -> ModuleType:
    # By its path: spoken_digits has a results.py as well.
    spec = importlib.util.spec_from_file_location("image_results", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """48 images of four classes, as MNIST files."""
    images = bytearray()
    for index in range(48):
        pixels = [[(7 * index + 3 * x) % 40 for x in range(8)] for _ in range(8)]
        pixels[2 * (index % 4)] = [255] * 8
        images += bytes(level for row in pixels for level in row)
    head = bytes([0, 0, 8, 3]) + struct.pack(">3I", 48, 8, 8)
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(head + images)
    labels = bytes([0, 0, 8, 1]) + struct.pack(">I", 48) + bytes(k % 4 for k in range(48))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(labels)
    return tmp_path


def test_an_experiment_gives_figures_and_keeps_its_runs(
    results: ModuleType, digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs"
    command = ["mnist", "--data", digits, "--out", out, "--holdout", 8, "--seeds", 2]
    small = ["--", "--epochs", "1", "--width", "2", "--batch-size", "16"]
    status = results.main([*map(str, command), *small])
    printed = capsys.readouterr().out
    assert "mnist-resnet18, mean" in printed and "bar >= 99" in printed
    figures = json.loads((out / "mnist.json").read_text())
    assert len(figures) == 5 and 0 <= figures[-1]["value"] <= 100
    assert status == (figures[-1]["value"] < 99)
    written = (out / "mnist-1" / "log.jsonl").read_bytes()
    assert results.main([*map(str, command), *small]) == status  # from the runs that are there
    assert (out / "mnist-1" / "log.jsonl").read_bytes() == written
