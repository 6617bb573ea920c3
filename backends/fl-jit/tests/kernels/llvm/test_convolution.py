"""Generated convolutions and gradients of data, against sums over windows in float64."""

from __future__ import annotations

import concurrent.futures
import itertools

import numpy as np
import pytest
from bias_and_activation import followed
from convolution_cases import Case

from fl_jit.kernels import ConvDataGrad, Convolution, Packed, Reorder, any_layout, channels_last
from fl_jit.kernels.codegen import target
from fl_jit.kernels.library import UnsupportedError
from fl_jit.kernels.llvm import microkernel_registry, tile
from fl_jit.kernels.llvm.conv import forward as convolution
from fl_jit.kernels.llvm.conv import panels, passes, windows
from fl_jit.kernels.llvm.conv.implicit_gemm import Image, ImplicitGemm, Panels, Weights
from fl_jit.kernels.llvm.conv.tiling import Tiling
from fl_tensor import threads
from fl_tensor.dtypes import float32


def _places(case, padded):
    # (place in the kernel, the part of the padded input that it meets)
    for place in itertools.product(*map(range, case.kernel)):
        parts = zip(place, case.dilation, case.stride, case.out, strict=True)
        cut = tuple(slice(p * d, p * d + s * (n - 1) + 1, s) for p, d, s, n in parts)
        yield place, padded[(slice(None), slice(None), *cut)]


def _grouped(case, x):
    return x.reshape(x.shape[0], case.groups, -1, *x.shape[2:])


def exact(case, x, w):
    w = w.astype(float).reshape(case.groups, -1, *w.shape[1:])
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), *case.padding))
    out = 0.0
    for place, part in _places(case, padded):
        factors = w[(slice(None), slice(None), slice(None), *place)]
        out = out + np.einsum("bgc...,gfc->bgf...", _grouped(case, part), factors)
    return out.reshape(case.shapes[2])


def exact_data(case, gradient, w):
    w = w.astype(float).reshape(case.groups, -1, *w.shape[1:])
    padded = np.pad(np.zeros(case.shapes[0]), ((0, 0), (0, 0), *case.padding))
    for place, part in _places(case, padded):
        factors = w[(slice(None), slice(None), slice(None), *place)]
        grouped = _grouped(case, gradient.astype(float))
        part += np.einsum("bgf...,gfc->bgc...", grouped, factors).reshape(part.shape)
    cut = tuple(slice(low, low + n) for (low, _), n in zip(case.padding, case.size, strict=True))
    return padded[(slice(None), slice(None), *cut)]


CASES = {
    "plain": Case(2, 8, 16, (10, 11), (3, 3), padding=((1, 1), (1, 1))),
    "odd sizes": Case(3, 5, 7, (9, 7), (2, 3)),
    "one by one": Case(2, 17, 33, (6, 5), (1, 1)),
    "one place": Case(20, 17, 33, (1, 1), (1, 1)),
    "places in depth": Case(3, 5, 6, (7, 1, 1), (1, 1, 1), (1,) * 3, ((0, 0),) * 3, (1,) * 3),
    "one by one, strided": Case(2, 17, 33, (6, 5), (1, 1), (2, 3)),
    "strided": Case(2, 3, 16, (15, 14), (5, 3), (2, 3), ((2, 2), (1, 1))),
    "asymmetric": Case(1, 4, 8, (8, 9), (3, 4), (1, 2), ((0, 2), (3, 1))),
    "dilated": Case(2, 6, 10, (13, 12), (3, 3), (1, 1), ((2, 2), (4, 4)), (2, 3)),
    "dilated and strided": Case(2, 6, 10, (23, 22), (3, 3), (4, 3), ((2, 2), (4, 4)), (2, 3)),
    "remainder": Case(1, 4, 4, (8, 9), (3, 3), (3, 2), ((0, 0), (1, 1))),
    "steps beyond the kernel": Case(2, 5, 6, (11, 13), (2, 1), (4, 3)),
    "groups": Case(2, 12, 8, (7, 8), (3, 3), padding=((1, 1), (1, 1)), groups=4),
    "groups of vectors": Case(2, 32, 80, (9, 8), (3, 3), padding=((1, 1), (1, 1)), groups=2),
    "depthwise": Case(2, 24, 24, (9, 9), (3, 3), (2, 2), ((1, 1), (1, 1)), groups=24),
    "line": Case(2, 6, 9, (31,), (5,), (2,), ((2, 2),), (1,)),
    "long line": Case(1, 64, 8, (5000,), (9,), (1,), ((4, 4),), (1,)),
    "space": Case(1, 3, 4, (5, 6, 7), (2, 3, 2), (1, 2, 1), ((0, 1), (1, 1), (0, 0)), (1, 1, 2)),
    "one channel": Case(1, 1, 1, (4, 4), (2, 2)),
    "blocks of taps": Case(1, 256, 40, (7, 7), (3, 3), padding=((1, 1), (1, 1))),
    "runs in parts": Case(2, 1024, 16, (3, 3), (1, 1)),
    "many images": Case(33, 16, 48, (5, 5), (3, 3), padding=((1, 1), (1, 1))),
}
ORDERS = ("C", "last")


