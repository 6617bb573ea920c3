"""``ft.array_api``: the names and parameters of the standard, and where it differs from ``ft``."""

from __future__ import annotations

import inspect
import math
import sys
from pathlib import Path
from subprocess import run

import numpy as np
import pytest

import fl_tensor as ft

xp = ft.array_api


def listed() -> dict[str, list[str]]:
    text = Path(__file__).with_name("array_api_2025_12.txt").read_text()
    sections: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            current.append(line)
    return sections


STANDARD = listed()
NAMESPACES = {
    "namespace": xp,
    "linalg": xp.linalg,
    "fft": xp.fft,
    "info": xp.__array_namespace_info__(),
}


def written(function) -> str:
    """The signature without annotations."""
    signature = inspect.signature(function)
    parameters = [
        p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()
    ]
    bare = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    return str(bare).replace('"', "'")


@pytest.mark.parametrize("section, line", [(s, line) for s in NAMESPACES for line in STANDARD[s]])
def test_a_function_has_the_signature_of_the_standard(section, line):
    name = line.partition("(")[0]
    function = getattr(NAMESPACES[section], name)
    assert name + written(function) == line
    assert function.__name__ == name and function.__doc__


def test_arrays_have_the_methods_and_attributes_of_the_standard():
    x = xp.ones((2, 2))
    for line in STANDARD["methods"]:
        name, given, parameters = line.partition("(")
        method = getattr(x, name)
        if given:
            assert written(method) == given + parameters, name
    for name in STANDARD["attributes"]:
        assert hasattr(x, name), name


def test_the_namespace_holds_nothing_but_the_standard():
    known = {line.partition("(")[0] for line in STANDARD["namespace"]}
    known |= {"e", "inf", "nan", "pi", "newaxis", "linalg", "fft", "REVISIONS"}
    known |= set(xp.__array_namespace_info__().dtypes())
    functions = {
        n for n, v in vars(xp).items() if not n.startswith("_") and not inspect.ismodule(v)
    }
    assert functions <= known
    assert xp.__array_api_version__ == "2025.12"


def test_an_array_tells_its_namespace():
    x = ft.ones(2)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ft.ArgumentError, match=r"\[array_api\] revision '2020.12': expected one"):
        x.__array_namespace__(api_version="2020.12")


def test_the_namespace_is_loaded_when_it_is_asked_for():
    code = (
        "import sys, fl_tensor as ft\n"
        "assert 'fl_tensor.array_api' not in sys.modules\n"
        "ft.array_api.pi\n"
        "assert 'numpy' not in sys.modules\n"
    )
    run([sys.executable, "-c", code], check=True)


# ---- where the standard decides otherwise than ft -----------------------------------------------


@pytest.mark.parametrize("function", [xp.sum, xp.prod, xp.cumulative_sum, xp.cumulative_prod])
def test_sums_of_unsigned_integers_are_unsigned(function):
    x = xp.asarray([200, 100], dtype=xp.uint8)
    assert function(x).dtype is xp.uint64
    assert ft.sum(x).dtype is ft.int64
    assert function(xp.astype(x, xp.int16)).dtype is xp.int64
    assert function(xp.astype(x, xp.float32)).dtype is xp.float32
    assert function(x, dtype=xp.uint8).dtype is xp.uint8


def test_a_sum_wraps_in_the_dtype_asked_for():
    x = xp.asarray([200, 100], dtype=xp.uint8)
    assert xp.sum(x, dtype=xp.uint8).item() == 44
    assert xp.linalg.trace(xp.reshape(xp.asarray([200, 0, 0, 100]), (2, 2))).dtype is xp.int64


def test_positions_among_all_elements():
    x = xp.asarray([[1, 5], [7, 2]])
    assert xp.argmax(x).item() == 2
    assert xp.argmin(x, keepdims=True).tolist() == [[0]]
    assert xp.argmax(x, axis=0).tolist() == [1, 0]


def test_running_sums_of_several_axes_need_an_axis():
    assert xp.cumulative_sum(xp.asarray([1, 2])).tolist() == [1, 3]
    with pytest.raises(ft.ArgumentError, match=r"\[cumulative_sum\] x \(1, 2\): several axes"):
        xp.cumulative_sum(xp.asarray([[1, 2]]))


