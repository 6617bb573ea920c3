"""Random programs give on ``jit`` what they give on ``numpy``."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from twins import compare, stress
from twins.noise import noise
from twins.program import Program

import fl_tensor as ft
from fl_jit import JitBackend


def test_programs_agree():
    report = stress.run(programs=200)
    assert report.counts["programs"] == 200
    assert report.counts["plans"] > 150
    assert report.counts["results equal"] > 10 * report.counts["results unstable"]


class Careless(JitBackend):
    """Maximum and minimum are exchanged."""

    CONTRACT = (1, 1)

    def maximum(self, x, y):
        return super().minimum(x, y)


PROGRAM = Program(
    [
        "v0 = array((3, 4), 'float32', 1)",
        "v1 = array((4,), 'float32', 2)",
        "v2 = ft.exp(v0)",
        "v3 = ft.maximum(v0, v1)",
        "v4 = v3 * 2",
        "v5 = v2 + 1",
        "del v3",
    ],
    ["v2", "v4", "v5"],
)


def test_a_program_that_fails_is_made_short():
    found = stress.check(PROGRAM, Careless())[-1]
    assert found.kind == "different" and "run 0, v4" in found.text
    short = stress.shorter(PROGRAM, Careless)
    assert short.lines == [line for line in PROGRAM.lines if line[:2] in ("v0", "v1", "v3", "v4")]
    assert short.outputs == ["v4"]


def test_a_program_prints_as_a_script():
    run = [sys.executable, "-c", PROGRAM.script()]
    lines = subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {line.split()[1] for line in lines if line[:1].isdigit()} == {"numpy", "jit"}


@pytest.mark.parametrize(
    ("noisy", "found", "kind"),
    [
        ([1.0, 2.0], [1.0, 2.0], "equal"),
        ([1.0, 2.0], [1.0, 2.0000002], "different"),  # noise does not reach it: bit for bit
        ([1.0, 2.0000002], [1.0, 2.0000004], "close"),
        ([1.0, 2.0000002], [1.0, 2.1], "different"),
        ([1.0, 3.0], [1.0, 2.1], "unstable"),
    ],
)
def test_as_exactly_as_rounding_permits(noisy, found, kind):
    wanted, noisy, found = (np.array(x, np.float32) for x in ([1.0, 2.0], noisy, found))
    assert compare.compare(found, wanted, [noisy]).kind == kind


def test_zeros_have_signs_and_nan_is_nan():
    def verdict(a, b):
        a, b = np.array([a], np.float32), np.array([b], np.float32)
        return compare.compare(a, b, [b]).kind

    assert verdict(0.0, -0.0) == "different"
    assert verdict(np.nan, np.nan) == "equal"


def test_either_zero_is_right_of_two():
    with ft.use("numpy"):
        x, y = ft.asarray([0.0, -0.0] * 50), ft.asarray([-0.0, 0.0] * 50)
        noisy = []
        for seed in range(2):
            with noise(seed):
                noisy.append(ft.minimum(x, y).numpy())
    for found in (x.numpy(), y.numpy()):
        assert compare.compare(found, np.zeros(100, np.float32), noisy).kind == "equal"


@pytest.mark.parametrize(
    ("factors", "kind"),
    [
        ([1e30, 1e30, 0.0], "unstable"),  # nan, or 0 if the zero comes first
        ([1e30, 1e30, 1e-30], "unstable"),
        ([1e30, 1e30, 2.0], "equal"),  # inf in any order
        ([np.inf, 2.0, 0.0], "equal"),  # nan in any order
        ([1e30, 2.0, 0.0], "equal"),
    ],
)
def test_a_product_that_overflows_on_its_way_is_not_compared(factors, kind):
    with ft.use("numpy"):
        x = ft.asarray(factors, dtype="float32")
        wanted = ft.prod(x).numpy()
        with noise(1):
            noisy = ft.prod(x).numpy()
    assert compare.compare(wanted, wanted, [noisy]).kind == kind


@pytest.mark.parametrize(
    ("factors", "kind"),
    [
        ([3e-30, 1e-15, 0.7, 0.9], "unstable"),  # 2e-45 rounded up, or down to 0
        ([1e-30, 1e-30, 1e30], "unstable"),  # 0, or 1e-30
        ([1e-30, 0.0, 1e-30], "equal"),  # 0 in any order
        ([1e-30, 1e-30, 1e-30], "equal"),  # the same, far below the smallest number
        ([1e-45, 0.7, 0.7, 0.7, 0.7], "unstable"),  # from the left each step is rounded up
        ([], "close"),
    ],
)
def test_a_product_that_underflows_may_end_at_zero_or_beside_it(factors, kind):
    with ft.use("numpy"):
        x = ft.asarray(factors, dtype="float32")
        wanted = np.float32(0.0 if factors else 1.0)
        noisy = []
        for seed in range(4):
            with noise(seed):
                noisy.append(ft.prod(x).numpy())
    assert compare.compare(wanted[...], wanted[...], noisy).kind == kind
