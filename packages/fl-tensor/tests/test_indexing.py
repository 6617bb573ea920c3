"""Indexing follows NumPy: the same values for any mix of ints, slices, arrays, masks, None."""

from __future__ import annotations

import random

import numpy as np
import pytest

import fl_tensor as ft


def random_index(shape, choose, rng):
    index = []
    for size in shape[: choose.randint(0, len(shape))]:
        kind = choose.choice("int slice array new mask slice".split())
        bounds = [None, *range(-size - 1, size + 2)]
        if kind == "int":
            index.append(choose.randint(-size, size - 1))
        elif kind == "slice":
            step = choose.choice([None, 1, 2, -1, -2])
            index.append(slice(choose.choice(bounds), choose.choice(bounds), step))
        elif kind == "array":
            form = choose.choice([(3,), (2, 1), (2, 3), (0,)])
            index.append(rng.integers(-size, size, size=form))
        elif kind == "new":
            index.append(None)
        else:
            index.append(rng.random(size) > 0.5)
    if choose.random() < 0.3:
        index.insert(choose.randint(0, len(index)), Ellipsis)
    return tuple(index)


def ours(index):
    return tuple(ft.asarray(i) if isinstance(i, np.ndarray) else i for i in index)


@pytest.mark.parametrize("seed", range(8))
def test_random_indices_read_and_write_like_numpy(seed):
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    compared = 0
    for _ in range(150):
        shape = tuple(choose.randint(1, 5) for _ in range(choose.randint(0, 4)))
        array = rng.normal(size=shape)
        index = random_index(shape, choose, rng)
        try:
            expected = array[index]
        except (IndexError, DeprecationWarning):  # older NumPy warns where the result is empty
            with pytest.raises(ft.IndexingError):
                ft.asarray(array)[ours(index)]
            continue
        x = ft.asarray(array)
        if not np.size(expected):  # NumPy then looks at no index; we still refuse a wrong one
            try:
                found = x[ours(index)]
            except ft.IndexingError:
                continue
            assert found.shape == expected.shape, (shape, index)
            continue
        found = x[ours(index)]
        assert found.shape == np.shape(expected), (shape, index)
        np.testing.assert_array_equal(found.numpy(), expected, err_msg=f"{shape} {index}")
        places = np.arange(array.size).reshape(shape)[index]
        if len(np.unique(places)) == places.size:  # duplicates leave the winner to NumPy
            value = rng.normal(size=np.shape(expected))
            array[index] = value
            x[ours(index)] = value
            np.testing.assert_array_equal(x.numpy(), array, err_msg=f"{shape} {index}")
        compared += 1
    assert compared > 75


def test_masks_of_the_whole_shape():
    x = ft.asarray([[1.0, -2.0], [-3.0, 4.0]])
    assert x[x > 0].tolist() == [1, 4]
    x[x < 0] = 0.0
    assert x.tolist() == [[1, 0], [0, 4]]
    x[x == 0] = ft.asarray([7.0, 8.0])
    assert x.tolist() == [[1, 7], [8, 4]]


def test_assignment_broadcasts_and_casts_to_the_target():
    x = ft.zeros((2, 3), dtype="int32")
    x[:, 1:] = [[1.0], [2.0]]
    assert x.tolist() == [[0, 1, 1], [0, 2, 2]]
    x[...] = 5
    assert x.tolist() == [[5] * 3] * 2
    with pytest.raises(ft.ShapeError, match=r"value \(4,\) does not fit \(3,\)"):
        x[0] = [1, 2, 3, 4]
    assert x.tolist() == [[5] * 3] * 2, "a failed assignment leaves the value"


def test_lists_are_index_arrays():
    x = ft.arange(10)
    assert x[[1, -1]].tolist() == [1, 9]
    assert x[[]].tolist() == []
    assert x[ft.asarray(3)].item() == 3


