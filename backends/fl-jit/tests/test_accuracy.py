"""Floating sums, and what is made of them, are as accurate along every axis as PyTorch's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import fl_tensor as ft

#: As users have it; and every operation in a kernel, which ``jit`` would not make for one call.
EVERYWHERE = ("numpy", "jit", "kernels")
#: Half a unit in the last place of float32: what rounding a result once may cost, relatively.
HALF_ULP = 2.0**-24
#: The errors of PyTorch on these samples are at most 3 of them; 4 times as much is the bar.
LOST = 8 * HALF_ULP
#: Equal numbers are rounded the same way each time: of 20,000,000 tenths PyTorch loses 1.3e-6.
LOST_OF_TENTHS = 5e-6


@pytest.fixture
def backend(request, kernel_files, plans_in_the_foreground) -> Iterator[None]:
    if request.param == "numpy":
        chosen = "numpy"
    else:
        pass
        from fl_jit import JitBackend

        chosen = JitBackend()
        if request.param == "kernels":
            chosen.smallest, chosen.plans.compile_after, chosen.plans.policy.patience = 1, 1, 0
    with ft.use(chosen):
        yield


def on(*names):
    return pytest.mark.parametrize("backend", names, indirect=True)


def error(got, want):
    """The largest relative error of a tensor."""
    return np.max(np.abs(got.numpy().astype(np.float64) - want) / np.abs(want))


def random_numbers(*shape):
    return np.random.default_rng(1).random(shape, np.float32)


def with_large_mean(*shape):
    return (1e4 + 0.3 * np.random.default_rng(1).standard_normal(shape)).astype(np.float32)


# many rows


@pytest.mark.defect("N3")
@on(*EVERYWHERE)
def test_more_rows_than_float32_counts(backend):
    tenths = ft.full((20_000_000, 2), 0.1, dtype=ft.float32)
    exact = 20_000_000 * np.float64(np.float32(0.1))
    assert error(ft.sum(tenths, 0), exact) <= LOST_OF_TENTHS


@pytest.mark.defect("N3")
@on("numpy", "jit")
def test_ones_are_counted(backend):
    assert ft.sum(ft.ones((20_000_000, 2)), 0).tolist() == [20_000_000, 20_000_000]


@pytest.mark.parametrize("dtype", [ft.float64, ft.complex64, ft.complex128], ids=str)
@pytest.mark.defect("N3")
@on("numpy")
def test_other_dtypes(backend, dtype):
    eps = ft.finfo(ft.float64 if dtype in (ft.float64, ft.complex128) else ft.float32).eps
    # Added one after the other, they lose 435 eps.
    rows = ft.full((4096, 2), (1 + 922 * eps) * (1 if dtype is ft.float64 else 1 + 1j), dtype=dtype)
    exact = 4096 * rows[0].numpy()
    assert np.max(np.abs(ft.sum(rows, 0).numpy() - exact) / np.abs(exact)) <= 16 * eps


@pytest.mark.defect("N3")
@on("numpy", "jit")
def test_half_precision_is_accumulated_accurately(backend):
    # In float32 one after the other, they would be 2**24.
    ones = ft.ones((20_000_000, 2), dtype=ft.bfloat16)
    assert error(ft.sum(ones, 0).astype(ft.float32), 2e7) <= 2.0**-8


@on(*EVERYWHERE)
@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "norm"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((100_000, 4), (0,)),
        ((4, 100_000), (1,)),
        ((8, 100_000), (0,)),
        ((20, 3000, 7), (1,)),
        ((20, 3000, 7), (0, 2)),
        ((20, 3000, 7), (0, 1)),
        ((20, 3000, 7), (0, 1, 2)),
    ],
    ids=str,
)
def test_along_any_axis(backend, name, shape, axis):
    x = random_numbers(*shape)
    wide = x.astype(np.float64)
    if name == "norm":
        want = np.sqrt(np.sum(wide * wide, axis))
    else:
        want = getattr(np, name)(wide, axis)
    assert error(getattr(ft, name)(ft.asarray(x), axis=axis), want) <= LOST


@pytest.mark.defect("N3")
@on("kernels")
def test_rows_of_two_axes_that_cannot_be_one(backend):
    x = ft.asarray(np.full((4, 1_000_000, 6), 0.1, np.float32))[:, :, :3]
    exact = 3_000_000 * np.float64(np.float32(0.1))
    assert error(ft.sum(x, (1, 2)), exact) <= 1e-4  # PyTorch loses 1.5e-3


@pytest.mark.parametrize("layout", ["transposed", "every second", "reversed", "broadcast"])
@pytest.mark.defect("N3")
@on("numpy")
def test_of_any_layout(backend, layout):
    x = random_numbers(40_000, 8)
    views = {
        "transposed": (lambda a: a.T, 1),
        "every second": (lambda a: a[:, ::2], 0),
        "reversed": (lambda a: a[::-1], 0),
        "broadcast": (lambda a: a[:, None, :] + np.float32(0) * np.ones((1, 2, 1), "f4"), 0),
    }
    view, axis = views[layout]
    if layout == "broadcast":
        made = ft.broadcast_to(ft.asarray(x)[:, None, :], (40_000, 2, 8))
    else:
        made = view(ft.asarray(x))
    assert error(ft.sum(made, axis), view(x).astype(np.float64).sum(axis)) <= LOST


# large means, small deviations


@pytest.mark.defect("N3")
@on(*EVERYWHERE)
@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("axis", [0, 1])
def test_deviations_from_a_large_mean(backend, name, axis):
    x = with_large_mean(100_000, 4)
    want = getattr(np, name)(x.astype(np.float64), axis)
    got = getattr(ft, name)(ft.asarray(x), axis=axis).numpy()
    # Of four numbers some have next to no variance: what is lost there is beside the others.
    assert np.max(np.abs(got - want)) <= LOST * np.max(want)
    assert axis == 1 or error(ft.asarray(got), want) <= LOST


@pytest.mark.defect("N3")
@on("numpy", "jit")
def test_a_large_mean(backend):
    x = with_large_mean(100_000, 4)
    assert error(ft.mean(ft.asarray(x), 0), x.mean(0, dtype=np.float64)) <= LOST


@on(*EVERYWHERE)
def test_variances_are_never_negative(backend):
    for size in range(2, 40):
        equal = ft.full((size, 3), 0.1, dtype=ft.float32)
        assert np.all(ft.var(equal, 0).numpy() >= 0)
        assert not np.any(np.isnan(ft.std(equal, 0).numpy()))


@pytest.mark.defect("N3")
@on(*EVERYWHERE)
def test_a_variance_without_nan(backend):
    x = with_large_mean(10_000, 4)
    x[::7] = np.nan
    want = np.nanvar(x.astype(np.float64), 0)
    assert error(ft.nanvar(ft.asarray(x), axis=0), want) <= LOST


@pytest.mark.defect("N3")
@on(*EVERYWHERE)
def test_the_statistics_of_batch_normalisation(backend):
    x = with_large_mean(100_000, 4)
    _, mean, variance = ft.batch_norm_training(ft.asarray(x), axis=1)
    wide = x.astype(np.float64)
    assert error(mean, wide.mean(0)) <= LOST
    assert error(variance, wide.var(0)) <= LOST


# running sums


@pytest.mark.defect("N3")
@on("numpy", "jit")
@pytest.mark.parametrize(("shape", "axis"), [((3_000_000,), 0), ((300_000, 4), 0)], ids=str)
def test_a_cumulative_sum_is_rounded_once(backend, shape, axis):
    x = random_numbers(*shape)
    want = np.cumsum(x, axis, np.float64)
    assert error(ft.cumulative_sum(ft.asarray(x), axis), want) <= HALF_ULP


@on("numpy")
@pytest.mark.parametrize("shape", [(3, 70_000), (70_000, 3), (3, 30_000, 2), (0, 3), (5, 0)])
def test_a_cumulative_sum_goes_on_from_part_to_part(backend, shape):
    x = random_numbers(*shape)
    for axis in range(len(shape)):
        got = ft.cumulative_sum(ft.asarray(x), axis).numpy()
        np.testing.assert_allclose(got, np.cumsum(x, axis, np.float64), 2 * HALF_ULP)


@on("numpy")
def test_a_cumulative_sum_keeps_signs_and_what_is_not_finite(backend):
    got = ft.cumulative_sum(ft.asarray([-0.0, np.inf, 1.0, -np.inf, 1.0]), 0).numpy()
    np.testing.assert_array_equal(got, [-0.0, np.inf, np.inf, np.nan, np.nan])
    assert np.signbit(got[0])
