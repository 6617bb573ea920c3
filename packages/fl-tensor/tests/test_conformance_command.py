"""``python -m fl_tensor.testing NAME``, its report card, and the checking wrapper."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.errors import BackendError
from fl_tensor.testing import TensorBackendSuite
from fl_tensor.testing.__main__ import main
from fl_tensor.testing.checked import checked
from fl_tensor.testing.harness import Harness
from fl_tensor.testing.under import preferring

WRONG_BACKEND = """\
import numpy as np
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.dtypes import REQUIRED


class Wrong(NumpyBackend):
    CONTRACT = (1, 0)
    name = "wrong"

    dtypes = REQUIRED

    def negative(self, x):
        return x
"""


def command(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "fl_tensor.testing", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        line, capture_output=True, text=True, cwd=folder, timeout=120, env=environment, check=False
    )


def test_a_correct_backend_passes_and_gets_a_report_card(tmp_path: Path) -> None:
    card = tmp_path / "cards" / "numpy.json"
    found = command(
        "numpy",
        "--report",
        str(card),
        "-k",
        "test_operation and (add- or nonzero)",
        folder=tmp_path,
    )
    last = found.stdout.splitlines()[-1]
    report = json.loads(card.read_text())
    assert found.returncode == 0, found.stdout + found.stderr
    assert last == f"{report['passed']} passed, 0 failed"
    assert report["contract"] == "1.1"
    assert report["implementation"] == "fl_tensor.backends.numpy.backend:NumpyBackend"
    assert report["versions"]["fl-tensor"] == ft.__version__
    assert set(report["operations"]) == {"add", "nonzero", "count_nonzero"}
    assert report["operations"]["add"]["failed"] == 0
    assert report["operations"]["add"]["passed"] >= 5 * len(NumpyBackend.dtypes - {ft.bool})


def test_a_wrong_backend_fails_and_the_card_says_where(tmp_path: Path) -> None:
    (tmp_path / "wrong_backend.py").write_text(WRONG_BACKEND)
    found = command(
        "wrong_backend:Wrong",
        "--report",
        "card.json",
        "-k",
        "negative or maximum-",
        folder=tmp_path,
    )
    report = json.loads((tmp_path / "card.json").read_text())
    assert found.returncode == 1
    assert found.stdout.splitlines()[-1] == f"{report['passed']} passed, {report['failed']} failed"
    assert report["operations"]["maximum"]["failed"] == 0
    assert "negative-float32-plain" in report["operations"]["negative"]["failures"]
    reasons = {t["name"]: t["reason"] for t in report["tests"]}
    assert "expected" in reasons["test_operation[negative-float32-plain]"]


@pytest.mark.parametrize(
    ("name", "words"),
    [("nunpy", "numpy"), ("no_such_module:Backend", "no_such_module"), ("math:tau", "math")],
)
def test_an_unknown_name_is_a_clear_error(
    name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name]) == 2
    seen = capsys.readouterr()
    assert words in seen.err
    assert "Traceback" not in seen.err


class TwoMemories(NumpyBackend):
    CONTRACT = (1, 0)
    name = "two-rooms"

    def devices(self) -> list[ft.Device]:
        return [ft.CPU, ft.Device("attic")]


def test_the_kit_runs_on_the_device_that_it_is_told() -> None:
    assert preferring(TwoMemories(), "attic").devices() == [ft.Device("attic"), ft.CPU]
    harness = type("TestAttic", (TensorBackendSuite,), {"backend": TwoMemories, "device": "attic"})
    assert Harness(harness.under_test()).device == ft.Device("attic")
    with pytest.raises(ft.ArgumentError, match="no device cellar:0; it has cpu, attic:0"):
        preferring(TwoMemories(), "cellar")


class Sloppy(NumpyBackend):
    CONTRACT = (1, 0)
    name = "sloppy"

    def cumulative_sum(self, x: Any, axis: int = -1) -> Any:
        return self.cast(super().cumulative_sum(x, axis), x.dtype)


def test_the_checking_wrapper_computes_the_same() -> None:
    backend = checked(NumpyBackend())
    x = ft.asarray(np.linspace(-2, 2, 12).reshape(3, 4), backend=backend)
    assert x.backend is backend
    y = ft.softmax(x @ x.T, -1).sum(0)
    plain = ft.asarray(np.linspace(-2, 2, 12).reshape(3, 4), backend=NumpyBackend())
    assert y.tolist() == ft.softmax(plain @ plain.T, -1).sum(0).tolist()


def test_the_checking_wrapper_names_the_backend_that_breaks_the_rule() -> None:
    x = ft.asarray([1, 2, 3], "int32", backend=checked(Sloppy()))
    with pytest.raises(BackendError, match=r"\[cumulative_sum\] backend 'sloppy'.*int64\(3,\)"):
        ft.cumulative_sum(x, 0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda ops, x, y: ops.sum(x, (-1,), False), "axis -1"),
        (lambda ops, x, y: ops.add(x, y), "several dtypes"),
        (lambda ops, x, y: ops.reshape(x, (-1, 3)), "non-negative"),
    ],
)
def test_the_checking_wrapper_names_the_front_end_that_breaks_its_promise(
    call: Any, words: str
) -> None:
    ops = checked(NumpyBackend())
    device = ops.devices()[0]
    x = ops.full((3,), 1.0, ft.float32, device)
    y = ops.full((3,), 1, ft.int32, device)
    with pytest.raises(BackendError, match=f"front end: .*{words}"):
        call(ops, x, y)