@pytest.fixture
def run():
    """``run(problem, *arrays)``: prepare and call."""

    def call(descriptor, *arrays):
        kernel = convolution.prepare(descriptor)
        kernel(*(array.ctypes.data for array in arrays))
        return kernel

    return call


def close(found, expected, tolerance=2e-6):
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("x_order", ORDERS)
@pytest.mark.parametrize("out_order", ORDERS)
@pytest.mark.parametrize("name", CASES)
def test_convolution(run, layout, normal, unset, name, x_order, out_order):
    case = CASES[name]
    x_shape, w_shape, out_shape = case.shapes
    x, w = normal(*x_shape, order=x_order), normal(*w_shape)
    out = unset(*out_shape, order=out_order)
    run(Convolution(layout(x), layout(w), layout(out), *case.options), x, w, out)
    close(out, exact(case, x, w))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", CASES)
def test_gradient_of_the_data(run, layout, normal, unset, name, order):
    case = CASES[name]
    x_shape, w_shape, out_shape = case.shapes
    g, w, out = normal(*out_shape, order=order), normal(*w_shape), unset(*x_shape, order=order)
    run(ConvDataGrad(layout(g), layout(w), layout(out), *case.options), g, w, out)
    close(out, exact_data(case, g, w))


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (2, 3, 1, 0), (3, 0, 1, 2)])
def test_weights_in_any_order(run, layout, normal, unset, order):
    case = Case(2, 40, 70, (9, 8), (3, 2), padding=((1, 1), (1, 0)))
    x_shape, w_shape, out_shape = case.shapes
    x, g = normal(*x_shape, order="last"), normal(*out_shape, order="last")
    w = normal(*w_shape, order=order)
    out, data = unset(*out_shape, order="last"), unset(*x_shape, order="last")
    run(Convolution(layout(x), layout(w), layout(out), *case.options), x, w, out)
    run(ConvDataGrad(layout(g), layout(w), layout(data), *case.options), g, w, data)
    close(out, exact(case, x, w))
    close(data, exact_data(case, g, w))


@pytest.mark.parametrize("name", ["float64", "float16"])
def test_other_dtypes(run, layout, normal, unset, name):
    case = CASES["groups of vectors"]
    x_shape, w_shape, out_shape = case.shapes
    x, w, g = (normal(*s, order="last", dtype=name) for s in (x_shape, w_shape, out_shape))
    out, data = unset(*out_shape, dtype=name), unset(*x_shape, order="last", dtype=name)
    run(Convolution(layout(x), layout(w), layout(out), *case.options), x, w, out)
    run(ConvDataGrad(layout(g), layout(w), layout(data), *case.options), g, w, data)
    tolerance = {"float64": 1e-14, "float16": 1e-3}[name]
    close(out, exact(case, x, w), tolerance)
    close(data, exact_data(case, g, w), tolerance)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["plain", "one by one", "groups", "line", "space"])
def test_bias_and_activation(run, layout, normal, unset, name, order):
    case = CASES[name]
    x_shape, w_shape, out_shape = case.shapes
    x, w, bias = normal(*x_shape, order="last"), normal(*w_shape), normal(case.features)
    out = unset(*out_shape, order=order)
    layouts = layout(x), layout(w), layout(out)
    descriptor = followed(Convolution(*layouts, *case.options), layout(bias), "relu")
    run(descriptor, x, w, bias, out)
    beside = bias.reshape(-1, *[1] * len(case.size))
    close(out, np.maximum(exact(case, x, w) + beside, 0))


