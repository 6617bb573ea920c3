"""Generated gradients of weights and biases, against sums over pixels in float64."""

from __future__ import annotations

import ctypes
import itertools
import threading
from typing import NamedTuple

import numpy as np
import pytest
from convolution_cases import Case

from fl_jit.kernels import ConvWeightGrad, Layout
from fl_jit.kernels.codegen import target
from fl_jit.kernels.layout import Packed
from fl_jit.kernels.library import UnsupportedError
from fl_jit.kernels.llvm import microkernel_registry, tile
from fl_jit.kernels.llvm.conv_wgrad import axes as weights_axes
from fl_jit.kernels.llvm.conv_wgrad import plan as weights_plan
from fl_jit.kernels.llvm.conv_wgrad import wgrad as convolution_weights
from fl_jit.kernels.llvm.depthwise import wgrad as depthwise_weights
from fl_tensor import dtypes, threads

#: Orders of axes in memory, slowest first.
IMAGES = {"last": (0, 2, 3, 1), "first": (0, 1, 2, 3), "mixed": (2, 0, 3, 1), "width": (1, 0, 2, 3)}
WEIGHTS = {"OIHW": (0, 1, 2, 3), "OHWI": (0, 2, 3, 1), "HWIO": (2, 3, 1, 0), "other": (1, 3, 0, 2)}


def exact(case, x, gradient):
    """(weights, bias)"""
    around = [(0, 0), (0, 0), *((max(low, 0), max(high, 0)) for low, high in case.padding)]
    padded = np.pad(x.astype(float), around)
    cut = tuple(
        slice(max(-low, 0), n - max(-high, 0))
        for n, (low, high) in zip(padded.shape[2:], case.padding, strict=True)
    )
    padded = padded[(slice(None), slice(None), *cut)]
    padded = padded.reshape(case.batch, case.groups, -1, *padded.shape[2:])
    y = gradient.astype(float).reshape(case.batch, case.groups, -1, *case.out)
    flat = y.reshape(*y.shape[:3], -1)
    found = np.zeros((case.groups, y.shape[2], padded.shape[2], *case.kernel))
    for place in itertools.product(*map(range, case.kernel)):
        parts = zip(place, case.dilation, case.stride, case.out, strict=True)
        cut = [slice(p * d, p * d + s * (n - 1) + 1, s) for p, d, s, n in parts]
        part = padded[(slice(None), slice(None), slice(None), *cut)]
        part = part.reshape(*part.shape[:3], -1)
        found[(Ellipsis, *place)] = np.einsum("bgcp,bgfp->gfc", part, flat, optimize=True)
    return found.reshape(case.features, -1, *case.kernel), y.sum(
        axis=(0, *range(3, y.ndim))
    ).reshape(-1)


def ordered(array, order):
    """The same array, whose axes lie in ``order``."""
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


class Descriptors(NamedTuple):
    descriptor: ConvWeightGrad
    x: np.ndarray
    gradient: np.ndarray
    bias: np.ndarray
    out: np.ndarray

    def __call__(self):
        kernel = convolution_weights.prepare(self.descriptor)
        kernel(*(a.ctypes.data for a in (self.x, self.gradient, self.bias, self.out)))
        return kernel


