"""Products and convolutions of tensors are computed in the dtype of the tensors, at once and in
plans: half precision is summed in float32 and rounded once, by any kernel library."""

from __future__ import annotations

import numpy as np
import pytest

from fl_jit.passes import profitability

pytest.importorskip("ml_dtypes", reason="NumPy's bfloat16")

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.kernels import registry
from fl_jit.kernels.codegen import target
from fl_jit.kernels.llvm.library import GeneratedKernels
from fl_jit.traces.prepacked import PrepackedArray, storage_of
from fl_tensor.backends.numpy import conv

DTYPES = ("bfloat16", "float16", "float64")
RUNS = 3


@pytest.fixture(scope="module")
def generated():
    return GeneratedKernels()


@pytest.fixture
def requested(generated, monkeypatch):
    """For every kernel that ran, the dtypes of its operands."""
    found: list[tuple[str, ...]] = []
    monkeypatch.setattr(registry, "is_for_everything", lambda: False)
    monkeypatch.setattr(registry, "active_library", lambda: generated)
    monkeypatch.setattr(
        registry,
        "watchers",
        [lambda library, kernel: found.append(tuple(str(o.dtype) for o in kernel.operands))],
    )
    return found


@pytest.fixture(params=["at once", "in plans"])
def at_once_or_in_plans(request, monkeypatch):
    """`jit` that defers nothing, or one that makes a plan when something is computed for the first
    time."""
    if request.param == "at once":
        yield request.getfixturevalue("at_once")
        return
    monkeypatch.setenv("FL_JIT_COMPILE_AFTER", "1")
    monkeypatch.setenv("FL_JIT_BACKGROUND", "0")
    backend = JitBackend()
    backend.policy.patience = 0
    with ft.use(backend):
        yield backend


def tensor(seed, shape, dtype):
    """Standard normal numbers, and what they are in float64."""
    made = ft.asarray(np.random.default_rng(seed).standard_normal(shape)).astype(dtype)
    return made, wide(made)


def wide(x):
    return np.asarray(x.astype(ft.float64))


def agree(found, expected, size, terms):
    """``found`` is what comes of sums of so many terms, whose sizes add up to ``size``, if they are
    summed in float32 (float64 in float64) and rounded once."""
    eps = float(ft.finfo(found.dtype).eps)
    summed = min(eps, 2.0**-23)
    allowed = 0.51 * eps * np.abs(expected) * (summed < eps) + terms * summed * size
    assert found.shape == expected.shape
    assert np.all(np.abs(wide(found) - expected) <= allowed)


# ---- products ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "x_shape,y_shape",
    [((130, 140), (140, 150)), ((4, 35, 141), (141, 151)), ((6, 70, 80), (6, 80, 90))],
)
@pytest.mark.parametrize("turned", [False, True])
def test_products(requested, at_once_or_in_plans, dtype, x_shape, y_shape, turned):
    x, x_wide = tensor(1, x_shape, dtype)
    y, y_wide = tensor(2, (*y_shape[:-2], y_shape[-1], y_shape[-2]) if turned else y_shape, dtype)
    y, y_wide = (y.mT, np.swapaxes(y_wide, -1, -2)) if turned else (y, y_wide)
    for _ in range(RUNS):
        found = x @ y
        agree(found, x_wide @ y_wide, np.abs(x_wide) @ np.abs(y_wide), x_shape[-1])
    assert requested == [(dtype,) * 3] * RUNS and str(found.dtype) == dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_bias_and_activation_follow_in_plans(requested, monkeypatch, dtype):
    monkeypatch.setenv("FL_JIT_COMPILE_AFTER", "1")
    monkeypatch.setenv("FL_JIT_BACKGROUND", "0")
    (x, x_wide), (w, w_wide) = tensor(1, (130, 140), dtype), tensor(2, (140, 160), dtype)
    b, b_wide = tensor(3, (160,), dtype)
    with ft.use(JitBackend()):
        operands = [ft.asarray(np.asarray(v)) for v in (x, w, b)]
        found = [ft.relu(operands[0] @ operands[1] + operands[2]).numpy() for _ in range(RUNS)]
    rounded = wide(ft.asarray(x_wide @ w_wide).astype(dtype))
    expected = np.maximum(rounded + b_wide, 0)
    eps = float(ft.finfo(getattr(ft, dtype)).eps)
    allowed = 140 if dtype == "float64" else 1.1  # the product is rounded, then the sum
    for each in found:
        assert np.abs(each.astype(float) - expected).max() <= allowed * eps * np.abs(expected).max()
    assert len(requested) == RUNS and all(len(each) > 3 for each in requested), "one call for all"
    assert {dtype} == {each for dtypes in requested for each in dtypes}


