"""The quick lane of the kit: one sample of each operation and dtype, and all other tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("fl_autograd", reason="its kit is tried, too")
pytestmark = pytest.mark.defect("O2", "item 8")

THEIRS = """\
from fl_autograd.testing import GradientSuite
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.testing import TensorBackendSuite
import fl_tensor as ft


class Small(NumpyBackend):
    CONTRACT = (1, 0)
    name = "small"
    dtypes = frozenset({ft.bool, ft.uint8, ft.int32, ft.int64, ft.float32})
    capabilities = frozenset()

    def erf(self, x):
        result = super().erf(x)
        return super().add(result, result) if x.shape == () else result


class TestSmall(TensorBackendSuite):
    backend = Small
    known_failures = {"test_operation[erf-float32-0-d]": "small#1"}


class TestGradients(GradientSuite):
    backend = Small
"""


def kit(folder: Path, *options: str) -> str:
    (folder / "test_theirs.py").write_text(THEIRS)
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p"]
    line += ["fl_pytest_plugin", "--rootdir", str(folder), *options, "test_theirs.py"]
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        line, cwd=folder, check=False, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def collected(folder: Path, *options: str) -> set[str]:
    lines = kit(folder, "--collect-only", *options).splitlines()
    return {line.partition("::")[2] for line in lines if "::" in line}


def kinds(names: set[str]) -> Counter[str]:
    """How many kinds of samples each operation and dtype has."""
    found = (name.split("[")[1].split("-") for name in names if "::test_operation[" in name)
    return Counter("-".join(parts[:2]) for parts in found)


def test_each_operation_and_dtype_is_tried_once_and_nothing_else_is_left_out(
    tmp_path: Path,
) -> None:
    quick, whole = collected(tmp_path, "--fl-quick"), collected(tmp_path)
    assert kinds(quick).keys() == kinds(whole).keys()
    assert set(kinds(quick).values()) == {1} and len(kinds(quick)) > 600
    left_out = whole - quick
    assert quick < whole and len(left_out) > 1000
    assert {name.partition("[")[0] for name in left_out} == {
        "TestSmall::test_operation",
        "TestGradients::test_gradient",
    }
    assert "TestSmall::test_operation[erf-float32-plain]" in quick


def test_known_failures_that_it_leaves_out_are_no_mistake(tmp_path: Path) -> None:
    assert "1 passed" in kit(tmp_path, "--fl-quick", "-k", "test_operation and erf-float32")
    assert "1 xfailed" in kit(tmp_path, "-k", "test_operation and erf-float32-0-d")


def test_the_command_takes_it_too(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "fl_tensor.testing", "numpy", "--quick", "--report", "card.json"]
    done = subprocess.run(
        [*line, "-k", "[add-int32"], cwd=tmp_path, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stdout.decode()
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["operations"]["add"]["passed"] == 1 and "--fl-quick" in card["arguments"]
