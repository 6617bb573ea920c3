"""Which kernel libraries serve a process, and in which order."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fl_jit.kernels import (
    Epilogue,
    Kernel,
    KernelLibrary,
    KernelLibraryError,
    Matmul,
    OpDescriptor,
    UnsupportedError,
    registry,
    row_major,
)
from fl_jit.kernels.chain import FallbackChain
from fl_jit.kernels.codegen import Builder
from fl_tensor.dtypes import float32, float64


def followed(dtype):
    b = Builder(2)
    b.output(b("negative", b.input(dtype, "sc")), "sc")
    return square(dtype)._replace(epilogue=Epilogue(b.program(), (4, 4), ((4, 1), (4, 1))))


class Solved:
    """A kernel that says whose it is."""

    def __init__(self, descriptor: OpDescriptor, about: str) -> None:
        self.operands = (descriptor.x, descriptor.out)
        self.about = about

    def __call__(self, *addresses: int) -> None:
        raise AssertionError("nobody computes here")


class Only(KernelLibrary):
    """Supports products of one dtype."""

    def __init__(self, name: str, dtype: object) -> None:
        super().__init__()
        self.name, self.dtype, self.requested = name, dtype, 0

    def prepare(self, descriptor: OpDescriptor) -> Kernel:
        self.requested += 1
        if descriptor.out.dtype is not self.dtype:
            raise UnsupportedError(f"not {descriptor.out.dtype}")
        return Solved(descriptor, self.name)

    def report(self) -> dict[str, str]:
        return {"version": "1"}

    def tune(self, descriptor: OpDescriptor) -> str:
        return f"the fastest of {self.name}"


def square(dtype):
    return Matmul(*[row_major(dtype, (4, 4))] * 3)


def chain_of(*libraries):
    return FallbackChain(lambda: libraries)


def test_the_first_that_supports_a_descriptor_serves_it():
    chain = chain_of(Only("second", float64), Only("first", float32))
    assert chain.find(square(float32)).about == chain.serving(square(float32)).name == "first"
    assert chain.find(square(float64)).about == "second"
    assert chain.why_not(square(float32)) == ""
    assert [each.requested for each in chain.libraries] == [2, 1]
    assert chain.tune(square(float32)) == "the fastest of first"


def test_what_none_supports_has_every_reason():
    chain = chain_of(Only("first", float64), Only("second", float64))
    assert chain.find(square(float32)) is None and chain.tune(square(float32)) == ""
    assert chain.why_not(square(float32)) == "first: not float32; second: not float32"
    with pytest.raises(UnsupportedError, match="first: not float32"):
        chain.prepare(square(float32))


def test_a_chain_reports_and_clears_all():
    first, second = Only("first", float32), Only("second", float64)
    chain = chain_of(first, second)
    assert chain.report() == {"first version": "1", "second version": "1"}
    chain.find(square(float64))
    chain.forget()
    chain.find(square(float64))
    assert first.requested == second.requested == 2


def test_epilogues_go_to_libraries_that_have_them():
    first, second = Only("first", float32), Only("second", float32)
    assert first.find(followed(float32)) is None and first.requested == 0
    assert first.why_not(followed(float32)) == "no epilogues"
    assert not chain_of(first, second).has_epilogues
    second.has_epilogues = True
    chain = chain_of(first, second)
    assert chain.has_epilogues
    assert chain.find(followed(float32)).about == "second"


def test_libraries_are_loaded_at_the_first_descriptor():
    loaded = []
    chain = FallbackChain(lambda: loaded.append(1) or (Only("first", float32),))
    assert loaded == []
    chain.find(square(float32))
    chain.find(square(float64))
    assert loaded == [1]


# ---- libraries of other distributions ------------------------------------------------------------

MODULE = """
from fl_jit.kernels import KernelLibrary, KernelLibraryError, UnsupportedError

class Refusing(KernelLibrary):
    name = "refusing"
    def prepare(self, descriptor):
        raise UnsupportedError("it computes nothing")
    def report(self):
        return {"version": "3"}

def broken():
    raise KernelLibraryError("there is no libacme.so; install libacme")

def stranger():
    return 7
