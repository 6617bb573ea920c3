"""In and out: NumPy, DLPack, bytes; and what the bytes cost."""

from __future__ import annotations

import array
import copy
import gc
import pickle
import sys
import weakref

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.backends.delegate import DelegatingAdapter, DelegatingBackend
from fl_tensor.backends.numpy import NumpyBackend


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int16", "int32", "int64", "float32", "float64"]
)
def test_bytes_round_trip(dtype):
    x = ft.asarray(np.arange(6).reshape(2, 3).astype(dtype))
    again = ft.frombytes(x.T.tobytes(), (3, 2), dtype)
    np.testing.assert_array_equal(again.numpy(), x.numpy().T)
    assert x.tobytes().readonly


def test_numpy_shares_memory_and_lifetime():
    x = ft.ones((64, 64))
    view = np.asarray(x)
    assert view is not np.asarray(x)
    assert np.shares_memory(view, np.asarray(x))
    block = weakref.ref(x.adapter.array.base.owner)
    del x
    gc.collect()
    assert block() is not None and view.sum() == 64 * 64
    del view
    gc.collect()
    assert block() is None


def test_np_asarray_honours_dtype_and_copy():
    x = ft.asarray([1, 2])
    assert np.asarray(x, dtype="float64").dtype == np.float64
    copied = np.array(x, copy=True)
    copied[0] = 9
    assert x.tolist() == [1, 2]


def test_dlpack_both_ways_without_a_copy():
    x = ft.asarray([[1.0, 2.0], [3.0, 4.0]])
    out = np.from_dlpack(x)
    np.testing.assert_array_equal(out, x.numpy())
    source = np.arange(4.0)
    y = ft.from_dlpack(source)
    assert np.shares_memory(y.numpy(), source)
    y[0] = 5.0
    assert source[0] == 0, "a borrowed buffer is never written to"


def test_dlpack_for_consumers_that_cannot_see_read_only_is_a_copy():
    x = ft.zeros(3)
    capsule = x.__dlpack__()
    assert "dltensor" in repr(capsule)
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="stream"):
        x.__dlpack__(stream=1)


def test_asarray_reads_any_dlpack_producer():
    class Producer:
        def __init__(self):
            self.array = np.arange(3.0)

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    source = Producer()
    x = ft.asarray(source)
    source.array[0] = 9
    assert x.tolist() == [0, 1, 2], "asarray copies"
    assert ft.from_dlpack(source).tolist() == [9, 1, 2]


def test_null_has_no_data_and_says_so():
    with ft.use("null"):
        x = ft.zeros((2, 3)) @ ft.zeros((3, 4))
    assert (x.shape, repr(x)) == ((2, 4), "Tensor(shape=(2, 4), dtype=float32, backend=null)")
    with pytest.raises(ft.BackendError, match="has no data"):
        x.tolist()


def test_dlpack_of_reversed_axes_is_a_copy_without_negative_strides():
    x = ft.flip(ft.arange(4))
    out = np.from_dlpack(x)
    assert out.tolist() == [3, 2, 1, 0]
    assert all(stride > 0 for stride in out.strides)


def test_what_dlpack_cannot_carry_is_an_error_of_this_library():
    with pytest.raises(ft.BackendError, match=r"\[from_dlpack\] a ndarray"):
        ft.from_dlpack(np.zeros(2, "M8[s]"))


def test_np_asarray_without_a_copy_is_one_or_an_error():
    x = ft.asarray([1, 2])
    assert np.shares_memory(np.asarray(x, copy=False), x.numpy())
    with pytest.raises(ValueError, match="copy"):  # NumPy says it itself from Python 3.12 on
        np.asarray(x, dtype="float64", copy=False)


# ---- borrowing -----------------------------------------------------------------------------------


def buffers():
    data = array.array("d", [1.0, 2.0, 3.0])
    return {
        "bytearray": (bytearray(b"\1\2\3"), ft.uint8),
        "array": (data, ft.float64),
        "memoryview": (memoryview(data), ft.float64),
        "numpy": (np.asarray([1, 2, 3], np.int16), ft.int16),
    }


@pytest.mark.parametrize("kind", buffers())
def test_asarray_copies_a_buffer_or_borrows_it(kind):
    source, dtype = buffers()[kind]
    copied, borrowed = ft.asarray(source), ft.asarray(source, copy=False)
    source[0] = 9
    assert (copied.dtype, copied.tolist()) == (dtype, [1, 2, 3])
    assert (borrowed.dtype, borrowed.tolist()) == (dtype, [9, 2, 3])
    borrowed[1] = 7
    assert source[1] == 2, "borrowed memory is never written to"
    assert borrowed.tolist() == [9, 7, 3]


