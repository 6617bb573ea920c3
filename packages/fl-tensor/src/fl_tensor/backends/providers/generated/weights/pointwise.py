"""Gradients of the weights of 1 x 1 convolutions that are products of matrices:

out (channels x features) = x (pixels x channels), transposed, @ gradient (pixels x features)
"""

from __future__ import annotations

from collections.abc import Sequence

from fl_tensor.backends.providers.generated.weights.axes import Axis, strides
from fl_tensor.backends.providers.layout import Layout
from fl_tensor.backends.providers.problems import ConvolutionWeights, Matmul
from fl_tensor.dtypes import HALF


def product(problem: ConvolutionWeights, axes: Sequence[Axis]) -> Matmul | None:
    """The product that ``problem``, whose axes are ``axes``, is; None where it is none: where a
    kernel has several places, pixels are not at equal distances, a bias is asked for, too, or
    operands are of half precision, which ``nest.py`` converts on the way."""
    *others, along = axes
    if (
        problem.x.dtype in HALF
        or problem.bias is not None
        or not along.is_plain
        or any(a != Axis(1, 1) for a in others)
    ):
        return None
    pixels, groups, dtype = along.size, problem.groups, problem.x.dtype
    channels = problem.x.shape[1] // groups
    features = problem.gradient.shape[1] // groups
    of_x, of_gradient = strides(problem.x)[1], strides(problem.gradient)[1]
    grouped = len(problem.out.shape) == len(problem.x.shape) + 1
    group, feature, channel = ((0,) * (not grouped) + strides(problem.out))[:3]
    group = group if grouped else feature * features
    x, gradient = (step // dtype.itemsize for step in (along.x, along.gradient))
    return Matmul(
        Layout(dtype, (groups, channels, pixels), (of_x * channels, of_x, x)),
        Layout(dtype, (groups, pixels, features), (of_gradient * features, gradient, of_gradient)),
        Layout(problem.out.dtype, (groups, channels, features), (group, channel, feature)),
    )