def test_nothing_beside_the_result_is_touched(run, layout, normal):
    case = CASES["plain"]
    x_shape, w_shape, (n, features, height, width) = case.shapes
    x, w = normal(*x_shape, order="last"), normal(*w_shape)
    whole = np.full((n, height + 1, width + 1, features + 1), np.nan, np.float32)
    out = whole[:, :height, :width, :features].transpose(0, 3, 1, 2)
    run(Convolution(layout(x), layout(w), layout(out), *case.options), x, w, out)
    close(out, exact(case, x, w))
    assert np.isnan(whole).sum() == whole.size - out.size


@pytest.mark.parametrize("name", ["blocks of taps", "strided", "many images", "long line"])
def test_threads_change_no_bit(run, layout, normal, unset, pack, name):
    case = CASES[name]
    x_shape, w_shape, out_shape = case.shapes
    x, w, g = normal(*x_shape), normal(*w_shape), normal(*out_shape)
    found = []
    before = threads.get_num_threads()
    try:
        for count in (1, 2, 5, 64):
            threads.set_num_threads(count)
            out, data = unset(*out_shape, order="last"), unset(*x_shape, order="last")
            run(Convolution(layout(x), layout(w), layout(out), *case.options), x, w, out)
            run(ConvDataGrad(layout(g), layout(w), layout(data), *case.options), g, w, data)
            requested = any_layout(float32, w_shape)
            once = Convolution(layout(x), requested, layout(out), *case.options)
            packed = convolution.prepare(once).operands[1]
            again = unset(*out_shape, order="last")
            run(once._replace(w=packed), x, pack(layout(w), w, packed), again)
            found.append((out, data))
            np.testing.assert_array_equal(again, out)
    finally:
        threads.set_num_threads(before)
    for out, data in found[1:]:
        np.testing.assert_array_equal(out, found[0][0])
        np.testing.assert_array_equal(data, found[0][1])


def test_what_padding_leaves_of_tiles_is_as_long_as_other_tiles(layout, normal, monkeypatch):
    most = Panels.of(float32, 64, 100, 1).most_rows
    width = 4 * most - 2  # two tiles of ``most``, two of one less
    case = Case(1, 64, 64, (5, width), (3, 3), padding=((1, 1), (1, 1)))
    x, w, out = (normal(*shape, order="last") for shape in case.shapes)
    rows, addresses = set(), microkernel_registry.addresses

    def requested(kernels):
        rows.update(kernel.tile.rows for kernel in kernels)
        return addresses(kernels)

    monkeypatch.setattr(microkernel_registry, "addresses", requested)
    convolution.prepare(Convolution(layout(x), layout(w), layout(out), *case.options))
    assert rows == {most - 1, most}


@pytest.mark.skipif(
    tile.best(target.host()) != tile.Tile(14, 2), reason="tiles of 32 registers of 256 bits or more"
)
def test_panels_of_long_sums_are_equal_where_they_can_be(processor):
    processor(l3=0)
    lanes = target.host().lanes(4)
    for vectors in range(1, 20):
        long = Panels.of(float32, vectors * lanes, 100, 1000)
        short = Panels.of(float32, vectors * lanes, 100, 1)
        assert long.number == short.number
        if vectors > 3 and vectors % long.number == 0:
            assert long.tail == long.width
    assert Panels.of(float32, 6 * lanes, 100, 1).tail < 3 * lanes, "it would take time to write"
    assert Panels.of(float32, 8 * lanes, 100, 1).most_rows == 6
    if not processor(l3=16 << 20, half_rate=False).l3_feeds_fma:
        assert Panels.of(float32, 8 * lanes, 100, 1).most_rows == 14, "wide tiles would take more"


