"""What the README shows, runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.skipif(not README.is_file(), reason="the README is not beside the tests")
@pytest.mark.usefixtures("fresh_choice")
def test_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    space: dict[str, object] = {"__name__": "readme"}
    for code in re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(code, README.name, "exec"), space)
    printed = capsys.readouterr().out
    assert "device_alloc" in printed and "1048576" in printed
    suite = space["TestPlain"]
    manager = suite.manager()  # type: ignore[attr-defined]
    assert manager.alloc(100).capacity == 100