def test_what_is_float64_is_blas_where_that_is_faster(requested, at_once_or_in_plans):
    x, _ = tensor(1, (2000, 2000), "float64")
    small = x[:100, :100]
    for left, right in ((small, small), (x[:1], x), (x, x[:, :1])):
        (left @ right).numpy()
    assert requested == []
    (x[:2] @ x).numpy()
    assert requested == [("float64",) * 3]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("k", [140, 141])
def test_what_is_not_finite_stays_so(requested, at_once, dtype, value, k):
    x = np.random.default_rng(1).standard_normal((130, k))
    y = np.random.default_rng(2).standard_normal((k, 150))
    x[3, k - 1], y[k - 2, 7] = value, value
    found = ft.asarray(x).astype(dtype) @ ft.asarray(y).astype(dtype)
    with np.errstate(invalid="ignore"):
        expected = x @ y
    for kind in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(kind(wide(found)), kind(expected))
    assert requested == [(dtype,) * 3]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_that_no_library_takes_runs_in_float32(
    requested, at_once, generated, monkeypatch, dtype
):
    find = generated.find
    wanted: list[str] = []

    def refusing(descriptor):
        wanted.append(str(descriptor.out.dtype))
        return None if descriptor.out.dtype is not ft.float32 else find(descriptor)

    monkeypatch.setattr(generated, "find", refusing)
    x, x_wide = tensor(1, (2, 16, 30, 30), dtype)
    ft.conv(x, tensor(2, (16, 16, 3, 3), dtype)[0])
    x, x_wide = x.reshape(2 * 16 * 30, 30), x_wide.reshape(-1, 30)
    found = x @ x.mT
    agree(found, x_wide @ x_wide.T, np.abs(x_wide) @ np.abs(x_wide.T), 30)
    assert wanted == [dtype, "float32"] * 2 and requested == [("float32",) * 3] * 2


# ---- convolutions --------------------------------------------------------------------------------

ONE, NONE = (1, 1), ((0, 0), (0, 0))
AROUND = ((1, 1), (1, 1))
#: x, w, stride, padding, input dilation, kernel dilation, groups.
CONVOLUTIONS = {
    "forward": ((4, 16, 21, 22), (32, 16, 3, 3), ONE, AROUND, ONE, ONE, 1),
    "strided": ((4, 17, 43, 43), (32, 17, 3, 3), (2, 2), AROUND, ONE, ONE, 1),
    "groups": ((4, 64, 40, 41), (64, 4, 3, 3), ONE, AROUND, ONE, ONE, 16),
    "depthwise": ((4, 96, 60, 61), (96, 1, 3, 3), ONE, AROUND, ONE, ONE, 96),
    "data": ((4, 32, 17, 18), (16, 32, 3, 3), ONE, ((2, 2), (2, 2)), (2, 2), ONE, 1),
    "large kernel": ((16, 4, 21, 22), (32, 4, 21, 22), ONE, AROUND, ONE, ONE, 1),
}
#: x, w, stride, padding, kernel dilation, groups.
GRADIENTS = {
    "plain": ((4, 16, 21, 22), (32, 16, 3, 3), ONE, AROUND, ONE, 1),
    "odd lines": ((4, 16, 21, 21), (32, 16, 3, 3), ONE, AROUND, ONE, 1),
    "strided": ((4, 17, 43, 43), (32, 17, 3, 3), (2, 2), AROUND, ONE, 1),
    "groups": ((4, 64, 40, 41), (64, 4, 3, 3), ONE, AROUND, ONE, 16),
    "depthwise": ((4, 96, 60, 61), (96, 1, 3, 3), ONE, AROUND, ONE, 96),
    "large kernel": ((16, 4, 21, 22), (32, 4, 20, 21), ONE, AROUND, ONE, 1),
}


