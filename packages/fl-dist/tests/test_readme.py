"""The example of the README runs and prints what it says."""

from __future__ import annotations

import re
from importlib.metadata import metadata
from pathlib import Path


def readme() -> str:
    path = Path(__file__).parent.parent / "README.md"
    if path.exists():
        return path.read_text(encoding="utf-8")
    return str(metadata("fl-dist").get_payload())


def test_the_example_prints_what_it_says(capsys):
    example = re.search(r"```python\n(.*?)```", readme(), re.DOTALL)
    assert example is not None
    exec(example[1], {"__name__": "readme"})
    assert capsys.readouterr().out == f"{[(36.0, 3.0, 1.5)] * 4}\n"
