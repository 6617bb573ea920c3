"""In and out: NumPy, DLPack, bytes; and what the bytes cost."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import fl_tensor as ft


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
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(x, dtype="float64", copy=False)
