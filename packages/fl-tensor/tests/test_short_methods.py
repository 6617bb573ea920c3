"""Methods of tensors that take a short way to the backend do what the functions do."""

import copy

import pytest

import fl_tensor as ft

REDUCTIONS = ("sum", "prod", "mean", "max", "min")
X = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def error_of(call):
    with pytest.raises(ft.FlError) as found:
        call()
    return type(found.value), str(found.value)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, -1, (), (0,), (0, 1), (1, -2), [0], [0, 1]])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_is_that_of_the_function(name, axis, keepdims):
    x = ft.asarray(X)
    found, expected = getattr(x, name)(axis, keepdims), getattr(ft, name)(x, axis, keepdims)
    assert (found.shape, found.tolist()) == (expected.shape, expected.tolist())


@pytest.mark.parametrize("axis", [2, True, 1.0, "0", (None,), (True,), (1.0,), (0, 0), (0, -2)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_wrong_axis_is_the_error_of_the_function_whatever_came_before(name, axis):
    x = ft.asarray(X)
    for equal in (1, (1,), (0, 1), None):  # to Python True and 1.0 are equal to one of these
        getattr(x, name)(equal)
    expected = error_of(lambda: getattr(ft, name)(x, axis))
    assert error_of(lambda: getattr(x, name)(axis)) == expected


def test_sums_in_a_dtype_and_of_other_dtypes_than_floats():
    x = ft.asarray([[True, False], [True, True]])
    assert x.sum(0).tolist() == [2, 1] and x.sum(0).dtype is ft.int64
    assert x.sum(0, dtype="float64").dtype is ft.float64
    assert ft.arange(4).mean().dtype is ft.float32


@pytest.mark.parametrize("shape", [(3, 2), (6,), (-1,), (2, -1), (1, 6, 1), (2, 3)])
def test_a_reshape_takes_sizes_or_a_shape(shape):
    x = ft.asarray(X)
    expected = ft.reshape(x, shape)
    for found in (x.reshape(*shape), x.reshape(shape), x.reshape(list(shape))):
        assert (found.shape, found.tolist()) == (expected.shape, expected.tolist())


@pytest.mark.parametrize("shape", [(4,), (6.0,), (True, 6), (-1, -1), (-2, 3), ("6",)])
def test_a_wrong_shape_is_the_error_of_the_function_whatever_came_before(shape):
    x = ft.asarray(X)
    x.reshape(6), x.reshape(1, 6)
    expected = error_of(lambda: ft.reshape(x, shape if len(shape) > 1 else shape[0]))
    assert error_of(lambda: x.reshape(*shape)) == expected


def test_a_reshape_to_the_same_shape_is_another_handle():
    x = ft.asarray(X)
    y = x.reshape(2, 3)
    y[0, 0] = 9.0
    assert x[0, 0].item() == 1.0


def test_axes_are_permuted_by_numbers_or_a_sequence():
    x = ft.asarray(X)
    for found in (x.permute(1, 0), x.permute((1, 0)), x.permute([1, 0]), x.permute(-1, 0), x.T):
        assert found.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert error_of(lambda: x.permute(0, 0)) == error_of(lambda: ft.permute(x, (0, 0)))
    assert error_of(lambda: x.permute(True, 0)) == error_of(lambda: ft.permute(x, (True, 0)))


def test_layers_see_what_methods_do():
    x = ft.asarray(X)
    seen = []

    class Names(ft.Wrapper):
        def call(self, operation, /, *arguments, **options):
            seen.append(operation.name)
            return operation.run(*arguments, **options)

    with Names():
        x.reshape(6), x.T, x.sum(0), x.max(1), x[0]
    assert seen == ["reshape", "permute", "sum", "max", "slice", "reshape"]
    with ft.override(sum=lambda inner, x, axis, keepdims: inner.max(x, axis, keepdims)):
        assert x.sum(0).tolist() == [4, 5, 6]


def test_what_a_backend_raises_and_forgets_is_worded():
    class Broken(type(ft.get_backend("numpy"))):
        CONTRACT = (1, 1)

        def reshape(self, x, shape):
            return None

        def max(self, x, axis, keepdims=False):
            raise MemoryError("no room")

    x = ft.asarray(X, backend=ft.get_backend(Broken))
    with pytest.raises(ft.BackendError, match="is a return missing"):
        x.reshape(6)
    with pytest.raises(MemoryError, match="no room"):
        x.max(0)


def test_a_tensor_that_is_being_assigned_to_is_not_copied():
    x = ft.arange(3)
    errors = []

    def slice_update(inner, *arguments, **options):
        for take in (x.copy, lambda: copy.copy(x), lambda: x.reshape(3), lambda: x.sum()):
            errors.append(error_of(take)[1])
        return inner.slice_update(*arguments, **options)

    with ft.override(slice_update=slice_update):
        x[0] = 7
    assert x.tolist() == [7, 1, 2]
    assert len(errors) == 4 and all("is being assigned to" in text for text in errors)


@pytest.mark.parametrize("left, right", [((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,))])
def test_vectors_are_multiplied_as_matrices_of_one_row_or_column(left, right):
    x, y = ft.ones(left), ft.ones(right)
    found = x @ y
    assert found.shape == left[:-1] + right[1:]
    assert found.tolist() == (ft.zeros(found.shape) + 3.0).tolist()


def test_products_of_vectors_with_batches_keep_these():
    assert (ft.ones((5, 2, 3)) @ ft.ones(3)).shape == (5, 2)
    assert (ft.ones(3) @ ft.ones((5, 3, 2))).shape == (5, 2)


def test_a_slice_is_read_by_the_classes_of_its_bounds_whatever_came_before():
    x = ft.asarray(X)
    assert x[:, 1:].tolist() == x[:, 1:].tolist() == [[2, 3], [5, 6]]
    assert x[::-1, 0].tolist() == [4, 1] and x[None, 1:].shape == (1, 1, 3)
    with pytest.raises(ft.DTypeError, match="slice"):
        x[:, 1.0:]
    with pytest.raises(ft.ArgumentError, match="step of a slice may not be 0"):
        x[::0]
    with pytest.raises(ft.IndexingError, match="3 indices for 2 axes"):
        x[:, 1:, 1:]
    y = ft.zeros((2, 3))
    y[:, 1:] = 1.0
    assert y[:, 1:].tolist() == [[1, 1], [1, 1]] and y.sum().item() == 4


def test_products_and_lists_of_arrays_still_promote():
    assert ft.concatenate((ft.ones(1), ft.arange(1))).dtype is ft.promote(ft.float32, ft.int64)
    assert (ft.ones(2) @ ft.arange(2)).item() == 1


def test_ends_of_a_range_fit_its_dtype():
    assert ft.arange(2**63 - 2, 2**63 - 1).tolist() == [2**63 - 2]
    assert ft.arange(-(2**63), -(2**63) + 1).tolist() == [-(2**63)]
    for start, stop, dtype in ((2**63 - 1, 2**63 + 1, None), (-1, 1, "uint8"), (0, 300, "uint8")):
        with pytest.raises(ft.DTypeError, match="does not fit"):
            ft.arange(start, stop, 1, dtype)