def test_a_borrowed_buffer_is_held():
    source = bytearray(16)
    x = ft.asarray(source, copy=False)
    with pytest.raises(BufferError):
        source.append(0)
    del x
    gc.collect()
    source.append(0)


def test_borrowing_or_an_error():
    numbers = np.zeros((2, 4), "float32")
    assert np.shares_memory(ft.asarray(numbers[:, ::2], copy=False).numpy(), numbers)
    for refused in ([1, 2], 3.0):
        with pytest.raises(ValueError, match="only by a copy"):
            ft.asarray(refused, copy=False)
    with pytest.raises(ValueError, match="float32 on cpu becomes float64 on cpu only by a copy"):
        ft.asarray(numbers, dtype="float64", copy=False)
    with ft.use("null"), pytest.raises(ValueError, match="backend 'null' reads a ndarray only"):
        ft.asarray(numbers, copy=False)


def test_a_buffer_is_borrowed_by_any_backend_that_can():
    class Other(NumpyBackend):
        CONTRACT = (1, 1)
        name = "other"

    source = np.arange(3, dtype=np.float32)
    x = ft.asarray(source, backend=Other(), copy=False)
    assert x.backend.name == "other"
    source[0] = 9
    assert x.tolist() == [9, 1, 2]
    x[1] = 7
    assert source[1] == 1


def test_from_dlpack_copies_on_demand():
    source = np.arange(3)
    copied, borrowed = ft.from_dlpack(source, copy=True), ft.from_dlpack(source, copy=False)
    source[0] = 9
    assert (copied.tolist(), borrowed.tolist()) == ([0, 1, 2], [9, 1, 2])
    assert ft.from_dlpack(source, device="cpu").device == ft.CPU
    with pytest.raises(ft.BackendError, match="no device cuda:0"):
        ft.from_dlpack(source, device="cuda:0")
    with ft.use("null"), pytest.raises(ValueError, match="by a copy"):
        ft.from_dlpack(source, copy=False)


def test_fields_of_packed_records_are_copied(installed_backend):
    """Their elements are no whole elements apart."""
    records = np.zeros((120, 90), [("value", np.float32), ("flag", np.uint8)])
    records["value"] = np.arange(10_800).reshape(120, 90) % 7
    field = records["value"]
    with ft.use(installed_backend):
        for read in (ft.asarray, ft.from_dlpack):
            x = read(field)
            np.testing.assert_array_equal(np.asarray(x * 2.0 + 1.0), field * 2 + 1)
            np.testing.assert_array_equal(np.asarray(x @ x.T), np.array(field) @ field.T)
        for refused in (ft.asarray, ft.from_dlpack):
            with pytest.raises(ValueError, match="by a copy"):
                refused(field, copy=False)


def test_a_producer_lives_as_long_as_what_borrows_from_it():
    source = np.arange(4.0)
    alive = weakref.ref(source)
    x = ft.from_dlpack(source)[1:]
    del source
    gc.collect()
    assert alive() is not None and x.tolist() == [1, 2, 3]
    del x
    gc.collect()
    assert alive() is None


# ---- lending -------------------------------------------------------------------------------------


def test_a_consumer_keeps_the_block_after_the_tensor_died():
    x = ft.ones((64, 64))
    block = weakref.ref(x.adapter.array.base.owner)
    out = np.from_dlpack(x)
    assert np.shares_memory(out, x.numpy())
    del x
    gc.collect()
    assert block() is not None and out.sum() == 64 * 64
    del out
    gc.collect()
    assert block() is None


def test_what_is_lent_is_read_only_and_keeps_its_value():
    x = ft.zeros(4)
    out = np.from_dlpack(x)
    with pytest.raises(ValueError, match="read-only"):
        out[0] = 1
    x[0] = 5.0
    assert out.tolist() == [0, 0, 0, 0] and x.tolist() == [5, 0, 0, 0]


class Consumer:
    """Asks a tensor for a capsule of its own making."""

    def __init__(self, x, **asked):
        self.x, self.asked = x, asked

    def __dlpack__(self, **ignored):
        return self.x.__dlpack__(**self.asked)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