def cut(case, rows, workers=2):
    """How a convolution is cut in tiles of so many rows and 64 features."""
    x, _, out = case.shapes
    source, result = (Image.of(channels_last(float32, shape)) for shape in (x, out))
    axes = windows.convolution(x[2:], out[2:], case.kernel, *case.options[:3])
    weights = Weights(float32, 0, 0, 0, (0, 0, 0))
    sizes = case.batch, 1, case.channels, case.features
    panels_ = Panels(float32, 64, 64, case.features // 64, rows)
    return Tiling(ImplicitGemm(source, result, weights, *sizes, (axes,)), axes, panels_, workers)


SAME = ((1, 1), (1, 1))


@pytest.mark.parametrize(("channels", "by_features"), [(512, True), (64, False)])
def test_weights_beyond_the_cache_are_read_for_several_images(channels, by_features, processor):
    processor(l1=48 << 10, l2=2 << 20, l3=0)
    found = cut(Case(8, channels, 512, (7, 7), (3, 3), padding=SAME), 7)
    assert (found.images > 1) == by_features
    assert (found.chunk < found.panels.number) == by_features


@pytest.mark.parametrize(("first", "rows", "copied"), [
    (48, 6, False), (48, 14, True), (32, 6, True), (32, 4, False),
])  # fmt: skip
def test_rows_that_would_fill_the_first_cache_are_copied(first, rows, copied, processor):
    processor(l1=first << 10, l2=2 << 20, l3=0)
    assert cut(Case(2, 1024, 64, (14, 14), (1, 1)), rows).copied == copied


IMAGES = Case(8, 64, 64, (56, 56), (1, 1))


@pytest.mark.parametrize(("case", "prefetches"), [
    (IMAGES, True),
    (IMAGES._replace(kernel=(3, 3), padding=SAME), True),
    (IMAGES._replace(batch=1), False),  # the second cache has them
    (IMAGES._replace(stride=(2, 2)), False),  # what is behind a tile is not what comes next
    (IMAGES._replace(channels=1024, size=(14, 14)), False),  # read from a copy
])  # fmt: skip
def test_pixels_from_far_away_are_prefetched_while_those_before_are_summed(
    case, prefetches, processor
):
    processor(l1=48 << 10, l2=2 << 20, l3=0)
    assert cut(case, 14).prefetches == prefetches


@pytest.mark.parametrize("case", [
    CASES["one by one"],
    CASES["space"],
    Case(2, 40, 70, (9, 8), (3, 3), padding=SAME),
    Case(2, 80, 72, (9, 8), (3, 3), padding=SAME, groups=2),
], ids=str)  # fmt: skip
def test_what_is_prefetched_need_not_exist(
    processor, case, run, layout, normal, unset, monkeypatch
):
    processor(l1=48 << 10, l2=1 << 10, l3=0)
    prefetched, addresses = set(), microkernel_registry.addresses

    def seen(kernels):
        prefetched.update(kernel.prefetch for kernel in kernels)
        return addresses(kernels)

    monkeypatch.setattr(microkernel_registry, "addresses", seen)
    x_shape, w_shape, out_shape = case.shapes
    x, g = normal(*x_shape, order="last"), normal(*out_shape, order="last")
    w = normal(*w_shape)
    out, data = unset(*out_shape, order="last"), unset(*x_shape, order="last")
    run(Convolution(layout(x), layout(w), layout(out), *case.options), x, w, out)
    run(ConvDataGrad(layout(g), layout(w), layout(data), *case.options), g, w, data)
    assert prefetched == {True}
    close(out, exact(case, x, w))
    close(data, exact_data(case, g, w))


@pytest.mark.parametrize(("second", "rows"), [(512, 640), (1024, 640), (2048, 1280), (8192, 1280)])
def test_blocks_of_weights_are_as_deep_as_the_second_cache_allows(second, rows, processor):
    processor(l2=second << 10)
    assert passes.depth() == rows


def test_a_gradient_with_phases_takes_no_epilogue(layout, normal):
    case = CASES["strided"]
    g, w, x = (normal(*s, order="last") for s in (case.shapes[2], case.shapes[1], case.shapes[0]))
    forward = Convolution(layout(x), layout(w), layout(g), *case.options)
    descriptor = ConvDataGrad(
        *(layout(g), layout(w), layout(x)),
        *case.options,
        epilogue=followed(forward, activation="relu").epilogue,
    )
    with pytest.raises(UnsupportedError, match="phases"):
        convolution.prepare(descriptor)


@pytest.fixture
def pack():
    """``pack(w, packed)``: the memory of weights in a layout."""

    def call(layout, w, packed):
        memory = np.full(packed.nbytes, 255, np.uint8)
        panels.reorder(Reorder(layout, packed))(w.ctypes.data, memory.ctypes.data)
        return memory

    return call


PACKED = ["plain", "odd sizes", "one by one", "strided", "groups of vectors", "line", "space"]


@pytest.mark.parametrize("order", [None, "last"])
@pytest.mark.parametrize("name", PACKED)
def test_weights_are_packed_once(layout, normal, unset, pack, name, order):
    case = CASES[name]
    x_shape, w_shape, out_shape = case.shapes
    w = normal(*w_shape, order=order or "C")
    x, g = normal(*x_shape, order="last"), normal(*out_shape, order="last")
    out, data = unset(*out_shape, order="last"), unset(*x_shape, order="last")
    requested = any_layout(float32, w_shape)
    forward = Convolution(layout(x), requested, layout(out), *case.options)
    backward = ConvDataGrad(layout(g), requested, layout(data), *case.options)
    for descriptor, given, result, expected in (
        (forward, x, out, exact(case, x, w)),
        (backward, g, data, exact_data(case, g, w)),
    ):
        packed = convolution.prepare(descriptor).operands[1]
        assert isinstance(packed, Packed)
        assert packed.shape == w_shape
        held = pack(layout(w), w, packed)
        kernel = convolution.prepare(descriptor._replace(w=packed))
        kernel(given.ctypes.data, held.ctypes.data, result.ctypes.data)
        close(result, expected)
        back = unset(*w_shape, order=order or "C")
        panels.reorder(Reorder(packed, layout(back)))(held.ctypes.data, back.ctypes.data)
        np.testing.assert_array_equal(back, w)


def test_padding_of_packed_weights_is_zero(layout, normal, unset, pack):
    case = CASES["odd sizes"]
    x, w, out = (normal(*shape, order="last") for shape in case.shapes)
    requested = any_layout(float32, w.shape)
    descriptor = Convolution(layout(x), requested, layout(out), *case.options)
    packed = convolution.prepare(descriptor).operands[1]
    held = pack(layout(w), w, packed).view(np.float32)
    assert held.size > w.size
    np.testing.assert_array_equal(np.sort(held[held != 0]), np.sort(w.ravel()))


def test_weights_packed_for_something_else_are_refused(layout, normal):
    case = CASES["plain"]
    x, w, out = (normal(*shape, order="last") for shape in case.shapes)
    requested = any_layout(float32, w.shape)
    forward = Convolution(layout(x), requested, layout(out), *case.options)
    packed = convolution.prepare(forward).operands[1]
    backward = ConvDataGrad(layout(out), packed, layout(x), *case.options)
    with pytest.raises(UnsupportedError, match="packed for something else"):
        convolution.prepare(backward)


@pytest.mark.parametrize("empty", ["batch", "features", "channels"])
def test_sizes_of_zero(run, layout, normal, unset, empty):
    case = CASES["plain"]._replace(**{empty: 0})
    x, w, g = (normal(*shape, order="last") for shape in case.shapes)
    out, data = unset(*g.shape), unset(*x.shape)
    run(Convolution(layout(x), layout(w), layout(out), *case.options), x, w, out)
    run(ConvDataGrad(layout(g), layout(w), layout(data), *case.options), g, w, data)
    np.testing.assert_array_equal(out, 0)
    np.testing.assert_array_equal(data, 0)


def test_nothing_is_packed_for_no_images(layout, normal, pack):
    case = CASES["plain"]._replace(batch=0)
    x, w, out = (normal(*shape, order="last") for shape in case.shapes)
    descriptor = Convolution(layout(x), any_layout(float32, w.shape), layout(out), *case.options)
    kernel = convolution.prepare(descriptor)
    held = pack(layout(w), w, kernel.operands[1])
    kernel(x.ctypes.data, held.ctypes.data, out.ctypes.data)
    assert held.size == 0


def test_calls_may_overlap_in_time(layout, normal, unset):
    case = CASES["many images"]
    x_shape, w_shape, out_shape = case.shapes
    w = normal(*w_shape)
    descriptor = Convolution(
        *(layout(a) for a in (normal(*x_shape), w, unset(*out_shape))), *case.options
    )
    kernel = convolution.prepare(descriptor)
    calls = [(normal(*x_shape), unset(*out_shape)) for _ in range(8)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for x, out in calls * 5:
            pool.submit(kernel, x.ctypes.data, w.ctypes.data, out.ctypes.data)
    for x, out in calls:
        close(out, exact(case, x, w))
