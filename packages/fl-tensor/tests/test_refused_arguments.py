"""What is no flag, no size and no dtype is refused at once, with the function's own name."""

from __future__ import annotations

import pytest

import fl_tensor as ft


@pytest.mark.defect("item 10")
@pytest.mark.parametrize("keepdims", ["True", 2, 0.5, [], None])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "var", "logsumexp", "nanmedian", "argmax"])
def test_keepdims_is_true_or_false(name, keepdims):
    with pytest.raises(ft.ArgumentError, match=rf"\[{name}\] keepdims .*: expected True or False"):
        getattr(ft, name)(ft.ones((2, 3)), axis=0, keepdims=keepdims)


@pytest.mark.defect("V18")
@pytest.mark.parametrize(
    "make",
    [
        lambda: ft.arange(10**15),
        lambda: ft.eye(10**13),
        lambda: ft.linspace(0.0, 1.0, 10**13),
        lambda: ft.tile(ft.ones(3), 10**18).numpy(),
    ],
)
def test_absurd_sizes_are_out_of_memory(make):
    from fl_memory import OutOfMemoryError

    with pytest.raises(OutOfMemoryError, match="bytes on cpu: out of memory"):
        make()


@pytest.mark.defect("V18")
def test_more_axes_than_a_backend_has_are_a_shape_error():
    with ft.use("numpy"):
        with pytest.raises(ft.ShapeError, match="1000 axes: backend 'numpy' has at most 64"):
            ft.zeros((1,) * 1000)
        with pytest.raises(ft.ShapeError, match="102 axes"):
            ft.ones((2, 2))[(None,) * 100]


@pytest.mark.defect("V20")
@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
def test_creation_functions_answer_with_their_own_names(name):
    function = getattr(ft, name)
    with pytest.raises(ft.DTypeError, match=rf"\[{name}\] .* as in {name}\(\(2, 3\)\)"):
        function(2, 3)
    with pytest.raises(ft.ShapeError, match=rf"\[{name}\] shape \(-1, 3\)"):
        function((-1, 3))


@pytest.mark.defect("V20")
@pytest.mark.parametrize("name", ["rand", "randn"])
def test_random_functions_answer_with_their_own_names(name):
    with pytest.raises(ft.ShapeError, match=rf"\[{name}\] shape \(-1,\)"):
        getattr(ft, name)((-1,))


@pytest.mark.parametrize("num", [5, 5000])
@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_long_and_short_sequences_are_spaced_alike(num, endpoint, dtype):
    import numpy as np

    made = ft.linspace(-2.5, 7.25, num, dtype=dtype, endpoint=endpoint)
    expected = np.linspace(-2.5, 7.25, num, endpoint=endpoint, dtype=dtype)
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.defect("item 10")
@pytest.mark.parametrize("dtype", [[], 0, "", b"float32"])
def test_what_is_no_dtype_is_never_the_default(dtype):
    for make in (ft.zeros, ft.ones, ft.rand):
        with pytest.raises(ft.DTypeError):
            make((2,), dtype=dtype)


@pytest.mark.defect("item 10")
def test_numbers_in_strings_are_no_numbers():
    with pytest.raises(ft.DTypeError, match="bound '1'"):
        ft.linspace("1", 2.0)
    with pytest.raises(ft.DTypeError, match="ord b'1'"):
        ft.linalg.vector_norm(ft.ones(3), ord=b"1")