def test_concat_of_all_elements():
    assert xp.concat([xp.ones((1, 2)), xp.zeros(1)], axis=None).tolist() == [1, 1, 0]


def test_diagonals_that_are_outside():
    for k in (-(2**63), -2, 3, 2**63):
        assert xp.eye(2, 3, k=k).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert xp.eye(2, 3, k=-1).tolist() == [[0, 0, 0], [1, 0, 0]]


INF = math.inf
NAN = math.nan


@pytest.mark.defect("N16")
def test_quotients_of_infinities_are_those_of_python():
    """The standard knows that libraries differ; its own cases are listed as deviations."""
    x, y = (xp.asarray(v) for v in ([INF, INF, 1, -1, INF, 3], [2.0, -2, -INF, INF, INF, -2]))
    for found in (x // y, xp.floor_divide(x, y)):
        np.testing.assert_array_equal(found.numpy(), [NAN, NAN, -1, -1, NAN, -2])


@pytest.mark.parametrize(
    "name, z, expected",
    [
        ("expm1", complex(INF, 0), complex(INF, 0)),
        ("expm1", complex(-INF, INF), complex(-1, 0)),
        ("expm1", complex(NAN, 0), complex(NAN, 0)),
        ("expm1", complex(-0.0, 0), complex(0, 0)),
        ("tanh", complex(INF, 2), complex(1, 0)),
        ("tanh", complex(-INF, -2), complex(-1, -0.0)),
    ],
)
def test_complex_functions_of_infinities(name, z, expected):
    found = getattr(xp, name)(xp.asarray(z, dtype=xp.complex128)).item()
    for part, wanted in ((found.real, expected.real), (found.imag, expected.imag)):
        np.testing.assert_equal(part, wanted)
        assert math.copysign(1, part) == math.copysign(1, wanted) or math.isnan(wanted)


def test_the_sign_of_nan():
    assert xp.signbit(xp.asarray([math.copysign(NAN, -1), NAN])).tolist() == [True, False]


# ---- dtypes and inspection ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, names",
    [
        ("bool", "bool"),
        ("signed integer", "int8 int16 int32 int64"),
        ("unsigned integer", "uint8 uint16 uint32 uint64"),
        ("real floating", "float32 float64"),
        (("bool", "complex floating"), "bool complex64 complex128"),
        ("integral", "int8 int16 int32 int64 uint8 uint16 uint32 uint64"),
    ],
)
def test_dtypes_of_a_kind(kind, names):
    assert set(xp.__array_namespace_info__().dtypes(kind=kind)) == set(names.split())
    assert all(xp.isdtype(getattr(xp, n), kind) for n in names.split())


def test_isdtype():
    assert xp.isdtype(xp.int8, xp.int8) and not xp.isdtype(xp.int8, (xp.int16, "bool"))
    assert xp.isdtype(ft.float16, "real floating") and not xp.isdtype(xp.bool, "numeric")
    assert xp.isdtype(np.float64, "real floating"), "whatever names a dtype, as in all functions"
    with pytest.raises(ft.ArgumentError, match="kind 'float'"):
        xp.isdtype(xp.int8, "float")


def test_result_type_and_can_cast():
    assert xp.result_type(xp.int8, xp.uint8, 3) is xp.int16
    assert xp.result_type(xp.ones(1, dtype=xp.float64), 1j) is xp.complex128
    assert xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(xp.int16, xp.int8)
    assert not xp.can_cast(xp.uint64, xp.int64)
    with pytest.raises(ft.ArgumentError, match="at least one"):
        xp.result_type(1, 2.0)


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "complex64"])
def test_finfo_agrees_with_numpy(name):
    ours, theirs = ft.finfo(name), np.finfo(name)
    for field in ("bits", "eps", "max", "min", "smallest_normal"):
        assert getattr(ours, field) == float(getattr(theirs, field)), field


def test_finfo_of_bfloat16():
    info = ft.finfo(ft.bfloat16)
    assert (info.bits, info.eps, info.smallest_normal) == (16, 2**-7, 2**-126)
    assert info.max == 3.3895313892515355e38


@pytest.mark.parametrize("name", ["int8", "int64", "uint8", "uint64"])
def test_iinfo_agrees_with_numpy(name):
    ours, theirs = ft.iinfo(name), np.iinfo(name)
    assert (ours.bits, ours.min, ours.max) == (theirs.bits, theirs.min, theirs.max)