def by_numpy(x, w, options, shape):
    return conv.convolve(x, w, *options, shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(requested, at_once_or_in_plans, dtype, name):
    x_shape, w_shape, *options = CONVOLUTIONS[name]
    (x, x_wide), (w, w_wide) = tensor(1, x_shape, dtype), tensor(2, w_shape, dtype)
    found = [ft.conv(x, w, *options) for _ in range(RUNS)]
    shape, terms = found[0].shape, w_wide[0].size
    expected = by_numpy(x_wide, w_wide, options, shape)
    size = by_numpy(np.abs(x_wide), np.abs(w_wide), options, shape)
    for each in found:
        agree(each, expected, size, terms)
    assert requested == [(dtype,) * 3] * len(requested) and len(requested) in (1, RUNS), (
        "equal ones are one"
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_convolutions(requested, at_once_or_in_plans, dtype, name):
    x_shape, w_shape, stride, padding, dilation, groups = GRADIENTS[name]
    options = stride, padding, ONE, dilation, groups
    (x, x_wide), (w, w_wide) = tensor(1, x_shape, dtype), tensor(2, w_shape, dtype)
    g, g_wide = tensor(3, ft.conv(x, w, *options).shape, dtype)
    places = g_wide[0, 0].size * len(g_wide)
    for operation, ours, wides, shape, terms in (
        (ft.conv_data_gradient, (g, w), (g_wide, w_wide), x_shape, w_wide[:, 0].size),
        (ft.conv_weight_gradient, (g, x), (g_wide, x_wide), w_shape, places),
    ):
        del requested[:]
        found = [operation(*ours, shape, *options) for _ in range(RUNS)]
        expected, size = composed(operation, wides, shape, options)
        for each in found:
            agree(each, expected, size, terms)
        assert requested == [(dtype,) * 3] * len(requested) and len(requested) in (1, RUNS)


def composed(operation, values, shape, options):
    """A gradient as its composition gives it in float64, and for absolute values."""
    with ft.use("numpy"):
        found = [
            operation(*map(ft.asarray, each), shape, *options)
            for each in (values, map(np.abs, values))
        ]
    return [np.asarray(each) for each in found]


def test_an_infinity_is_in_no_sum_that_it_is_no_part_of(requested, at_once):
    """Gradients of weights by pairs of pixels would have NaN of it beside the end of a line."""
    x_shape, w_shape, *options = GRADIENTS["odd lines"]
    x = np.random.default_rng(1).standard_normal(x_shape)
    options.insert(2, ONE)
    g, g_wide = tensor(2, (x_shape[0], w_shape[0], *x_shape[2:]), "bfloat16")
    for place in range(x_shape[-1]):
        spoilt = x.copy()
        spoilt[3, 1, 5, place] = np.inf
        found = ft.conv_weight_gradient(
            g, ft.asarray(spoilt).astype(ft.bfloat16), w_shape, *options
        )
        with np.errstate(invalid="ignore"):
            expected, _ = composed(ft.conv_weight_gradient, (g_wide, spoilt), w_shape, options)
        assert np.isfinite(wide(found)[np.isfinite(expected)]).all()
    assert {"float32"} == {dtype for dtypes in requested for dtype in dtypes}


# ---- weights that stay ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_that_stay_come_back_bit_for_bit(requested, monkeypatch, dtype):
    monkeypatch.setattr(profitability, "RUNS_UNTIL_PREPACKED", 2)
    monkeypatch.setenv("FL_JIT_COMPILE_AFTER", "1")
    monkeypatch.setenv("FL_JIT_BACKGROUND", "0")
    backend = JitBackend()
    backend.policy.patience = 0
    with ft.use(backend):
        x, _ = tensor(1, (1, 256, 8, 8), dtype)
        w = tensor(2, (256, 256, 1, 1), dtype)[0].numpy()
        if w.itemsize == 2:  # all numbers there are
            w = np.arange(1 << 16, dtype=np.uint16).view(w.dtype).reshape(w.shape)
        y, z = ft.asarray(w), ft.asarray(w[:, :, 0, 0])
        ft.eval(x, y, z)
        for _ in range(4):
            wide(ft.conv(x, y))
            wide(ft.reshape(x, (64, 256)) @ z)
        packed = [isinstance(storage_of(each._adapter), PrepackedArray) for each in (y, z)]
        pairs = dtype == "bfloat16" and target.host().has_bfloat_products
        assert packed == [pairs or dtype == "float64", dtype == "float64"]
        assert y.numpy().tobytes() == z.numpy().tobytes() == w.tobytes()
