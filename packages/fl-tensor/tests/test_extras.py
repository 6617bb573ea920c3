"""Where an optional part is not installed, an error says how to install it."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import importlib.util as util, sys
find = util.find_spec
util.find_spec = lambda name, *rest: None if name.split(".")[0] == absent else find(name, *rest)
absent = sys.argv[1]
sys.modules[absent] = None
import fl_tensor as ft
try:
    {}
except ft.MissingError as error:
    assert isinstance(error, ModuleNotFoundError)
    print(error)
"""


@pytest.mark.parametrize(
    ("package", "extra", "line"),
    [
        ("pytest", "testing", "from fl_tensor.testing import TensorBackendSuite"),
        ("pytest", "testing", "from fl_tensor.testing import needs; needs('float16')"),
    ],
)
def test_the_command_that_installs_it_is_said(package, extra, line):
    program = [sys.executable, "-c", WITHOUT.format(line), package]
    said = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert f"takes {package}: python -m pip install './packages/fl-tensor[{extra}]'" in said.stdout
