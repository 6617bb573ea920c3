"""The examples of the README run and do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fl_tensor.testing import needs

README = Path(__file__).parent.parent / "README.md"


@needs("float16")
@pytest.mark.skipif(not README.exists(), reason="the README is not part of the installed package")
def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", README.read_text(), re.S))
    names: dict[str, object] = {}
    exec(compile(code, str(README), "exec"), names)
    assert names["history"][-1]["valid_error"] < 10.0
    assert (tmp_path / "runs" / "plane" / "checkpoint.safetensors").exists()
    assert names["error"].result() < 10.0