@pytest.mark.parametrize(
    ("index", "error", "words"),
    [
        (3, IndexError, "index 3 is out of range for axis 0 of 3"),
        ((0, -5), IndexError, "index -5 is out of range for axis 1 of 4"),
        ((0, 0, 0), IndexError, "3 indices for 2 axes"),
        ((..., ...), IndexError, "one ellipsis"),
        ([0, 7], IndexError, "index 7 is out of range for axis 0 of 3"),
        (1.5, IndexError, "a float is no index"),
        ("a", IndexError, "a str is no index"),
        (slice(0, 2, 0), ValueError, "the step of a slice may not be 0"),
        ([True, False], IndexError, "a mask of 2 stands for axis 0 of 3"),
        ([0.5], IndexError, "an index array is float32: expected integers or bools"),
        ({}, IndexError, "a dict is no index"),
        (([0, 1], [0, 1, 2]), IndexError, r"index arrays \(2,\), \(3,\) do not broadcast"),
    ],
    ids=str,
)
def test_errors_name_index_and_axis(index, error, words):
    x = ft.zeros((3, 4))
    with pytest.raises(error, match=r"^\[getitem\] .*" + words) as caught:
        x[index]
    assert isinstance(caught.value, ft.FlError)
    with pytest.raises(error, match=r"^\[setitem\] .*" + words):
        x[index] = 1.0
    assert x.tolist() == ft.zeros((3, 4)).tolist()


def test_an_empty_mask_fits_any_axis():
    x, a = ft.zeros((2, 3)), np.zeros((2, 3))
    for shape in ((0,), (0, 3), (2, 0)):
        mask = np.zeros(shape, bool)
        assert x[ft.asarray(mask)].shape == a[mask].shape
    with pytest.raises(IndexError, match="a mask of 4 stands for axis 1 of 3"):
        x[ft.zeros((0, 4), ft.bool)]


def test_a_single_bool_is_a_mask_without_axes():
    x = ft.arange(3)
    for yes in (True, np.True_, ft.asarray(True)):
        assert x[yes].tolist() == [[0, 1, 2]]
        assert x[0, yes].tolist() == [0]
    assert x[False].shape == (0, 3)
    assert x[ft.asarray([0, 2]), True].tolist() == [0, 2]
    y = ft.asarray(5)
    assert y[True].tolist() == [5]
    y[y > 6] = 0
    assert y.item() == 5
    y[y > 4] = 0
    assert y.item() == 0


def test_index_arrays_of_other_libraries_and_backends():
    x = ft.arange(10)
    assert x[np.array([1, 2], np.uint8)].tolist() == [1, 2]
    assert x[np.int64(3)].item() == 3
    assert x[range(2, 8, 3)].tolist() == [2, 5]
    assert x[(1, 2),].tolist() == [1, 2]
    elsewhere = ft.asarray([0, 1], backend=ft.get_backend("null"))
    with pytest.raises(ft.BackendError, match="backends 'numpy' and 'null'"):
        x[elsewhere]


