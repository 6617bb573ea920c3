"""What the conformance kit leaves to a backend: it is found by name, and errors have a way out."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

import fl_tensor as ft
from cupy_imitation import ON_DEVICE, CupyBackend

BACKEND = ft.get_backend(CupyBackend)


def test_the_entry_point_names_the_backend() -> None:
    (found,) = importlib.metadata.entry_points(group="fl.tensor.v1", name="cupy")
    assert found.value == "fl_cupy.tensors:CupyBackend"


def test_without_cupy_the_error_names_the_extras() -> None:
    code = """
import sys
sys.modules["cupy"] = None
import fl_tensor as ft
try:
    ft.use("cupy")
except ft.FlError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "needs CuPy" in run.stdout and "fl-cupy[cuda12]" in run.stdout


def test_without_a_driver_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from fl_cupy.tensors import backend

    runtime = backend.cupy.cuda.runtime

    def count() -> int:
        raise runtime.CUDARuntimeError(*([35] if ON_DEVICE else ["cudaErrorInsufficientDriver"]))

    monkeypatch.setattr(runtime, "getDeviceCount", count)
    with pytest.raises(ft.BackendError, match="cudaErrorInsufficientDriver.*driver installed"):
        ft.ones(3, backend=CupyBackend())


def test_ranges_of_large_integers() -> None:
    first, (device, *_) = 2**63, BACKEND.devices()
    found = BACKEND.arange(first, first + 3, 1, ft.uint64, device)
    assert BACKEND.to_host(found).cast("Q").tolist() == [first, first + 1, first + 2]
    assert ft.arange(5, -4, -3, backend=BACKEND).tolist() == [5, 2, -1]


def test_quotients_are_rounded_down_exactly() -> None:
    x = ft.asarray([1.0, -1.0, -7.0, 6.0], backend=BACKEND)
    y = ft.asarray([0.1, float("inf"), 2.0, -4.0], backend=BACKEND)
    assert (x // y).tolist() == [9.0, -1.0, -4.0, -2.0]
    assert (x % y).tolist()[1:] == [float("inf"), 1.0, -2.0]
    assert abs((x % y).tolist()[0] - 0.1) < 1e-6


def test_an_export_to_the_host_is_a_copy() -> None:
    x = ft.arange(3, backend=CupyBackend())
    with pytest.raises(BufferError, match="copied to reach the host"):
        x.__dlpack__(dl_device=(1, 0), copy=False)


def test_values_are_on_the_first_device() -> None:
    x = ft.arange(6, backend=CupyBackend()).reshape(2, 3)
    assert str(x.device) == "cuda:0"
    assert x.to("numpy").tolist() == [[0, 1, 2], [3, 4, 5]]
