"""The examples of the README run, one after the other."""

from __future__ import annotations

import re
from importlib.metadata import metadata
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Outside the checkout the wheel carries the README.
    page = (
        README.read_text(encoding="utf-8") if README.exists() else metadata("fl-data").get_payload()
    )
    names: dict[str, object] = {"__name__": "__main__"}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(code, "README.md", "exec"), names)
