"""Plans: what runs when a computation comes again, with generated kernels and without."""

from __future__ import annotations

import numpy as np
import pytest

import fl_memory
import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.planning.plan_cache import PlanCache
from fl_memory.managers.caching import CachingManager
from fl_tensor.backends.numpy import NumpyBackend


def made(fused):
    """A backend that plans at the second sighting, with kernels or without."""
    backend = JitBackend()
    if not fused:
        backend.plans = PlanCache(NumpyBackend(), fusible=lambda node: False)
    backend.plans.background = False
    return backend


def plans(backend):
    return backend.plans.entries()


def step(x, w, bias, scale):
    """Some of everything, of 64 x 256 elements."""
    y = ft.linear(x, w, bias)
    y = ft.gelu(y) * scale + x
    z = ft.softmax(ft.reshape(y, (8, 8, 256)), -1)
    turned = ft.permute(z, (1, 0, 2))
    return turned, ft.sum(y, 0), ft.mean(z), ft.max(turned, (0, 2)), turned[2:4, ::-1, 3:]


@pytest.fixture
def operands():
    generator = ft.Generator(7)
    shapes = ((64, 256), (256, 256), (256,))
    # Small values, so that no exponential or sum amplifies the rounding of a product.
    parts = (0.125, 0.0625, 0.125)
    return [np.asarray(generator.normal(shape) * part) for shape, part in zip(shapes, parts)]


@pytest.mark.parametrize("fused", [False, True], ids=["numpy", "kernels"])
def test_every_run_gives_the_same(operands, fused):
    backend = made(fused)
    for scale in (0.5, -2.0, 3.0, 0.25):
        with ft.use("numpy"):
            wanted = step(*map(ft.asarray, operands), scale)
        with ft.use(backend):
            found = step(*map(ft.asarray, operands), scale)
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("fused", [False, True], ids=["numpy", "kernels"])
def test_another_number_is_not_another_plan(operands, fused):
    backend = made(fused)
    with ft.use(backend):
        for scale in (0.5, -2.0, 3.0, 0.25):
            ft.eval(*step(*map(ft.asarray, operands), scale))
    assert len(plans(backend)) == 1


def test_another_batch_is_another_plan_of_the_same_kernels():
    backend = made(True)
    with ft.use(backend):
        for rows in (64, 64, 96, 96):
            ft.eval(ft.softmax(ft.ones((rows, 256)) * 2.0, -1))
    first, second = plans(backend)
    kernels = [[s.launch._kernel for s in p.steps] for p in (first, second)]
    assert kernels[0] == kernels[1]


def test_softmax_of_a_linear_layer_is_one_kernel_after_the_product(operands):
    backend = made(True)
    x, w, bias = operands
    with ft.use(backend):
        for _ in range(2):
            ft.eval(ft.softmax(ft.linear(ft.asarray(x), ft.asarray(w), ft.asarray(bias)), -1))
    (plan,) = plans(backend)
    assert [type(s).__name__ for s in plan.steps] == ["Contraction", "Launch"]


@pytest.mark.parametrize("seed", [3, (1 << 64) - 3])
@pytest.mark.parametrize("fused", [False, True], ids=["numpy", "kernels"])
def test_random_numbers_go_on_from_plan_to_plan(fused, seed):
    draws = {}
    for name, backend in (("numpy", ft.get_backend("numpy")), ("jit", made(fused))):
        generator = ft.Generator(seed)
        with ft.use(backend):
            draws[name] = [
                np.asarray(ft.where(generator.uniform((100, 200)) < 0.5, 1.0, 0.0))
                for _ in range(4)
            ]
    for a, b in zip(draws["numpy"], draws["jit"], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "uint8", "bool", "complex64"])
def test_dtypes(dtype):
    backend = made(True)
    values = np.arange(20_000).astype(dtype)
    for _ in range(2):
        with ft.use(backend):
            x = ft.asarray(values)
            y = ft.where(x == x, x, x)
            total = ft.sum(ft.reshape(y, (100, 200)), 1)
            np.testing.assert_array_equal(np.asarray(y), values)
            with ft.use("numpy"):
                wanted = np.asarray(ft.sum(ft.reshape(ft.asarray(values), (100, 200)), 1))
            np.testing.assert_allclose(np.asarray(total), wanted, rtol=1e-5)


