"""Names of NumPy, PyTorch and JAX: each is here, is a synonym, or says what to write.

The lists beside this file are from ``python tools/foreign_names.py --lists``.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.arrays.foreign_methods import NAMES
from fl_tensor.foreign_names import tables
from fl_tensor.testing.foreign import answer, superfluous, unanswered

LISTS = Path(__file__).with_name("foreign_names")
NUMPY, TORCH, JAX = tables.FUNCTIONS
ARRAY = ft.ones((2, 3))
#: What the names of a list are attributes of, our names there, and the tables that answer.
WHERE = {
    "numpy": (ft, [NUMPY]),
    "torch": (ft, [NUMPY, TORCH]),
    "jax.numpy": (ft, [NUMPY, TORCH, JAX]),
    "torch.Tensor": (ARRAY, [tables.METHODS]),
    "numpy.ndarray": (ARRAY, [tables.METHODS]),
}
#: Functions of NumPy that read, print or describe, or whose operands are no numbers.
NOT_OF_NUMBERS = """
    array2string array_repr array_str asmatrix base_repr binary_repr bmat busday_count busday_offset
    can_cast common_type datetime_as_string datetime_data format_float_positional
    format_float_scientific frombuffer fromfile fromiter frompyfunc fromregex fromstring genfromtxt
    get_include get_printoptions getbufsize geterr geterrcall info is_busday isdtype isfortran isnat
    issubdtype iterable load loadtxt may_share_memory min_scalar_type mintypecode nested_iters
    printoptions promote_types require result_type save savetxt savez savez_compressed
    set_printoptions setbufsize seterr seterrcall shares_memory show_config show_runtime test
    typename
""".split()


@pytest.mark.parametrize("name", WHERE)
def test_every_name_is_here_or_answers(name):
    where, paths = WHERE[name]
    assert unanswered(where, LISTS / f"{name}.txt", *paths) == []


def test_the_installed_numpy_has_no_name_without_an_answer(tmp_path):
    names = [name for name in dir(np) if not name.startswith("_")]
    (tmp_path / "names").write_text(" ".join(names))
    assert unanswered(ft, tmp_path / "names", NUMPY) == []


def test_three_quarters_of_numpys_functions_of_numbers_work_under_their_names():
    functions = {
        name
        for name in (LISTS / "numpy.txt").read_text(encoding="utf-8").split()
        if callable(getattr(np, name, None)) and not isinstance(getattr(np, name), type)
    } - set(NOT_OF_NUMBERS)
    synonyms = {row.name for row in tables.rows(NUMPY) if row.kind == "synonym"}
    there = functions & ({*dir(ft)} | synonyms)
    share = len(there) / len(functions)
    print(f"{len(there)} of {len(functions)} functions of NumPy: {share:.0%}")
    assert share >= 0.75


@pytest.mark.parametrize("path", [*tables.FUNCTIONS, tables.METHODS], ids=lambda p: p.stem)
def test_no_row_is_superfluous(path):
    assert superfluous(ARRAY if path is tables.METHODS else ft, path) == []


def test_no_name_is_in_two_tables_of_functions():
    names = Counter(row.name for path in tables.FUNCTIONS for row in tables.rows(path))
    assert [name for name, count in names.items() if count > 1] == []


def test_a_synonym_is_the_function_itself():
    synonyms = [
        row for path in tables.FUNCTIONS for row in tables.rows(path) if row.kind == "synonym"
    ]
    assert "float_" in {row.name for row in synonyms}
    for row in synonyms:
        assert getattr(ft, row.name) is getattr(ft, row.text), row


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("cat", "write ft.concatenate(xs, axis)"),
        ("no_grad", "write with ag.no_grad():"),
        ("manual_seed", "write ft.seed(0)"),
        ("tensor", "write ft.asarray(values)"),
        ("savetxt", "write numpy.savetxt(file, x.numpy())"),
        ("busday_count", "not planned (dates and days; use NumPy)"),
        ("cudnn_convolution", "not planned (internals of PyTorch)"),
        ("strided", "not needed (arrays have no strides)"),
    ],
)
def test_a_function_that_is_missing_says_what_to_write(name, way):
    assert answer(ft, name) == f"module 'fl_tensor' has no attribute {name!r}: {way}"


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("view", "write x.reshape(shape)"),
        ("unsqueeze", "write x.expand_dims(axis)"),
        ("data", "write x.tensor; it can be assigned: layer.weight.tensor = values"),
        ("softmax", "write ft.softmax(x, ...)"),
        ("exp_", "write x = ft.exp(x, ...); arrays are values"),
        ("to_sparse", "not planned (sparse arrays)"),
        ("strides", "not needed (arrays have no strides)"),
    ],
)
def test_a_method_that_is_missing_says_what_to_write(name, way):
    assert answer(ARRAY, name) == f"'Tensor' object has no attribute {name!r}: {way}"
    assert not hasattr(ARRAY, name) and not hasattr(ft.Tensor, name)


def test_a_call_of_the_module_of_devices_names_the_class():
    with pytest.raises(TypeError, match=r"x.to\('cuda:0'\), or is ft.Device\('cuda', 0\)"):
        ft.device("cuda:0")


@pytest.mark.parametrize("typed", ["ft.clamp", "ft.ones(3).view", "ft.unsqueeze"])
def test_python_adds_no_other_name(typed):
    command = [sys.executable, "-c", f"import fl_tensor as ft; {typed}"]
    shown = subprocess.run(command, capture_output=True, text=True).stderr
    assert ": write " in shown and "Did you mean" not in shown


def test_a_misspelt_name_of_ours_is_still_corrected():
    command = [sys.executable, "-c", "import fl_tensor as ft; ft.concatenat"]
    shown = subprocess.run(command, capture_output=True, text=True).stderr
    assert "Did you mean: 'concatenate'?" in shown


def test_names_of_methods_are_those_of_their_table():
    expected = {r.name for r in tables.rows(tables.METHODS) if r.kind != "expected"}
    assert set(NAMES.split()) == expected


def test_a_subclass_may_have_a_method_of_that_name():
    class Mine(ft.Tensor):
        def view(self):
            return "mine"

    mine = object.__new__(Mine)
    assert mine.view() == "mine" and "view" in dir(mine)


def test_copies_and_pickles_ask_for_no_foreign_name():
    assert copy.copy(ARRAY).tolist() == pickle.loads(pickle.dumps(ARRAY)).tolist()


def test_a_line_outside_the_sections_of_a_table_is_refused(tmp_path):
    (tmp_path / "bad.txt").write_text("cat ft.concatenate\n")
    with pytest.raises(ValueError, match=r"'cat ft.concatenate' is in no section"):
        tables.rows(tmp_path / "bad.txt")


@pytest.mark.defect("N35")
@pytest.mark.parametrize("module", [ft, ft.linalg, ft.fft, ft.random], ids=lambda m: m.__name__)
def test_dir_is_the_public_names(module):
    names = dir(module)
    assert not {"Any", "annotations", "operand", "limits", "TYPE_CHECKING", "arrays"} & set(names)
    assert all(hasattr(module, name) and not name.startswith("_") for name in names)
    assert {"ft", "linalg"} & set(names) == ({"linalg"} if module is ft else set())


@pytest.mark.defect("N35")
def test_dir_of_an_array_is_its_own_attributes():
    assert {"reshape", "sum", "T", "shape"} <= set(dir(ARRAY))
    assert not {"view", "unsqueeze", "cuda"} & set(dir(ARRAY))
