"""Generated depthwise convolutions and both of their gradients, against sums in float64."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from bias_and_activation import followed
from checked_kernel import CheckedKernels
from convolution_cases import Case

from fl_jit.kernels import ConvDataGrad, Convolution, ConvWeightGrad, any_layout
from fl_jit.kernels.codegen import target
from fl_jit.kernels.library import UnsupportedError
from fl_jit.kernels.llvm.depthwise import forward as depthwise
from fl_jit.kernels.llvm.depthwise import wgrad as depthwise_weights
from fl_jit.kernels.llvm.depthwise.groups import Groups, is_depthwise
from fl_tensor import threads
from fl_tensor.dtypes import float32


def depthwise_case(batch, channels, *rest, **options):
    return Case(batch, channels, channels, *rest, groups=channels, **options)


SAME = ((1, 1), (1, 1))
CASES = [
    depthwise_case(2, 40, (14, 15), (3, 3), padding=SAME),
    depthwise_case(2, 37, (14, 15), (5, 3), (2, 2), ((2, 2), (1, 1))),
    depthwise_case(2, 20, (13, 12), (3, 3), (2, 2), SAME, (2, 2)),
    depthwise_case(2, 20, (13, 12), (3, 4), (3, 1), ((0, 2), (1, 3)), (1, 2)),
    depthwise_case(3, 20, (17, 16), (7, 7), padding=((3, 3), (3, 3))),
    depthwise_case(3, 90, (9, 8), (7, 7), (2, 1), padding=((3, 2), (4, 3))),
    depthwise_case(2, 33, (50,), (7,), (3,), ((3, 3),), (1,)),
    depthwise_case(2, 18, (6, 7, 8), (3, 3, 3), (1, 2, 1), ((1, 1),) * 3, (1, 1, 1)),
    depthwise_case(2, 8, (4, 4), (1, 1), (3, 3)),
    depthwise_case(1, 5, (40, 3), (31, 1), padding=((15, 15), (0, 0))),
    depthwise_case(3, 16, (3, 3), (3, 3), padding=((3, 4), (2, 5))),
    depthwise_case(3, 200, (20, 9), (3, 3), padding=SAME),  # several rows at a time
    depthwise_case(2, 144, (23, 11), (5, 3), (2, 2), ((2, 2), (1, 1))),
    depthwise_case(1, 17, (2, 1500), (3, 3), padding=SAME),  # lines of several strips
    depthwise_case(2, 80, (5, 41), (3, 5), (1, 2), ((1, 1), (4, 0))),  # uneven ends
    depthwise_case(1, 70, (6, 70), (3, 3), (2, 3), SAME),
    depthwise_case(2, 33, (4, 5), (7, 7), padding=((3, 3), (6, 6))),  # no pixel sees all
    depthwise_case(1, 20, (15, 16), (7, 7), (1, 1), ((6, 6), (6, 6)), (2, 2)),
    depthwise_case(1, 40, (3, 86), (3, 3), padding=SAME),  # single pixels at both ends
]


def places(case, image):
    # (place in the kernel, the part of the padded image that it meets)
    padded = np.pad(image, ((0, 0), (0, 0), *case.padding))
    for place in itertools.product(*map(range, case.kernel)):
        parts = zip(place, case.dilation, case.stride, case.out, strict=True)
        cut = (slice(p * d, p * d + s * (n - 1) + 1, s) for p, d, s, n in parts)
        yield place, padded, (slice(None), slice(None), *cut)


def of_channels(w, place):
    return w.astype(float)[(slice(None), 0, *place)].reshape(-1, *[1] * len(place))


def exact(case, x, w):
    found = 0.0
    for place, padded, cut in places(case, x.astype(float)):
        found = found + padded[cut] * of_channels(w, place)
    return found


def exact_data(case, gradient, w):
    total = None
    for place, padded, cut in places(case, np.zeros((*gradient.shape[:2], *case.size))):
        total = padded if total is None else total
        total[cut] += gradient.astype(float) * of_channels(w, place)
    pairs = zip(case.padding, case.size, strict=True)
    return total[(slice(None), slice(None), *(slice(low, low + n) for (low, _), n in pairs))]


def exact_weights(case, x, gradient):
    found = np.empty((case.channels, 1, *case.kernel))
    over = (0, *range(2, x.ndim))
    for place, padded, cut in places(case, x.astype(float)):
        found[(slice(None), 0, *place)] = (padded[cut] * gradient).sum(axis=over)
    return found, gradient.astype(float).sum(axis=over)


class Operands(NamedTuple):
    x: np.ndarray
    w: np.ndarray
    out: np.ndarray
    bias: np.ndarray


def lying(array, order):
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


def draw(case, images="last", weights="first", dtype="float32"):
    rng = np.random.default_rng(3)
    rank = len(case.size) + 2
    orders = {"first": tuple(range(rank)), "last": (0, *range(2, rank), 1)}
    kernels = {"first": tuple(range(rank)), "last": (*range(2, rank), 1, 0)}
    shapes = (case.batch, case.channels, *case.size), (case.batch, case.channels, *case.out)
    x, out = (lying(rng.standard_normal(s).astype(dtype), orders[images]) for s in shapes)
    w = rng.standard_normal((case.channels, 1, *case.kernel)).astype(dtype)
    bias = rng.standard_normal(case.channels).astype(dtype)
    return Operands(x, lying(w, kernels[weights]), out, bias)


def run(kernel, *arrays):
    kernel(*(array.ctypes.data for array in arrays))


def close(found, expected, tolerance):
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


#: Relative errors: of sums of a kernel's places, and of all pixels.
TOLERANCE = {"float32": 1e-6, "float64": 1e-14, "float16": 2e-3}
WEIGHTS = {"float32": 2e-6, "float64": 1e-14, "float16": 1e-3}
WAYS = list(itertools.product(("last", "first"), repeat=2))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_forward(case, dtype, layout):
    for images, weights in WAYS:
        x, w, out, bias = draw(case, images, weights, dtype)
        expected = exact(case, x, w)
        places = layout(x), layout(w), layout(out)
        out[...] = np.nan
        run(depthwise.prepare(Convolution(*places, *case.options)), x, w, out)
        close(out, expected, TOLERANCE[dtype])
        descriptor = followed(Convolution(*places, *case.options), layout(bias), "relu")
        run(depthwise.prepare(descriptor), x, w, bias, out)
        shifted = expected + bias.reshape(-1, *[1] * len(case.size))
        close(out, np.maximum(shifted, 0), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradient_of_data(case, dtype, layout):
    for images, weights in WAYS:
        x, w, gradient, _ = draw(case, images, weights, dtype)
        x[...] = np.nan
        descriptor = ConvDataGrad(layout(gradient), layout(w), layout(x), *case.options)
        run(depthwise.prepare_data(descriptor), gradient, w, x)
        close(x, exact_data(case, gradient, w), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_of_weights_and_bias(case, dtype, layout):
    for images, weights in WAYS:
        x, w, gradient, bias = draw(case, images, weights, dtype)
        w[...] = bias[...] = np.nan
        places = layout(x), layout(gradient), layout(w)
        descriptor = ConvWeightGrad(*places, *case.options, layout(bias))
        run(depthwise_weights.prepare(descriptor), x, gradient, bias, w)
        for found, expected in zip((w, bias), exact_weights(case, x, gradient), strict=True):
            close(found, expected, WEIGHTS[dtype])
        kernel = depthwise_weights.prepare(descriptor._replace(bias=None))
        before = w.copy()
        run(kernel, x, gradient, w)
        assert np.array_equal(w, before)


def of_groups(w, place, groups):
    # The weights of a place as a matrix (features, channels), zeros between groups.
    features, channels = len(w) // groups, w.shape[1]
    found = np.zeros((len(w), groups * channels))
    for group in range(groups):
        rows = slice(group * features, (group + 1) * features)
        columns = slice(group * channels, (group + 1) * channels)
        found[rows, columns] = w[(rows, slice(None), *place)]
    return found


#: Channels and features of a group: those of ResNeXt, several features for a channel, and others
#: that do not fill a vector.
SMALL = [(2, 2), (4, 4), (8, 8), (1, 2), (1, 4), (2, 1), (3, 3), (5, 6), (1, 7), (8, 1), (4, 2)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("channels, features", SMALL)
@pytest.mark.parametrize("case", [CASES[0], CASES[3]], ids=str)
def test_small_groups(case, channels, features, dtype, layout):
    if max(channels, features) > target.host().lanes(max(np.dtype(dtype).itemsize, 4)):
        pytest.skip("a group has more channels than a vector has lanes")
    groups = 11
    case = case._replace(channels=groups * channels, features=groups * features, groups=groups)
    rng = np.random.default_rng(5)
    shapes = case.shapes
    for images, weights in WAYS:
        order = (0, 1, 2, 3) if images == "first" else (0, 2, 3, 1)
        x, gradient = (
            lying(rng.standard_normal(shape).astype(dtype), order) for shape in shapes[::2]
        )
        order = (0, 1, 2, 3) if weights == "first" else (2, 3, 1, 0)
        w = lying(rng.standard_normal(shapes[1]).astype(dtype), order)
        bias = rng.standard_normal(len(w)).astype(dtype)
        expected, data, found = 0.0, None, np.empty(w.shape)
        for place, padded, cut in places(case, x.astype(float)):
            matrix = of_groups(w, place, groups)
            expected = expected + np.einsum("fc,nchw->nfhw", matrix, padded[cut])
            data = np.zeros_like(padded) if data is None else data
            data[cut] += np.einsum("fc,nfhw->nchw", matrix, gradient.astype(float))
            all_pairs = np.einsum("nchw,nfhw->fc", padded[cut], gradient.astype(float))
            parts = all_pairs.reshape(groups, features, groups, channels)
            blocks = parts.diagonal(axis1=0, axis2=2).transpose(2, 0, 1)
            found[(..., *place)] = blocks.reshape(len(w), channels)
        out = np.full_like(gradient, np.nan)
        convolution = Convolution(layout(x), layout(w), layout(out), *case.options)
        descriptor = followed(convolution, layout(bias), "relu")
        assert is_depthwise(descriptor)
        run(depthwise.prepare(descriptor), x, w, bias, out)
        close(out, np.maximum(expected + bias.reshape(-1, 1, 1), 0), TOLERANCE[dtype])
        pairs = zip(case.padding, case.size, strict=True)
        data = data[(..., *(slice(low, low + n) for (low, _), n in pairs))]
        result = np.full_like(x, np.nan)
        descriptor = ConvDataGrad(layout(gradient), layout(w), layout(result), *case.options)
        assert is_depthwise(descriptor)
        run(depthwise.prepare_data(descriptor), gradient, w, result)
        close(result, data, TOLERANCE[dtype])
        w[...] = bias[...] = np.nan
        descriptor = ConvWeightGrad(
            *(layout(x), layout(gradient), layout(w)), *case.options, layout(bias)
        )
        assert is_depthwise(descriptor)
        run(depthwise_weights.prepare(descriptor), x, gradient, bias, w)
        close(w, found, WEIGHTS[dtype])
        close(bias, gradient.astype(float).sum(axis=(0, 2, 3)), WEIGHTS[dtype])


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("channels, features", [(1, 1), *SMALL])
def test_turns_have_every_pair_of_a_group_once(channels, features, lanes):
    if channels > lanes:
        return
    groups = Groups(channels, features)
    held = groups.held(lanes)
    met = {
        (lane // channels, lane % channels, groups.channel(lane, turn))
        for lane, turn in itertools.product(range(held * channels), range(features))
    }
    assert len(met) == held * channels * features
    for turn in range(features):
        for lane, place in enumerate(groups.spread(lanes, turn)[: held * channels]):
            vector, there = place
            group, feature = divmod(vector * lanes + there, features)
            assert (group, feature) == (lane // channels, groups.channel(lane, turn))
    for result in range(groups.results(lanes)):
        for lane in range(min(lanes, held * features - result * lanes)):
            group, feature = divmod(result * lanes + lane, features)
            terms = [each[lane] for each in groups.terms(lanes, result)]
            assert {
                (source // channels, groups.channel(source, turn)) for turn, source in terms
            } == {(group, feature)}
            assert sorted(source % channels for _, source in terms) == list(range(channels))


def test_channels_may_be_a_part_of_others(layout):
    case = CASES[1]
    given = draw(case)
    wide = [np.full((*a.shape[:1], *a.shape[2:], 60), np.nan, np.float32) for a in given[:3:2]]
    x, out = (np.moveaxis(a, -1, 1)[:, 7 : 7 + case.channels] for a in wide)
    x[...] = given.x
    descriptor = Convolution(layout(x), layout(given.w), layout(out), *case.options)
    run(depthwise.prepare(descriptor), x, given.w, out)
    close(out, exact(case, given.x, given.w), TOLERANCE["float32"])
    rest = np.delete(wide[1], np.s_[7 : 7 + case.channels], axis=-1)
    assert np.isnan(rest).all()


def test_kernels_may_lie_in_any_order(layout):
    case = CASES[4]
    x, w, out, _ = draw(case)
    wide = np.full((*w.shape[:2], 9, 8), np.nan, np.float32)
    for strided in (lying(w, (0, 1, 3, 2)), lying(w, (2, 0, 1, 3)), wide[:, :, 2:, ::-1][..., :7]):
        strided[...] = w
        places = layout(x), layout(strided), layout(out)
        run(depthwise.prepare(Convolution(*places, *case.options)), x, strided, out)
        close(out, exact(case, x, w), TOLERANCE["float32"])
        strided[...] = np.nan
        descriptor = ConvWeightGrad(places[0], places[2], places[1], *case.options)
        run(depthwise_weights.prepare(descriptor), x, out, strided)
        close(strided, exact_weights(case, x, out)[0], WEIGHTS["float32"])
    assert np.isnan(wide).sum() == wide.size - w.size


@pytest.mark.parametrize("images", ["last", "first"])
def test_results_do_not_depend_on_the_number_of_threads(images, layout):
    case = depthwise_case(4, 40, (50, 50), (3, 3), padding=SAME)
    x, w, out, bias = draw(case, images)
    gradient = out.copy()
    places = layout(x), layout(w), layout(out)
    kernels = [
        (depthwise.prepare(Convolution(*places, *case.options)), (x, w, out), out),
        (
            depthwise.prepare_data(ConvDataGrad(places[2], *places[1::-1], *case.options)),
            (gradient, w, x.copy()),
            None,
        ),
        (
            depthwise_weights.prepare(
                ConvWeightGrad(places[0], *places[:0:-1], *case.options, layout(bias))
            ),
            (x, gradient, bias, w.copy()),
            None,
        ),
    ]
    before = threads.get_num_threads()
    try:
        for kernel, arrays, result in kernels:
            result, found = arrays[-1] if result is None else result, set()
            for count in (1, 2, 3, 7, 16):
                threads.set_num_threads(count)
                result[...] = np.nan
                run(kernel, *arrays)
                found.add(result.tobytes())
            assert len(found) == 1
            assert not np.isnan(result).any()
    finally:
        threads.set_num_threads(before)


def test_what_is_depthwise(layout):
    case = CASES[0]
    x, w, out, _ = draw(case)
    places = layout(x), layout(w), layout(out)
    descriptor = Convolution(*places, *case.options)
    assert is_depthwise(descriptor)
    assert not is_depthwise(descriptor._replace(groups=1))
    assert is_depthwise(ConvDataGrad(places[2], *places[1::-1], *case.options))
    assert is_depthwise(ConvWeightGrad(places[0], *places[:0:-1], *case.options))
    wide = case._replace(channels=18, features=18, groups=2)
    images = [np.zeros(shape, np.float32) for shape in wide.shapes]
    assert not is_depthwise(Convolution(*map(layout, images), *wide.options))


def test_the_library_solves_them(layout):
    case = CASES[0]
    x, w, out, _ = draw(case)
    places = layout(x), layout(w), layout(out)
    descriptors = (
        Convolution(*places, *case.options),
        ConvDataGrad(places[2], *places[1::-1], *case.options),
        ConvWeightGrad(places[0], *places[:0:-1], *case.options),
    )
    for descriptor in descriptors:
        assert "depthwise" in CheckedKernels().find(descriptor).about


def test_weights_of_small_groups_are_not_prepacked(layout):
    # Packed, they would go the way of products of matrices, which has no use for most lanes.
    case = Case(2, 32, 32, (9, 9), (3, 3), padding=SAME, groups=8)
    x, w, out = (np.zeros(shape, np.float32) for shape in case.shapes)
    descriptor = Convolution(layout(x), layout(w), layout(out), *case.options)
    assert CheckedKernels().prepacked_layout(descriptor) is None
    assert CheckedKernels().prepacked_layout(
        descriptor._replace(w=layout(np.zeros((32, 32, 3, 3), np.float32)), groups=1)
    )


@pytest.mark.parametrize("case", [CASES[1], Case(2, 32, 16, (9, 9), (3, 3), groups=8)], ids=str)
def test_weights_that_are_left_to_the_kernel_lie_as_its_operands_say(case, layout):
    rng = np.random.default_rng(3)
    x, w, out = (rng.standard_normal(shape).astype(np.float32) for shape in case.shapes)
    left = any_layout(float32, w.shape)
    for descriptor, given, result in (
        (Convolution(layout(x), left, layout(out), *case.options), x, out),
        (ConvDataGrad(layout(out), left, layout(x), *case.options), out, x),
    ):
        kernel = CheckedKernels().find(descriptor)
        assert "depthwise" in kernel.about
        strides = kernel.operands[1].strides
        memory = np.full(w.size, np.nan, np.float32)
        there = np.lib.stride_tricks.as_strided(memory, w.shape, [4 * s for s in strides])
        there[...] = w
        assert not np.isnan(memory).any(), "each number has a place of its own, without gaps"
        expected = result.copy()
        run(CheckedKernels().find(descriptor._replace(w=layout(w))), given, w, expected)
        result[...] = np.nan
        run(kernel, given, memory, result)
        np.testing.assert_array_equal(result, expected)


def test_images_that_are_left_to_the_kernel_are_refused_with_the_way_out(layout):
    x, w, out, _ = draw(CASES[0])
    descriptor = Convolution(
        any_layout(float32, x.shape), layout(w), layout(out), *CASES[0].options
    )
    with pytest.raises(UnsupportedError, match=r"has no strides: give it some \(row_major"):
        depthwise.prepare(descriptor)


def test_nothing_to_convolve_is_refused(layout):
    case = CASES[0]
    x, w, out, _ = draw(case)
    descriptor = Convolution(layout(x[:0]), layout(w), layout(out[:0]), *case.options)
    with pytest.raises(UnsupportedError):
        depthwise.prepare(descriptor)