def test_an_array_of_nothing():
    backend = made(True)
    for _ in range(2):
        with ft.use(backend):
            x = ft.ones((200, 100))
            empty = ft.exp(x[:0]) + 1.0
            assert empty.shape == (0, 100) and empty.tolist() == []
            assert ft.sum(ft.exp(x[:, :0]), 1).tolist() == [0.0] * 200


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (0, 3, 1, 2), (2, 1, 0, 3), (3, 2, 1, 0)])
def test_axes_in_another_order_are_copied_by_a_kernel(order):
    backend = made(True)
    x = np.arange(20_000.0, dtype=np.float32).reshape(2, 25, 20, 20)
    for _ in range(2):
        with ft.use(backend):
            y = ft.reshape(ft.permute(ft.asarray(x), order), (20_000,))
            np.testing.assert_array_equal(np.asarray(y), x.transpose(order).reshape(-1))
    assert all(type(s).__name__ == "Launch" for p in plans(backend) for s in p.steps)


def test_a_copy_in_another_order_runs_with_what_is_around_it():
    backend = made(True)
    x = np.arange(24_000.0, dtype=np.float32).reshape(20, 30, 40)
    for _ in range(2):
        with ft.use(backend):
            y = ft.exp(ft.asarray(x) * 1e-3)
            z = ft.reshape(ft.permute(y, (1, 0, 2)), (30, 800)) * 2.0
            turned = np.exp(x * np.float32(1e-3)).transpose(1, 0, 2).reshape(30, 800) * 2
            np.testing.assert_allclose(np.asarray(z), turned, rtol=1e-5)
            again = ft.reshape(ft.permute(z, (1, 0)), (24_000,))
            np.testing.assert_allclose(np.asarray(again), turned.T.reshape(-1), rtol=1e-5)
    assert all(type(s).__name__ == "Launch" for p in plans(backend) for s in p.steps)


@pytest.mark.parametrize("shape", [(3, 4), (100, 200)])
def test_without_kernels_results_lie_in_c_order_too(shape):
    backend = made(fused=False)
    backend.smallest, backend.plans.policy.patience = 1, 0
    x = np.arange(float(np.prod(shape))).reshape(shape)
    for _ in range(3):
        with ft.use(backend):
            y = ft.reshape(ft.negative(ft.permute(ft.asarray(x), (1, 0))), (-1,))
            np.testing.assert_array_equal(np.asarray(y), -x.T.reshape(-1))
    assert len(plans(backend)) == 1


@pytest.mark.parametrize("fused", [False, True], ids=["numpy", "kernels"])
def test_what_passes_have_made_useless_is_no_step(fused):
    backend = made(fused)
    for _ in range(2):
        with ft.use(backend):
            x = ft.exp(ft.ones((100, 100)))
            y = ft.repeat(x, 2, 1)  # a copy, in an order that what follows does not need
            z = ft.reshape(y, (50, 2, 200)) * 2.0
            del x, y
            assert z.shape == (50, 2, 200) and z[0, 0, 0].item() == pytest.approx(2 * np.e)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_the_sign_of_zeros_is_zero_without_a_sign(dtype):
    for backend in ("numpy", *[made(True)] * 3):
        with ft.use(backend):
            x = ft.asarray(np.full(10_000, -0.0)).astype(dtype)
            assert not np.signbit(np.asarray(ft.sign(x).astype("float32"))).any()


def test_what_is_made_first_is_not_what_runs_first(operands):
    """Products that are recorded all together are made one by one, each let go before the next."""
    x, w = (np.asarray(v) for v in operands[:2])
    one, backend = 64 * 256 * 4, made(fused=False)
    for _ in range(3):
        manager = CachingManager()
        with fl_memory.use(manager), ft.use(backend):
            left, right = ft.asarray(x), ft.asarray(w)
            before = manager.stats().live_bytes
            products = [ft.matmul(left * float(i + 1), right) for i in range(8)]
            total = sum(ft.sum(y) for y in products)
            del products
            total.item()
    assert manager.stats().peak_live_bytes - before <= 4 * one
