"""What a small layer costs before its arithmetic: Python calls, which are the same on every run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

#: How the first operand of a layer comes.
INPUTS: dict[str, Callable[[ft.Tensor], ft.Array]] = {
    "tensor": lambda x: x,
    "variable": ag.Variable,
    "leaf": lambda x: ag.Variable(x, requires_grad=True),
}


def python_calls(function: Callable[[], Any]) -> int:
    """How many Python functions a call of ``function`` enters, after 30 calls to get warm."""
    for _ in range(30):
        function()
    entered = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal entered
        entered += event == "call"

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return entered - 1  # without ``function`` itself


def calls_of_a_linear_layer(kind: str) -> int:
    """Those of a Linear on 8 rows of 64, on the backend ``numpy``."""
    with ft.use("numpy"):
        layer = nn.Linear(64, 32)
        x = INPUTS[kind](ft.ones((8, 64)))
        return python_calls(lambda: layer(x))


@pytest.mark.defect("B2")
@pytest.mark.parametrize("kind", INPUTS)
def test_a_linear_layer_is_called_in_few_calls(kind: str) -> None:
    # In a process of its own: managers and settings of this one may cost calls.
    code = f"import test_call_counts as counts; print(counts.calls_of_a_linear_layer({kind!r}))"
    command = [sys.executable, "-c", code]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("FL_")}
    folder = Path(__file__).parent
    done = subprocess.run(command, cwd=folder, env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 35


@pytest.mark.defect("B2")
def test_an_operation_on_parameters_costs_what_it_costs_on_variables() -> None:
    with ft.use("numpy"):
        value = ft.ones((8, 64))
        x, y, weight = ag.Variable(value), ag.Variable(value, True), nn.Parameter(value)
        assert python_calls(lambda: ft.maximum(x, weight)) == python_calls(lambda: ft.maximum(x, y))
        assert python_calls(lambda: ft.stack([x, weight])) == python_calls(lambda: ft.stack([x, y]))
