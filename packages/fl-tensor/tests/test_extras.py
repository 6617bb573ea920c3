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
        ("llvmlite", "jit", "ft.jit.register_micro_kernel(lambda kernel, machine: None)"),
        ("llvmlite", "jit", "import fl_tensor.codegen.kernel"),
        ("llvmlite", "jit", "import fl_tensor.codegen.target"),
        ("llvmlite", "jit", "from fl_tensor.backends.providers.generated import library"),
        ("pytest", "testing", "from fl_tensor.testing import TensorBackendSuite"),
        ("pytest", "testing", "from fl_tensor.testing import needs; needs('float16')"),
    ],
)
def test_the_command_that_installs_it_is_said(package, extra, line):
    program = [sys.executable, "-c", WITHOUT.format(line), package]
    said = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert f"takes {package}: python -m pip install './packages/fl-tensor[{extra}]'" in said.stdout


def test_arrays_need_no_compiler():
    line = "ft.use('jit'); x = ft.ones((256, 256)); print(float((x @ x).sum()))"
    program = [sys.executable, "-c", WITHOUT.format(line), "llvmlite"]
    said = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert said.stdout.strip() == str(256.0**3), said.stderr
