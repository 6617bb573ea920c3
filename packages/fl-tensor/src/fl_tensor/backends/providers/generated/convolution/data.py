"""Gradients of the data of convolutions, which is also what transposed convolutions are."""

from __future__ import annotations

from fl_tensor.backends.providers.generated import epilogue
from fl_tensor.backends.providers.generated.convolution import windows
from fl_tensor.backends.providers.generated.convolution.forward import weights
from fl_tensor.backends.providers.generated.convolution.kernel import ConvolutionKernel
from fl_tensor.backends.providers.generated.convolution.sums import Image, Sum, paired, strided
from fl_tensor.backends.providers.generated.tile import Tile
from fl_tensor.backends.providers.problems import ConvolutionData
from fl_tensor.backends.providers.provider import Kernel, UnsupportedError


def prepare(problem: ConvolutionData, tiles: Tile | None = None) -> Kernel:
    """A kernel for the gradient, in ``tiles`` where they are not left to the rule. Raises
    UnsupportedError."""
    gradient, w, out = strided(problem.gradient), problem.w, strided(problem.out)
    groups, rank = problem.groups, len(out.shape)
    phases = windows.gradient(
        gradient.shape[2:],
        out.shape[2:],
        w.shape[2 - rank :],
        problem.stride,
        problem.padding,
        problem.dilation,
    )
    task = Sum(
        source=Image.of(gradient),
        target=Image.of(out),
        weights=weights(w, groups, rank, transposed=True),
        batch=out.shape[0],
        groups=groups,
        channels=gradient.shape[1] // groups,
        features=out.shape[1] // groups,
        windows=tuple(phases),
    )
    task = paired(task)
    prepared = epilogue.prepare(problem)
    if prepared is not None and len(task.windows) > 1:
        # Place by place, as the phases of a line have them, it takes 5 to 20 % more time than what
        # follows takes as a pass of its own.
        raise UnsupportedError("an epilogue follows places in their order, not phases of a stride")
    more = (prepared.reads, prepared.writes) if prepared else ((), ())
    operands = (gradient, w, *more[0], out, *more[1])
    return ConvolutionKernel(task, operands, transposed=True, epilogue=prepared, tiles=tiles)
