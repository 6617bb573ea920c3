"""What a planned product costs beside its arithmetic: Python calls, the same in every run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import fl_tensor as ft


def python_calls(function: Callable[[], Any]) -> int:
    """How many Python functions a call of ``function`` enters once its plan runs."""
    for _ in range(30):
        function()
        ft.jit.wait()
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


def calls_of_a_product(prepacked: bool) -> int:
    """Those of a product of two matrices 256 x 256, from ``ft.matmul`` to the end of ``ft.eval``.
    The weights are prepacked, or are another array in every run."""
    with ft.use("jit"):
        x, *weights = [ft.Generator(i).normal((256, 256)) for i in range(4)]
        ft.eval(x, *weights)
        runs = 0

        def product() -> None:
            nonlocal runs
            runs += 1
            ft.eval(ft.matmul(x, weights[0 if prepacked else runs % 3]))

        calls = python_calls(product)
        (plan,) = ft.jit.plans()[-1:]
        assert plan.reads_prepacked is prepacked
        return calls


@pytest.mark.defect("B3")
@pytest.mark.parametrize("prepacked", [False, True])
def test_a_planned_product_takes_few_calls(prepacked: bool) -> None:
    # In a process of its own: managers and settings of this one may cost calls.
    code = f"import test_call_counts as counts; print(counts.calls_of_a_product({prepacked}))"
    plain = {name: value for name, value in os.environ.items() if not name.startswith("FL_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        env=plain,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 90
