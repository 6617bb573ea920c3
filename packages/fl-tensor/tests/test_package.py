"""The package itself: a light import, generated files that match, a contract of bounded size."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import pytest

import fl_tensor as ft
from fl_tensor import contract


def test_importing_loads_no_array_library():
    code = "import sys, fl_tensor; print(*sorted(m.split('.')[0] for m in sys.modules))"
    found = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(found.stdout.split())
    assert {"fl_tensor", "fl_memory"} <= loaded
    assert not loaded & {"numpy", "ctypes", "inspect", "json", "argparse", "importlib_metadata"}


def test_importing_loads_nothing_that_only_errors_or_other_libraries_need():
    code = "import sys, fl_tensor; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    unneeded = {"fl_tensor.foreign_names", "fl_tensor.functions.foreign_memory"}
    assert not unneeded & set(found.stdout.split())


IMPORT_ALL = """
import importlib, pkgutil, sys, fl_tensor
for found in pkgutil.walk_packages(fl_tensor.__path__, "fl_tensor."):
    if not found.name.endswith(".__main__"):
        importlib.import_module(found.name)
print(sum(name.startswith("fl_tensor.") for name in sys.modules))
"""


def test_every_module_is_there_with_all_that_it_imports():
    command = [sys.executable, "-W", "error", "-c", IMPORT_ALL]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    package = files("fl_tensor")
    wanted = [p for p in Path(str(package)).rglob("*.py") if p.name[:2] != "__"]
    assert int(done.stdout) >= len([p for p in wanted if "template" not in p.parts])


@pytest.mark.defect("item 12")
def test_a_call_of_the_package_of_backends_leads_to_the_function():
    code = "import fl_tensor as ft\nft.backends()"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "no function: ft.available_backends() lists the names" in found.stderr
    with pytest.raises(TypeError, match="available_backends"):
        ft.backends()


def test_generated_files_match_the_code():
    for path, text in contract.generated().items():
        assert path.read_text() == text, f"{path.name}: run python -m fl_tensor.contract --write"


def test_the_contract_is_small_and_pinned():
    assert len(contract.PRIMITIVES) <= 64
    path = files("fl_tensor").joinpath("contracts", contract.PINNED.path().name)
    pinned = json.loads(path.read_text())
    names = {op.name for op in contract.OPERATIONS}
    assert set(pinned["operations"]) == names
    required = {n for n, op in pinned["operations"].items() if op["kind"] == "required"}
    assert required == {op.name for op in contract.PRIMITIVES}


def test_every_operation_is_public():
    internal = {"full", "arange", "from_host", "to_host", "random_bits", "uniform", "normal"}
    internal |= {
        "slice",
        "slice_update",
        "pad_edges",
        "truncated_normal",
        "scatter_max",
        "scatter_min",
    }
    for op in contract.OPERATIONS:
        if op.name not in internal:
            apart = {"linalg": ft.linalg, "fft": ft.fft}
            public = getattr(apart.get(op.capability, ft), op.name)
            assert callable(public), op.name
            assert public.__doc__, op.name


def test_names_that_are_loaded_later_are_those_that_type_checkers_see():
    """Each is loaded when asked for, and then an ordinary attribute."""
    tree = ast.parse(Path(ft.__file__).read_text())
    (seen,) = [each for each in tree.body if isinstance(each, ast.If)]
    names = set()
    for line in seen.body:
        if line.names[0].name == "*":
            names |= set(import_module(line.module).__all__)
        else:
            names |= {alias.name for alias in line.names}
    code = f"""
import fl_tensor as ft
before = set(vars(ft))
names = {sorted(names)}
assert not before & set(names), before & set(names)
assert set(names) <= set(dir(ft))
for name in names:
    assert getattr(ft, name) is vars(ft)[name]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