"""
GROUP = "fl.jit.kernel_libraries.v1"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """``install(name, "module:attribute", ...)``: a distribution that offers these libraries; then
    set FL_KERNEL_LIBRARIES. What was loaded before is loaded anew."""

    def make(distribution, **offered):
        info = tmp_path / f"{distribution.replace('-', '_')}-2.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 2.0\n"
        )
        points = [f"{name} = {value}" for name, value in offered.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *points, ""]))
        (tmp_path / "acme_libraries.py").write_text(MODULE)

    monkeypatch.syspath_prepend(str(tmp_path))
    for cached in (registry.load, registry.active_library):
        cached.cache_clear()
    yield make
    sys.modules.pop("acme_libraries", None)
    for cached in (registry.load, registry.active_library):
        cached.cache_clear()


def test_an_installed_library_is_used_only_if_it_is_named(install, monkeypatch):
    install("acme-blas", acme="acme_libraries:Refusing")
    monkeypatch.delenv("FL_KERNEL_LIBRARIES", raising=False)
    assert registry.requested() == ("generated",)
    assert registry.available()["acme"] == "acme-blas 2.0"
    registry.active_library()
    assert "acme_libraries" not in sys.modules
    monkeypatch.setenv("FL_KERNEL_LIBRARIES", "acme, generated")
    registry.active_library.cache_clear()
    chain = registry.active_library()
    assert [each.name for each in chain.libraries] == ["refusing", "generated"]
    assert registry.load("acme") is chain.libraries[0]


def test_a_library_that_cannot_be_loaded_is_an_error(install, monkeypatch):
    install("acme-blas", acme="acme_libraries:broken", absent="acme_libraries:Absent")
    monkeypatch.setenv("FL_KERNEL_LIBRARIES", "acme")
    with pytest.raises(KernelLibraryError, match=r"acme-blas 2.0 cannot.*no libacme.so") as raised:
        registry.active_library()
    assert "take 'acme' out of FL_KERNEL_LIBRARIES" in str(raised.value)
    with pytest.raises(KernelLibraryError, match="acme-blas 2.0 cannot be loaded.*Absent"):
        registry.load("absent")


def test_a_value_that_is_no_library_is_an_error(install):
    install("acme-blas", acme="acme_libraries:stranger")
    with pytest.raises(KernelLibraryError, match="made 7, which is no KernelLibrary"):
        registry.load("acme")


def test_two_distributions_that_offer_one_name_are_an_error(install):
    install("acme-blas", acme="acme_libraries:Refusing")
    install("acme-mkl", acme="acme_libraries:Refusing")
    with pytest.raises(KernelLibraryError, match="acme-.* 2.0 and by acme-.* 2.0; uninstall"):
        registry.load("acme")


@pytest.mark.parametrize(
    "value,reason",
    [
        (
            "generated,fastest",
            r"no kernel library 'fastest'; there are: generated \(fl-jit\), acme \(acme-blas 2.0\)",
        ),
        ("none,generated", "'none' stands alone"),
        ("generated,generated", "name each library once"),
    ],
)
def test_names_that_cannot_be_served_are_an_error(install, monkeypatch, value, reason):
    install("acme-blas", acme="acme_libraries:Refusing")
    offers = registry.offers
    monkeypatch.setattr(
        registry, "offers", lambda group: [o for o in offers(group) if o.name == "acme"]
    )
    monkeypatch.setenv("FL_KERNEL_LIBRARIES", value)
    with pytest.raises(KernelLibraryError, match=f"FL_KERNEL_LIBRARIES={value}: {reason}"):
        registry.active_library()


def test_kernel_libraries_can_be_turned_off(install, monkeypatch):
    monkeypatch.setenv("FL_KERNEL_LIBRARIES", "none")
    assert registry.active_library() is None and registry.requested() == ()


def test_small_work_imports_no_compiler():
    code = (
        "import sys, fl_tensor as ft; x = ft.ones((8, 8)); (x @ x).numpy();"
        "print('llvmlite' in sys.modules); y = ft.ones((300, 300)); (y @ y).numpy();"
        "print('llvmlite' in sys.modules)"
    )
    env = {**os.environ, "FL_KERNEL_LIBRARIES": "generated", "FL_TENSOR_BACKEND": "jit"}
    env.pop("FL_KERNELS_FORCE", None)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("setting,printed", [("none", "None"), ("generated", "chain")])
def test_a_process_without_kernel_libraries_works(setting, printed):
    code = (
        "import fl_tensor as ft; from fl_jit.kernels import active_library as a\n"
        "x = ft.ones((200, 300)); print(float((x @ x.T).sum()), a() and 'chain')"
    )
    env = {**os.environ, "FL_KERNEL_LIBRARIES": setting, "FL_TENSOR_BACKEND": "jit"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["12000000.0", printed]


@pytest.mark.parametrize("value,everything", [(None, False), ("0", False), ("1", True)])
def test_sizes_may_be_disregarded(monkeypatch, value, everything):
    monkeypatch.delenv("FL_KERNELS_FORCE", raising=False)
    if value is not None:
        monkeypatch.setenv("FL_KERNELS_FORCE", value)
    assert registry.is_for_everything.__wrapped__() is everything
