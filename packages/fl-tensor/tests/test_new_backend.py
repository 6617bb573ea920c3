"""``fl-tensor new-backend``: the package is complete, and its backend is right from the start."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor import contract
from fl_tensor.backends.delegate import DelegatingBackend
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.backends.numpy.adapter import TO_NUMPY
from fl_tensor.cli import main
from fl_tensor.cli.new_backend import FILES, TEMPLATE, create
from fl_tensor.errors import ArgumentError
from fl_tensor.testing import TensorBackendSuite

if sys.version_info >= (3, 11):
    import tomllib


class Starter(DelegatingBackend):
    CONTRACT = (1, 0)
    name = "starter"


class HostAdapter(ft.TensorAdapter):
    """Values kept in bytes of our own."""

    __slots__ = ("data", "device", "dtype", "shape")

    def __init__(self, data: bytes, shape: tuple[int, ...], dtype: Any, device: Any) -> None:
        self.data, self.shape, self.dtype, self.device = data, shape, dtype, device


class OwnStorage(DelegatingBackend):
    """A device and values of its own; every operation is still borrowed."""

    CONTRACT = (1, 0)
    name = "own-storage"

    def devices(self) -> list[ft.Device]:
        return [ft.Device("moon", 0), ft.Device("moon", 1)]

    def adopt(self, value: ft.TensorAdapter, device: ft.Device) -> HostAdapter:
        return HostAdapter(bytes(self.lender.to_host(value)), value.shape, value.dtype, device)

    def lend(self, x: Any) -> ft.TensorAdapter:
        there = self.lender.devices()[0]
        return self.lender.from_host(memoryview(x.data), x.shape, x.dtype, there)


class TestOwnStorage(TensorBackendSuite):
    backend = OwnStorage


def test_everything_is_borrowed_until_it_is_written() -> None:
    class Half(Starter):
        CONTRACT = (1, 0)

        def add(self, x: Any, y: Any) -> Any:
            return super().add(self.negative(x), y)

    assert len(Starter.borrowed()) == len(Half.borrowed()) + 1
    assert set(Starter.borrowed()) - set(Half.borrowed()) == {"add"}
    assert {"add", "conv", "scatter"} <= set(Starter.borrowed())
    x = ft.asarray([1.0, 2.0], backend=Half())
    assert (x + x).tolist() == [0.0, 0.0]
    assert ft.asarray([1.0, 2.0], backend=Half()).backend.devices() == [ft.CPU]


def test_what_is_not_declared_is_not_borrowed() -> None:
    class Declares(Starter):
        CONTRACT = (1, 0)
        capabilities = frozenset({"linalg", "memory"})

        def solve(self, x: Any, y: Any) -> Any:
            return super().solve(x, y)

    more = set(Declares.borrowed()) - set(Starter.borrowed())
    assert more == {op.name for op in contract.OPTIONAL if op.capability == "linalg"} - {"solve"}
    eye = [[1.0, 0.0], [0.0, 1.0]]
    x = ft.asarray(eye, backend=Declares())
    assert ft.linalg.solve(x, x).tolist() == eye
    x = ft.asarray(eye, backend=Starter())
    for call in (
        lambda: ft.linalg.solve(x, x),
        lambda: ft.linalg.inv(x),
        lambda: ft.linalg.det(x),
        lambda: ft.linalg.eig(x),
        lambda: ft.linalg.svd(x),
        lambda: ft.fft.fft(x),
        lambda: ft.fft.rfft(x),
        lambda: ft.fft.irfft(x),
        lambda: ft.fft.rfftn(x),
    ):
        with pytest.raises(ft.CapabilityError, match="'starter' does not offer the capability"):
            call()


@pytest.mark.parametrize("name", ["rfft", "ihfft", "rfftn", "fft"])
def test_transforms_need_complex_numbers(name: str) -> None:
    class Transforms(Starter):
        CONTRACT = (1, 0)
        capabilities = frozenset({"fft"})

    x = ft.asarray([1.0, 2.0], backend=Transforms())
    with pytest.raises(ft.DTypeError, match=rf"\[{name}\] .* has no dtype complex64"):
        getattr(ft.fft, name)(x)


def test_a_backend_that_wrote_all_it_must_has_nothing_borrowed() -> None:
    own = {op.name: getattr(NumpyBackend, op.name) for op in contract.PRIMITIVES}
    assert type("Own", (Starter,), {"CONTRACT": (1, 0), **own}).borrowed() == []  # type: ignore[attr-defined]


def test_bfloat16_that_the_lender_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Half(Starter):
        CONTRACT = (1, 0)
        dtypes = frozenset({*Starter.dtypes, ft.bfloat16})

    monkeypatch.delitem(TO_NUMPY, ft.bfloat16, raising=False)
    with ft.use(Half), pytest.raises(ft.DTypeError, match=r"bfloat16 here.*fl-tensor\[bfloat16\]"):
        ft.zeros(2, "bfloat16")


def test_another_backend_may_lend() -> None:
    class OverOther(Starter):
        CONTRACT = (1, 0)
        lent_by = NumpyBackend()

    backend = OverOther()
    assert backend.lender is OverOther.lent_by
    assert ft.asarray([3.0, 1.0], backend=backend).sum().item() == 4.0


def test_values_on_the_second_device_stay_there() -> None:
    second = ft.Device("moon", 1)
    x = ft.asarray([1.0, 2.0], device=second, backend=OwnStorage())
    assert (x + 1.0).device == (x @ x).device == ft.concatenate([x, x]).device == second


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder / "src"), *sys.path])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": "-p fl_pytest_plugin"},
    )


def installed(folder: Path) -> None:
    """Metadata as pip would leave it, so that the entry point is found."""
    text = (folder / "pyproject.toml").read_text()
    points = re.search(r'entry-points."(.*)"\]\n(.*)\n', text)
    assert points is not None
    module = next((folder / "src").iterdir()).name
    info = folder / "src" / f"{module}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Name: {folder.name}\nVersion: 0.1.0\nKeywords: fl.tensor.v1.0\n"
    )
    (info / "entry_points.txt").write_text(f"[{points[1]}]\n{points[2].replace(chr(34), '')}\n")


def test_the_package_is_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-backend", "half-moon", "--out", str(tmp_path)]) == 0
    folder = tmp_path / "fl-tensor-half-moon"
    said = capsys.readouterr().out
    assert str(folder) in said and "pytest" in said and "backend.py" in said
    written = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert written == {name.replace("@module@", "fl_tensor_half_moon") for name in FILES.values()}
    assert len(FILES) == len(list(TEMPLATE.iterdir()))
    for path in written:
        assert not re.search(r"@\w+@", (folder / path).read_text()), path
    assert "${{ matrix.python }}" in (folder / ".github/workflows/test.yml").read_text()
    if sys.version_info >= (3, 11):
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        assert project["dependencies"] == ["fl-tensor>=0.1,<0.2"]
        assert project["keywords"] == ["fl.tensor.v1.0"]
        target = "fl_tensor_half_moon:HalfMoonBackend"
        assert project["entry-points"] == {"fl.tensor.v1": {"half-moon": target}}


def test_its_tests_pass_and_are_found_by_name(tmp_path: Path) -> None:
    folder = create("moon", tmp_path)
    installed(folder)
    found = run_pytest(folder, "-k", "found or claims or test_operation and add-")
    assert found.returncode == 0, found.stdout + found.stderr
    assert "passed" in found.stdout


@pytest.mark.parametrize("which", [0, 1], ids=["plain Python", "NumPy"])
def test_the_first_method_in_its_comments_is_right(tmp_path: Path, which: int) -> None:
    folder = create("moon", tmp_path)
    installed(folder)
    path = folder / "src" / "fl_tensor_moon" / "backend.py"
    text = path.read_text()
    methods = re.findall(r"(    # def add.*?\n)    #\n", text, re.DOTALL)
    assert len(methods) == 2
    own = methods[which].replace("    # ", "    ")
    text = text.replace(methods[which], own)
    imports = ("from array import array\n", "import numpy as np\n")[which]
    path.write_text(text.replace("import fl_tensor as ft\n", f"{imports}import fl_tensor as ft\n"))
    found = run_pytest(folder, "-k", "found or test_operation and (add- or softmax- or matmul-)")
    assert found.returncode == 0, found.stdout + found.stderr
    # Broken on purpose, it is noticed: the kit runs this very method.
    path.write_text(path.read_text().replace("p + q", "p - q").replace("a + b", "a - b"))
    assert run_pytest(folder, "-k", "test_operation and add-float32-plain").returncode == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("numpy", "installed already"),
        ("Moon", "lower-case"),
        ("3d", "lower-case"),
        ("a b", "lower-case"),
        ("../up", "lower-case"),
        ("class", "lower-case"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new-backend", name, "--out", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "fl-tensor-moon").mkdir()
    with pytest.raises(ArgumentError, match="nothing is overwritten"):
        create("moon", tmp_path)


def test_borrowed_results_are_numpys() -> None:
    values = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    x = ft.asarray(values, backend=Starter())
    y = ft.asarray(values)
    assert ft.softmax(x @ x.T, 1).tolist() == ft.softmax(y @ y.T, 1).tolist()