@pytest.mark.parametrize(
    "index",
    [
        5,
        slice(2, 9),
        [1, 4],
        ([1, 4], [0, 2]),
        (slice(1, 3), [0, 2]),
        ft.asarray([True] + [False] * 9),
        (3, ..., 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("reshaped", [False, True])
def test_assignment_writes_into_the_storage_of_its_only_owner(index, reshaped):
    # A tensor of this size lies in a block of the manager, and copying it would take another.
    x = ft.zeros((1000, 10, 100)).reshape(10, 1000, 100) if reshaped else ft.zeros((10, 1000, 100))
    address = x.numpy().ctypes.data
    x[index] = 1.0
    assert x.numpy().ctypes.data == address
    y = x.copy()
    x[index] = 2.0
    assert (y[index].numpy() == 1).all() and (x[index].numpy() == 2).all()
    assert x.numpy().ctypes.data != address == y.numpy().ctypes.data


def test_gather_and_scatter_check_and_wrap_their_indices():
    x = ft.arange(6).reshape(2, 3)
    assert ft.gather(x, [[-1]], axis=1).tolist() == [[[2]], [[5]]]
    assert ft.scatter(x, [0, 0], ft.ones((2, 3), dtype="int64"), mode="add").tolist() == [
        [2, 3, 4],
        [3, 4, 5],
    ]
    with pytest.raises(ft.IndexingError, match="index 2 is out of range for axis 0 of 2"):
        ft.gather(x, [2])
    with pytest.raises(ft.ArgumentError, match="'set', 'add', 'max', 'min'"):
        ft.scatter(x, [0], 0, mode="mul")


def test_an_index_is_not_taken_for_an_equal_one():
    x = ft.asarray([[1, 2], [3, 4]])
    for _ in range(2):
        assert x[1].tolist() == x[(1,)].tolist() == x[-1].tolist() == [3, 4]
        assert x[True].tolist() == x[None].tolist() == [[[1, 2], [3, 4]]]
        assert x[0, 1].item() == 2 and x[False].shape == (0, 2, 2)
        assert ft.asarray([[1, 2, 5], [3, 4, 6]])[0, -1].item() == 5
        with pytest.raises(ft.IndexingError):
            x[1.0]
        with pytest.raises(ft.IndexingError, match=r"\(2, 2\).*index 2"):
            x[2]


def test_slices_need_integers():
    for index in (slice("a", 2), slice(1.0, None)):
        with pytest.raises(ft.DTypeError, match="slice indices must be integers"):
            ft.arange(3)[index]


class Higher(ft.Tensor):
    """An array of a class above Tensor, as other packages derive them."""

    _priority = 10

    def _tensor(self):
        return ft.Tensor(self._adapter, self._backend)


def test_arrays_of_a_higher_class_index_but_are_not_assigned():
    x = ft.arange(3)
    index, mask = ft.asarray([2, 0]), ft.asarray([False, True, True])
    assert x[Higher(index.adapter, x.backend)].tolist() == [2, 0]
    assert x[Higher(mask.adapter, x.backend)].tolist() == [1, 2]
    for place in (0, slice(None, 2), [0, 1]):
        with pytest.raises(ft.DTypeError, match="x is a Tensor and cannot hold a Higher"):
            x[place] = Higher(index.adapter, x.backend)
    assert x.tolist() == [0, 1, 2]


@pytest.mark.defect("V19")
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_one_hot_refuses_classes_that_there_are_not(dtype):
    assert ft.one_hot(ft.asarray([2, 0], dtype=dtype), 3).tolist() == [[0, 0, 1], [1, 0, 0]]
    with pytest.raises(ft.IndexingError, match="class 9 is outside the 3 classes"):
        ft.one_hot(ft.asarray([1, 9], dtype=dtype), 3)
    with pytest.raises(ft.IndexingError, match="class 200 is outside the 3 classes"):
        ft.one_hot(ft.asarray([200], dtype="uint8"), 3)


@pytest.mark.defect("V19")
def test_one_hot_refuses_negative_classes():
    with pytest.raises(ft.IndexingError, match="class -1 is outside the 3 classes"):
        ft.one_hot(-1, 3)
    with pytest.raises(ft.IndexingError, match="class 0 is outside the 0 classes"):
        ft.one_hot(0, 0)


def test_one_hot_says_what_it_wants():
    assert ft.one_hot(ft.zeros((0,), dtype="int64"), 3).shape == (0, 3)
    with pytest.raises(ft.DTypeError, match="expected class numbers"):
        ft.one_hot([0.5], 3)
    with pytest.raises(ft.ArgumentError, match="may not be negative"):
        ft.one_hot([0], -1)


@pytest.mark.parametrize("index", [2**64 - 1, 2**63])
def test_unsigned_indices_do_not_count_from_the_end(index):
    x, indices = ft.asarray([1.0, 2.0]), ft.asarray([1, index], dtype="uint64")
    for read in (
        lambda: x[indices],
        lambda: ft.gather(x, indices),
        lambda: ft.take_along_axis(x, indices),
        lambda: ft.scatter(x, indices, [1.0, 1.0]),
        lambda: ft.segment_sum(x, indices, 2),
    ):
        with pytest.raises(ft.IndexingError, match=f"index {index} is out of range"):
            read()
