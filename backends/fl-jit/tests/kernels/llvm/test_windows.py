"""The gradient of a convolution's data as convolutions: each place of the kernel in one phase."""

from __future__ import annotations

import itertools

import pytest

from fl_jit.kernels.library import UnsupportedError
from fl_jit.kernels.llvm.conv.windows import Axis, convolution, gradient

CASES = [  # data, kernel, stride, padding, dilation
    (7, 3, 1, (1, 1), 1),
    (7, 3, 2, (1, 1), 1),
    (9, 5, 3, (2, 0), 2),
    (10, 2, 3, (0, 0), 1),  # places of the data that no window sees
    (12, 4, 4, (3, 3), 2),
    (5, 1, 2, (0, 0), 1),
]


def result(n, kernel, stride, padding, dilation):
    return (n + sum(padding) - (kernel - 1) * dilation - 1) // stride + 1


def met(axis):
    """(place of the result, place of the source, place of the kernel) of all products."""
    for j, (t, k) in itertools.product(range(axis.places), enumerate(axis.kernel)):
        source = axis.origin + j * axis.step + t * axis.spread
        if 0 <= source < axis.source:
            yield axis.first + j * axis.every, source, k


@pytest.mark.parametrize("n, kernel, stride, padding, dilation", CASES)
def test_the_gradient_has_the_products_of_the_convolution(n, kernel, stride, padding, dilation):
    out = result(n, kernel, stride, padding, dilation)
    window = ((kernel,), (stride,), (padding,), (dilation,))
    (*_, forward) = convolution((n,), (out,), *window)
    phases = [width for *_, width in gradient((out,), (n,), *window)]
    expected = {(x, o, k) for o, x, k in met(forward)}
    found = [triple for phase in phases for triple in met(phase)]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("n, kernel, stride, padding, dilation", CASES)
def test_phases_share_all_places_among_them(n, kernel, stride, padding, dilation):
    out = result(n, kernel, stride, padding, dilation)
    phases = gradient((out,), (n,), (kernel,), (stride,), (padding,), (dilation,))
    places = [x.first + j * x.every for *_, x in phases for j in range(x.places)]
    assert sorted(places) == list(range(n))


def test_strides_of_two_axes_have_four_phases():
    window = ((3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1))
    phases = list(gradient((4, 4), (8, 8), *window))
    taps = [len(y.kernel) * len(x.kernel) for _, y, x in phases]
    assert sorted(taps) == [1, 2, 2, 4]


def test_what_windows_reach():
    axis = Axis(source=10, places=4, kernel=(0, 1, 2), step=2, spread=2)
    assert axis.reach(1) == 5
    assert axis.reach(4) == 11
    assert not axis.is_inside
    assert axis._replace(source=11).is_inside


@pytest.mark.parametrize("n, kernel, stride, padding, dilation", CASES)
def test_what_is_outside_of_the_source_is_known_both_ways(n, kernel, stride, padding, dilation):
    out = result(n, kernel, stride, padding, dilation)
    window = ((kernel,), (stride,), (padding,), (dilation,))
    (*_, forward) = convolution((n,), (out,), *window)
    for axis in (forward, *(width for *_, width in gradient((out,), (n,), *window))):
        for j, t in itertools.product(range(axis.places), range(len(axis.kernel))):
            inside = 0 <= axis.origin + j * axis.step + t * axis.spread < axis.source
            assert inside == (t in range(*axis.window(j))) == (j in range(*axis.readers(t)))


def test_of_more_axes_than_three_it_is_refused():
    four = (5,) * 4
    with pytest.raises(UnsupportedError, match="4 axes of space: expected at most 3"):
        convolution(four, four, (1,) * 4, (1,) * 4, ((0, 0),) * 4, (1,) * 4)
