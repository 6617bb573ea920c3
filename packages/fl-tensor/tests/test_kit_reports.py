"""What the kit says when a test fails: a few lines about the backend, none about the kit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fl_tensor import dtypes
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.backends.numpy.adapter import NumpyAdapter
from fl_tensor.testing import CASES, lineage, wording
from fl_tensor.testing.opcase import Sample, operand

RunTest = Callable[[type[NumpyBackend], str], None]


class Correct(NumpyBackend):
    CONTRACT = (1, 0)
    name = "reported"


class DropsNan(Correct):
    CONTRACT = (1, 0)

    def maximum(self, x: Any, y: Any) -> Any:
        return NumpyAdapter(np.asarray(np.fmax(x.array, y.array)))


class Raises(Correct):
    CONTRACT = (1, 0)

    def sum(self, x: Any, axis: Any, keepdims: bool = False) -> Any:
        return self._fall(x)

    def _fall(self, x: Any) -> Any:
        raise RuntimeError("out of\nluck")


class Warns(Correct):
    CONTRACT = (1, 0)

    def divide(self, x: Any, y: Any) -> Any:
        with np.errstate(all="warn"):
            return NumpyAdapter(np.asarray(x.array / y.array))


class IsOff(Correct):
    CONTRACT = (1, 0)

    def exp(self, x: Any) -> Any:
        return NumpyAdapter(np.asarray(super().exp(x).array * x.array.dtype.type(1 + 2e-6)))

    def matmul(self, x: Any, y: Any) -> Any:
        return NumpyAdapter(np.asarray(super().matmul(x, y).array * x.array.dtype.type(2)))


def report(suite_test: RunTest, backend: type[NumpyBackend], test: str) -> list[str]:
    with pytest.raises(AssertionError) as caught:
        suite_test(backend, test)
    return str(caught.value).splitlines()


def test_operands_are_shown_where_the_result_is_wrong(suite_test: RunTest) -> None:
    lines = report(suite_test, DropsNan, "test_operation[maximum-float32-edge]")
    assert lines[0] == "maximum(float32(144,), float32(144,))"
    assert "expected nan for x = " in lines[1]
    assert "= nan" in lines[1].partition(" for ")[2]
    assert "eps" not in lines[1]  # of what is not finite, there is no distance
    assert len(lines) == 2


def test_the_distance_is_told_where_rounding_is_the_matter(suite_test: RunTest) -> None:
    line = report(suite_test, IsOff, "test_operation[exp-float32-long]")[1]
    assert "for x = " in line
    assert line.endswith(" eps where 8 are allowed")


def test_only_elementwise_operations_have_operands_at_a_place(suite_test: RunTest) -> None:
    assert " for " not in report(suite_test, IsOff, "test_operation[matmul-float32-plain]")[1]


def test_an_error_names_the_call_and_the_lines_of_the_backend(suite_test: RunTest) -> None:
    lines = report(suite_test, Raises, "test_operation[sum-int32-plain]")
    assert lines[0].startswith("sum(int32(2, 3) [[")
    assert lines[0].endswith("]], axis=(0,), keepdims=False)")
    assert lines[1] == "    raises RuntimeError: out of"
    assert "in sum: return self._fall(x)" in lines[2]
    assert 'in _fall: raise RuntimeError("out of\\nluck")' in lines[3]
    assert lines[-1].startswith("and ")
    assert len(lines) <= 9


def test_warnings_are_errors(suite_test: RunTest) -> None:
    lines = report(suite_test, Warns, "test_operation[divide-float32-edge]")
    assert lines[1].startswith("    raises RuntimeWarning: ")


def test_a_call_names_what_is_no_array() -> None:
    sample = CASES["conv"].draw(dtypes.float32, "plain")[0]
    assert "stride=(1,), padding=((0, 0),), " in wording.call("conv", sample)
    lists = Sample("plain", ([operand([0.1], dtypes.float32), operand([2], dtypes.float32)], 0))
    told = "concatenate([float32(1,) [0.1], float32(1,) [2.0]], axis=0)"
    assert wording.call("concatenate", lists) == told


THEIRS = """\
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.testing import TensorBackendSuite


class Hasty(NumpyBackend):
    CONTRACT = (1, 0)
    name = "no identifier"

    def to_host(self, x, blocking=True):
        return memoryview(bytearray(super().to_host(x)))

    def less(self, x, y):
        raise KeyError("less")


class TestHasty(TensorBackendSuite):
    backend = Hasty
"""


def pytest_says(folder: Path, *options: str) -> str:
    (folder / "test_theirs.py").write_text(THEIRS)
    line = [sys.executable, "-m", "pytest", "-p", "fl_pytest_plugin", "-p", "no:cacheprovider"]
    line += ["-q", "--rootdir", str(folder), *options, "test_theirs.py"]
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        line, capture_output=True, text=True, cwd=folder, timeout=300, check=False, env=environment
    )
    return done.stdout


def test_no_line_of_the_kit_is_shown_and_assertions_show_what_they_saw(tmp_path: Path) -> None:
    tests = "test_name or read_only_bytes or less-int32-plain or test_operators"
    told = pytest_says(tmp_path, "-k", tests)
    assert "4 failed" in told
    assert "fl_tensor/testing" not in told.partition("short test summary")[0]
    assert "harness" not in told
    assert "('B', 1, False, 24) == ('B', 1, True, 24)" in told
    assert "\nname 'no identifier' is no identifier\n" in told
    assert "test_theirs.py:13 in less: raise KeyError" in told
    assert 'raise KeyError("less")' in told.partition("test_operators")[2]


def test_the_report_ends_with_where_to_begin(tmp_path: Path) -> None:
    told = pytest_says(tmp_path, "-k", "test_operation and (less- or greater-) and plain")
    assert "are in compositions of what fails itself; begin with: less\n" in told


def test_advice_knows_compositions_and_what_a_backend_does_itself() -> None:
    failed = ["add-float32-plain", "layer_norm-float32-plain", "layer_norm-float32-edge"]
    failed += ["softmax-float32-plain", "sin-float32-plain"]
    told = "2 of 5 failures of test_operation are in compositions of what fails itself; "
    assert lineage.advice(failed, ()) == told + "begin with: add"
    assert lineage.advice(["layer_norm-float32-plain", "sin-float32-0-d"], ()) == ""
    assert lineage.advice(failed, ["layer_norm"]) == ""
    assert {"exp", "max", "sum", "divide"} <= lineage.ancestors("softmax")
    assert "mean" in lineage.ancestors("layer_norm")
    assert "sum" not in lineage.ancestors("layer_norm", own=["mean"])


def test_errors_go_through_for_debuggers(tmp_path: Path) -> None:
    told = pytest_says(tmp_path, "-k", "less-int32-plain", "--full-trace")
    assert "E       KeyError: 'less'" in told
