"""Gradients of the data of convolutions, which is also what transposed convolutions are."""

from __future__ import annotations

from fl_tensor.backends.providers.generated import epilogue, windows
from fl_tensor.backends.providers.generated.convolution import kernel_weights, strided
from fl_tensor.backends.providers.generated.convolution_kernel import ConvolutionKernel
from fl_tensor.backends.providers.generated.sums import Image, Sum, paired
from fl_tensor.backends.providers.problems import ConvolutionData
from fl_tensor.backends.providers.provider import Kernel, UnsupportedError


def prepare(problem: ConvolutionData) -> Kernel:
    """A kernel for the gradient. Raises UnsupportedError."""
    gradient, w, out = (strided(each) for each in (problem.gradient, problem.w, problem.out))
    groups = problem.groups
    phases = windows.gradient(
        gradient.shape[2:],
        out.shape[2:],
        w.shape[-len(out.shape) + 2 :],
        problem.stride,
        problem.padding,
        problem.dilation,
    )
    task = Sum(
        source=Image.of(gradient),
        target=Image.of(out),
        weights=kernel_weights(w, groups, len(out.shape), transposed=True),
        batch=out.shape[0],
        groups=groups,
        channels=gradient.shape[1] // groups,
        features=out.shape[1] // groups,
        windows=tuple(phases),
    )
    task = paired(task)
    prepared = epilogue.prepare(problem)
    if prepared is not None and len(task.windows) > 1:
        raise UnsupportedError("an epilogue follows places in their order, not phases of a stride")
    more = (prepared.reads, prepared.writes) if prepared else ((), ())
    return ConvolutionKernel(task, (gradient, w, *more[0], out, *more[1]), epilogue=prepared)
