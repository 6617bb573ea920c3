"""`tools/vocabulary.py` finds old names, wherever they are, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import vocabulary

LIST = """
[paths]
"asked" = "recorder"
[classes]
"Cut" = "Tiling"
[names]
"sighted|put_off" = "runs"
[kernel_names]
"kept" = "prepacked"
[text]
"put[ _]off|OLD_SETTING" = "deferred"
"""
MODULE = "backends/one/src/one/code.py"


def faults(place: str, text: str) -> list[str]:
    return vocabulary.Vocabulary(LIST).faults(Path(place), text)


@pytest.mark.parametrize(
    "text",
    [
        "is_sighted = 1",
        "def _sighted(): pass",
        "def f(sighted): pass",
        "class PutOff: pass",
        "class _Cut: pass",
        "x.kept = 1",
        "def f():\n    '''It was put off.'''",
        "f(name='OLD_SETTING')",
    ],
)
def test_old_names_are_found(text):
    assert len(faults(MODULE, text)) == 1


@pytest.mark.parametrize(
    "text",
    ["insight = keepdims = 1", "def Cut(): pass", "print(sighted.kept)", "f(former='OLD_SETTING')"],
)
def test_other_names_are_not(text):
    assert not faults(MODULE, text)


def test_rules_depend_on_the_path():
    assert faults("backends/one/src/one/asked.py", "") == ["'asked': write recorder"]
    assert not faults("packages/fl-nn/src/fl_nn/asked.py", "")
    assert not faults("backends/one/src/one/unasked_names.py", "")
    assert faults("backends/one/tests/test_a.py", "def test_it_is_put_off(): pass")
    assert not faults("backends/one/tests/test_a.py", "sighted = 1")
    assert not faults("packages/fl-nn/src/fl_nn/a.py", "kept = 1")
    assert faults("docs/page.md", "one\nis put off") == ["line 2: 'put off': write deferred"]


def test_a_checkout_with_a_fault_fails(tmp_path, capsys):
    for name, text in {"tools/vocabulary.toml": LIST, "backends/one/a.py": "kept = 1"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert vocabulary.main(["--root", str(tmp_path)]) == 1
    assert "backends/one/a.py: line 1: kept: 'kept': write prepacked" in capsys.readouterr().out
    (tmp_path / "backends/one/a.py").write_text("saved = 1")
    assert vocabulary.main(["--root", str(tmp_path)]) == 0


def test_the_checkout_has_none():
    assert vocabulary.main([]) == 0
