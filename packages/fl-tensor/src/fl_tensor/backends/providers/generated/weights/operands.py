"""Which gradients of weights are generated, and their operands with strides."""

from __future__ import annotations

from fl_tensor.backends.providers.generated.nest import computed
from fl_tensor.backends.providers.generated.weights.words import AXES
from fl_tensor.backends.providers.layout import Layout, Packed, Placement, Shape, dense
from fl_tensor.backends.providers.problems import ConvolutionWeights
from fl_tensor.backends.providers.provider import UnsupportedError
from fl_tensor.dtypes import HALF, float32, float64


def settled(problem: ConvolutionWeights) -> ConvolutionWeights:
    """``problem`` with strides where the choice is left open. Raises UnsupportedError for packed
    operands, for several dtypes (half precision may give float32), and for what sums nothing."""
    dtype, rank = problem.x.dtype, len(problem.x.shape)
    bias = [] if problem.bias is None else [problem.bias]
    pairs = [(problem.x, dtype), (problem.gradient, dtype)]
    pairs += [(each, problem.out.dtype) for each in (problem.out, *bias)]
    for place, wanted in pairs:
        if isinstance(place, Packed):
            raise UnsupportedError("gradients of weights are written by strides, not packed")
        if place.dtype not in (float32, float64, *HALF) or place.dtype != wanted:
            raise UnsupportedError(f"{place}: expected {wanted} as other operands have")
        if 0 in place.shape:
            raise UnsupportedError(f"nothing to sum over: {place}")
    if problem.out.dtype not in (dtype, computed(dtype)):
        raise UnsupportedError(f"{problem.out}: expected {dtype} or {computed(dtype)}")
    if not 3 <= rank <= AXES + 1:
        raise UnsupportedError(f"one to three axes of space, not {rank - 2}")
    images = (0, *range(2, rank), 1)
    *groups, feature, channel = range(len(problem.out.shape) - rank + 2)
    kernel = (*groups, *range(channel + 1, len(problem.out.shape)), channel, feature)
    return problem._replace(
        x=_settled(problem.x, images),
        gradient=_settled(problem.gradient, images),
        out=_settled(problem.out, kernel),
        bias=_settled(bias[0], (0,)) if bias else None,
    )


def _settled(place: Placement, order: Shape) -> Layout:
    assert isinstance(place, Layout)
    if place.strides is not None:
        return place
    return place._replace(strides=dense(place.shape, order))