def pose(case, layout, images=None, weights=None, dtype="float32"):
    rng = np.random.default_rng(len(str(case)))
    rank = len(case.size) + 2
    images = images or (0, *range(2, rank), 1)
    weights = weights or tuple(range(rank))
    x = rng.standard_normal((case.batch, case.channels, *case.size)).astype(dtype)
    gradient = rng.standard_normal((case.batch, case.features, *case.out)).astype(dtype)
    shape = (case.features, case.channels // case.groups, *case.kernel)
    x, gradient = ordered(x, images), ordered(gradient, images)
    out, bias = ordered(np.full(shape, np.nan, dtype), weights), np.full(shape[0], np.nan, dtype)
    options = case.stride, case.padding, case.dilation, case.groups
    layouts = layout(x), layout(gradient), layout(out)
    descriptor = ConvWeightGrad(*layouts, *options, layout(bias))
    return Descriptors(descriptor, x, gradient, bias, out)


def check(case, layout, **how):
    posed = pose(case, layout, **how)
    kernel = posed()
    # Half precision is added in float32, and rounded once.
    eps = np.finfo(posed.x.dtype).eps
    for found, expected in zip(
        (posed.out, posed.bias), exact(case, posed.x, posed.gradient), strict=True
    ):
        error = np.abs(found - expected).max() / np.abs(expected).max()
        assert error <= (1 if posed.x.dtype == np.float16 else 16) * eps
    return kernel


SAME = ((1, 1), (1, 1))
CASES = {
    "3x3": Case(2, 20, 40, (9, 8), (3, 3), padding=SAME),
    "few channels, joined": Case(2, 3, 24, (19, 18), (7, 7), (2, 2), ((3, 3), (3, 3))),
    "1x1": Case(3, 70, 70, (24, 25), (1, 1)),
    "many tiles and panels": Case(3, 70, 300, (14, 14), (3, 3), padding=SAME),
}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("images", IMAGES)
@pytest.mark.parametrize("case", CASES)
def test_any_order_of_axes(case, images, weights, layout):
    check(CASES[case], layout, images=IMAGES[images], weights=WEIGHTS[weights])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(
    "case",
    [
        Case(2, 12, 20, (13, 15), (3, 2), (2, 3), ((0, 2), (1, 0)), (2, 3), 2),
        Case(2, 12, 20, (100,), (5,), (2,), ((2, 2),), (1,)),
        Case(1, 5, 17, (1300,), (1,), (1,), ((0, 0),), (1,)),
        Case(2, 12, 20, (9, 10, 11), (3, 2, 3), (1, 2, 1), ((1, 1),) * 3, (1, 1, 2), 2),
        Case(9, 6, 8, (5, 5, 5), (3, 3, 3), (1, 1, 1), ((1, 1),) * 3, (1, 1, 1)),
        Case(1, 1, 1, (5, 5), (5, 5)),
        Case(8, 64, 64, (7, 7), (3, 3), padding=SAME),
        Case(2, 40, 3, (40, 40), (3, 3), padding=SAME),
        Case(2, 17, 33, (30, 31), (1, 1), (2, 2), ((0, 1), (0, 0))),
        Case(2, 16, 16, (6, 6), (3, 3), padding=((4, 4), (4, 4))),
        Case(2, 2, 6, (8, 8), (3, 3), padding=SAME, dilation=(1, 2)),
        Case(3, 8, 16, (12, 12), (3, 3), padding=((-2, 1), (-1, -3))),
        Case(2, 600, 20, (6, 6), (1, 1)),
        Case(2, 9, 16, (12, 12), (3, 3), padding=((1, -1), (2, -2))),
    ],
    ids=str,
)
def test_every_option(case, dtype, layout):
    check(case, layout, dtype=dtype)
    check(case, layout, images=tuple(range(len(case.size) + 2)), dtype=dtype)


def test_groups_as_an_axis_of_the_weights(layout):
    case = Case(2, 12, 20, (9, 8), (3, 3), padding=SAME, groups=2)
    posed = pose(case, layout)
    out = ordered(np.full((10, 2, 6, 3, 3), np.nan, np.float32), (0, 1, 2, 3, 4)).swapaxes(0, 1)
    posed = posed._replace(descriptor=posed.descriptor._replace(out=layout(out)), out=out)
    posed()
    expected, _ = exact(case, posed.x, posed.gradient)
    np.testing.assert_allclose(out.reshape(expected.shape), expected, rtol=1e-4, atol=1e-3)


def test_channels_of_images_may_be_a_part_of_others(layout):
    case = Case(2, 9, 21, (10, 10), (3, 3), padding=SAME)
    posed = pose(case, layout)
    wide = np.full((2, 10, 10, 40), np.nan, np.float32)
    x = wide.transpose(0, 3, 1, 2)[:, 5:14]
    x[...] = posed.x
    posed = posed._replace(descriptor=posed.descriptor._replace(x=layout(x)), x=x)
    posed()
    expected, _ = exact(case, posed.x, posed.gradient)
    np.testing.assert_allclose(posed.out, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("kernel", [(3, 3), (1, 1)])
def test_nothing_but_the_result_is_written(kernel, weights, layout):
    case = Case(2, 9, 21, (10, 10), kernel)
    posed = pose(case, layout)
    order = WEIGHTS[weights]
    wide = ordered(np.full((25, 12, *kernel), 7, np.float32), order)
    out = wide[2:23, 1:10]
    posed._replace(descriptor=posed.descriptor._replace(out=layout(out)), out=out)()
    assert (wide == 7).sum() == wide.size - out.size
    np.testing.assert_allclose(out, exact(case, posed.x, posed.gradient)[0], rtol=1e-4, atol=1e-4)


LARGE = {
    "in parts": Case(8, 24, 40, (40, 40), (3, 3), padding=SAME),
    "by tiles and panels": Case(4, 200, 300, (12, 12), (3, 3), padding=SAME),
    "of groups": Case(4, 60, 64, (30, 30), (3, 3), padding=SAME, groups=2),
}


@pytest.mark.parametrize("case", LARGE)
def test_results_do_not_depend_on_the_number_of_threads(case, layout):
    posed = pose(LARGE[case], layout)
    kernel = convolution_weights.prepare(posed.descriptor)
    addresses = [a.ctypes.data for a in (posed.x, posed.gradient, posed.bias, posed.out)]
    before, found = threads.get_num_threads(), set()
    try:
        for count in (1, 2, 3, 5, 8, 13):
            threads.set_num_threads(count)
            posed.out[...] = np.nan
            posed.bias[...] = np.nan
            kernel(*addresses)
            found.add(posed.out.tobytes() + posed.bias.tobytes())
    finally:
        threads.set_num_threads(before)
    assert len(found) == 1
    expected, _ = exact(LARGE[case], posed.x, posed.gradient)
    np.testing.assert_allclose(posed.out, expected, rtol=1e-3, atol=1e-3)


def test_few_weights_are_divided_by_pixels_and_many_are_not(layout):
    def parts(case):
        descriptor = pose(case, layout).descriptor
        return weights_plan.plan(descriptor, weights_axes.axes_of(descriptor)).parts

    assert parts(LARGE["in parts"]) > 1
    assert parts(LARGE["by tiles and panels"]) == 1


def test_strips_fit_a_large_l1_unless_they_are_lower_than_the_kernel_or_short(layout, processor):
    def pixels(size, kernel):
        descriptor = pose(Case(8, 64, 64, size, kernel, padding=((1, 1),) * 2), layout).descriptor
        made = weights_plan.plan(descriptor, weights_axes.axes_of(descriptor), tile.Tile(14, 2))
        return np.prod(made.steps)

    panel = 2 * target.host().lanes(4) * 4
    room = 256 * (panel + 64)
    processor(l1=room, l2=2 << 20, l3=0)
    assert pixels((28, 28), (3, 3)) == 7 * 28
    assert pixels((56, 56), (3, 3)) == 4 * 56
    assert pixels((112, 112), (3, 3)) == 4 * 112, "2 lines would see 4"
    assert pixels((13, 13), (3, 3)) == 3 * 169, "an image is too short"
    processor(l1=room - 1, l2=2 << 20, l3=0)
    assert pixels((28, 28), (3, 3)) == 14 * 28


def test_parts_are_equal_and_a_power_of_two_where_one_axis_is_cut(layout):
    case = Case(24, 16, 16, (28, 28), (1, 1))
    descriptor = pose(case, layout).descriptor
    made = weights_plan.plan(descriptor, weights_axes.axes_of(descriptor))
    assert (made.parts, made.input_tiles, made.steps[-1]) == (4, 76, 248)
    check(case, layout)


def test_pixels_that_are_far_apart_are_copied(processor, layout, monkeypatch):
    def lies(channels, features):
        descriptor = pose(Case(2, channels, features, (20, 20), (1, 1)), layout).descriptor
        made = weights_plan.plan(descriptor, weights_axes.axes_of(descriptor))
        return made.x_direct, made.gradient_direct

    processor(l1=32 << 10, l2=256 << 10, l3=4 << 20)
    tiles = 448 // tile.best(target.host()).rows  # those of 448 channels, whatever they are
    monkeypatch.setattr(weights_plan, "MANY_TILES", tiles)
    assert lies(64, 64) == (True, True)
    assert lies(64, 256) == (True, False)
    assert lies(256, 64) == (False, True)
    assert lies(512, 64) == (False, False)  # a copy of the gradient for many tiles
    processor(l1=32 << 10, l2=2 << 20, l3=4 << 20)
    assert lies(64, 256) == (True, True)  # which is prefetched while another input tile is computed
    assert lies(256, 64) == (True, True)
    assert lies(512, 64) == (False, False)


LINE = 64


def lines_of(array):
    """The numbers of the cache lines in which the elements of a part of an array lie."""
    low, high = np.lib.array_utils.byte_bounds(array)
    return set(range(low // LINE, (high - 1) // LINE + 1))


def test_the_next_input_tile_is_prefetched_while_one_is_computed(layout):
    posed = pose(Case(2, 20, 40, (80, 80), (3, 3), (2, 2), padding=SAME), layout)
    axes = weights_axes.axes_of(posed.descriptor)
    made = weights_plan.plan(posed.descriptor, axes)
    calls = []

    def note(*arguments):
        taps, k, address = arguments[0], arguments[2], arguments[11]
        calls.append([address // LINE + line for line in range(taps * k)])

    noted = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 12)(note)
    place = ctypes.cast(noted, ctypes.c_void_p).value

    def factory(kernel, machine):
        words = ", ".join(f"i64 %w{i}" for i in range(12))
        call = f"%note = inttoptr i64 {place} to ptr call void %note({words}) ret void"
        return f'target triple = "{target.triple()}" define void @micro({words}) {{ {call} }}'

    before = threads.get_num_threads()
    threads.set_num_threads(1)
    try:
        with microkernel_registry.register(factory):
            posed()
    finally:
        threads.set_num_threads(before)
    blocks = [-(-axis.size // step) for axis, step in zip(axes, made.steps, strict=True)]
    count, rest = divmod(len(calls), made.input_tiles)
    assert made.prefetch and not rest and made.input_tiles == np.prod(blocks) > 2
    for input_tile, block in enumerate(np.ndindex(*blocks)):
        starts = [i * step for i, step in zip(block, made.steps, strict=True)]
        ends = [first + step for first, step in zip(starts, made.steps, strict=True)]
        _, n, row, _ = (slice(*each) for each in zip(starts, ends, strict=True))
        seen = slice(max(2 * starts[2] - 1, 0), 2 * (min(ends[2], axes[2].size) - 1) + 2)
        wanted = lines_of(posed.x[n, :, seen]) | lines_of(posed.gradient[n, :, row])
        if input_tile:
            prefetched = calls[(input_tile - 1) * count : input_tile * count]
            assert wanted <= {line for call in prefetched for line in call}
            # Nothing else but what the last call of each round has left.
            assert all(wanted & {call[0]} for call in prefetched)


@pytest.mark.parametrize(
    ("case", "images", "is_prefetched"),
    [
        (Case(4, 64, 64, (40, 40), (3, 3), padding=SAME), "last", True),
        (Case(4, 64, 64, (40, 40), (1, 1)), "last", True),
        (Case(4, 64, 64, (40, 40), (1, 1), (2, 2)), "last", False),  # half of x is not seen
        (Case(4, 64, 64, (40, 40), (3, 3), padding=SAME), "first", False),  # in many pieces
        (Case(1, 64, 64, (7, 7), (3, 3), padding=SAME), "last", False),  # one input tile
        (Case(2, 1000, 1000, (40, 40), (1, 1)), "last", False),  # too much for the cache
    ],
)
def test_what_is_prefetched(case, images, is_prefetched, layout, processor):
    processor(l1=32 << 10, l2=1 << 20, l3=4 << 20)
    descriptor = pose(case, layout, images=IMAGES[images]).descriptor
    assert weights_plan.plan(descriptor, weights_axes.axes_of(descriptor)).prefetch == is_prefetched


def test_pixels_without_a_neighbourhood_are_one_long_axis(layout):
    descriptor = pose(Case(3, 8, 8, (5, 6), (1, 1)), layout).descriptor
    assert [axis.size for axis in weights_axes.axes_of(descriptor)] == [1, 1, 1, 90]
    descriptor = pose(Case(3, 8, 8, (5, 6), (1, 1), (2, 2)), layout).descriptor
    assert [axis.size for axis in weights_axes.axes_of(descriptor)] == [1, 3, 3, 3]


def test_pixels_that_see_nothing_but_padding_are_left_out(layout):
    descriptor = pose(Case(8, 64, 64, (7, 7), (3, 3), padding=SAME), layout).descriptor
    axes = weights_axes.axes_of(descriptor)
    made = weights_plan.plan(descriptor, axes)
    assert made.ranges == ((0, 7), (1, 7), (0, 6))
    assert [made.range_of(axes[3], tap) for tap in range(3)] == [(1, 7), (0, 7), (0, 6)]
    # A copy of the gradient for each is more than they save where lines are long, or tiles few.
    for case in (
        Case(8, 64, 64, (70, 70), (3, 3), padding=SAME),
        Case(8, 14, 64, (7, 7), (1, 3), padding=((0, 0), (1, 1))),
    ):
        descriptor = pose(case, layout).descriptor
        assert len(weights_plan.plan(descriptor, weights_axes.axes_of(descriptor)).ranges) == 1


@pytest.mark.parametrize(
    "case",
    [
        Case(3, 40, 40, (5, 4), (3, 5), padding=((1, 1), (2, 2))),
        Case(3, 40, 40, (6, 9), (3, 3), (2, 2), padding=SAME),
        Case(3, 40, 40, (6, 7), (3, 3), dilation=(2, 2), padding=((2, 2), (2, 2))),
        Case(3, 40, 40, (6, 3), (3, 3), padding=((1, 1), (4, 4))),
        Case(3, 40, 40, (6, 7), (2, 4), padding=((0, 1), (3, 0))),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_ranges_of_every_kind(case, dtype, layout):
    descriptor = pose(case, layout, dtype=dtype).descriptor
    assert len(weights_plan.plan(descriptor, weights_axes.axes_of(descriptor)).ranges) > 1
    for order in WEIGHTS.values():
        check(case, layout, weights=order, dtype=dtype)


POINTWISE = Case(2, 70, 40, (9, 8), (1, 1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("images", IMAGES)
def test_without_a_neighbourhood_it_is_a_product(images, weights, groups, dtype, layout):
    case = POINTWISE._replace(groups=groups)
    posed = pose(case, layout, images=IMAGES[images], weights=WEIGHTS[weights], dtype=dtype)
    kernel = convolution_weights.prepare(posed.descriptor._replace(bias=None))
    # Where pixels are at equal distances.
    assert ("product" in kernel.about) == (images in ("last", "width"))
    kernel(*(a.ctypes.data for a in (posed.x, posed.gradient, posed.out)))
    expected, _ = exact(case, posed.x, posed.gradient)
    error = np.abs(posed.out - expected).max() / np.abs(expected).max()
    assert error <= 16 * np.finfo(dtype).eps


def test_products_are_not_for_a_bias_or_half_precision_or_several_strips(layout, processor):
    processor(l1=32 << 10, l2=1 << 20, l3=4 << 20)

    def about(case, bias=None, **how):
        descriptor = pose(case, layout, **how).descriptor
        return convolution_weights.prepare(descriptor._replace(bias=bias and descriptor.bias)).about

    assert "product" in about(POINTWISE)
    assert "product" not in about(POINTWISE, bias=True)
    assert "product" not in about(POINTWISE, dtype="float16")
    assert "product" not in about(POINTWISE._replace(size=(50, 50))), "several strips"
    assert "product" not in about(Case(2, 1030, 300, (20, 20), (1, 1))), "strips of one part"
    small, large = Case(1, 200, 200, (15, 15), (1, 1)), Case(1, 900, 900, (15, 15), (1, 1))
    assert "product" in about(small) and "product" not in about(large), "too much for the cache"
    assert "product" not in about(POINTWISE._replace(padding=SAME))


def test_calls_may_overlap_in_time(layout):
    posed = pose(LARGE["in parts"], layout)
    kernel = convolution_weights.prepare(posed.descriptor)
    results = [np.empty_like(posed.out) for _ in range(4)]

    def call(out):
        bias = np.empty_like(posed.bias)
        for _ in range(5):
            kernel(
                posed.x.ctypes.data, posed.gradient.ctypes.data, bias.ctypes.data, out.ctypes.data
            )

    callers = [threading.Thread(target=call, args=(out,)) for out in results]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len({out.tobytes() for out in results}) == 1


def test_bfloat16(layout):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    case = Case(2, 20, 40, (9, 8), (3, 3), padding=SAME)
    posed = pose(case, layout, dtype=bfloat16)
    posed()
    for found, expected in zip(
        (posed.out, posed.bias), exact(case, posed.x, posed.gradient), strict=True
    ):
        error = np.abs(found.astype(float) - expected).max() / np.abs(expected).max()
        assert error <= 2.0**-8


@pytest.mark.parametrize("module", [convolution_weights, depthwise_weights])
def test_half_precision_may_give_float32(module, layout):
    groups = 1 if module is convolution_weights else 20
    case = Case(2, 20, 20, (9, 8), (3, 3), padding=SAME, groups=groups)
    posed = pose(case, layout, dtype="float16")
    out, bias = posed.out.astype(np.float32), posed.bias.astype(np.float32)
    descriptor = posed.descriptor._replace(out=layout(out), bias=layout(bias))
    kernel = module.prepare(descriptor)
    kernel(*(a.ctypes.data for a in (posed.x, posed.gradient, bias, out)))
    for found, expected in zip((out, bias), exact(case, posed.x, posed.gradient), strict=True):
        assert np.abs(found - expected).max() <= 2e-6 * np.abs(expected).max()


def test_an_open_layout_is_reported(layout):
    case = Case(2, 20, 40, (9, 8), (3, 3), padding=SAME)
    posed = pose(case, layout)
    descriptor = posed.descriptor._replace(out=posed.descriptor.out._replace(strides=None))
    kernel = convolution_weights.prepare(descriptor)
    told = kernel.operands[-1]
    out = ordered(np.full(told.shape, np.nan, np.float32), (2, 3, 1, 0))
    assert layout(out) == told
    kernel(*(a.ctypes.data for a in (posed.x, posed.gradient, posed.bias, out)))
    expected, _ = exact(case, posed.x, posed.gradient)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_what_is_refused(layout):
    descriptor = pose(Case(2, 4, 4, (5, 5), (3, 3)), layout).descriptor
    packed = Packed(dtypes.float32, descriptor.out.shape, 1024, "of another")
    other = Layout(dtypes.float64, descriptor.x.shape, descriptor.x.strides)
    empty = Layout(dtypes.float32, (0, 4, 5, 5), (100, 1, 20, 4))
    for refused in (
        descriptor._replace(out=packed),
        descriptor._replace(x=other),
        descriptor._replace(x=empty),
    ):
        with pytest.raises(UnsupportedError):
            convolution_weights.prepare(refused)
