"""Operation descriptors: the requests that a kernel library receives.

Descriptors are values: equal descriptors of one type share one kernel. As tuples, descriptors of
different types with equal fields are equal, so a key of a dictionary needs the type as well.

A kernel takes addresses in the order that the descriptor's docstring gives; outputs come last.
Images are (batch, channels, *spatial) with one to three spatial axes. Padding is (low, high) per
axis. Dilation 1 means no dilation. Dtypes are those of the layouts. Accumulators are at least
float32.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from fl_jit.kernels.layout import Layout, Placement

if TYPE_CHECKING:
    from fl_jit.kernels.codegen.program import Program

Shape: TypeAlias = tuple[int, ...]
Padding: TypeAlias = tuple[tuple[int, int], ...]


class Epilogue(NamedTuple):
    """An elementwise program on a result that is still in cache.

    program   over the rows and columns of the result. Its last axis is the columns of a GEMM, or
              the channels of an image. The axes before are all others, in C order; some may have
              size 1. It has no reductions and no scalars: single numbers are operands with stride
              0. Its first input is the result. Its first output replaces the result
    sizes     of the program's axes
    strides   of each of its inputs, then outputs, over its axes, in elements
    """

    program: Program
    sizes: Shape
    strides: tuple[Shape, ...]

    @property
    def reads(self) -> tuple[Layout, ...]:
        """Inputs other than the result."""
        made = self.program
        found = zip(made.inputs[1:], self.strides[1:], strict=False)
        return tuple([Layout(made.values[i].dtype, self.sizes, strides) for i, strides in found])

    @property
    def writes(self) -> tuple[Layout, ...]:
        """Outputs other than the one that replaces the result."""
        made = self.program
        found = zip(made.outputs[1:], self.strides[len(made.inputs) + 1 :], strict=True)
        return tuple([Layout(made.values[o.value].dtype, self.sizes, s) for o, s in found])


class Matmul(NamedTuple):
    """GEMM: x (..., m, k) times y (..., k, n).

    Addresses: x, y, out. With an epilogue: x, y, the epilogue's other inputs, out, the epilogue's
    other outputs.

    x and y have as many batch axes as out. An axis of size 1 broadcasts. Transposes are strides.
    ``accumulate`` adds to the old value of out.
    """

    x: Placement
    y: Placement
    out: Placement
    accumulate: bool = False
    epilogue: Epilogue | None = None


class Convolution(NamedTuple):
    """Cross-correlation of x with w.

    Addresses: x, w, out; with an epilogue as in Matmul.

    w is (features, channels / groups, *kernel). Where strides cannot merge the first two axes, it
    is (groups, features / groups, channels / groups, *kernel).
    """

    x: Placement
    w: Placement
    out: Placement
    stride: Shape
    padding: Padding
    dilation: Shape
    groups: int = 1
    epilogue: Epilogue | None = None


class ConvDataGrad(NamedTuple):
    """Convolution dgrad: the gradient of the x of a Convolution.

    Addresses: gradient, w, out; with an epilogue as in Matmul.

    ``gradient`` has the shape of the convolution's result, ``out`` that of its x. This operation is
    also known as transposed convolution.
    """

    gradient: Placement
    w: Placement
    out: Placement
    stride: Shape
    padding: Padding
    dilation: Shape
    groups: int = 1
    epilogue: Epilogue | None = None


class ConvWeightGrad(NamedTuple):
    """Convolution wgrad: the gradient of the w of a Convolution.

    Addresses: x, gradient[, bias], out.

    ``out`` has the shape of w. ``bias``, if given, receives the gradient of the bias. In bfloat16,
    with an odd number of pixels in a line of ``gradient``, a non-finite element of x may make NaN
    of sums that do not contain it. The caller has to handle that.
    """

    x: Placement
    gradient: Placement
    out: Placement
    stride: Shape
    padding: Padding
    dilation: Shape
    groups: int = 1
    bias: Placement | None = None


class Reorder(NamedTuple):
    """Copy of x to another layout or dtype, for example of weights to a packed layout: x, out."""

    x: Placement
    out: Placement


OpDescriptor: TypeAlias = Matmul | Convolution | ConvDataGrad | ConvWeightGrad | Reorder


def flops(descriptor: OpDescriptor) -> int:
    """Operations of a GEMM or a convolution, two per multiply-add; 0 for other descriptors."""
    if isinstance(descriptor, Matmul):
        return 2 * math.prod(descriptor.out.shape) * descriptor.x.shape[-1]
    if isinstance(descriptor, Convolution | ConvDataGrad | ConvWeightGrad):
        w = descriptor.out if isinstance(descriptor, ConvWeightGrad) else descriptor.w
        y = descriptor.out if isinstance(descriptor, Convolution) else descriptor.gradient
        return 2 * math.prod(y.shape) * math.prod(w.shape[-(len(y.shape) - 1) :])
    return 0
