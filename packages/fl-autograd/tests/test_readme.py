"""The examples of the README run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import fl_tensor as ft

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.skipif(not README.exists(), reason="the README is not beside the tests")
def test_readme_examples_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    scope: dict[str, Any] = {}
    for block in blocks[:2]:
        exec(block, scope)
    x, curvature = scope["x"], scope["curvature"]
    assert ft.all(abs(curvature - 6 * x) < 1e-4)
    assert scope["cube"](ft.asarray([2.0])).tolist() == [8.0]