@pytest.mark.parametrize(
    "asked, shares",
    [
        (dict(max_version=(1, 0)), True),
        (dict(max_version=(1, 0), copy=False), True),
        (dict(max_version=(1, 0), copy=True), False),
        (dict(max_version=(1, 0), dl_device=(1, 0)), True),
        (dict(max_version=(0, 8)), False),  # has no flag for read-only memory
        (dict(), False),
        (dict(copy=False), True),
    ],
)
def test_whether_a_capsule_shares_memory(asked, shares):
    x = ft.asarray([1.0, 2.0])
    out = np.from_dlpack(Consumer(x, **asked))
    assert out.tolist() == [1, 2]
    assert np.shares_memory(out, x.numpy()) == shares
    if shares:
        assert not out.flags.writeable


def test_what_a_consumer_cannot_ask_for():
    x = ft.zeros(3)
    with pytest.raises(BufferError, match=r"device \(2, 0\)"):
        x.__dlpack__(dl_device=(2, 0))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_every_shape_and_dtype_crosses(dtype, shape):
    x = ft.ones(shape, dtype)
    out = np.from_dlpack(x)
    assert (out.shape, str(out.dtype)) == (shape, dtype)
    back = ft.from_dlpack(out)
    assert (back.shape, back.dtype, back.tolist()) == (shape, x.dtype, x.tolist())


def test_strided_values_cross_without_a_copy():
    x = ft.asarray(np.arange(12.0).reshape(3, 4))
    for view in (x.T, x[1:, ::2], ft.broadcast_to(x[0], (5, 4))):
        out = np.from_dlpack(view)
        assert np.shares_memory(out, x.numpy())
        np.testing.assert_array_equal(out, view.numpy())
        assert ft.from_dlpack(out).tolist() == view.tolist()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="__buffer__ is of Python 3.12")
def test_the_buffer_protocol():
    x = ft.asarray([[1, 2], [3, 4]])
    view = memoryview(x)
    assert view.readonly and view.tolist() == [[1, 2], [3, 4]]
    assert bytes(x) == bytes(x.tobytes())


def test_the_buffer_of_a_tensor_is_not_writable():
    x = ft.asarray([1, 2])
    assert x.__buffer__(0).tolist() == [1, 2]
    with pytest.raises(BufferError, match="read-only"):
        x.__buffer__(1)


# ---- copies and pickles --------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, ft.Tensor.copy])
def test_copies_are_values_of_their_own(copied):
    x = ft.asarray([1, 2])
    y = copied(x)
    y[0] = 9
    assert (x.tolist(), y.tolist()) == ([1, 2], [9, 2])


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", ["bool", "uint16", "float32", "complex128"])
def test_pickles(protocol, dtype):
    for x in (ft.ones((2, 3), dtype), ft.ones((), dtype), ft.ones((0, 2), dtype).T):
        again = pickle.loads(pickle.dumps(x, protocol))
        assert (again.shape, again.dtype, again.tolist()) == (x.shape, x.dtype, x.tolist())


def test_a_pickle_names_its_backend():
    data = pickle.dumps(ft.ones(2)).replace(b"numpy", b"nompy")
    with pytest.raises(ft.ArgumentError, match="needs backend 'nompy'"):
        pickle.loads(data)


# ---- any backend ---------------------------------------------------------------------------------


class InHostMemory(DelegatingAdapter):
    """NumPy's protocol, which a backend over host memory may offer."""

    __slots__ = ()

    def __array__(self, dtype=None, copy=None):
        return self.inner.array


class Kelp(DelegatingBackend):
    CONTRACT = (1, 0)
    name = "kelp"


@pytest.mark.parametrize("dtype", [ft.float32, ft.bfloat16, ft.bool, ft.complex64])
@pytest.mark.parametrize("adapter", [DelegatingAdapter, InHostMemory])
def test_values_of_any_backend_are_shown_and_exported(adapter, dtype):
    source = ft.asarray([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]], dtype=dtype).T
    x = ft.Tensor(adapter(source.adapter, ft.CPU), ft.get_backend(Kelp))
    is_shared = adapter is InHostMemory
    np.testing.assert_array_equal(x.numpy(), source.numpy())
    assert np.shares_memory(x.numpy(), source.numpy()) == is_shared
    assert not x.numpy().flags.writeable
    again = ft.from_dlpack(x, backend="numpy", copy=False)
    assert again.dtype is dtype and ft.array_equal(again, source)
    assert np.shares_memory(again.numpy(), source.numpy()) == is_shared


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), ()])
def test_arrays_without_elements_or_axes(shape):
    for source in (np.zeros(shape, np.float32), np.zeros(shape, bool)):
        for x in (ft.from_dlpack(source, copy=True), ft.asarray(memoryview(source), copy=False)):
            assert x.shape == shape and x.dtype == source.dtype
            assert np.from_dlpack(x).shape == shape
