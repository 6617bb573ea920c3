"""Pooling by generated kernels gives what the compositions give, bit for bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.eager.backend import EagerBackend
from fl_jit.kernels import registry
from fl_jit.steps import pooling
from fl_jit.steps.operation import Operation
from fl_jit.steps.windows import Windows
from fl_tensor.graph.ir import Node, Value
from fl_tensor.graph.strides import StridedLayout, contiguous

#: image, window, stride, padding
CASES = {
    "two by two": ((2, 3, 6, 8), (2, 2), (2, 2), ((0, 0), (0, 0))),
    "overlapping": ((2, 17, 9, 7), (3, 2), (2, 1), ((1, 1), (0, 1))),
    "asymmetric": ((1, 16, 7, 80), (3, 3), (2, 2), ((0, 2), (1, 0))),
    "dense": ((2, 3, 9, 70), (3, 3), (1, 1), ((1, 1), (1, 1))),
    "gaps between windows": ((1, 2, 11, 10), (2, 1), (3, 4), ((0, 0), (0, 0))),
    "elements beyond the last window": ((1, 2, 8, 9), (2, 3), (3, 5), ((0, 0), (0, 0))),
    "mostly padding": ((1, 5, 1, 2), (3, 3), (2, 1), ((2, 2), (2, 1))),
    "one window": ((3, 40, 7, 7), (7, 7), (7, 7), ((0, 0), (0, 0))),
    "line": ((2, 5, 40), (3,), (2,), ((1, 1),)),
    "space": ((1, 4, 5, 4, 6), (2, 2, 3), (2, 1, 2), ((0, 0), (1, 0), (1, 1))),
}


@pytest.fixture(autouse=True)
def no_kernel_library(monkeypatch):
    monkeypatch.setattr(registry, "active_library", lambda: None)


@pytest.fixture
def jit():
    backend = JitBackend()
    backend.smallest, backend.plans.compile_after, backend.plans.policy.patience = 1, 1, 0
    return backend


def image(shape, dtype, special=False):
    rng = np.random.default_rng(len(shape))
    x = rng.integers(-3, 4, shape) + np.where(rng.random(shape) < 0.3, 0.25, 0)
    if special:
        odd = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape)
        x = np.where(rng.random(shape) < 0.3, odd, x)
    return x.astype(dtype)


def lay(x, order):
    """The array as a value of the backend in use, with that order of axes in memory."""
    if order == "C":
        return ft.asarray(x)
    if order == "view":
        return ft.asarray(np.flip(np.repeat(x, 2, -1), 2))[:, :, ::-1][..., ::2]
    axes = (0, *range(2, x.ndim), 1)
    value = ft.permute(ft.asarray(x.transpose(axes).copy()), tuple(np.argsort(axes).tolist()))
    ft.eval(value)
    return value


def pool(x, gradient, case, order):
    """All four operations on arrays of NumPy."""
    rest = case[1:]
    x, gradient = lay(x, order), lay(gradient, order)
    ops, a, g = x.backend, x.adapter, gradient.adapter
    found = [
        ops.max_pool(a, *rest),
        ops.avg_pool(a, *rest, True),
        ops.avg_pool(a, *rest, False),
        ops.max_pool_gradient(g, a, *rest),
        ops.avg_pool_gradient(g, case[0], *rest, True),
        ops.avg_pool_gradient(g, case[0], *rest, False),
    ]
    return [np.array(y.array) for y in found]


def same_bits(found, wanted):
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_array_equal(found, wanted)
    signs = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[signs]), np.signbit(wanted[signs]))


@pytest.mark.parametrize("order", ["C", "last", "view"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_as_the_compositions(jit, name, dtype, order):
    case = CASES[name]
    x = image(case[0], dtype)
    with ft.use("numpy"):
        shape = ft.asarray(x).backend.max_pool(ft.asarray(x).adapter, *case[1:]).shape
        operands = x, image(shape, dtype)
        wanted = pool(*operands, case, "C")
    with ft.use(jit):
        found = pool(*operands, case, order)
    for a, b in zip(found, wanted, strict=True):
        same_bits(a, b)
    kinds = {s.kind for p in jit.plans.entries() for s in p.steps if "pool" in s.nodes[0].op}
    assert kinds == {"kernel"}


@pytest.mark.parametrize("order", ["C", "last"])
@pytest.mark.parametrize("name", ["overlapping", "asymmetric", "dense", "mostly padding"])
def test_numbers_that_are_none_and_zeros_of_both_signs(jit, name, order):
    case = CASES[name]
    x = image(case[0], "float32", special=True)
    if name == "dense":
        x[:, 0] = -np.inf  # what padding is, too
    with ft.use("numpy"):
        shape = ft.asarray(x).backend.max_pool(ft.asarray(x).adapter, *case[1:]).shape
        operands = x, image(shape, "float32", special=True)
        wanted = pool(*operands, case, "C")
    with ft.use(jit):
        found = pool(*operands, case, order)
    # Which zero is the larger one is open (docs/jit-differences.md).
    np.testing.assert_array_equal(found[0], wanted[0])
    for a, b in zip(found[1:], wanted[1:], strict=True):
        same_bits(a, b)


def test_channels_stay_last(jit):
    case = CASES["overlapping"]
    with ft.use(jit):
        x = lay(image(case[0], "float32"), "last")
        y = ft.max_pool(x, (3, 2), (2, 1), padding=((1, 1), (0, 1))) * 2.0
        ft.eval(y)
    assert y.adapter.array.transpose(0, 2, 3, 1).flags.c_contiguous


def test_what_has_no_kernel_is_computed_all_the_same(jit):
    x = np.arange(2 * 81.0).reshape(1, 2, 9, 9)
    for dtype, window in (("float64", 9), ("int32", 2), ("float16", 2)):
        with ft.use(jit):
            found = ft.max_pool(ft.asarray(x.astype(dtype)) + 0, window, 1)
            found = np.asarray(found.astype("float64"))
        n = 10 - window
        wanted = x[:, :, window - 1 :, window - 1 :]
        assert found.shape == (1, 2, n, n)
        np.testing.assert_array_equal(found, wanted)
    assert pooling.MAX_WINDOW_POSITIONS < 81


@pytest.mark.parametrize("name", CASES)
def test_boxes_hold_every_place_of_every_window_once(name):
    shape, window, stride, padding = CASES[name]
    pooled = [(n + sum(p) - k) // s + 1 for n, k, s, p in zip(shape[2:], window, stride, padding)]
    windows = Windows(shape, (*shape[:2], *pooled), window, stride, padding)
    numbers = {place: i for i, place in enumerate(itertools.product(*map(range, window)))}
    wanted = set()
    for o in itertools.product(*map(range, pooled)):
        for k, number in numbers.items():
            i = tuple(a * s - low + b for a, s, (low, _), b in zip(o, stride, padding, k))
            if all(0 <= a < n for a, n in zip(i, shape[2:])):
                wanted.add((o, number, i))
    of_pooled, of_image, elements = set(), set(), []
    for box in windows.of_pooled():
        for here, number, there in pairs(box):
            of_pooled.add((here, number, there))
    for box in windows.of_image():
        elements += [here for here, _ in elements_of(box)]
        for here, number, there in pairs(box):
            of_image.add((there, number, here))
    assert of_pooled == wanted == of_image
    assert sorted(elements) == list(itertools.product(*map(range, shape[2:])))


def elements_of(box):
    for t in itertools.product(*map(range, box.extent)):
        yield tuple(a + b * c for a, b, c in zip(box.start, box.step, t)), t


def pairs(box):
    for here, t in elements_of(box):
        for number, other in zip(box.positions, box.other_starts, strict=True):
            yield here, number, tuple(a + b * c for a, b, c in zip(other, box.other_step, t))


@pytest.mark.parametrize("op", ["max_pool", "avg_pool", "max_pool_gradient", "avg_pool_gradient"])
def test_a_result_in_another_axis_order_is_the_same_without_a_library(op):
    shape, *windows = CASES["overlapping"]
    backend, order = EagerBackend(), (0, 2, 3, 1)
    x = ft.asarray(image(shape, "float32"), backend=backend)._adapter
    pooled = backend.max_pool(x, *windows)
    given = dict(zip(("window", "stride", "padding"), windows))
    if op.startswith("avg"):
        given["count_include_pad"] = False
    operands = [pooled, x] if op == "max_pool_gradient" else [x]
    if op == "avg_pool_gradient":
        operands, given = [pooled], {"shape": shape, **given}
    expected = getattr(backend, op)(*operands, *given.values()).array.transpose(order)
    values = {Value(i, v.shape, v.dtype, v.device): v.array for i, v in enumerate(operands)}
    out = Value(2, expected.shape, x.dtype, x.device)
    node = Node(op, tuple(values), {**given, "order": order}, (out,))
    roots = {v: StridedLayout(v, 0, contiguous(v.shape)) for v in values}
    Operation(node, roots, backend)(values)
    made = values[out]
    assert made.flags.c_contiguous
    np.testing.assert_array_equal(made, expected)
