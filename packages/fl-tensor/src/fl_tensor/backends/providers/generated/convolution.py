"""Convolutions: see ``convolution_nest`` for how."""

from __future__ import annotations

from fl_tensor.backends.providers.generated import epilogue, windows
from fl_tensor.backends.providers.generated.convolution_kernel import ConvolutionKernel
from fl_tensor.backends.providers.generated.sums import Image, Sum, Weights, paired
from fl_tensor.backends.providers.layout import Layout, Placement
from fl_tensor.backends.providers.problems import Convolution
from fl_tensor.backends.providers.provider import Kernel, UnsupportedError
from fl_tensor.dtypes import HALF, float32, float64


def prepare(problem: Convolution) -> Kernel:
    """A kernel for a convolution. Raises UnsupportedError."""
    x, w, out = (strided(each) for each in (problem.x, problem.w, problem.out))
    weights = kernel_weights(w, problem.groups, len(x.shape), transposed=False)
    axes = windows.convolution(
        x.shape[2:],
        out.shape[2:],
        w.shape[-len(x.shape) + 2 :],
        problem.stride,
        problem.padding,
        problem.dilation,
    )
    groups = problem.groups
    task = Sum(
        source=Image.of(x),
        target=Image.of(out),
        weights=weights,
        batch=x.shape[0],
        groups=groups,
        channels=x.shape[1] // groups,
        features=out.shape[1] // groups,
        windows=(axes,),
    )
    task = paired(task)
    prepared = epilogue.prepare(problem)
    reads: tuple[Placement, ...] = prepared.reads if prepared else ()
    if problem.bias is not None and problem.epilogue is None:
        reads = (problem.bias,)
    writes = prepared.writes if prepared else ()
    return ConvolutionKernel(task, (x, w, *reads, out, *writes), epilogue=prepared)


def strided(given: Placement) -> Layout:
    """An operand by strides, of a dtype that is computed with."""
    if not isinstance(given, Layout) or given.strides is None:
        raise UnsupportedError(f"{given} has no strides")
    if given.dtype not in (float32, float64, *HALF):
        raise UnsupportedError(f"{given.dtype}: expected a floating dtype")
    return given


def kernel_weights(w: Layout, groups: int, rank: int, transposed: bool) -> Weights:
    """Weights (features, channels / groups, *kernel), or with an axis of groups before them.
    ``transposed``: features are what is summed over."""
    assert w.strides is not None
    strides = w.strides
    if len(w.shape) == rank:
        strides = (strides[0] * (w.shape[0] // groups), *strides)
    group, feature, channel, *kernel = strides
    depth, height, width = (*[0] * (3 - len(kernel)), *kernel)
    if transposed:
        channel, feature = feature, channel
    return Weights(w.dtype, group, channel, feature, (depth, height, width))
