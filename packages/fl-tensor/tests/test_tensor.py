"""What a user meets: making tensors, reading them back, operators, methods, values."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from array import array

import numpy as np
import pytest

import fl_tensor as ft


@pytest.mark.parametrize(
    ("source", "dtype", "shape"),
    [
        (1, "int64", ()),
        (1.5, "float32", ()),
        (True, "bool", ()),
        ([1, 2], "int64", (2,)),
        ([[1, 2.5]], "float32", (1, 2)),
        ([[True], [False]], "bool", (2, 1)),
        ([], "float32", (0,)),
        ([[], []], "float32", (2, 0)),
        (range(3), "int64", (3,)),
        ([np.float64(1), 2, True], "float64", (3,)),
        ([True, np.bool_(False)], "bool", (2,)),
        (array("d", [1, 2]), "float64", (2,)),
        (array("h", [1, 2]), "int16", (2,)),
        (b"ab", "uint8", (2,)),
    ],
    ids=str,
)
def test_asarray_infers_dtype_and_shape(source, dtype, shape):
    x = ft.asarray(source)
    assert (x.dtype.name, x.shape) == (dtype, shape)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint16", "int32", "int64", "float32", "float64", "bool"]
)
def test_asarray_copies_numpy_arrays_of_any_layout(dtype):
    source = np.arange(24).reshape(2, 3, 4).astype(dtype).transpose(2, 0, 1)[::-1]
    x = ft.asarray(source)
    assert x.dtype.name == dtype
    np.testing.assert_array_equal(x.numpy(), source)
    before = x.tolist()
    source[...] = 0
    assert x.tolist() == before


def test_asarray_stacks_lists_of_tensors_and_of_arrays():
    rows = [ft.asarray([1.0, 2.0]), ft.asarray([3.0, 4.0])]
    assert ft.asarray(rows).tolist() == [[1, 2], [3, 4]]
    assert ft.asarray([np.float32([1, 2]), np.float32([3, 4])]).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        ([[1, 2], [3]], ft.ShapeError, "ragged"),
        ([[1, 2], 3], ft.ShapeError, "ragged"),
        ([[1, 2], [3, [4]]], ft.ShapeError, "unevenly"),
        ("text", ft.DTypeError, "cannot read a str"),
        ({1: 2}, ft.DTypeError, "cannot read a dict"),
        ([1, "a"], ft.DTypeError, "found a str"),
        ([np.float64(1), None], ft.DTypeError, "found a NoneType"),
        ([[np.ones(2)]], ft.DTypeError, "found a ndarray"),
        ([2**70], ft.DTypeError, "do not fit int64"),
        (np.zeros(2, "M8[s]"), ft.DTypeError, "cannot read a ndarray"),
        (np.zeros(2, "M8[s]")[0], ft.DTypeError, "cannot read a datetime64"),
    ],
    ids=str,
)
def test_asarray_refuses_what_is_no_array(source, error, words):
    with pytest.raises(error, match=words):
        ft.asarray(source)


@pytest.mark.parametrize("dtype", "i2 u4 i8 f2 f4 f8 c8 c16".split())
@pytest.mark.parametrize("order", "<>")
def test_asarray_reads_both_byte_orders(dtype, order):
    source = np.arange(6).astype(order + dtype).reshape(2, 3)[:, ::-1]
    x = ft.asarray(source)
    assert x.dtype.name == source.dtype.name
    np.testing.assert_array_equal(x.numpy(), source)


def test_foreign_byte_order_is_not_borrowed():
    with pytest.raises(ft.ArgumentError, match="byte order is foreign"):
        ft.asarray(np.zeros(2, np.dtype("f4").newbyteorder("S")), copy=False)


def test_lists_for_bool_hold_what_is_true():
    assert ft.asarray([0, 2, 0.5, 1j, -0.0], dtype="bool").tolist() == [0, 1, 1, 1, 0]


def test_lists_for_integer_dtypes_hold_what_fits():
    assert ft.asarray([1.75, -1.75, 3], dtype="int8").tolist() == [1, -1, 3]
    for values in ([300, 0.5], [300.0], [float("nan")], [float("inf"), 1]):
        with pytest.raises(ft.DTypeError, match="does not fit uint8"):
            ft.asarray(values, dtype="uint8")


@pytest.mark.parametrize("dtype", "float16 bfloat16 float32 float64 int32".split())
def test_complex_numbers_do_not_become_real_ones(dtype):
    with pytest.raises(ft.DTypeError):
        ft.asarray([1j, 2.0], dtype=dtype)


def test_values_do_not_alias():
    x = ft.zeros((3, 4))
    row = x[1]
    y = x
    z = x.copy()
    x[1] = 5.0
    x += 1
    assert row.tolist() == [0, 0, 0, 0]
    assert y.tolist()[1] == [5, 5, 5, 5], "x and y were one handle until += rebound x"
    assert z.tolist() == [[0.0] * 4] * 3
    assert x.tolist()[1] == [6, 6, 6, 6]


NOTHING_TO_DO = {
    "x[:]": lambda x: x[:],
    "x[...]": lambda x: x[...],
    "+x": lambda x: +x,
    "copy": lambda x: x.copy(),
    "reshape": lambda x: x.reshape(x.shape),
    "flatten": lambda x: x.flatten(),
    "astype": lambda x: x.astype(x.dtype),
    "to device": lambda x: x.to("cpu"),
    "to backend": lambda x: x.to(x.backend),
    "squeeze": lambda x: x.squeeze(),
    "broadcast_to": lambda x: ft.broadcast_to(x, x.shape),
    "floor": lambda x: ft.floor(x),
    "roll": lambda x: ft.roll(x, 0),
    "clip": lambda x: x.clip(),
    "sum over no axis": lambda x: x.sum(()),
    "max over no axis": lambda x: x.max(()),
}


@pytest.mark.parametrize("name", NOTHING_TO_DO)
def test_a_function_with_nothing_to_do_gives_a_value_of_its_own(name):
    x = ft.arange(3)
    y = NOTHING_TO_DO[name](x)
    y[0] = 9
    assert (x.tolist(), y.tolist()) == ([0, 1, 2], [9, 1, 2])
    x[1] = 7
    assert y.tolist() == [9, 1, 2]


@pytest.mark.parametrize("n", [6, 5000])
def test_assigning_a_value_to_itself(n):
    x = ft.arange(n)
    x[:] = x
    assert x.tolist() == list(range(n))
    x[::-1] = x
    assert x.tolist() == list(range(n))[::-1]
    x[1:] = x[:-1]
    assert x.tolist() == [n - 1, *range(n - 1, 0, -1)]


def test_exports_are_read_only_and_keep_their_value():
    x = ft.zeros((64, 64))
    view = np.asarray(x)
    with pytest.raises(ValueError, match="read-only"):
        view[0, 0] = 1
    x[0, 0] = 1.0
    assert view[0, 0] == 0
    assert x[0, 0].item() == 1


def test_assignment_reuses_storage_that_nobody_else_sees():
    x = ft.zeros((64, 64))
    address = x.numpy().__array_interface__["data"][0]
    x[3] = 1.0
    x[:, 2] = 2.0
    assert x.numpy().__array_interface__["data"][0] == address
    held = x.adapter
    x[0] = 9.0
    assert held.array[0, 0] == 0, "a held value never changes"


@pytest.mark.parametrize("dtype", [ft.float32, ft.float64])
def test_arithmetic_on_single_numbers_is_that_of_arrays(dtype):
    values = [0.0, -0.0, 1.5, -3.25, ft.finfo(dtype).max, ft.finfo(dtype).min, math.inf, math.nan]
    for name in ("add", "subtract", "multiply", "divide"):
        function = getattr(ft, name)
        for a, b in itertools.product(values, values):
            alone = function(ft.asarray(a, dtype=dtype), ft.asarray(b, dtype=dtype))
            listed = function(ft.asarray([a], dtype=dtype), ft.asarray([b], dtype=dtype))
            assert (alone.shape, alone.dtype) == ((), dtype)
            assert np.asarray(alone).tobytes() == np.asarray(listed).tobytes(), (name, a, b)


def test_a_single_number_is_a_value_like_any_other():
    x = ft.asarray(2.0) * 3.0
    view, y = np.asarray(x), x
    x += 1.0
    x[...] = x * 2.0
    assert (x.item(), float(view), y.item()) == (14.0, 6.0, 6.0)
    assert not view.flags.writeable and x.reshape(1, 1).tolist() == [[14.0]]


def test_item_tolist_bool_and_len_ask_for_the_right_size():
    assert ft.asarray([[3]]).item() == 3
    assert ft.zeros((2, 0, 3)).tolist() == [[], []]
    assert not ft.asarray(0.0)
    assert [v.item() for v in ft.arange(3)] == [0, 1, 2]
    for wrong in (lambda x: x.item(), bool):
        with pytest.raises(ft.ArgumentError, match=r"\(2,\)"):
            wrong(ft.zeros(2))
    with pytest.raises(TypeError):
        len(ft.asarray(1))
    with pytest.raises(TypeError):
        hash(ft.asarray(1))


def test_numpy_arrays_leave_mixed_expressions_to_tensors():
    y = np.float32([1, 2]) + ft.asarray([1.0, 1.0])
    assert isinstance(y, ft.Tensor)
    assert y.tolist() == [2, 3]


def test_copy_deepcopy_and_pickle_keep_the_value():
    x = ft.asarray([[1, 2], [3, 4]], dtype="int32")
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y is not x
        assert (y.dtype, y.tolist()) == (ft.int32, [[1, 2], [3, 4]])
    y[0] = 9
    assert x.tolist() == [[1, 2], [3, 4]]


def test_creation():
    assert ft.full((2,), 7).tolist() == [7, 7]
    assert ft.full((), 1.5, dtype="int32").item() == 1
    assert ft.ones((1, 2), dtype="uint8").tolist() == [[1, 1]]
    assert ft.eye(2, 3, k=1).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert ft.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert ft.arange(0.0, 1.0, 0.25).tolist() == [0, 0.25, 0.5, 0.75]
    assert ft.arange(3, 3).tolist() == []
    assert ft.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert ft.zeros_like(ft.ones((2,), dtype="int8")).dtype is ft.int8
    filled = ft.full_like(ft.zeros((1, 2), dtype="uint8"), 7)
    assert (filled.dtype, filled.tolist()) == (ft.uint8, [[7, 7]])
    ij = ft.meshgrid([1, 2], [3, 4, 5], indexing="ij")
    assert [g.tolist() for g in ij] == [[[1, 1, 1], [2, 2, 2]], [[3, 4, 5], [3, 4, 5]]]
    assert [g.shape for g in ft.meshgrid([1, 2], [3, 4, 5])] == [(3, 2), (3, 2)]


def test_to_moves_between_dtypes_devices_and_backends():
    x = ft.asarray([1.7, -1.7])
    assert x.to("int32").tolist() == [1, -1]
    assert x.to("cpu").tolist() == x.tolist()
    assert x.to(int).dtype is x.to(np.int64).dtype is ft.int64
    null = x.to(ft.get_backend("null"))
    assert (null.shape, null.backend.name) == ((2,), "null")
    with pytest.raises(ft.BackendError, match="has no device cuda:0; it has cpu"):
        x.to("cuda:0")
    with pytest.raises(ft.BackendError, match="'numpy' and 'null'"):
        x + null


def test_methods_mirror_functions():
    x = ft.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert x.T.tolist() == x.mT.tolist() == [[1, 3], [2, 4]]
    assert x.reshape(4).tolist() == x.flatten().tolist() == x.reshape((-1,)).tolist()
    assert x.sum(axis=-1, keepdims=True).tolist() == [[3], [7]]
    assert math.isclose(x.std(correction=1).item(), 1.2909944, rel_tol=1e-6)
    assert x.argmax(axis=0).tolist() == [1, 1]
    assert x.transpose(1, 0).tolist() == [[1, 3], [2, 4]]
    assert (x @ x[0]).tolist() == [5, 11]
    assert (2**x - x // 2 % 2).tolist() == [[2, 3], [7, 16]]


@pytest.mark.parametrize("other", [None, "a", object(), {}], ids=lambda o: type(o).__name__)
def test_an_array_does_not_equal_what_is_no_array(other):
    x = ft.zeros(3)
    assert (x == other) is False and (other == x) is False
    assert (x != other) is True and (other != x) is True
    for operate in (lambda: x + other, lambda: other * x, lambda: x < other):
        with pytest.raises(ft.DTypeError):
            operate()


def test_equality_is_elementwise_with_everything_else():
    x = ft.asarray([0.0, 1.0])
    for other in (1, 1.0, True, [1, 1], np.ones(2), ft.ones(2)):
        assert (x == other).tolist() == [False, True]
        assert (x != other).tolist() == [True, False]


def test_a_number_takes_a_format():
    assert f"{ft.asarray([1.0, 2.0]).mean():.2f}" == "1.50"
    assert f"{ft.asarray(7):>3d}" == "  7"
    assert f"{ft.ones(2)}" == str(ft.ones(2))
    with pytest.raises(ft.DTypeError, match=r"x \(2,\): only an array without axes"):
        f"{ft.ones(2):.2f}"


def test_hypot_at_the_edges():
    inf, nan = math.inf, math.nan
    x, y = [inf, nan, -inf, 3e38, 0.0, 3.0], [nan, -inf, 1.0, 0.0, 0.0, 4.0]
    np.testing.assert_array_equal(ft.hypot(x, y).numpy(), np.float32([inf] * 3 + [3e38, 0, 5]))
    assert math.isnan(ft.hypot(nan, 1.0).item())


def test_one_hot_of_a_narrow_dtype_holds_all_classes():
    rows = ft.one_hot(ft.asarray([43, 255], dtype="uint8"), 300).numpy()
    np.testing.assert_array_equal(rows, np.eye(300)[[43, 255]])


def test_arange_with_a_fractional_step_and_an_integer_dtype():
    assert ft.arange(0, 2, 0.5, dtype="int64").tolist() == [0, 0, 1, 1]
    assert ft.arange(np.float32(0.5), 2).tolist() == [0.5, 1.5]
    assert ft.arange(2**63 - 2, 2**63).tolist() == [2**63 - 2, 2**63 - 1]
