"""`tools/import_names.py`: what one distribution may use of another, on small checkouts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "import_names.py"


@pytest.fixture
def checkout(tmp_path):
    """A checkout of two distributions; calling it writes a file of the upper one and checks."""
    files = {
        "__init__.py": "from low.parts import offered as offered\nfrom low import maths as maths\n",
        "parts.py": "offered = internal = 1\n",
        "maths.py": '__all__ = ["root"]\ndef root(x): return x\ndef helper(x): return x\n',
        "_hidden.py": '__all__ = ["secret"]\nsecret = 1\n',
        "silent.py": "value = 1\n",
        "values.py": "class Value:\n    def __init__(self):\n        self._raw = 1\n",
    }
    for name, text in files.items():
        path = tmp_path / "packages/low/src/low" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def check(text: str, folder: str = "packages/high/src/high", known: str = "") -> list[str]:
        path = tmp_path / folder / "code.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if known:
            (tmp_path / "tools").mkdir(exist_ok=True)
            (tmp_path / "tools/import_names.txt").write_text(known)
        done = subprocess.run(
            [sys.executable, TOOL, "--root", tmp_path], capture_output=True, text=True
        )
        assert not done.stderr
        assert done.returncode == ("0 new" not in done.stdout or "nothing matches" in done.stdout)
        return [line.split(" is not ")[0] for line in done.stdout.splitlines()[:-1]]

    return check


@pytest.mark.parametrize(
    "text",
    [
        "from low import offered",
        "from low import maths\nmaths.root(2)",
        "from low.maths import root",
        "import low\nlow.offered, low.maths.root, low.__name__",
        "import low.maths as m\nm.root",
        "class A:\n    def f(self):\n        return self._own",
        "class A:\n    _own = 1\ndef f(x):\n    return x._own",
        "import sys\nsys._getframe()",
    ],
)
def test_public_names_and_ones_own_pass(checkout, text):
    assert checkout(text) == []


@pytest.mark.parametrize(
    "text, name",
    [
        ("from low.parts import offered", "low.parts.offered"),
        ("from low.maths import helper", "low.maths.helper"),
        ("from low import internal", "low.internal"),
        ("from low import silent", "low.silent"),
        ("import low.silent", "low.silent"),
        ("from low._hidden import secret", "low._hidden.secret"),
        ("import low\nlow.internal", "low.internal"),
        ("import low\nlow.maths.helper", "low.maths.helper"),
        ("from low import maths as m\nm.helper", "low.maths.helper"),
        ("def f():\n    from low.parts import internal", "low.parts.internal"),
        ("def f(x):\n    return x._raw", "._raw"),
    ],
)
def test_everything_else_is_named_with_its_line(checkout, text, name):
    line = text.count("\n") + 1
    assert checkout(text)[0] == f"packages/high/src/high/code.py:{line}: {name}"


@pytest.mark.parametrize("folder", ["backends/jit/src/jit", "examples/acme/tests"])
def test_backends_and_examples_are_read_too(checkout, folder):
    assert checkout("from low import internal", folder)[0] == f"{folder}/code.py:1: low.internal"


def test_a_distribution_may_use_its_own_modules(checkout):
    assert (
        checkout("from low.parts import internal\ndef f(x): return x._raw", "packages/low/src/low")
        == []
    )


def test_known_violations_pass_and_must_still_be_there(checkout):
    known = "packages/high/src/high/code.py: low.internal\n"
    assert checkout("from low import internal", known=known) == []
    (stale,) = checkout("from low import offered")
    assert "nothing matches 'packages/high/src/high/code.py: low.internal'" in stale


@pytest.mark.parametrize("folder", ["backends/moon/src/moon", "examples/moon"])
def test_backends_and_outside_packages_keep_to_the_modules_for_them(checkout, folder, tmp_path):
    root = tmp_path / "packages/fl-tensor/src/fl_tensor"
    (root / "extend").mkdir(parents=True)
    (root / "__init__.py").write_text("from fl_tensor.inner import shown as shown\n")
    (root / "inner.py").write_text('__all__ = ["shown", "other"]\nshown = other = 1\n')
    door = 'from fl_tensor import inner as inner\n__all__ = ["inner"]\n'
    (root / "extend/__init__.py").write_text(door)
    (root / "extend/numpy.py").write_text('__all__ = ["part"]\npart = 1\n')
    fit = [
        "from fl_tensor import shown",
        "from fl_tensor.extend import inner\ninner.other",
        "from fl_tensor.extend.numpy import part",
        "import fl_tensor.extend",
    ]
    assert [checkout(text, folder) for text in fit] == [[]] * len(fit)
    assert checkout("from fl_tensor.inner import other", "packages/high/src/high") == []
    for text, taken in [
        ("from fl_tensor.inner import other", "fl_tensor.inner.other"),
        ("from fl_tensor import inner", "fl_tensor.inner"),
        ("import fl_tensor.inner", "fl_tensor.inner"),
        ("import fl_tensor as ft; ft.inner.other", "fl_tensor.inner"),
    ]:
        assert checkout(text, folder)[0] == f"{folder}/code.py:1: {taken}"