def test_limits_of_the_wrong_dtype():
    with pytest.raises(ft.DTypeError, match=r"\[finfo\] int8 is not floating"):
        ft.finfo(ft.int8)
    with pytest.raises(ft.DTypeError, match=r"\[iinfo\] float32 is no integer"):
        ft.iinfo(ft.ones(2))


def test_inspection():
    info = xp.__array_namespace_info__()
    assert info.devices() == (info.default_device(),) == (ft.CPU,)
    assert info.default_dtypes()["indexing"] is xp.int64
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 64,
    }
    with ft.use("null"):
        assert not info.capabilities()["boolean indexing"]


def test_astype():
    x = xp.asarray([1.5])
    assert xp.astype(x, xp.float32, copy=False) is x
    assert xp.astype(x, xp.float32) is not x
    assert xp.astype(x, xp.int8, device=x.device).tolist() == [1]
    with pytest.raises(ft.DTypeError, match="take real"):
        xp.astype(xp.asarray([1j]), xp.float32)


# ---- devices and copies -------------------------------------------------------------------------


def test_to_device():
    x = xp.ones(2)
    assert x.to_device(x.device).tolist() == [1, 1] and x.to_device("cpu") is not x
    with pytest.raises(ft.BackendError, match="has no device cuda:0"):
        x.to_device("cuda:0")
    with pytest.raises(ft.ArgumentError, match="stream"):
        x.to_device(x.device, stream=1)


def test_a_copy_is_another_value():
    x = xp.asarray([1, 2])
    y = xp.asarray(x, copy=True)
    y[0] = 9
    assert x.tolist() == [1, 2]
    assert xp.asarray(x) is x and xp.asarray(x, copy=False) is x
    with pytest.raises(ValueError, match="only by a copy"):
        xp.asarray(x, dtype=xp.float32, copy=False)


def test_in_place_operators_bind_the_name_anew():
    x = y = xp.asarray([1, 2])
    x += 1
    assert (x.tolist(), y.tolist()) == ([2, 3], [1, 2])


def test_python_numbers_of_arrays():
    assert complex(xp.asarray(1 + 2j)) == 1 + 2j
    assert [10, 11][xp.asarray(1)] == 11


# ---- a second opinion ---------------------------------------------------------------------------

SAMPLE = [
    "xp.abs(x)",
    "xp.sum(x, axis=1)",
    "xp.mean(x)",
    "xp.std(x, axis=(0, 1), correction=1)",
    "xp.argsort(x, axis=0, descending=True)",
    "xp.matmul(x, x.T)",
    "xp.concat([x, x], axis=1)",
    "xp.where(x > 0, x, 0.0)",
    "xp.roll(x, (1, 2), axis=(0, 1))",
    "xp.clip(x, -1.0, 1.0)",
    "xp.unique_counts(x).counts",
    "xp.searchsorted(xp.sort(xp.reshape(x, (-1,))), x)",
    "xp.linalg.svdvals(x)",
    "xp.fft.rfft(x)",
    "xp.diff(x, n=2)",
    "xp.cumulative_sum(x, axis=1, include_initial=True)",
    "xp.take(x, xp.asarray([2, 0]), axis=1)",
    "xp.astype(x, xp.int32)",
    "xp.moveaxis(xp.expand_dims(x, axis=(0, 3)), (0, 1), (3, 2))",
    "xp.tensordot(x, x, axes=((1,), (1,)))",
    "xp.isin(xp.astype(x, xp.int64), xp.asarray([0, 1]))",
]


@pytest.mark.parametrize("expression", SAMPLE)
def test_array_api_strict_gives_the_same(expression):
    strict = pytest.importorskip("array_api_strict")
    data = np.random.default_rng(0).normal(size=(3, 4)).tolist()
    found, expected = (
        eval(expression, {"xp": module, "x": module.asarray(data, dtype=module.float64)})
        for module in (xp, strict)
    )
    assert str(found.dtype) == str(expected.dtype).rpartition(".")[2]
    np.testing.assert_allclose(np.asarray(found), np.from_dlpack(expected), rtol=1e-12, atol=1e-12)
