"""Convolutions: see ``nest.py`` for how."""

from __future__ import annotations

from fl_tensor.backends.providers.generated import epilogue
from fl_tensor.backends.providers.generated.convolution import windows
from fl_tensor.backends.providers.generated.convolution.kernel import ConvolutionKernel
from fl_tensor.backends.providers.generated.convolution.sums import (
    Image,
    Sum,
    Weights,
    paired,
    strided,
)
from fl_tensor.backends.providers.generated.tile import Tile
from fl_tensor.backends.providers.layout import Layout, Placement
from fl_tensor.backends.providers.problems import Convolution
from fl_tensor.backends.providers.provider import Kernel


def prepare(problem: Convolution, tiles: Tile | None = None) -> Kernel:
    """A kernel for a convolution, in ``tiles`` where they are not left to the rule. Raises
    UnsupportedError."""
    x, w, out = strided(problem.x), problem.w, strided(problem.out)
    groups, rank = problem.groups, len(x.shape)
    axes = windows.convolution(
        x.shape[2:],
        out.shape[2:],
        w.shape[2 - rank :],
        problem.stride,
        problem.padding,
        problem.dilation,
    )
    task = Sum(
        source=Image.of(x),
        target=Image.of(out),
        weights=weights(w, groups, rank),
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
    operands = (x, w, *reads, out, *writes)
    return ConvolutionKernel(task, operands, epilogue=prepared, tiles=tiles)


def weights(w: Placement, groups: int, rank: int, transposed: bool = False) -> Weights:
    """Weights as they lie; where they do not lie by strides, only what their dtype is. Raises
    UnsupportedError."""
    if isinstance(w, Layout) and w.strides is not None:
        return Weights.of(strided(w), groups, rank, transposed)
    return Weights(w.dtype, 0, 0, 0, (0, 0, 0))
